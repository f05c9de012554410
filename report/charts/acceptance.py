"""Acceptance against budget: our cells with their intervals over launches, and what the baselines state; and how many
drafted tokens single verify steps accepted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

from markupsafe import Markup

from report.charts import series
from report.charts.concurrency import standing
from report.charts.ink import ink
from report.charts.picture import Canvas, drawable, listed, picture
from report.load import LoadedRun
from report.numbers import cell_numbers
from report.words import figure
from repro.intervals import mean_interval
from repro.model import Baseline, Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _LEFT, _TOP, _HIGH, _BOTTOM = 640, 40, 26, 200, 44
_FLOOR = 1.0
"""Nothing that was drafted is accepted: each step brings the one token that the model itself gives."""
_KINDS = [f"{shape}, {graph}" for shape in ("tree", "chain") for graph in ("graph", "verify-eager", "eager")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """Acceptance of a cell or baseline in tokens a step. ``low`` and ``high``: 95 % interval of the mean over ``n``
    launches, or the range that a baseline states, which may have no ``value`` then. ``series``: `tree, graph` and the
    like, or the baseline."""

    name: str
    series: str
    budget: int
    value: float | None
    low: float | None
    high: float | None
    n: int
    stated: bool


def points(run: LoadedRun, baselines: Mapping[str, Baseline], comparisons: Sequence[Comparison]) -> tuple[Point, ...]:
    """The speculating cells whose numbers may be compared, without controls, by kind and budget; then the baselines."""
    ours = []
    for cell in run.cells:
        where = cell.coordinates
        number = next((n for n in cell_numbers(cell) if n.name == "acceptance" and n.values), None)
        if where.shape != "none" and not where.variant and number is not None:
            mean, low, high = mean_interval(number.values)
            kind, n = f"{where.shape}, {where.graph}", len(number.values)
            ours.append(
                Point(name=cell.id, series=kind, budget=where.budget, value=mean, low=low, high=high, n=n, stated=False)
            )
    ordered = sorted(ours, key=lambda point: (_KINDS.index(point.series), point.budget, point.name))
    return (*ordered, *_stated(run, baselines, comparisons))


def _stated(run: LoadedRun, baselines: Mapping[str, Baseline], comparisons: Sequence[Comparison]) -> tuple[Point, ...]:
    return tuple(
        Point(
            name=name,
            series=f"{name} (baseline: {standing(name, comparisons)})",
            budget=baseline.budget,
            value=number.value,
            low=number.low,
            high=number.high,
            n=max(1, len(number.values)),
            stated=True,
        )
        for name, baseline in sorted(baselines.items())
        if baseline.target == run.run.target and baseline.budget
        for number in baseline.measurements
        if number.name == "acceptance" and (number.value is not None or None not in (number.low, number.high))
    )


def acceptance(found: Sequence[Point], key: str) -> Markup:
    """The picture; nothing for fewer than two budgets of ours."""
    found = [point for point in found if drawable(point.high if point.high is not None else point.value)]
    if len({point.budget for point in found if not point.stated}) < 2:
        return Markup("")
    names = list(dict.fromkeys(point.series for point in found))[: series.MOST]
    drawn = [point for point in found if point.series in names]
    return picture(
        _WIDTH,
        _TOP + _HIGH + _BOTTOM + series.ROW * len(names),
        lambda canvas: _paint(canvas, drawn, names),
        key=key,
        title="Acceptance over budget, in tokens a verify step",
        told=listed([f"{point.name}: {_value(point)}" for point in drawn]),
    )


def _value(point: Point) -> str:
    if point.value is not None:
        return figure(round(point.value, 2))
    return f"{figure(point.low)} to {figure(point.high)}"


def _paint(canvas: Canvas, drawn: Sequence[Point], names: Sequence[str]) -> None:
    budgets = sorted({point.budget for point in drawn})
    axes = canvas.axes(_LEFT, _TOP, _WIDTH - _LEFT - 16, _HIGH)
    series.rules(axes)
    axes.set_xlim(-0.5, len(budgets) - 0.5)
    axes.set_xticks(range(len(budgets)), [str(budget) for budget in budgets])
    axes.set_xlabel("budget (drafted tokens a step)")
    highest = max(max(point.value or 0.0, point.high or 0.0) for point in drawn)
    axes.set_ylim(0, 1.08 * max(highest, 2.0))
    axes.yaxis.set_major_formatter(lambda value, _: figure(round(value, 6)))
    axes.locator_params(axis="y", nbins=6)
    axes.axhline(_FLOOR, color=ink("soft"), linewidth=1, linestyle=(0, (3, 3)))
    places = _places(drawn, budgets)
    for index, name in enumerate(names):
        own = [(point, place) for point, place in zip(drawn, places, strict=True) if point.series == name]
        _one_series(axes, index, own)
    sheet = canvas.sheet()
    sheet.text(6, 13, "tokens a verify step; dashed line: floor, no draft is accepted")
    named = [_named(name, [point for point in drawn if point.series == name]) for name in names]
    series.name_all(canvas, _LEFT, _TOP + _HIGH + _BOTTOM - 4, named, joined=False)


def _named(name: str, own: Sequence[Point]) -> series.Named:
    ranged = all(point.value is None for point in own)
    told = f"{name}, which states a range" if ranged else name
    return series.Named(name=told, stated=own[0].stated, ranged=ranged)


def _one_series(axes: "Axes", index: int, own: Sequence[tuple[Point, float]]) -> None:
    """Ranges without a value have no mark."""
    series.draw(
        axes,
        index,
        [place for _, place in own],
        [nan if point.value is None else point.value for point, _ in own],
        [None if point.low is None or point.high is None else (point.low, point.high) for point, _ in own],
        stated=own[0][0].stated,
        joined=False,
    )


def _places(drawn: Sequence[Point], budgets: Sequence[int]) -> list[float]:
    """Where each point stands: budgets at equal distances, and the points of a budget side by side."""
    places = []
    for point in drawn:
        beside = [other for other in drawn if other.budget == point.budget]
        step = min(0.12, 0.8 / len(beside))
        places.append(budgets.index(point.budget) + step * (beside.index(point) - (len(beside) - 1) / 2))
    return places
