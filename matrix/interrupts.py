"""Ctrl-C once ends the attempt and leaves a valid run; twice kills. A hang-up or a SIGTERM counts like a Ctrl-C."""

import signal
from types import FrameType, TracebackType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """A context in which these signals are counted instead of ending the process. Main thread only."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> "Interrupts":
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._count)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _count(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
