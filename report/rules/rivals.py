"""Explanations of a failure that the runs do not tell apart, and what would.

A contrast on one axis is a claim only where the two sides differ by more than chance (Fisher's exact test at 5 %).
Otherwise, and where one side was not run, it stays a hypothesis.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from report.load import LoadedCell, LoadedRun
from report.rules.elsewhere import other_machines
from report.rules.region import Region, regions
from report.rules.settings import (
    Axis,
    Setting,
    budgets,
    graph_words,
    listed,
    nvls_words,
    partner,
    selected,
    selection,
    spelled,
)
from report.samples import fisher_p

ALPHA = 0.05
_MOST_LAUNCHES = 20
_AXES: tuple[tuple[Axis, str, str], ...] = (("graph", "graph", "eager"), ("nvls", "nvls", "nonvls"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Rivals:
    """``scope``: contrasts that were run; ``hypotheses``: what they leave open; ``settle``: the command whose outcome
    would tell, None if there is none."""

    scope: tuple[str, ...]
    hypotheses: tuple[str, ...]
    settle: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Side:
    """What one contrast says: lines, hypotheses, and cells to run."""

    scope: tuple[str, ...] = ()
    hypotheses: tuple[str, ...] = ()
    select: tuple[str, ...] = ()


def rivals(run: LoadedRun, seen: Mapping[str, int], runs: Sequence[LoadedRun]) -> Rivals:
    """``seen`` has for each cell how many of its launches failed so; ``runs`` are all that are told of."""
    failing = [cell for cell in run.cells if cell.id in seen]
    found = regions(run, seen)
    sides = [_axis(run, failing, seen, axis) for axis in _AXES]
    sides += [_edge(run, region) for region in found]
    sides.append(_stock(run, failing))
    elsewhere = other_machines(run, failing, runs)
    select = tuple(dict.fromkeys(name for side in sides for name in side.select))
    again = tuple(dict.fromkeys(name for cell in failing if (name := _selectable(run, cell)) is not None))
    return Rivals(
        scope=(*(line for side in sides for line in side.scope), *elsewhere.scope),
        hypotheses=(*(line for side in sides for line in side.hypotheses), *elsewhere.hypotheses),
        settle=_command(run, (*again, *select), failing, seen) if select else None,
    )


def _axis(
    run: LoadedRun, failing: Sequence[LoadedCell], seen: Mapping[str, int], which: tuple[Axis, str, str]
) -> _Side:
    """The failing cells at the cause that an axis may be, beside the same cells without it."""
    axis, cause, off = which
    known = {cell.id: Setting.of(cell.coordinates).known(axis) for cell in failing}
    hit = [cell for cell in failing if known[cell.id] == cause]
    name, without = _axis_words(axis, cause, off)
    side = _Side()
    if any(value is None for value in known.values()) and not hit:
        return _Side(hypotheses=(f"That {name} has a part in it: the runs do not state whether it was on.",))
    if not hit or (axis == "graph" and any(value == off for value in known.values())):
        return side
    pairs = [(cell, partner(run, cell, axis, off)) for cell in hit]
    clean = [(cell, other) for cell, other in pairs if other is not None and other.summary.n and not other.summary.k]
    bad = [other for _, other in pairs if other is not None and other.summary.k]
    same = [other for other in bad if other.id in seen]
    unsupported = {skip.cell for skip in run.skips if skip.state == "unsupported"}
    open_ = [cell for cell, other in pairs if (other is None or not other.summary.n)]
    open_ = [cell for cell in open_ if _moved(cell, axis, off) not in unsupported]
    scope: list[str] = []
    hypotheses: list[str] = []
    if bad:
        how = "failed so too" if len(same) == len(bad) else "failed too, of something else"
        scope.append(f"{_bare(without)} it {how} at {budgets(bad)}")
    if clean:
        said, doubt = _contrast(clean, seen, name, without)
        scope.append(said)
        hypotheses += doubt
    if open_ and not bad:
        hypotheses.append(f"That it depends on {name} at {budgets(open_)}: no launch {_bare(without)} decided there.")
    select = [_selectable(run, cell, axis, off) for cell in open_]
    if clean and hypotheses:
        select += [_selectable(run, other) for _, other in clean]
    return _Side(scope=tuple(scope), hypotheses=tuple(hypotheses), select=tuple(s for s in select if s is not None))


def _contrast(
    clean: Sequence[tuple[LoadedCell, LoadedCell]], seen: Mapping[str, int], name: str, without: str
) -> tuple[str, list[str]]:
    k = sum(seen[cell.id] for cell, _ in clean)
    n = sum(max(cell.summary.n, seen[cell.id]) for cell, _ in clean)
    m = sum(other.summary.n for _, other in clean)
    where = budgets(other for _, other in clean)
    p = fisher_p((k, n), (0, m))
    told = f"at {where}, {k} of {n} failed with {name} and 0 of {m} {_bare(without)} (Fisher p = {p:.2g})"
    if p < ALPHA:
        return f"it depends on {name}: {told}", []
    return told, [f"That it depends on {name}: {told}; so few launches may differ by chance."]


def _edge(run: LoadedRun, region: Region) -> _Side:
    """Whether it is the budget that decides, where every budget above a clean one failed."""
    if region.above is None:
        return _Side()
    bad = (*region.failed, *region.otherwise)
    k, n, m = sum(t.k for t in bad), sum(t.n for t in bad), sum(t.n for t in region.clean)
    p = fisher_p((k, n), (0, m))
    hypotheses: list[str] = []
    select: list[str | None] = []
    if p >= ALPHA:
        hypotheses.append(
            f"That it depends on the budget: with {region.setting.words}, {k} of {n} failed above {region.above} "
            f"and 0 of {m} up to it (Fisher p = {p:.2g}); so few launches may differ by chance."
        )
        select = [_selectable(run, tally.cell) for tally in region.clean]
    ours, theirs = ({t.cell.coordinates.topk for t in side} for side in (bad, region.clean))
    if not ours & theirs and region.setting.shape == "tree":
        hypotheses.append(
            f"That it is the budget and not top-k: what failed had top-k {_topks(ours)}, what did not {_topks(theirs)}."
        )
    ran = listed(str(budget) for budget in sorted({t.budget for t in bad}))
    hypotheses.append(
        f"That every budget above {region.above} fails: only {ran} {'were' if len(bad) > 1 else 'was'} run."
    )
    return _Side(hypotheses=tuple(hypotheses), select=tuple(s for s in select if s is not None))


def _stock(run: LoadedRun, failing: Sequence[LoadedCell]) -> _Side:
    """The arms of the same verify width that need no tree of drafts, where the plan has them."""
    scope: list[str] = []
    hypotheses: list[str] = []
    select: list[str] = []
    for cell in failing:
        here = spelled(cell.id)
        other = _stock_arm(run, cell)
        if here is None or other is None:
            continue
        if other.summary.k:
            scope.append(
                f"the stock arm of the same width failed too: {other.id} ({other.summary.k} of {other.summary.n})"
            )
        elif other.summary.n:
            scope.append(f"the stock arm of the same width did not: {other.id} (0 of {other.summary.n})")
        else:
            hypotheses.append(
                f"That it is this tree and not its width: the stock arm {other.id} of the same width did not decide."
            )
            select.append(other.id)
    return _Side(scope=tuple(scope), hypotheses=tuple(hypotheses), select=tuple(select))


def _stock_arm(run: LoadedRun, cell: LoadedCell) -> LoadedCell | None:
    here = spelled(cell.id)
    if here is None or here.arm[0] != "b":
        return None
    for other in run.cells:
        there = spelled(other.id)
        if there is None or there.arm != f"n{here.budget}":
            continue
        if (there.graph, there.nvls) == (here.graph, here.nvls):
            return other
    return None


def _axis_words(axis: Axis, cause: str, off: str) -> tuple[str, str]:
    return (graph_words(cause), graph_words(off)) if axis == "graph" else ("NVLS", nvls_words(off))


def _bare(without: str) -> str:
    return without if without.startswith("without") else f"with {without}"


def _topks(values: set[int | None]) -> str:
    return listed("not stated" if value is None else str(value) for value in sorted(values, key=lambda v: v or 0))


def _moved(cell: LoadedCell, axis: Axis, value: str) -> str | None:
    here = spelled(cell.id)
    return here.with_axis(axis, value) if here is not None else None


def _selectable(run: LoadedRun, cell: LoadedCell, axis: Axis | None = None, value: str = "") -> str | None:
    """What to give to `--select` for a cell, or for the one at another place of an axis; None if the plan has none."""
    name = selection(cell, axis, value)
    able = {other.id for other in run.cells} | {skip.cell for skip in run.skips if skip.state != "unsupported"}
    return name if name in able or (name is not None and "*" in name) else None


def _command(run: LoadedRun, select: Sequence[str], failing: Sequence[LoadedCell], seen: Mapping[str, int]) -> str:
    """The run that would tell: the failing cells beside those that did not decide, with as many launches as it takes
    for a failure as frequent as this one to show in one and not in the other."""
    k = sum(seen[cell.id] for cell in failing)
    n = sum(max(cell.summary.n, seen[cell.id]) for cell in failing)
    return f"python -m matrix run --spec {run.run.target} {selected(select)} --launches {_launches(k, n)}"


def _launches(k: int, n: int) -> int:
    """The fewest launches a side that tell k of n from none at 5 %."""
    able = (m for m in range(2, _MOST_LAUNCHES) if fisher_p((max(1, m * k // n), m), (0, m)) < ALPHA)
    return next(able, _MOST_LAUNCHES)
