"""The same work on many things, by several processes: forked, so that they begin at once and need nothing from disk.

Whatever stands in the way of that (one core, threads, no fork, a process that is killed) costs time, and nothing else:
the work is then done here.
"""

import os
import pickle
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_NUMBER_BYTES = 4
_MOST_NUMBERS = 8192
"""As many numbers as a pipe takes (64 KB) without anybody reading from it, and half of that to be sure."""


@dataclass(slots=True)
class Shared(Generic[T, R]):
    """``items`` on which ``work`` is done by other processes, and by this one as soon as it asks for what was found.

    Which process takes which item is decided by who is free. Results have to be pickled: they should be small. ``work``
    must not print, nor leave anything behind but its result.
    """

    items: Sequence[T]
    work: Callable[[T], R]
    _numbers: int = -1
    _pipes: list[tuple[int, int]] = field(default_factory=list)

    def begin(self, processes: int) -> bool:
        """Start so many processes beside this one, if that is possible; returns whether there are any."""
        if processes < 1 or len(self.items) > _MOST_NUMBERS or not _can_fork():
            return False
        self._numbers, numbered = os.pipe()
        os.write(numbered, b"".join(n.to_bytes(_NUMBER_BYTES, "big") for n in range(len(self.items))))
        os.close(numbered)
        for _ in range(processes):
            try:
                self._pipes.append(self._fork())
            except OSError:  # no more processes for this user: those that there are do
                break
        return bool(self._pipes)

    def found(self) -> tuple[R, ...]:
        """What was found, in the order of the items. Raises what ``work`` raises."""
        done: dict[int, R] = {}
        if self._numbers >= 0:
            done = dict(self._taken())
            os.close(self._numbers)
            self._numbers = -1
        while self._pipes:
            done |= _received(*self._pipes.pop())
        return tuple(done[n] if n in done else self.work(item) for n, item in enumerate(self.items))

    def _taken(self) -> list[tuple[int, R]]:
        """The items that this process gets, with what it found of them."""
        found: list[tuple[int, R]] = []
        while number := os.read(self._numbers, _NUMBER_BYTES):
            n = int.from_bytes(number, "big")
            found.append((n, self.work(self.items[n])))
        return found

    def _fork(self) -> tuple[int, int]:
        """A process that works, and the end of a pipe on which it will say what it has found."""
        reading, writing = os.pipe()
        child = os.fork()
        if child:
            os.close(writing)
            return child, reading
        status = 1
        try:
            os.close(reading)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            with os.fdopen(writing, "wb") as out:
                pickle.dump(self._taken(), out, pickle.HIGHEST_PROTOCOL)
            status = 0
        finally:  # whatever has gone wrong here, the parent does again, and tells
            os._exit(status)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


def _can_fork() -> bool:
    """A process with threads, as numpy's libraries start some, must not be forked: their locks would stay locked."""
    try:
        return sys.platform == "linux" and len(list(Path("/proc/self/task").iterdir())) == 1
    except OSError:
        return False


def _received(child: int, reading: int) -> dict[int, Any]:
    """What a process has found; nothing if it did not come to its end."""
    with os.fdopen(reading, "rb") as stream:
        said = stream.read()
    _, status = os.waitpid(child, 0)
    try:
        return dict(pickle.loads(said)) if status == 0 else {}  # noqa: S301 - written by this program just now
    except (EOFError, pickle.UnpicklingError):
        return {}
