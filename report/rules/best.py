"""The fastest configuration that never failed, in words."""

from collections.abc import Mapping, Sequence

from report.changes import launches
from report.load import LoadedCell, LoadedRun
from report.rules.draft import Draft
from report.rules.settings import Setting, budgets, listed, machine, partner, selected
from report.words import figure, percent
from repro.model import BestConfiguration

_OVER: Mapping[str, str] = {"ar": "no speculation", "chain": "the flat chain"}


def best_configuration(run: LoadedRun, best: Sequence[BestConfiguration]) -> tuple[Draft, ...]:
    """One for the run, over all levels of concurrency at which a stable cell was measured."""
    ours = sorted((one for one in best if one.target == run.run.target), key=lambda one: one.concurrency)
    cells = {cell.id: cell for cell in run.cells}
    ours = [one for one in ours if one.cell in cells]
    if not ours or not run.about_gpus or run.planted:
        return ()
    names = tuple(dict.fromkeys(one.cell for one in ours))
    told = "; ".join(f"{_named(cells[name])}: {_rates([one for one in ours if one.cell == name])}" for name in names)
    bound = max(one.failure_bound for one in ours)
    n = min(one.n for one in ours)
    close = tuple(
        f"That nothing is faster at concurrency {one.concurrency}: {listed(one.not_shown_slower)} "
        f"{_are(one.not_shown_slower)} not shown to be slower than {one.cell}."
        for one in ours
        if one.not_shown_slower
    )
    chosen = selected([*names, *(name for one in ours for name in one.not_shown_slower)])
    return (
        Draft(
            run=run,
            family="best",
            kind="best_configuration",
            severity="info",
            statement=f"Best stable configuration on {machine(run)}: {told}. Stable means that it passed and that no "
            f"launch of it failed; the probability that one does is below {percent(bound)} at 95 % confidence.",
            cells=tuple(cells[name] for name in names),
            scope=tuple(line for one in ours for line in _speedups(one)),
            hypotheses=(*close, *_nvls(run, [cells[name] for name in names])),
            settle=f"python -m matrix run --spec {run.run.target} {chosen} --launches 10" if close else None,
            next=f"python -m matrix run --spec {run.run.target} {chosen} --launches 10",
            attempts=tuple(attempt for name in names for attempt in cells[name].attempts),
            n=n,
        ),
    )


def _named(cell: LoadedCell) -> str:
    topk = f", top-k {cell.coordinates.topk}" if cell.coordinates.topk else ""
    return f"{budgets([cell])}{topk}, {Setting.of(cell.coordinates).words} ({cell.id})"


def _rates(levels: Sequence[BestConfiguration]) -> str:
    return ", ".join(f"{figure(one.rate)} {one.unit} at concurrency {one.concurrency}{_span(one)}" for one in levels)


def _span(one: BestConfiguration) -> str:
    if one.low is None or one.high is None:
        return f" ({launches(one.n)})"
    return f" (95 % interval {figure(one.low)} to {figure(one.high)}, {launches(one.n)})"


def _speedups(one: BestConfiguration) -> list[str]:
    lines = []
    for gain in one.speedups:
        if gain.ratio is None:
            continue
        interval = "" if gain.low is None or gain.high is None else f", 95 % interval {gain.low:.2f} to {gain.high:.2f}"
        steps = "" if gain.steps is None else f"; {gain.steps:.2f} times the tokens a step"
        time = "" if gain.step_time is None else f", {gain.step_time:.2f} times as long a step"
        more = f"{gain.cell}{interval}{steps}{time}"
        lines.append(f"concurrency {one.concurrency}: {gain.ratio:.2f} times {_OVER[gain.over]} ({more})")
    return lines


def _nvls(run: LoadedRun, cells: Sequence[LoadedCell]) -> list[str]:
    """Whether NVLS is part of what makes them fast: only the same cell without it could tell."""
    alone = []
    for cell in cells:
        other = partner(run, cell, "nvls", "nonvls")
        if Setting.of(cell.coordinates).known("nvls") == "nvls" and (other is None or other.summary.verdict != "pass"):
            alone.append(cell)
    return (
        [f"That NVLS makes it faster: {budgets(alone)} passed without NVLS in no launch of this run."] if alone else []
    )


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
