"""A server's log, cut down to what its diagnosis rests on: head, tail, and what stands around the lines that say it.

In place of what was cut stands one line that says how much, so that line numbers can still be found. The cut log is
diagnosed again, and the windows are widened until it says what the whole one says.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

from repro.diagnose import Log
from repro.diagnose.judge import Outside, judge
from repro.diagnose.reader import read_log
from repro.model import Diagnosis, Phase, Result

Span: TypeAlias = tuple[int, int]

LARGEST_BYTES = 32_000_000
"""A cut log is hardly larger."""
_WIDENED = 4
_BLOCK_BYTES = 1 << 20
_TO_LINE_END_BYTES = 1 << 14


@dataclass(frozen=True, kw_only=True, slots=True)
class Windows:
    """How much is kept, in bytes: of the ends, on each side of a line that decides, and of any other that was read.
    What lies between two of these is kept too if it is shorter than ``gap``."""

    head: int = 1 << 17
    tail: int = 1 << 18
    around: int = 1 << 15
    beside: int = 1 << 11
    gap: int = 1 << 12

    def widened(self) -> "Windows":
        return Windows(
            head=4 * self.head, tail=4 * self.tail, around=4 * self.around, beside=4 * self.beside, gap=self.gap
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Trimmed:
    """``cut`` says in words what is missing, None for a whole log. ``same``: its diagnosis is that of the whole one."""

    data: bytes
    cut: str | None
    same: bool


def outside_of(result: Result) -> Outside:
    """What was seen from outside of an attempt, as far as its result says."""
    limited = any(phase.state == "timed_out" for phase in result.phases) or result.outcome == "hung"
    phase: Phase = next((p.phase for p in reversed(result.phases) if p.phase != "shutdown"), "launch")
    return Outside(
        status=result.exit_status, limit=limited, unasked=result.outcome != "completed" and not limited, phase=phase
    )


def trim(log: Path, outside: Outside, scratch: Path, *, windows: Windows | None = None) -> Trimmed:
    """The log, cut where it is long. ``scratch`` is a file to write to, in a directory of the caller's own. Reads the
    log twice, in blocks. Raises OSError if it cannot be read."""
    windows = windows or Windows()
    size = log.stat().st_size
    if size <= windows.head + windows.tail + windows.gap:
        return Trimmed(data=log.read_bytes(), cut=None, same=True)
    observed = read_log(Log(path=log, name="server.log"))
    whole = judge([observed], None, outside)
    deciding = [line.offset_bytes for line in (*whole.evidence, *whole.follow_ons)]
    read = [event.line.offset_bytes for event in observed.events]

    def cut_to(windows: Windows) -> Trimmed:
        data, cut = _cut(log, _spans(size, windows, deciding, read), size)
        scratch.write_bytes(data)
        again = judge([read_log(Log(path=scratch, name="server.log"))], None, outside)
        return Trimmed(data=data, cut=cut, same=_says(again) == _says(whole))

    first = trimmed = cut_to(windows)
    for _ in range(_WIDENED):
        windows = windows.widened()
        if trimmed.same or windows.head + windows.tail > LARGEST_BYTES:
            break
        trimmed = cut_to(windows)
    return trimmed if trimmed.same else first


def _says(diagnosis: Diagnosis) -> tuple[object, ...]:
    return diagnosis.kind, diagnosis.phase, diagnosis.role, diagnosis.signature


def _spans(size: int, windows: Windows, deciding: Iterable[int], read: Iterable[int]) -> list[Span]:
    """What is kept, in order and apart from each other. The lines that decide come before the others."""
    room = LARGEST_BYTES - windows.head - windows.tail
    wanted = [(0, windows.head), (max(size - windows.tail, 0), size)]
    for offset, width in [*((o, windows.around) for o in deciding), *((o, windows.beside) for o in read)]:
        room -= 2 * width
        if room < 0:
            break
        wanted.append((max(offset - width, 0), min(offset + width, size)))
    merged: list[Span] = []
    for begin, end in sorted((begin, min(end, size)) for begin, end in wanted):
        if merged and begin <= merged[-1][1] + windows.gap:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _cut(log: Path, spans: Sequence[Span], size: int) -> tuple[bytes, str | None]:
    """(the bytes of the spans with a line between them that says what is missing, the same in words)."""
    kept: list[bytes] = []
    lines = missing = places = 0
    with log.open("rb") as stream:
        for begin, end in _at_line_ends(stream, spans, size):
            place = stream.tell()
            if begin > place:
                first = lines + 1
                lines += _lines_in(stream, begin - place)
                inside = kept and not kept[-1].endswith(b"\n")
                mark = f"[cut from this log: {begin - place:,} bytes, lines {first} to {lines + (not _ends(stream))}]\n"
                kept.append((b"\n" if inside else b"") + mark.encode())
                missing += begin - place
                places += 1
            kept.append(stream.read(end - begin))
            lines += kept[-1].count(b"\n")
    said = f"{missing:,} of {size:,} bytes, in {places} place{'s' if places > 1 else ''}" if places else None
    return b"".join(kept), said


def _at_line_ends(stream: BinaryIO, spans: Sequence[Span], size: int) -> list[Span]:
    """The spans, begun and ended at the next ends of lines where those are near."""
    aligned = [
        (0 if not begin else _line_end(stream, begin, end), size if end >= size else _line_end(stream, end, size))
        for begin, end in spans
    ]
    stream.seek(0)
    return aligned


def _line_end(stream: BinaryIO, place: int, limit: int) -> int:
    """The place behind the first newline at or after the byte before ``place``; ``place`` if there is none near."""
    stream.seek(place - 1)
    found = stream.read(min(_TO_LINE_END_BYTES, limit - place + 1)).find(b"\n")
    return place + found if found >= 0 else place


def _lines_in(stream: BinaryIO, count: int) -> int:
    """Newlines in the next ``count`` bytes, which are read."""
    found = 0
    while count > 0 and (block := stream.read(min(count, _BLOCK_BYTES))):
        found += block.count(b"\n")
        count -= len(block)
    return found


def _ends(stream: BinaryIO) -> bool:
    """Whether a line ended with the last byte that was read."""
    stream.seek(-1, 1)
    return stream.read(1) == b"\n"
