"""Log file -> events, line by line."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from repro.diagnose.patterns import HARMLESS, PATTERNS, PHASES, Pattern
from repro.model import LogLine, Phase

_CHUNK = 1 << 16
_LONGEST_LINE = 1 << 14
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f]")
_KEPT_PER_PATTERN = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """A line that a pattern matched, and the phase that the engine was in."""

    pattern: Pattern
    phase: Phase
    line: LogLine


def read_log(path: Path, *, name: str | None = None) -> tuple[tuple[Event, ...], Phase]:
    """The events of a log in order, at most a few for each pattern, and the phase it ends in.

    ``name`` is what the evidence calls the file. A missing file is an empty log. Lines longer than 16 KiB are cut.
    """
    phase: Phase = "launch"
    events: list[Event] = []
    kept: dict[int, int] = {}
    for number, offset, text in _lines(path):
        if HARMLESS.search(text):
            continue
        phase = next((p for p, mark in reversed(PHASES) if mark.search(text)), phase)
        for index, pattern in enumerate(PATTERNS):
            if kept.get(index, 0) < _KEPT_PER_PATTERN and pattern.expression.search(text):
                kept[index] = kept.get(index, 0) + 1
                line = LogLine(file=name or path.name, line=number, offset_bytes=offset, text=text[:500])
                events.append(Event(pattern=pattern, phase=phase, line=line))
                break
    return tuple(events), phase


def _lines(path: Path) -> Iterator[tuple[int, int, str]]:
    """(line number, byte offset, text without control codes) of each line, in constant memory."""
    if not path.is_file():
        return
    number, offset = 1, 0
    with path.open("rb") as log:
        while raw := log.readline(_LONGEST_LINE):
            yield number, offset, _COLOURS.sub("", raw.decode("utf-8", "replace").rstrip("\r\n"))
            offset += len(raw)
            while not raw.endswith(b"\n") and (raw := log.readline(_CHUNK)):
                offset += len(raw)
            number += 1
