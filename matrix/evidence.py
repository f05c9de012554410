"""Read what an attempt left behind. Evidence is never edited; what does not validate is named."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from repro import canonical, codec
from repro.errors import RecordError
from repro.model import (
    CheckEvidence,
    CheckName,
    CodingJudgement,
    Environment,
    EvidenceFile,
    Phase,
    PhaseTiming,
    PowerEvidence,
    RescoreEvidence,
    TimelineEntry,
)

T = TypeVar("T")

_TELLING = re.compile(rb"NCCL|DDTree|DDTREE|[Ss]pec|[Gg]raph|width|tree", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What lies in an attempt's directory. ``problems`` names what could not be read; those parts are missing."""

    directory: Path
    timeline: tuple[TimelineEntry, ...]
    checks: Mapping[CheckName, CheckEvidence]
    power: PowerEvidence | None
    environment: Environment | None
    coding: CodingJudgement | None
    rescoring: RescoreEvidence | None
    problems: tuple[str, ...]

    @property
    def log(self) -> Path:
        return self.directory / "evidence" / "server.log"

    def text(self, name: str) -> str | None:
        """The text of a raw file such as `metrics.txt`; None if it is missing."""
        path = self.directory / "evidence" / name
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None

    def document(self, name: str) -> object | None:
        """A raw answer of the engine as JSON; None if it is missing or is no JSON."""
        text = self.text(name)
        try:
            return json.loads(text) if text is not None else None
        except (ValueError, RecursionError):
            return None

    def telling_lines(self) -> Iterator[str]:
        """Lines of the server's log that may say something about its configuration."""
        if self.log.is_file():
            with self.log.open("rb") as log:
                while raw := log.readline(1 << 14):
                    if _TELLING.search(raw):
                        yield raw.decode("utf-8", "replace").rstrip()


def read_evidence(directory: Path) -> Evidence:
    """All evidence of an attempt. Never raises for what is in it."""
    problems: list[str] = []
    folder = directory / "evidence"
    timeline: tuple[TimelineEntry, ...] = ()
    if (folder / "timeline.jsonl").is_file():
        try:
            timeline, cut = codec.read_lines(folder / "timeline.jsonl", TimelineEntry, where="evidence/timeline.jsonl")
            problems += [cut] if cut else []
        except RecordError as problem:
            problems.append(str(problem))
    checks: dict[CheckName, CheckEvidence] = {}
    for path in sorted((folder / "checks").glob("*.json")):
        found = _read(path, CheckEvidence, f"evidence/checks/{path.name}", problems)
        if found is not None:
            checks[found.check] = found
    return Evidence(
        directory=directory,
        timeline=timeline,
        checks=checks,
        power=_read(folder / "power.json", PowerEvidence, "evidence/power.json", problems),
        environment=_read(folder / "environment.json", Environment, "evidence/environment.json", problems),
        rescoring=_read(folder / "rescoring.json", RescoreEvidence, "evidence/rescoring.json", problems),
        coding=_read(folder / "coding.json", CodingJudgement, "evidence/coding.json", problems),
        problems=tuple(problems),
    )


def evidence_files(directory: Path) -> tuple[EvidenceFile, ...]:
    """Every file below `evidence/` with its size and digest, in order of its path. Symbolic links are not followed."""
    files = [p for p in sorted((directory / "evidence").rglob("*")) if p.is_file() and not p.is_symlink()]
    return tuple(
        EvidenceFile(
            path=path.relative_to(directory).as_posix(),
            size_bytes=path.stat().st_size,
            sha256=canonical.sha256_file(path),
        )
        for path in files
    )


def phase_timings(timeline: tuple[TimelineEntry, ...]) -> tuple[PhaseTiming, ...]:
    """The phases that began, with how each ended. A phase that nothing ended was interrupted."""
    timings: list[PhaseTiming] = []
    states = {
        "phase-ended": "completed",
        "phase-limit": "timed_out",
        "server-exited": "failed",
        "interrupted": "interrupted",
    }
    open_phase: tuple[Phase, float] | None = None
    for entry in timeline:
        if entry.event == "phase-begun" and entry.phase is not None:
            if open_phase is not None:
                timings.append(_timing(open_phase, "completed", entry.at_s))
            open_phase = (entry.phase, entry.at_s)
        elif entry.event in states and open_phase is not None:
            if entry.event == "server-exited" and open_phase[0] == "shutdown":
                continue  # it was to end; the phase ends when nothing of the server is left
            timings.append(_timing(open_phase, states[entry.event], entry.at_s))
            open_phase = None
    if open_phase is not None:
        timings.append(_timing(open_phase, "interrupted", None))
    return tuple(timings)


def _timing(phase: tuple[Phase, float], state: str, ended_s: float | None) -> PhaseTiming:
    return PhaseTiming(phase=phase[0], state=state, begun_s=phase[1], ended_s=ended_s)  # type: ignore[arg-type]


def _read(path: Path, kind: type[T], where: str, problems: list[str]) -> T | None:
    if not path.is_file():
        return None
    try:
        return codec.read(path, kind, where=where)
    except RecordError as problem:
        problems.append(str(problem))
        return None
