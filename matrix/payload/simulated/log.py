"""The server's log: lines as SGLang 0.5.23 writes them, straight to the file descriptor, so that no death loses one."""

import os
import time
from pathlib import Path

TEXTS = Path(__file__).with_name("texts")


class Log:
    """Writes to stderr as SGLang does. With several ranks each line of a scheduler names one."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks

    def rank(self, number: int = 0) -> str:
        """How a line says whose it is; nothing when there is one rank."""
        return f" TP{number}" if self._ranks > 1 else ""

    def line(self, text: str, *, scheduler: bool = False) -> None:
        """One line, from the launcher, or from the scheduler of rank 0."""
        self.raw(f"[{_now()}{self.rank() if scheduler else ''}] {text}\n".encode())

    def each_rank(self, text: str) -> None:
        """The same line from every scheduler."""
        for number in range(self._ranks):
            self.raw(f"[{_now()}{self.rank(number)}] {text}\n".encode())

    def text(self, name: str, **values: object) -> None:
        """A longer text from the folder `texts`, with its placeholders filled in."""
        text = (TEXTS / f"{name}.log").read_text(encoding="utf-8")
        known = {
            "time": _now(),
            "pid": os.getpid(),
            "child": os.getpid() + 3,
            "rank": self.rank(max(self._ranks - 1, 0)),
        }
        for key, value in {**known, **values}.items():
            text = text.replace("{" + key + "}", str(value))
        self.raw(text.encode())

    def raw(self, content: bytes) -> None:
        """Bytes as they are."""
        view = memoryview(content)
        while view:
            view = view[os.write(2, view) :]


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
