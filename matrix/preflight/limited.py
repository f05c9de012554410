"""A driver that hangs must not hang the harness: every question to it has a limit.

After some failures (a GPU that has fallen off the bus above all) calls into the driver never return, and no signal ends
them. They are made in threads that are left behind then; once that has happened, the driver is not asked again.
"""

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from matrix.preflight.gpus import Gpus, GpusUnknownError, Machine, XidWatch
from repro.model import Xid

T = TypeVar("T")
LIMIT_S = 60.0


class LimitedGpus:
    """`Gpus` that answer within ``limit_s`` seconds or raise GpusUnknownError."""

    def __init__(self, inner: Gpus, limit_s: float = LIMIT_S) -> None:
        self._inner = inner
        self._limit_s = limit_s
        self._stuck = False

    def read(self) -> Machine:
        return self.within(self._inner.read)

    def watch(self) -> XidWatch:
        return _LimitedWatch(self, self.within(self._inner.watch))

    def within(self, question: Callable[[], T]) -> T:
        """The answer. Raises what the question raises, and GpusUnknownError if it does not return."""
        if self._stuck:
            raise GpusUnknownError("the driver hung, and is not asked again")
        answers: queue.SimpleQueue[tuple[T | None, Exception | None]] = queue.SimpleQueue()

        def ask() -> None:
            try:
                answers.put((question(), None))
            except Exception as problem:  # noqa: BLE001 - raised again, in the thread that asked
                answers.put((None, problem))

        threading.Thread(target=ask, daemon=True, name="driver").start()
        try:
            answer, problem = answers.get(timeout=self._limit_s)
        except queue.Empty:
            self._stuck = True
            raise GpusUnknownError(f"the driver did not answer within {self._limit_s:g} s") from None
        if problem is not None:
            raise problem
        return answer  # type: ignore[return-value]


class _LimitedWatch:
    def __init__(self, limited: LimitedGpus, inner: XidWatch) -> None:
        self._limited = limited
        self._inner = inner

    def seen(self) -> tuple[Xid, ...]:
        try:
            return self._limited.within(self._inner.seen)
        except GpusUnknownError:
            return ()
