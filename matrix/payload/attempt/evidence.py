"""The evidence folder: a timeline that survives a kill, and documents that are either whole or absent."""

import json
import os
import time
from pathlib import Path
from typing import Any


class Timeline:
    """`timeline.jsonl`: each line is on the disk before the program goes on.

    The file is opened for appending and each line is one write, so the guardian can add the last lines after the
    attempt program itself was killed.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._begun = time.monotonic()

    def now_s(self) -> float:
        """Seconds since the attempt began, in steps of a microsecond."""
        return round(time.monotonic() - self._begun, 6)

    def append(
        self,
        event: str,
        *,
        phase: str | None = None,
        check: str | None = None,
        status: int | None = None,
        detail: str | None = None,
    ) -> None:
        """Adds a line of record `timeline-entry` and waits until it is on the disk."""
        entry = {
            "record": "timeline-entry",
            "schema_version": VERSIONS["timeline-entry"],
            "at_s": self.now_s(),
            "at": _utc(time.time()),
            "event": event,
            "phase": phase,
            "check": check,
            "status": status,
            "detail": detail,
        }
        os.write(self._file, json.dumps(entry).encode() + b"\n")
        os.fsync(self._file)


def _utc(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03d}Z"


VERSIONS = {"check-evidence": 2, "timeline-entry": 2}
"""Of the records that are no longer at version 1; tests hold them against the schemas."""


class Evidence:
    """The folder `evidence/` of one attempt."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "checks").mkdir(parents=True, exist_ok=True)

    @property
    def log(self) -> Path:
        """Where the server's stdout and stderr go, byte for byte."""
        return self.folder / "server.log"

    def write(self, name: str, record: str, fields: dict[str, Any]) -> None:
        """Stores a document of our own, with its record and version."""
        document = {"record": record, "schema_version": VERSIONS.get(record, 1), **fields}
        self.write_raw(name, json.dumps(document, indent=1, allow_nan=False).encode() + b"\n")

    def write_raw(self, name: str, content: bytes) -> None:
        """Stores an answer of the engine as it came."""
        path = self.folder / name
        temporary = path.with_name(path.name + ".part")
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
