"""Static pictures, as SVG with a text alternative. Colours and sizes come from the page's style sheet, by class."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from report.load import LoadedRun
from report.numbers import cell_numbers
from report.words import figure, interval_label

_WIDTH, _HEIGHT = 460, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 14, 34


@dataclass(frozen=True, kw_only=True, slots=True)
class _Point:
    budget: int
    value: float
    graph: str
    cell: str


def interval_bar(k: int, n: int, interval: tuple[float, float] | None) -> Markup:
    """Where k of n lies between 0 and 1, with its interval; nothing when n is 0."""
    if interval is None or not n:
        return Markup("")
    low, high = (round(100 * bound, 1) for bound in interval)
    return Markup(
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{label}">'
        '<rect class="track" x="0" y="4" width="100" height="2"/>'
        '<rect class="span" x="{low}" y="2" width="{width}" height="6"/>'
        '<rect class="dot" x="{dot}" y="0" width="2" height="10"/></svg>'
    ).format(
        label=f"{k} of {n}, 95 % interval {interval_label(interval)}",
        low=low,
        width=round(high - low, 1),
        dot=round(98 * k / n, 1),
    )


def acceptance_by_budget(run: LoadedRun) -> Markup:
    """Acceptance of the tree cells over their budget, a mark for each graph mode; nothing for fewer than two points."""
    points = _points(run)
    if len({point.budget for point in points}) < 2:
        return Markup("")
    top = max(2.0, max(point.value for point in points) * 1.1)
    budgets = sorted({point.budget for point in points})
    told = "; ".join(f"{point.cell}: {figure(round(point.value, 2))}" for point in points)
    parts = [_axis(budgets, top)]
    for point in points:
        x, y = _x(point.budget, budgets), _y(point.value, top)
        shape = {
            "graph": f'<circle class="mark graph" cx="{x}" cy="{y}" r="3"/>',
            "eager": f'<rect class="mark eager" x="{x - 5:.1f}" y="{y - 5:.1f}" width="10" height="10"/>',
        }.get(point.graph, f'<path class="mark other" d="M{x} {y - 5:.1f} l5 9 h-10 z"/>')
        parts.append(f"<g>{Markup('<title>{}: {}</title>').format(point.cell, figure(point.value))}{shape}</g>")
    label = Markup("{}").format(f"Acceptance (tokens a step) over budget. {told}")
    return Markup(  # noqa: S704 - numbers and escaped text
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    )


def _points(run: LoadedRun) -> list[_Point]:
    found = []
    for cell in run.cells:
        where = cell.coordinates
        number = next((n for n in cell_numbers(cell) if n.name == "acceptance" and n.middle is not None), None)
        if where.shape == "tree" and not where.variant and number is not None and number.middle is not None:
            found.append(_Point(budget=where.budget, value=number.middle, graph=where.graph, cell=cell.id))
    return sorted(found, key=lambda point: (point.budget, point.graph, point.cell))


def _axis(budgets: Sequence[int], top: float) -> str:
    step = 1 if top <= 8 else 2
    lines = [
        f'<line class="rule" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{_y(value, top)}" y2="{_y(value, top)}"/>'
        f'<text class="tick" x="{_LEFT - 8}" y="{_y(value, top) + 4:.1f}" text-anchor="end">{value}</text>'
        for value in range(1, int(top) + 1, step)
    ]
    ticks = [
        f'<text class="tick middle" x="{_x(budget, budgets)}" y="{_HEIGHT - _BOTTOM + 16}">{budget}</text>'
        for budget in budgets
    ]
    name = (
        f'<text class="tick" x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 3}" text-anchor="middle">budget</text>'
    )
    return "".join((*lines, *ticks, name))


def _x(budget: int, budgets: Sequence[int]) -> float:
    low, high = budgets[0], budgets[-1]
    inner = _WIDTH - _LEFT - _RIGHT - 40
    return round(_LEFT + 20 + inner * (budget - low) / (high - low), 1)


def _y(value: float, top: float) -> float:
    return round(_TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - value / top), 1)
