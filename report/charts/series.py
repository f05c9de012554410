"""How series are told apart: by colour, by mark and by dashes, and by name in a list under the axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from report.charts.boxes import uprights
from report.charts.ink import ink
from report.charts.picture import Canvas, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW = 17
MOST = 8
"""More series than this cannot be told apart: the others are in the table only."""
_MOST_ENDS = 24
"""More intervals of a series than this have no strokes at their ends, which would hide each other."""
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "<")
_DASHES: Sequence[tuple[float, tuple[float, ...]]] = (
    (0, (6, 3)),
    (0, (2, 2)),
    (0, (8, 3, 2, 3)),
    (0, (4, 2, 1, 2, 1, 2)),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """A series in the list of names. ``ranged``: it has a range and no value."""

    name: str
    stated: bool
    ranged: bool = False


def draw(
    axes: "Axes",
    index: int,
    x: Sequence[float],
    y: Sequence[float],
    intervals: Sequence[tuple[float, float] | None],
    *,
    stated: bool,
    joined: bool = True,
    mark: str | None = None,
) -> None:
    """One series: marks, a line between them if ``joined``, and a bar for each interval. What a baseline ``stated``
    has hollow marks and a dashed line. ``mark``: another than that of its place."""
    colour = ink(f"c{index % 8}")
    dashes = _DASHES[index % len(_DASHES)] if stated else "solid"
    bars = [(at, *bounds) for at, bounds in zip(x, intervals, strict=True) if bounds is not None]
    if bars:
        at, low, high = zip(*bars, strict=True)
        uprights(axes, at, low, high, color=colour, linewidth=1.6, clip_on=False)
    if bars and len(bars) <= _MOST_ENDS:
        ends = {"linestyle": "none", "marker": "_", "markersize": 6, "color": colour, "clip_on": False}
        axes.plot([*at, *at], [*low, *high], **ends)  # type: ignore[arg-type]
    axes.plot(
        x,
        y,
        linestyle=dashes if joined else "none",
        linewidth=1.2 if stated else 1.8,
        color=colour,
        marker=mark or _MARKS[index % len(_MARKS)],
        markersize=7,
        markerfacecolor=ink("paper") if stated else colour,
        markeredgecolor=colour,
        markeredgewidth=1.5,
        clip_on=False,
    )


def name_all(canvas: Canvas, left: float, top: float, named: Sequence[Named], *, joined: bool) -> None:
    """The list of names, a row each."""
    sheet = canvas.sheet()
    for index, one in enumerate(named):
        y = top + ROW * (index + 0.5)
        x = [left, left + 15, left + 30]
        if joined:
            draw(sheet, index, [x[0], x[2]], [y, y], [None, None], stated=one.stated, mark="None")
        draw(sheet, index, x[1:2], [y], [None], stated=one.stated, joined=False, mark="|" if one.ranged else None)
        sheet.text(left + 40, y + 4, shortened(one.name, canvas.width - left - 50))


def rules(axes: "Axes") -> None:
    """Thin horizontal lines at the ticks, and nothing at the left edge."""
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
