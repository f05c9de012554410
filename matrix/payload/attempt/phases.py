"""How far the server's start has come, read from its log as it grows."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

from attempt.evidence import Timeline
from attempt.log_limit import UNREAD_BYTES, LogLimit
from attempt.step import READY_PHASES

CHUNK_BYTES = 1 << 20
CHUNKS_PER_LOOK = 8


class MarkReader:
    """Finds the marks of later phases in a log, in constant memory: it knows bytes, not lines, so a log without
    newlines, with NULs, or growing by gigabytes is no different from any other."""

    def __init__(self, path: Path, marks: Mapping[str, tuple[str, ...]]) -> None:
        self._file = path.open("rb")
        self._marks = {
            phase: tuple(text.encode() for text in marks[phase] if text)
            for phase in READY_PHASES[1:-1]  # launch begins with the process, serving with an answer to a request
            if phase in marks
        }
        self._keep = max((len(text) for texts in self._marks.values() for text in texts), default=1) - 1
        self._tail = b""

    def __enter__(self) -> "MarkReader":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def behind(self) -> int:
        """Bytes of the log that were not read yet."""
        return os.fstat(self._file.fileno()).st_size - self._file.tell()

    def read_to(self) -> int:
        """The byte that is read next."""
        return self._file.tell()

    def skip_to(self, offset: int) -> None:
        """What lies before this byte is there no more."""
        if offset > self._file.tell():
            self._file.seek(offset)
            self._tail = b""

    def look(self, current: str) -> list[str]:
        """The phases begun since the last look, in order and all later than `current`.

        At most some megabytes are read per look, so that a flood cannot keep the program from its limits.
        """
        begun: list[str] = []
        for _ in range(CHUNKS_PER_LOOK):
            fresh = self._file.read(CHUNK_BYTES)
            if not fresh:
                break
            window = self._tail + fresh
            begun += self._in_order(window, begun[-1] if begun else current)
            self._tail = window[-self._keep :] if self._keep else b""
        return begun

    def _in_order(self, window: bytes, current: str) -> Iterator[str]:
        at = 0
        while True:
            found = [
                (place, READY_PHASES.index(phase), phase)
                for phase, texts in self._marks.items()
                if READY_PHASES.index(phase) > READY_PHASES.index(current)
                for text in texts
                if (place := window.find(text, at)) >= 0
            ]
            if not found:
                return
            at, _, current = min(found)
            yield current


class Phases:
    """The current phase and its begin; keeps the timeline in step."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._marks: MarkReader | None = None
        self._read_to: int | None = 0
        self._begun_s = 0.0
        self.current: str | None = None

    def follow(self, marks: MarkReader | None) -> None:
        """From now on phases begin as their marks appear; None ends that."""
        self._marks = marks
        if marks is None:
            self._read_to = None

    def look(self) -> bool:
        """Begins the phases that the log has announced since the last look; whether more of it is left to read."""
        if self._marks is None or self.current is None:
            return False
        for phase in self._marks.look(self.current):
            self.begin(phase)
        return self._marks.behind() > 0

    def limit(self, log: LogLimit) -> None:
        """Gives back the middle of a log that is too long; not before it was read, if that is possible."""
        end = log.punch(self._read_to if self._marks is None else self._marks.read_to())
        if self._marks is not None and self._marks.behind() > UNREAD_BYTES:
            self._marks.skip_to(end)

    def look_to_the_end(self) -> None:
        """Reads all that is in the log by now, so that what comes next is put down to the right phase."""
        left = 0 if self._marks is None else self._marks.behind()
        for _ in range(0, left, CHUNKS_PER_LOOK * CHUNK_BYTES):
            self.look()

    def begin(self, phase: str) -> None:
        """Ends the current phase, if any, and begins this one."""
        self.end()
        self.current, self._begun_s = phase, self._timeline.now_s()
        self._timeline.append("phase-begun", phase=phase)

    def end(self) -> None:
        """The current phase came to its end. A phase that failed is left without an end in the timeline."""
        if self.current is not None:
            self._timeline.append("phase-ended", phase=self.current)
        self.current = None

    def begin_shutdown(self, *, orderly: bool) -> None:
        """The server is to be stopped. A phase that it is torn out of has failed or was cut off: it gets no end."""
        if not orderly:
            self.current = None
        self.begin("shutdown")

    def elapsed_s(self) -> float:
        """How long the current phase has lasted."""
        return self._timeline.now_s() - self._begun_s
