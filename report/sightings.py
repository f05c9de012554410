"""What is to be told of the launches of a run, grouped by cause, with the evidence for it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from report.load import LoadedAttempt, LoadedCell, LoadedRun
from repro.causes import Cause, causes
from repro.escape import one_line
from repro.model import EvidenceLink, Result

FAILURES = frozenset({"corrupt", "failure"})
"""The rules that say that a launch failed."""
_MOST_EVIDENCE = 12
_LONGEST_EVIDENCE = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Sighting:
    cause: Cause
    run: LoadedRun
    cell: LoadedCell
    attempt: LoadedAttempt

    @property
    def planted(self) -> bool:
        """A fault anywhere in the run may show in any cell: the reference arm is what the others are held against."""
        return self.run.planted

    @property
    def group(self) -> tuple[str, ...]:
        """What must be equal for two sightings to be one finding, the subsystem apart."""
        where = self.cell.coordinates
        cause = self.cause
        phase = cause.signature.phase
        return (
            self.run.run.target,
            str(self.planted),
            cause.family,
            cause.kind,
            phase,
            where.tier,
            where.engine_source,
        )


def sightings(runs: Sequence[LoadedRun]) -> list[Sighting]:
    return [
        Sighting(cause=cause, run=run, cell=cell, attempt=attempt)
        for run in runs
        for cell in run.cells
        for attempt in cell.attempts
        for cause in causes(attempt.result, attempt.verdict)
    ]


def groups_of(found: Iterable[Sighting]) -> list[list[Sighting]]:
    """Sightings of one failure together. One whose subsystem is not located joins the only located group there is."""
    groups: dict[tuple[str, ...], dict[str | None, list[Sighting]]] = {}
    for sighting in found:
        by_subsystem = groups.setdefault(sighting.group, {})
        by_subsystem.setdefault(sighting.cause.signature.subsystem, []).append(sighting)
    for by_subsystem in groups.values():
        located = [subsystem for subsystem in by_subsystem if subsystem is not None]
        if len(located) == 1 and None in by_subsystem:
            by_subsystem[located[0]] += by_subsystem.pop(None)
    return [group for by_subsystem in groups.values() for group in by_subsystem.values()]


def seen_in(group: Sequence[Sighting]) -> dict[str, int]:
    """Cell -> its launches in the group."""
    names = [sighting.cell.id for sighting in group]
    return {name: names.count(name) for name in dict.fromkeys(names)}


def evidence_of(group: Sequence[Sighting]) -> tuple[EvidenceLink, ...]:
    return cut([link for sighting in group for link in _links(sighting)])


def cut(links: Sequence[EvidenceLink]) -> tuple[EvidenceLink, ...]:
    kept = list(links[:_MOST_EVIDENCE])
    if len(links) > len(kept):
        last = kept[-1]
        more = f"{last.text} (and {len(links) - len(kept)} more, on the page)"
        kept[-1] = EvidenceLink(cell=last.cell, attempt=last.attempt, path=last.path, text=more)
    return tuple(kept)


def _links(sighting: Sighting) -> list[EvidenceLink]:
    """The lines of the log that say it, else the verdict's own words."""
    attempt = sighting.attempt
    result = attempt.result
    lines = result.diagnosis.evidence[:2] if result.diagnosis is not None and sighting.cause.family == "failure" else ()
    said = [(f"{attempt.path}/{line.file}", f"line {line.line}: {line.text}") for line in lines]
    if not said:
        words = attempt.verdict.statement
        if sighting.cause.family == "proof":
            contradicted = [p for p in result.proof if f"{p.fact}_contradicted" == sighting.cause.kind]
            words = "; ".join(f"{p.fact}: expected {p.expected}, {p.source} says {p.observed}" for p in contradicted)
        said = [(f"{attempt.path}/result.json", words)]
    also = [c.detail for c in result.checks if c.state == "fail" and c.detail not in attempt.verdict.statement]
    if sighting.cause.family in FAILURES:
        said += [(f"{attempt.path}/result.json", f"failed too: {detail}") for detail in also]
    own = [link(result, path, text) for path, text in said]
    return own + [
        link(armed, f"{path}/result.json", f"again with evidence hooks armed: {armed.outcome}: {armed.outcome_detail}")
        for armed, path in sighting.run.armed
        if (armed.cell, armed.explains) == (result.cell, result.attempt)
    ]


def link(result: Result, path: str, text: str) -> EvidenceLink:
    return EvidenceLink(
        cell=result.cell,
        attempt=result.attempt,
        path=path if _is_plain(path) else None,
        text=one_line(text, _LONGEST_EVIDENCE) or "no words",
    )


def _is_plain(path: str) -> bool:
    parts = path.split("/")
    return one_line(path) == path and all(parts) and not {".", ".."} & set(parts)
