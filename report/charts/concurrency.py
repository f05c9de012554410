"""Output rate against concurrency: our cells with their intervals over launches, and the baselines beside them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from markupsafe import Markup

from report.charts import series
from report.charts.picture import Canvas, drawable, listed, picture
from report.load import LoadedRun
from report.numbers import cell_numbers
from report.words import figure, spoken
from repro.intervals import mean_interval
from repro.model import Baseline, Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _LEFT, _TOP, _HIGH, _BOTTOM = 640, 52, 26, 230, 44
_FAR_APART = 6
"""From this ratio of the largest rate to the smallest on, the axis is logarithmic: small rates would lie on it."""
_BEST_FIRST = ("comparable", "unverified", "not_comparable")
NOTHING_BESIDE = "no cell here has its coordinates"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """Output rate in tok/s at one concurrency. ``low`` and ``high``: 95 % interval of the mean over ``n`` launches,
    None where there is none. ``standing``: of a baseline, in words, the best that it has beside any cell; None for a
    cell of ours. ``plain``: a cell of ours without speculation."""

    name: str
    concurrency: int
    value: float
    low: float | None
    high: float | None
    n: int
    standing: str | None
    plain: bool = False

    @property
    def label(self) -> str:
        return self.name if self.standing is None else f"{self.name} (baseline: {self.standing})"


def rates(run: LoadedRun, baselines: Mapping[str, Baseline], comparisons: Sequence[Comparison]) -> tuple[Rate, ...]:
    """Rates of the cells that may be compared, then those of the run's target among the baselines."""
    ours = [
        replace(
            _rate(cell.id, dict(number.at)["concurrency"], number.values, None), plain=cell.coordinates.shape == "none"
        )
        for cell in run.cells
        for number in cell_numbers(cell)
        if number.name == "output_rate" and number.values and [name for name, _ in number.at] == ["concurrency"]
    ]
    theirs = [
        _rate(name, number.at["concurrency"], number.values or (number.value,), standing(name, comparisons))
        for name, baseline in sorted(baselines.items())
        if baseline.target == run.run.target
        for number in baseline.measurements
        if number.name == "output_rate" and number.value is not None and list(number.at) == ["concurrency"]
    ]
    return (*ours, *theirs)


def standing(baseline: str, comparisons: Sequence[Comparison]) -> str:
    """How a baseline stands beside the cells of a run, in words."""
    found = {item.comparable for item in comparisons if item.baseline == baseline and item.cell is not None}
    return next((spoken(word) for word in _BEST_FIRST if word in found), NOTHING_BESIDE)


def throughput(found: Sequence[Rate], key: str) -> Markup:
    """The picture; nothing for fewer than two concurrencies."""
    found = [rate for rate in found if drawable(rate.high if rate.high is not None else rate.value)]
    names = _drawn(found)
    drawn = [[rate for rate in found if rate.name == name] for name in names]
    steps = sorted({rate.concurrency for rates in drawn for rate in rates})
    if len(steps) < 2:
        return Markup("")
    return picture(
        _WIDTH,
        _TOP + _HIGH + _BOTTOM + series.ROW * len(names),
        lambda canvas: _paint(canvas, drawn, steps),
        key=key,
        title="Output rate over concurrency",
        told=listed([f"{r.label} at {r.concurrency}: {figure(r.value)} tok/s" for rates in drawn for r in rates]),
    )


def _drawn(found: Sequence[Rate]) -> list[str]:
    """The names that are drawn: of our cells those with most concurrencies and the highest rates, one without
    speculation among them, and baselines on three places if there are."""
    counts = Counter(rate.name for rate in found)
    highest = {name: max(rate.value for rate in found if rate.name == name) for name in counts}
    ranked = sorted(counts, key=lambda name: (-counts[name], -highest[name]))
    theirs = {rate.name for rate in found if rate.standing is not None}
    stated = [name for name in ranked if name in theirs]
    room = max(series.MOST - 3, series.MOST - len(stated))
    ours = [name for name in ranked if name not in theirs]
    plain = next((name for name in ours if any(rate.plain and rate.name == name for rate in found)), None)
    if plain is not None and plain not in ours[:room]:
        ours.insert(room - 1, plain)
    return [*ours[:room], *stated][: series.MOST]


def _rate(name: str, concurrency: int, values: Sequence[float], stands: str | None) -> Rate:
    mean, low, high = mean_interval(values)
    return Rate(name=name, concurrency=concurrency, value=mean, low=low, high=high, n=len(values), standing=stands)


def _paint(canvas: Canvas, drawn: Sequence[Sequence[Rate]], steps: Sequence[int]) -> None:
    axes = canvas.axes(_LEFT, _TOP, _WIDTH - _LEFT - 16, _HIGH)
    series.rules(axes)
    logarithmic = _scale(axes, [rate for rates in drawn for rate in rates])
    axes.set_xlim(-0.3, len(steps) - 0.7)
    axes.set_xticks(range(len(steps)), [str(step) for step in steps])
    axes.set_xlabel("requests in flight (concurrency)")
    for index, rates in enumerate(drawn):
        ordered = sorted(rates, key=lambda rate: rate.concurrency)
        # Side by side, so that intervals at the same concurrency do not hide each other.
        aside = 0.035 * (len(steps) - 0.4) * (index - (len(drawn) - 1) / 2) / 3.5
        series.draw(
            axes,
            index,
            [steps.index(rate.concurrency) + aside for rate in ordered],
            [rate.value for rate in ordered],
            [_bounds(rate, least=axes.get_ylim()[0]) for rate in ordered],
            stated=ordered[0].standing is not None,
        )
    sheet = canvas.sheet()
    sheet.text(6, 13, f"tok/s{', logarithmic' if logarithmic else ''}")
    named = [series.Named(name=rates[0].label, stated=rates[0].standing is not None) for rates in drawn]
    series.name_all(canvas, _LEFT, _TOP + _HIGH + _BOTTOM - 4, named, joined=True)


def _scale(axes: "Axes", drawn: Sequence[Rate]) -> bool:
    """Sets the limits and ticks of the rates; whether they are logarithmic."""
    highest = max(max(rate.high or 0.0, rate.value) for rate in drawn)
    lowest = min(rate.value for rate in drawn)
    if lowest <= 0 or highest / lowest < _FAR_APART:
        axes.set_ylim(0, 1.06 * highest or 1.0)
        axes.yaxis.set_major_formatter(lambda value, _: figure(round(value, 6)))
        axes.locator_params(axis="y", nbins=5)
        return False
    axes.set_yscale("log")
    axes.set_ylim(0.8 * lowest, 1.15 * highest)
    axes.minorticks_off()
    decades = range(floor(log10(lowest)) - 1, ceil(log10(highest)) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in (1, 2, 5)]
    shown = [tick for tick in ticks if 0.8 * lowest <= tick <= 1.15 * highest]
    axes.set_yticks(shown, [figure(tick) for tick in shown])
    return True


def _bounds(rate: Rate, least: float) -> tuple[float, float] | None:
    """The interval, down to the lower end of the axis."""
    return None if rate.low is None or rate.high is None else (max(rate.low, least), rate.high)
