"""The best stable configuration at each concurrency, what it gains, and where a tree stops gaining. Pure.

Stable is a cell that passed and of which no launch failed; numbers are means over its launches, which are the
independent units. A run with planted faults has no best configuration.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from report.changes import ALPHA
from report.load import LoadedCell, LoadedRun
from report.numbers import CellNumber, cell_numbers
from report.samples import difference_p, effect
from repro.intervals import mean_interval, upper_bound
from repro.model import BestConfiguration, Crossover, SpeedLevel, SpeedUp

Over = Literal["ar", "chain"]
_OVER: tuple[Over, ...] = ("ar", "chain")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stable:
    """A stable cell with the values of its numbers, one for each launch, by name and concurrency (None: any)."""

    cell: LoadedCell
    numbers: Mapping[tuple[str, int | None], CellNumber]

    def values(self, name: str, concurrency: int | None = None) -> tuple[float, ...]:
        number = self.numbers.get((name, concurrency))
        return number.values if number is not None else ()

    def levels(self) -> tuple[int, ...]:
        """The concurrencies at which it has a rate."""
        found = {at for (name, at), number in self.numbers.items() if name == "output_rate" and number.values}
        return tuple(sorted(at for at in found if at is not None))


def best_configurations(run: LoadedRun) -> tuple[BestConfiguration, ...]:
    """The fastest stable cell at each concurrency, by concurrency; none for a run without a stable cell."""
    stable = _stable(run)
    levels = sorted({level for one in stable for level in one.levels()})
    return tuple(_best(run.run.target, level, stable) for level in levels)


def crossovers(run: LoadedRun) -> tuple[Crossover, ...]:
    """For each stable tree, where it stops being faster than no speculation and than the flat chain of its budget."""
    stable = _stable(run)
    return tuple(
        found
        for one in stable
        if one.cell.coordinates.shape == "tree"
        for over in _OVER
        if (other := _other(one, over, stable)) is not None
        and (found := _crossover(run.run.target, one, over, other)) is not None
    )


def _stable(run: LoadedRun) -> list[_Stable]:
    if run.planted:
        return []
    return [
        _Stable(cell=cell, numbers={(n.name, dict(n.at).get("concurrency")): n for n in cell_numbers(cell)})
        for cell in run.cells
        if cell.summary.verdict == "pass" and cell.summary.k == 0 and not cell.coordinates.variant
    ]


def _best(target: str, level: int, stable: Sequence[_Stable]) -> BestConfiguration:
    able = [(one, one.values("output_rate", level)) for one in stable if level in one.levels()]
    # Equal rates: the cell that comes first by name, whatever the order of the plan.
    first, rates = min(able, key=lambda item: (-mean_interval(item[1])[0], item[0].cell.id))
    rate, low, high = mean_interval(rates)
    summary = first.cell.summary
    return BestConfiguration(
        target=target,
        concurrency=level,
        cell=first.cell.id,
        rate=round(rate, 2),
        low=None if low is None else round(low, 2),
        high=None if high is None else round(high, 2),
        unit=first.numbers["output_rate", level].unit,
        n=len(rates),
        failure_bound=round(upper_bound(summary.k, summary.n), 4),
        not_shown_slower=tuple(
            sorted(one.cell.id for one, other in able if one is not first and not _slower(other, rates))
        ),
        speedups=tuple(_speedup(first, over, _other(first, over, stable), level) for over in _OVER),
    )


def _slower(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whether these launches are shown to be slower than those."""
    if min(len(ours), len(theirs)) < 2:
        return False
    return sum(ours) / len(ours) < sum(theirs) / len(theirs) and difference_p(ours, theirs) < ALPHA


def _other(one: _Stable, over: Over, stable: Sequence[_Stable]) -> _Stable | None:
    """The stable arm that a cell is set against: the same graph and NVLS mode if there is one, else the fastest.

    The flat chain of a budget is the longest one that has no more draft tokens.
    """
    at = one.cell.coordinates
    if over == "ar":
        found = [other for other in stable if other.cell.coordinates.shape == "none"]
    else:
        chains = [other for other in stable if other.cell.coordinates.shape == "chain" and other is not one]
        longest = max((o.cell.coordinates.budget for o in chains if o.cell.coordinates.budget <= at.budget), default=0)
        found = [other for other in chains if other.cell.coordinates.budget == longest]
    same = [
        other for other in found if (other.cell.coordinates.graph, other.cell.coordinates.nvls) == (at.graph, at.nvls)
    ]
    return max(same or found, key=_fastest, default=None)


