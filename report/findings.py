"""Rules: loaded runs -> findings. One cause is one finding, however many cells and launches it shows in."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from report.armed import armed_sentence
from report.load import LoadedAttempt, LoadedCell, LoadedRun
from report.rules.acceptance import acceptance_by_budget
from report.rules.best import best_configuration
from report.rules.changed import changes
from report.rules.draft import Draft
from report.rules.earlier import migrated
from report.rules.modes import Mode, failing_regions
from report.rules.oracle import oracle
from report.rules.region import Region, above_sentence, clean_lines, regions
from report.rules.rivals import Rivals, rivals
from report.rules.settings import budgets, machine
from report.rules.sound_arms import sound_arms
from report.rules.untested import not_tested, undecided_cells
from report.sightings import FAILURES, Sighting, cut, evidence_of, groups_of, link, seen_in, sightings
from report.statements import PLANTED_PREFIX, Shown, next_command, statement
from repro.canonical import sha256_of
from repro.causes import Severity, unlocated
from repro.escape import one_line
from repro.intervals import wilson
from repro.model import BestConfiguration, Comparison, Finding, Signature

Ranked: TypeAlias = tuple[tuple[float, ...], Finding]

_SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low", "info")
_FAMILIES = (
    "oracle",
    "region",
    "corrupt",
    "failure",
    "unnoticed",
    "slower",
    "proof",
    "topk",
    "kernel",
    "inconclusive",
    "void",
    "unfinished",
    "refused",
    "sound",
    "best",
    "acceptance",
    "faster",
    "healthy",
    "earlier",
)
_LONGEST_LINE = 600


def find(
    runs: Sequence[LoadedRun],
    comparisons: Sequence[Comparison] = (),
    best: Sequence[BestConfiguration] = (),
    kernels: Iterable[tuple[Finding, int, int]] = (),
) -> tuple[Finding, ...]:
    """The findings of the runs, what matters most first. The order of ``runs`` and of their cells makes no
    difference. ``kernels``: findings of the kernel checks, each with the k of n cases that rank it."""
    ordered = [
        replace(run, cells=tuple(sorted(run.cells, key=lambda cell: cell.id)))
        for run in sorted(runs, key=lambda run: (run.run.target, run.run.run_id))
    ]
    groups = groups_of(sightings(ordered))
    found = [_finding(group, ordered) for group in groups]
    modes = [
        (group[0].run, Mode(finding=finding.id, kind=finding.kind, seen=seen_in(group)))
        for group, (_, finding) in zip(groups, found, strict=True)
        if group[0].cause.family in FAILURES
    ]
    for run in ordered:
        drafts = (
            *failing_regions(run, [mode for of, mode in modes if of is run], ordered),
            *sound_arms(run),
            *acceptance_by_budget(run),
            *best_configuration(run, best),
            *changes(run, comparisons),
            *oracle(run),
            *migrated(run),
        )
        found += [*map(_from_draft, drafts), *_unfinished(run), *_healthy(run)]
    found += [(_rank(finding, "kernel", k, n), finding) for finding, k, n in kernels]
    return tuple(finding for _, finding in sorted(found, key=lambda ranked: (*ranked[0], ranked[1].id)))


def finding_id(
    target: str,
    kind: str,
    signature: Signature,
    *,
    planted: bool,
    tier: str,
    engine_source: str,
    subject: str = "",
) -> str:
    """The same for the same failure in every report.

    Of the coordinates only those go in that say what was run; budget, graph mode and NVLS are the region in which the
    failure shows, and the cells of that region that happen to fail differ from run to run. ``subject`` tells findings
    apart that are of one rule, such as the other sides of comparisons.
    """
    document: dict[str, object] = {
        "target": target,
        "planted": planted,
        "kind": kind,
        "signature": [signature.kind, signature.phase, signature.subsystem],
        "coordinates": {"tier": tier, "engine_source": engine_source},
        **({"subject": subject} if subject else {}),
    }
    return "f-" + sha256_of(document)[:10]


def _finding(group: Sequence[Sighting], runs: Sequence[LoadedRun]) -> Ranked:
    first = group[0]
    signature = next(
        (s.cause.signature for s in group if s.cause.signature.subsystem is not None), first.cause.signature
    )
    cells = {sighting.cell.id: sighting.cell for sighting in group}
    seen = seen_in(group)
    shown = Shown(
        family=first.cause.family,
        kind=first.cause.kind,
        signature=signature,
        target=first.run.run.target,
        planted=first.planted,
        seen=tuple((cell, seen[name]) for name, cell in cells.items()),
        attempts=tuple(sighting.attempt for sighting in group),
    )
    where = first.cell.coordinates
    severity = min((s.cause.severity for s in group), key=_SEVERITIES.index)
    failure = first.cause.family in FAILURES
    found = regions(first.run, seen) if failure else ()
    rival = rivals(first.run, seen, runs) if failure else Rivals(scope=(), hypotheses=(), settle=None)
    finding = Finding(
        id=finding_id(
            first.run.run.target,
            first.cause.kind,
            signature,
            planted=first.planted,
            tier=where.tier,
            engine_source=where.engine_source,
        ),
        statement=_said(shown, group, found),
        kind=first.cause.kind,
        severity=severity,
        planted=first.planted,
        cells=tuple(sorted(cells)),
        scope=_lines((*(region.line for region in found), *rival.scope)),
        not_tested=_lines(not_tested(first.run, tuple(cells.values())) if failure else ()),
        evidence=evidence_of(group),
        hypotheses=_lines(rival.hypotheses),
        settle=rival.settle,
        bundle=None,
        next=next_command(shown),
    )
    packed = replace(finding, bundle=_bundle(finding, shown.attempts)) if failure else finding
    n = sum(max(cell.summary.n, seen[name]) for name, cell in cells.items())
    return _rank(packed, first.cause.family, len(group), n), packed


def _said(shown: Shown, group: Sequence[Sighting], found: Sequence[Region]) -> str:
    """What failed, where that begins, and what a launch with evidence hooks armed showed of it."""
    attempts = [(sighting.cell.id, sighting.attempt.result.attempt) for sighting in group]
    again = armed_sentence(group[0].run, attempts, shown.kind) if shown.family in FAILURES else None
    sentences = (statement(shown), *map(above_sentence, found), again)
    return one_line(" ".join(sentence for sentence in sentences if sentence))


def _from_draft(draft: Draft) -> Ranked:
    tiers = ",".join(sorted({cell.coordinates.tier for cell in draft.cells}))
    sources = ",".join(sorted({cell.coordinates.engine_source for cell in draft.cells}))
    said = PLANTED_PREFIX + draft.statement if draft.run.planted else draft.statement
    links = tuple(
        link(attempt.result, f"{attempt.path}/result.json", attempt.verdict.statement) for attempt in draft.attempts
    )
    finding = Finding(
        id=finding_id(
            draft.run.run.target,
            draft.kind,
            unlocated(draft.kind),
            planted=draft.run.planted,
            tier=tiers,
            engine_source=sources,
            subject=draft.subject,
        ),
        statement=one_line(said),
        kind=draft.kind,
        severity=draft.severity,
        planted=draft.run.planted,
        cells=tuple(sorted(cell.id for cell in draft.cells)),
        scope=_lines(draft.scope),
        not_tested=_lines(draft.not_tested),
        evidence=cut(links),
        hypotheses=_lines(draft.hypotheses),
        settle=draft.settle,
        bundle=None,
        next=draft.next,
    )
    packed = replace(finding, bundle=_bundle(finding, draft.attempts)) if draft.family == "region" else finding
    return _rank(packed, draft.family, draft.k, draft.n), packed


def _bundle(finding: Finding, attempts: Sequence[LoadedAttempt]) -> str | None:
    """The command that packs a failure; None where no failed launch left evidence, as in an account of others' runs."""
    kept = any(attempt.result.evidence for attempt in attempts)
    return f"python -m repro pack {finding.id}" if kept else None


