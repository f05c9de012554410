"""A failing region with several failure modes: a pattern over findings, and not one cause more."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from report.load import LoadedRun
from report.rules.draft import Draft
from report.rules.region import Region, above_words, regions
from report.rules.rivals import rivals
from report.rules.settings import budgets, graph_words, machine
from report.rules.untested import not_tested
from report.words import interval_label, spoken
from repro.intervals import wilson


@dataclass(frozen=True, kw_only=True, slots=True)
class Mode:
    """One failure of the run: its finding, and for each cell how many launches failed so."""

    finding: str
    kind: str
    seen: Mapping[str, int]


def failing_regions(run: LoadedRun, modes: Sequence[Mode], runs: Sequence[LoadedRun]) -> tuple[Draft, ...]:
    """One for each graph mode in which every budget above a clean one failed, in more than one way."""
    seen = {cell.id: cell.summary.k for cell in run.cells if cell.summary.k}
    by_mode: dict[tuple[str, str, str, str], list[Region]] = {}
    for region in regions(run, seen):
        at = region.setting
        graph = at.known("graph")
        if region.above is not None and graph is not None:
            by_mode.setdefault((at.tier, at.engine_source, at.shape, graph), []).append(region)
    found = []
    for found_regions in by_mode.values():
        draft = _draft(run, found_regions, modes, runs)
        if draft is not None:
            found.append(draft)
    return tuple(found)


def _draft(run: LoadedRun, found: Sequence[Region], modes: Sequence[Mode], runs: Sequence[LoadedRun]) -> Draft | None:
    cells = {tally.cell.id: tally.cell for region in found for tally in region.failed}
    inside = sorted(
        (mode for mode in modes if cells.keys() & mode.seen.keys()),
        key=lambda mode: (mode.kind != "corrupt_output", mode.kind, mode.finding),
    )
    if len(inside) < 2:
        return None
    k, n = (sum(count) for count in zip(*((t.k, t.n) for r in found for t in r.failed), strict=True))
    where = found[0].setting.known("graph") or ""
    told = max(found, key=lambda region: (sum(t.n for t in region.failed), region.setting))
    ways = "; ".join(
        f"{spoken(mode.kind)} at {budgets(c for name, c in cells.items() if name in mode.seen)} ({mode.finding})"
        for mode in inside
    )
    seen = {name: cell.summary.k for name, cell in cells.items()}
    rival = rivals(run, seen, runs)
    one_cause = f"That the {len(inside)} failure modes have one cause: nothing that was run shows it."
    return Draft(
        run=run,
        family="region",
        kind="failing_region",
        severity="high",
        subject=where,
        statement=f"On {machine(run)} with {graph_words(where)}, {above_words(told)}: together {k} of {n} launches, "
        f"95 % interval {interval_label(wilson(k, n))} if all are equally likely to fail. {len(inside)} failure modes: "
        f"{ways}.",
        cells=tuple(cells.values()),
        scope=(*(region.line for region in found), *rival.scope),
        not_tested=not_tested(run, tuple(cells.values())),
        hypotheses=(one_cause, *rival.hypotheses),
        settle=rival.settle,
        next=rival.settle or f"python -m matrix run --spec {run.run.target} --launches 10",
        attempts=tuple(a for c in cells.values() for a in c.attempts if a.verdict.verdict in {"fail", "corrupt"}),
        k=k,
        n=n,
    )
