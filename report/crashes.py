"""What the evidence of a failed launch adds to its result: when the telling lines of its log were written, and what its
GPUs drew and held. Read from the attempt's directory; what cannot be used there is named.

Lines of a log have the server's own clock. How far that is from UTC, in quarters of an hour as time zones are, follows
from the log's first line with a time, which is written within minutes of the launch's begin.
"""

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from report.load import LoadedAttempt, LoadedRun
from repro import codec
from repro.diagnose.prefixes import time_of
from repro.errors import RecordError
from repro.model import LogLine, PowerEvidence, PowerSample, Problem, Result

MOST = 12
"""Time lines on a page: the first launch of each kind of failure in a cell, those of different kinds first."""
_LINES = 3  # that the diagnosis rests on, or the last ones
_HEAD_BYTES, _TAIL_BYTES, _BEFORE_BYTES = 1 << 16, 1 << 14, 1 << 16
_MOST_POWER_BYTES = 1 << 26
_ZONE_S = 900
_LEEWAY_S = 2.0  # logs have whole seconds
_NO_POWER = "no file evidence/power.json lies in its directory"


@dataclass(frozen=True, kw_only=True, slots=True)
class CrashLine:
    """A line of a log. ``at_s``: when it was written, in seconds since the launch began; None if nothing says so."""

    file: str
    line: int | None
    at_s: float | None
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Crash:
    """``lines`` are those that the diagnosis rests on and the last one of the log. Without ``samples``, in order of
    time, ``no_samples`` says why."""

    lines: tuple[CrashLine, ...]
    samples: tuple[PowerSample, ...]
    no_samples: str


def read_crashes(shown: Sequence[LoadedRun]) -> tuple[Mapping[str, Crash], tuple[Problem, ...]]:
    """The failed launches that get a time line, by the anchor of the attempt; and the evidence that cannot be used."""
    crashes: dict[str, Crash] = {}
    problems: list[Problem] = []
    for run, attempt in _told(shown):
        crashes[attempt.anchor] = _read(run, attempt, problems)
    return crashes, tuple(problems)


def has_time_line(run: LoadedRun, crashes: Mapping[str, Crash]) -> bool:
    """Whether any launch of the run has one."""
    return any(attempt.anchor in crashes for cell in run.cells for attempt in cell.attempts)


def _told(shown: Sequence[LoadedRun]) -> Sequence[tuple[LoadedRun, LoadedAttempt]]:
    firsts: dict[tuple[str, str, str], tuple[LoadedRun, LoadedAttempt]] = {}
    for run in shown:
        for cell in run.cells:
            for attempt in cell.attempts:
                if attempt.result.outcome != "completed" and attempt.result.phases:
                    firsts.setdefault((run.run.target, _kind(attempt.result), cell.id), (run, attempt))
    new = list({(target, kind): item for (target, kind, _), item in reversed(firsts.items())}.values())[::-1]
    kinds = {id(attempt) for _, attempt in new}
    return [*new, *(item for item in firsts.values() if id(item[1]) not in kinds)][:MOST]


def _kind(result: Result) -> str:
    return result.diagnosis.kind if result.diagnosis is not None else result.outcome


def _read(run: LoadedRun, attempt: LoadedAttempt, problems: list[Problem]) -> Crash:
    told = [] if attempt.result.diagnosis is None else list(attempt.result.diagnosis.evidence[:_LINES])
    if run.place is None:
        return Crash(lines=_untimed(told), samples=(), no_samples=_NO_POWER)
    folder = run.place / "cells" / attempt.result.cell / str(attempt.result.attempt)
    samples, no_samples = _power(folder, attempt.path, problems)
    return Crash(lines=_lines(folder, told, attempt.result), samples=samples, no_samples=no_samples)


def _power(folder: Path, shown: str, problems: list[Problem]) -> tuple[tuple[PowerSample, ...], str]:
    path = folder / "evidence" / "power.json"
    size = _size(path)
    if size is None:
        return (), _NO_POWER
    where = f"{shown}/evidence/power.json"
    try:
        if size > _MOST_POWER_BYTES:
            raise RecordError(f"{where}: is larger than {_MOST_POWER_BYTES >> 20} MiB, and was not read")
        found = codec.read(path, PowerEvidence, where=where)
    except RecordError as error:
        problems.append(Problem(path=where, problem=str(error).removeprefix(f"{where}: ")))
        return (), "evidence/power.json cannot be used"
    return tuple(sorted(found.samples, key=lambda sample: (sample.at_s, sample.gpu))), found.reason or ""


def _untimed(told: Sequence[LogLine]) -> tuple[CrashLine, ...]:
    return tuple(CrashLine(file=line.file, line=line.line, at_s=None, text=line.text) for line in told)


def _lines(folder: Path, told: Sequence[LogLine], result: Result) -> tuple[CrashLine, ...]:
    """The lines that the diagnosis rests on, and the last one of the server's log, with their times."""
    log = folder / "evidence" / "server.log"
    size = _size(log)
    if size is None:
        return _untimed(told)
    begun = _begun(log, result)
    found = [
        CrashLine(
            file=line.file,
            line=line.line,
            at_s=_moment(log, line.offset_bytes, begun, result.wall_s) if line.file == "evidence/server.log" else None,
            text=line.text,
        )
        for line in told
    ]
    last = next((text for text in reversed(_texts(log, size - _TAIL_BYTES, size)) if text.strip()), None)
    if last is not None and all(last.strip() not in (line.text.strip(), "") for line in told):
        at_s = _moment(log, size, begun, result.wall_s)
        found.append(CrashLine(file="evidence/server.log", line=None, at_s=at_s, text=last))
    return tuple(found)


def _begun(log: Path, result: Result) -> float | None:
    """When the launch began by the log's clock, on the scale of `time_of`; None if the log has no times."""
    utc = time_of(result.begun_at)
    first = next((at for text in _texts(log, 0, _HEAD_BYTES) if (at := time_of(text)) is not None), None)
    if utc is None or first is None:
        return None
    return utc + _ZONE_S * round((first - utc) / _ZONE_S)


def _moment(log: Path, offset_bytes: int, begun: float | None, wall_s: float) -> float | None:
    """Seconds since the begin of the launch at which the line at that offset was written, or the last line before it
    that has a time; None if there is none, or it lies outside of the launch."""
    if begun is None:
        return None
    # The offset is where a line begins: some bytes of it are needed for its time.
    texts = _texts(log, offset_bytes - _BEFORE_BYTES, offset_bytes + 80)
    at = next((at for text in reversed(texts) if (at := time_of(text)) is not None), None)
    if at is None or not -_LEEWAY_S <= at - begun <= wall_s + _LEEWAY_S:
        return None
    return min(max(at - begun, 0.0), wall_s)


def _texts(log: Path, begin_bytes: int, end_bytes: int) -> list[str]:
    """The lines, or parts of them, between two places of the log; none where it cannot be read there."""
    begin_bytes = max(0, begin_bytes)
    try:
        with log.open("rb") as file:
            file.seek(begin_bytes)
            return file.read(max(0, end_bytes - begin_bytes)).decode("utf-8", "replace").splitlines()
    except (OSError, OverflowError):  # no right to read it, or a place that no file has
        return []


def _size(path: Path) -> int | None:
    """Bytes of a regular file; None for anything else: links are not followed, not those of the folder either."""
    try:
        if any(part.is_symlink() for part in (path.parent.parent.parent, path.parent.parent, path.parent)):
            return None
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