def _lines(said: Iterable[str]) -> tuple[str, ...]:
    """Each line once, and harmless: reasons in it may come from elsewhere."""
    return tuple(dict.fromkeys(one_line(line, _LONGEST_LINE) for line in said))


def _unfinished(run: LoadedRun) -> list[Ranked]:
    cells = tuple(cell for cell in run.cells if cell.missing)
    if not cells:
        return []
    shown = _of_run(run, "unfinished", "unfinished", cells)
    return [_plain_finding(run, shown, "low")]


def _healthy(run: LoadedRun) -> list[Ranked]:
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


def _plain_finding(run: LoadedRun, shown: Shown, severity: Severity) -> Ranked:
    cells = tuple(cell for cell, _ in shown.seen)
    healthy = shown.family == "healthy"
    ran = f" It ran {budgets(cells)} on {machine(run)}." if healthy else ""
    return _from_draft(
        Draft(
            run=run,
            family=shown.family,
            kind=shown.kind,
            severity=severity,
            statement=statement(shown).removeprefix(PLANTED_PREFIX) + ran,
            cells=cells,
            scope=clean_lines(run) if healthy else (),
            not_tested=undecided_cells(run) if healthy else (),
            next=next_command(shown),
            n=len(shown.attempts),
        )
    )


def _rank(finding: Finding, family: str, k: int, n: int) -> tuple[float, ...]:
    """What is about an engine before what tests the tool; then by severity and rule (corrupt before crashed before
    slower), by the share of launches, and by how sure that is."""
    share = k / n if n else 0.0
    low = (wilson(k, n) or (0.0, 0.0))[0]
    return (int(finding.planted), _SEVERITIES.index(finding.severity), _FAMILIES.index(family), -share, -low, -n)
