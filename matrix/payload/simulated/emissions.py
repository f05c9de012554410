"""When each streamed reply was asked for and what was written when: the truth that a client's clock is held against."""

import json
import time
from pathlib import Path

from simulated.engine import Sequence


class Emission:
    """One reply. Times are those of CLOCK_MONOTONIC, which all processes of a machine share."""

    def __init__(self, path: Path | None, sequence: Sequence) -> None:
        self._path = path
        self._sequence = sequence
        self._arrived_s = time.monotonic()
        self._written: list[tuple[float, int]] = []

    def writes(self) -> None:
        """A chunk with all ids so far is written now."""
        if self._path is not None:
            self._written.append((time.monotonic(), len(self._sequence.ids)))

    def store(self) -> None:
        """Adds a line to the file, if there is one."""
        if self._path is None:
            return
        line = {
            "id": self._sequence.id,
            "asked": self._sequence.max_new_tokens,
            "arrived_s": self._arrived_s,
            "written": self._written,
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
