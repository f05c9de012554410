"""Rules: loaded runs -> findings. One cause is one finding, however many cells and launches it shows in."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from report.causes import Cause, Severity, causes, unlocated
from report.escape import one_line
from report.load import LoadedAttempt, LoadedCell, LoadedRun
from report.statements import Shown, next_command, statement
from repro.canonical import sha256_of
from repro.model import EvidenceLink, Finding, Result, Signature

_SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low", "info")
_FAMILIES = (
    "corrupt",
    "failure",
    "unnoticed",
    "proof",
    "topk",
    "inconclusive",
    "void",
    "refused",
    "unfinished",
    "healthy",
)
_MOST_EVIDENCE = 12
_LONGEST_EVIDENCE = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sighting:
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


def find(runs: Sequence[LoadedRun]) -> tuple[Finding, ...]:
    """The findings of the runs, what matters most first. The order of ``runs`` makes no difference."""
    found = [_finding(group) for group in _groups(_sightings(runs))]
    found += [finding for run in runs for finding in (*_unfinished(run), *_healthy(run))]
    return tuple(finding for _, finding in sorted(found, key=lambda ranked: (*ranked[0], ranked[1].id)))


def finding_id(target: str, kind: str, signature: Signature, *, planted: bool, tier: str, engine_source: str) -> str:
    """The same for the same failure in every report.

    Of the coordinates only those go in that say what was run; budget, graph mode and NVLS are the region in which the
    failure shows, and the cells of that region that happen to fail differ from run to run.
    """
    document = {
        "target": target,
        "planted": planted,
        "kind": kind,
        "signature": [signature.kind, signature.phase, signature.subsystem],
        "coordinates": {"tier": tier, "engine_source": engine_source},
    }
    return "f-" + sha256_of(document)[:10]


def _sightings(runs: Sequence[LoadedRun]) -> list[_Sighting]:
    return [
        _Sighting(cause=cause, run=run, cell=cell, attempt=attempt)
        for run in sorted(runs, key=lambda run: (run.run.target, run.run.run_id))
        for cell in run.cells
        for attempt in cell.attempts
        for cause in causes(attempt)
    ]


def _groups(sightings: Iterable[_Sighting]) -> list[list[_Sighting]]:
    """Sightings of one failure together. One whose subsystem is not located joins the only located group there is."""
    groups: dict[tuple[str, ...], dict[str | None, list[_Sighting]]] = {}
    for sighting in sightings:
        by_subsystem = groups.setdefault(sighting.group, {})
        by_subsystem.setdefault(sighting.cause.signature.subsystem, []).append(sighting)
    for by_subsystem in groups.values():
        located = [subsystem for subsystem in by_subsystem if subsystem is not None]
        if len(located) == 1 and None in by_subsystem:
            by_subsystem[located[0]] += by_subsystem.pop(None)
    return [group for by_subsystem in groups.values() for group in by_subsystem.values()]


def _finding(group: Sequence[_Sighting]) -> tuple[tuple[int, ...], Finding]:
    first = group[0]
    signature = next(
        (s.cause.signature for s in group if s.cause.signature.subsystem is not None), first.cause.signature
    )
    cells = {sighting.cell.id: sighting.cell for sighting in group}
    shown = Shown(
        family=first.cause.family,
        kind=first.cause.kind,
        signature=signature,
        target=first.run.run.target,
        planted=first.planted,
        seen=tuple((cell, sum(s.cell.id == name for s in group)) for name, cell in cells.items()),
        attempts=tuple(sighting.attempt for sighting in group),
    )
    where = first.cell.coordinates
    severity = min((s.cause.severity for s in group), key=_SEVERITIES.index)
    finding = Finding(
        id=finding_id(
            first.run.run.target,
            first.cause.kind,
            signature,
            planted=first.planted,
            tier=where.tier,
            engine_source=where.engine_source,
        ),
        statement=one_line(statement(shown)),
        kind=first.cause.kind,
        severity=severity,
        planted=first.planted,
        cells=tuple(sorted(cells)),
        scope=(),
        not_tested=(),
        evidence=_evidence(group),
        hypotheses=(),
        settle=None,
        bundle=None,
        next=next_command(shown),
    )
    return _rank(finding, first.cause.family, len(group)), finding


def _evidence(group: Sequence[_Sighting]) -> tuple[EvidenceLink, ...]:
    links = [link for sighting in group for link in _links(sighting)]
    kept = links[:_MOST_EVIDENCE]
    if len(links) > len(kept):
        last = kept[-1]
        more = f"{last.text} (and {len(links) - len(kept)} more, on the page)"
        kept[-1] = EvidenceLink(cell=last.cell, attempt=last.attempt, path=last.path, text=more)
    return tuple(kept)


def _links(sighting: _Sighting) -> list[EvidenceLink]:
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
    own = [_link(result, path, text) for path, text in said]
    return own + [
        _link(armed, f"{path}/result.json", f"again with evidence hooks armed: {armed.outcome}: {armed.outcome_detail}")
        for armed, path in sighting.run.armed
        if (armed.cell, armed.explains) == (result.cell, result.attempt)
    ]


def _link(result: Result, path: str, text: str) -> EvidenceLink:
    return EvidenceLink(
        cell=result.cell,
        attempt=result.attempt,
        path=path if _is_plain(path) else None,
        text=one_line(text, _LONGEST_EVIDENCE) or "no words",
    )


def _is_plain(path: str) -> bool:
    parts = path.split("/")
    return one_line(path) == path and all(parts) and not {".", ".."} & set(parts)


def _unfinished(run: LoadedRun) -> list[tuple[tuple[int, ...], Finding]]:
    cells = tuple(cell for cell in run.cells if cell.missing)
    if not cells:
        return []
    shown = _of_run(run, "unfinished", "unfinished", cells)
    return [_plain_finding(run, shown, "low")]


def _healthy(run: LoadedRun) -> list[tuple[tuple[int, ...], Finding]]:
    """A run without a failure is a finding too: how sure that makes us, and of what. A planted run tells nothing."""
    cells = tuple(cell for cell in run.cells if any(a.verdict.verdict == "pass" for a in cell.attempts))
    failed = any(a.verdict.verdict in {"fail", "corrupt"} for cell in run.cells for a in cell.attempts)
    if failed or run.planted or not cells:
        return []
    return [_plain_finding(run, _of_run(run, "healthy", "no_failure", cells), "info")]


def _of_run(run: LoadedRun, family: str, kind: str, cells: tuple[LoadedCell, ...]) -> Shown:
    return Shown(
        family=family,
        kind=kind,
        signature=unlocated(kind),
        target=run.run.target,
        planted=run.planted,
        seen=tuple((cell, cell.missing) for cell in cells),
        attempts=tuple(attempt for cell in cells for attempt in cell.attempts),
    )


def _plain_finding(run: LoadedRun, shown: Shown, severity: Severity) -> tuple[tuple[int, ...], Finding]:
    tiers = ",".join(sorted({cell.coordinates.tier for cell, _ in shown.seen}))
    sources = ",".join(sorted({cell.coordinates.engine_source for cell, _ in shown.seen}))
    finding = Finding(
        id=finding_id(
            run.run.target, shown.kind, shown.signature, planted=run.planted, tier=tiers, engine_source=sources
        ),
        statement=one_line(statement(shown)),
        kind=shown.kind,
        severity=severity,
        planted=run.planted,
        cells=tuple(sorted(cell.id for cell, _ in shown.seen)),
        scope=(),
        not_tested=(),
        evidence=(),
        hypotheses=(),
        settle=None,
        bundle=None,
        next=next_command(shown),
    )
    return _rank(finding, shown.family, len(shown.attempts)), finding


def _rank(finding: Finding, family: str, seen: int) -> tuple[int, ...]:
    """What is about an engine before what tests the tool, then by severity, rule and number of launches."""
    return (int(finding.planted), _SEVERITIES.index(finding.severity), _FAMILIES.index(family), -seen)
