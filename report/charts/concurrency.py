"""Output rate against concurrency: our cells with their intervals over launches, and the baselines beside them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from markupsafe import Markup

from report.charts import svg
from report.load import LoadedRun
from report.numbers import cell_numbers
from report.words import figure
from repro.intervals import mean_interval
from repro.model import Baseline

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM, _LEGEND = 640, 300, 56, 14, 40, 250
_DASHES = ("none", "6 3", "2 3", "9 3 2 3")
_SHAPES = ("circle", "square", "triangle", "diamond")
_MOST = 8
"""More lines than this cannot be told apart: the others are in the table only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """Output rate in tok/s at one concurrency. ``low`` and ``high``: 95 % interval of the mean over ``n`` launches,
    None where there is none. ``stated``: from a baseline."""

    name: str
    concurrency: int
    value: float
    low: float | None
    high: float | None
    n: int
    stated: bool


def rates(run: LoadedRun, baselines: Mapping[str, Baseline]) -> tuple[Rate, ...]:
    """Rates of the cells that may be compared, then those of the run's target among the baselines."""
    ours = [
        _rate(cell.id, dict(number.at)["concurrency"], number.values, stated=False)
        for cell in run.cells
        for number in cell_numbers(cell)
        if number.name == "output_rate" and number.values and [name for name, _ in number.at] == ["concurrency"]
    ]
    theirs = [
        _rate(name, number.at["concurrency"], number.values or (number.value,), stated=True)
        for name, baseline in sorted(baselines.items())
        if baseline.target == run.run.target
        for number in baseline.measurements
        if number.name == "output_rate" and number.value is not None and list(number.at) == ["concurrency"]
    ]
    return (*ours, *theirs)


def throughput(found: Sequence[Rate]) -> Markup:
    """The picture; nothing for fewer than two concurrencies."""
    names = _drawn(found)
    drawn = [rate for rate in found if rate.name in names]
    steps = sorted({rate.concurrency for rate in drawn})
    if len(steps) < 2:
        return Markup("")
    told = "; ".join(f"{rate.name} at {rate.concurrency}: {figure(rate.value)} tok/s" for rate in drawn)
    root = svg.picture(_WIDTH, _HEIGHT, f"Output rate over concurrency. {told}")
    top = 1.1 * max(max(rate.high or 0, rate.value) for rate in drawn)
    _axes(root, steps, top)
    for index, name in enumerate(names):
        _series(root, index, [rate for rate in drawn if rate.name == name], steps, top)
    return svg.markup(root)


def _drawn(found: Sequence[Rate]) -> list[str]:
    """The names that are drawn: those with most concurrencies first, and baselines for a third of them if there are."""
    counts = Counter(rate.name for rate in found)
    ranked = sorted(counts, key=lambda name: -counts[name])
    stated = [name for name in ranked if any(rate.stated and rate.name == name for rate in found)]
    ours = [name for name in ranked if name not in stated]
    return [*ours[: max(_MOST - 3, _MOST - len(stated))], *stated][:_MOST]


def _rate(name: str, concurrency: int, values: Sequence[float], *, stated: bool) -> Rate:
    mean, low, high = mean_interval(values)
    return Rate(name=name, concurrency=concurrency, value=mean, low=low, high=high, n=len(values), stated=stated)


def _x(concurrency: int, steps: Sequence[int]) -> float:
    """Steps are drawn at equal distances: they are powers of two as a rule."""
    return _LEFT + 20 + (_WIDTH - _LEFT - _LEGEND - 40) * steps.index(concurrency) / (len(steps) - 1)


def _y(value: float, top: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - value / top)


def _axes(root: ET.Element, steps: Sequence[int], top: float) -> None:
    for part in range(5):
        value = top / 1.1 * part / 4
        y = _y(value, top)
        svg.add(root, "line", class_="rule", x1=_LEFT, x2=_WIDTH - _LEGEND, y1=y, y2=y)
        svg.add(root, "text", figure(round(value)), class_="tick", x=_LEFT - 6, y=y + 4, text_anchor="end")
    for step in steps:
        svg.add(root, "text", str(step), class_="tick middle", x=_x(step, steps), y=_HEIGHT - _BOTTOM + 16)
    middle = (_LEFT + _WIDTH - _LEGEND) / 2
    svg.add(root, "text", "concurrency (tok/s upwards)", class_="tick middle", x=middle, y=_HEIGHT - 6)


def _series(root: ET.Element, index: int, series: Sequence[Rate], steps: Sequence[int], top: float) -> None:
    kind = "stated" if series[0].stated else "ours"
    dash = _DASHES[index % len(_DASHES)]
    ordered = sorted(series, key=lambda rate: rate.concurrency)
    points = " ".join(f"{_x(r.concurrency, steps):.1f},{_y(r.value, top):.1f}" for r in ordered)
    group = svg.add(root, "g", class_=f"series s{index} {kind}")
    svg.add(group, "polyline", class_="path", points=points, stroke_dasharray=dash)
    for rate in ordered:
        x = _x(rate.concurrency, steps)
        if rate.low is not None and rate.high is not None:
            svg.add(group, "line", class_="path", x1=x, x2=x, y1=_y(max(rate.low, 0), top), y2=_y(rate.high, top))
        _mark(group, index, x, _y(rate.value, top))
    y = _TOP + 10 + 17 * index
    x = _WIDTH - _LEGEND + 12
    svg.add(group, "line", class_="path", x1=x, x2=x + 28, y1=y, y2=y, stroke_dasharray=dash)
    _mark(group, index, x + 14, y)
    name = f"{series[0].name} (baseline)" if series[0].stated else series[0].name
    svg.add(group, "text", name if len(name) <= 34 else name[:33] + "…", class_="tick", x=x + 34, y=y + 4)


def _mark(group: ET.Element, index: int, x: float, y: float) -> None:
    shape = _SHAPES[(index + index // 4) % len(_SHAPES)]
    if shape == "circle":
        svg.add(group, "circle", class_="spot", cx=x, cy=y, r=4)
    elif shape == "square":
        svg.add(group, "rect", class_="spot", x=x - 4, y=y - 4, width=8, height=8)
    elif shape == "triangle":
        svg.add(group, "path", class_="spot", d=f"M{x:.1f} {y - 5:.1f} l5 9 h-10 z")
    else:
        svg.add(group, "path", class_="spot", d=f"M{x:.1f} {y - 5:.1f} l5 5 l-5 5 l-5 -5 z")