def _fastest(one: _Stable) -> tuple[float, str]:
    levels = one.levels()
    rate = mean_interval(one.values("output_rate", levels[0]))[0] if levels else 0.0
    return rate, one.cell.id


def _speedup(one: _Stable, over: Over, other: _Stable | None, level: int) -> SpeedUp:
    if other is None or other is one:
        reason = f"no stable cell of {'no speculation' if over == 'ar' else 'a flat chain of at most this budget'}"
        return _no_speedup(
            over, None, "it is this arm itself" if one.cell.coordinates.shape in _SHAPES[over] else reason
        )
    found = effect(one.values("output_rate", level), other.values("output_rate", level))
    if found is None:
        return _no_speedup(over, other.cell.id, "not measured at this concurrency")
    steps = _steps(one, other)
    measured = effect(one.values("step_time", level), other.values("step_time", level))
    derived = steps / found.ratio if steps is not None else None
    step_time = measured.ratio if measured is not None else derived
    return SpeedUp(
        over=over,
        cell=other.cell.id,
        ratio=round(found.ratio, 4),
        low=None if found.low is None else round(found.low, 4),
        high=None if found.high is None else round(found.high, 4),
        steps=None if steps is None else round(steps, 4),
        step_time=None if step_time is None else round(step_time, 4),
        step_time_basis=None if step_time is None else "derived" if measured is None else "measured",
        reason=None,
    )


_SHAPES: Mapping[Over, tuple[str, ...]] = {"ar": ("none",), "chain": ("chain",)}


def _no_speedup(over: Over, cell: str | None, reason: str) -> SpeedUp:
    return SpeedUp(
        over=over,
        cell=cell,
        ratio=None,
        low=None,
        high=None,
        steps=None,
        step_time=None,
        step_time_basis=None,
        reason=reason,
    )


def _steps(one: _Stable, other: _Stable) -> float | None:
    """Ratio of tokens a step; without speculation a step is one token."""
    sides = [(1.0,) if o.cell.coordinates.shape == "none" else o.values("acceptance") for o in (one, other)]
    found = effect(*sides)
    return None if found is None else found.ratio


def _crossover(target: str, one: _Stable, over: Over, other: _Stable) -> Crossover | None:
    levels = tuple(
        _level(level, one.values("output_rate", level), other.values("output_rate", level))
        for level in one.levels()
        if level in other.levels()
    )
    if not levels:
        return None
    state, last, first = bracket(levels)
    return Crossover(
        target=target,
        cell=one.cell.id,
        over=over,
        other=other.cell.id,
        state=state,
        last_faster=last,
        first_slower=first,
        levels=levels,
    )


State = Literal["crosses", "stops_between", "always_faster", "never_faster", "mixed"]


def bracket(levels: Sequence[SpeedLevel]) -> tuple[State, int | None, int | None]:
    """Where an arm stops being faster, between two measured levels; ``levels`` ascend in concurrency.

    Nothing is interpolated: the point lies somewhere between the two. An arm that is faster again later is `mixed`.
    """
    signs = [level.ratio > 1 for level in levels]
    if all(signs):
        return "always_faster", levels[-1].concurrency, None
    if not any(signs):
        return "never_faster", None, levels[0].concurrency
    turn = signs.index(False)
    if turn == 0 or any(signs[turn:]):
        return "mixed", None, None
    # An undecided level may lie on either side, so that the bracket is made wider until both of its ends are decided.
    sure_last = max((level.concurrency for level in levels[:turn] if level.state == "faster"), default=None)
    sure_first = min((level.concurrency for level in levels[turn:] if level.state == "slower"), default=None)
    if sure_last is not None and sure_first is not None:
        return "crosses", sure_last, sure_first
    return "stops_between", levels[turn - 1].concurrency, levels[turn].concurrency


def _level(concurrency: int, ours: Sequence[float], theirs: Sequence[float]) -> SpeedLevel:
    found = effect(ours, theirs)
    ratio = 1.0 if found is None else found.ratio
    low, high = (None, None) if found is None else (found.low, found.high)
    state: Literal["faster", "slower", "undecided"] = "undecided"
    if low is not None and high is not None:
        state = "faster" if low > 1 else "slower" if high < 1 else "undecided"
    return SpeedLevel(
        concurrency=concurrency,
        ratio=round(ratio, 4),
        low=None if low is None else round(low, 4),
        high=None if high is None else round(high, 4),
        state=state,
    )
