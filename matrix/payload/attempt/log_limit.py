"""Keeps a log that floods from filling the disk: its head and its tail stay, the middle goes.

The server writes into a plain file, with nobody between: a pipe would stall the engine or die with its reader. While it
runs, the middle of a large log is given back to the file system as a hole (fallocate(2)); when it is gone, the file is
written anew without the hole, and a line in it says how much is missing.
"""

import ctypes
import os
from pathlib import Path
from typing import BinaryIO

KEEP_BYTES = 64 << 20
"""Of head and tail each, and by how much a log may exceed both before a piece of it goes."""
UNREAD_BYTES = 2 << 30
"""How much may wait for the reader of the marks: then a mark is lost sooner than the disk."""
BLOCK = 1 << 16
PUNCH_HOLE_KEEP_SIZE = 0x03
"""FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE (linux/falloc.h)."""


class LogLimit:
    """`punch()` is for now and then while the server runs, `cut()` for when nothing writes any more."""

    def __init__(self, path: Path, *, keep: int = KEEP_BYTES, unread: int = UNREAD_BYTES) -> None:
        self.path = path
        self._keep, self._unread = keep, unread
        self._hole_end = keep

    def punch(self, read_to: int | None = None) -> int:
        """Gives the middle back, if the log has become too long, and says where the hole ends.

        What follows ``read_to`` is not read yet and stays, unless it is far too much. Raises OSError if the file system
        cannot have holes.
        """
        size = self.path.stat().st_size
        end = size - self._keep
        if read_to is not None:
            end = min(end, max(read_to, size - self._unread - self._keep))
        end = end // BLOCK * BLOCK
        if end - self._hole_end > self._keep:  # never in a log that cut() leaves alone
            with self.path.open("r+b") as log:
                _punch(log.fileno(), self._hole_end, end - self._hole_end)
            self._hole_end = end
        return self._hole_end

    def cut(self) -> None:
        """Writes a log that is too long anew: head, a line that says what is missing, tail. Raises OSError."""
        size = self.path.stat().st_size
        if size <= 3 * self._keep:
            return
        short = self.path.with_name(self.path.name + ".part")
        missing = size - 2 * self._keep
        with self.path.open("rb") as log, short.open("wb") as kept:
            _copy(log, kept, self._keep)
            kept.write(f"\n[graphrepro left out {missing} bytes of this log here]\n".encode())
            log.seek(size - self._keep)
            _copy(log, kept, self._keep)
            kept.flush()
            os.fsync(kept.fileno())
        short.replace(self.path)


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
