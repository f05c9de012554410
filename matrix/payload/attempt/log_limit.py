"""Keeps a log that floods from filling the disk: its head and its tail stay, the middle goes.

The server writes into a plain file, with nobody between: a pipe would stall the engine or die with its reader. While it
runs, the middle of a large log is given back to the file system as a hole (fallocate(2)); when it is gone, the file is
written anew without the hole, and a line in it says how much is missing.
"""

import asyncio
import contextlib
import ctypes
import os
from pathlib import Path
from typing import BinaryIO

HEAD_BYTES = 16 << 20
TAIL_BYTES = 16 << 20
SLACK_BYTES = 16 << 20
"""By how much a log may exceed head and tail before a piece of it goes."""
PERIOD_S = 0.2
BLOCK = 1 << 16
PUNCH_HOLE_KEEP_SIZE = 0x03
"""FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE (linux/falloc.h)."""


class LogLimit:
    """`watch()` is for a task beside the server, `cut()` for when nothing writes any more."""

    def __init__(self, path: Path, *, head: int = HEAD_BYTES, tail: int = TAIL_BYTES, slack: int = SLACK_BYTES) -> None:
        self._path = path
        self._head, self._tail, self._slack = head, tail, slack
        self._hole_end = head

    async def watch(self) -> None:
        """Makes holes until it is cancelled, or the file system cannot have any."""
        with contextlib.suppress(OSError):
            while True:
                self.punch()
                await asyncio.sleep(PERIOD_S)

    def punch(self) -> None:
        """Gives the middle back, if the log has become too long. Raises OSError if the file system cannot."""
        end = (self._path.stat().st_size - self._tail) // BLOCK * BLOCK
        if end - self._hole_end < self._slack:
            return
        with self._path.open("r+b") as log:
            _punch(log.fileno(), self._hole_end, end - self._hole_end)
        self._hole_end = end

    def cut(self) -> None:
        """Writes a log that is too long anew: head, a line that says what is missing, tail. Raises OSError."""
        size = self._path.stat().st_size
        if size <= self._head + self._tail + self._slack:
            return
        short = self._path.with_name(self._path.name + ".part")
        missing = size - self._head - self._tail
        with self._path.open("rb") as log, short.open("wb") as kept:
            _copy(log, kept, self._head)
            kept.write(f"\n[graphrepro left out {missing} bytes of this log here]\n".encode())
            log.seek(size - self._tail)
            _copy(log, kept, self._tail)
            kept.flush()
            os.fsync(kept.fileno())
        short.replace(self._path)


def _copy(source: BinaryIO, target: BinaryIO, count: int) -> None:
    while count > 0 and (piece := source.read(min(count, 1 << 20))):
        target.write(piece)
        count -= len(piece)


def _punch(fd: int, offset: int, length: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    fallocate = getattr(libc, "fallocate64", None) or libc.fallocate
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if fallocate(fd, PUNCH_HOLE_KEEP_SIZE, offset, length) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
