"""Many rectangles or strokes of one look, as a single path: a matrix has hundreds of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

from report.charts.ink import ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """Names of inks; `none` for no filling or no frame. ``opacity`` is that of the filling."""

    fill: str = "none"
    edge: str = "none"
    width: float = 1.0
    dashed: bool = False
    opacity: float | None = None


def boxes(axes: "Axes", corners: Sequence[tuple[float, float]], width: float, height: float, look: Look) -> None:
    """Rectangles of that size whose upper left corners are given; nothing for none."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    if not corners:
        return
    shape = ((0.0, 0.0), (width, 0.0), (width, height), (0.0, height), (0.0, 0.0))
    codes = (Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY)
    path = Path([(x + dx, y + dy) for x, y in corners for dx, dy in shape], codes * len(corners))
    axes.add_patch(
        PathPatch(
            path,
            facecolor=look.fill if look.fill == "none" else ink(look.fill),
            edgecolor=look.edge if look.edge == "none" else ink(look.edge),
            linewidth=look.width,
            linestyle=(0, (3, 3)) if look.dashed else "solid",
            alpha=look.opacity,
        )
    )


def strokes(axes: "Axes", begin: Sequence[float], end: Sequence[float], level: Sequence[float], **look: object) -> None:
    """Horizontal strokes, each from its begin to its end at its level."""
    x = [part for a, b in zip(begin, end, strict=True) for part in (a, b, nan)]
    y = [part for at in level for part in (at, at, nan)]
    axes.plot(x, y, solid_capstyle="butt", **look)  # type: ignore[arg-type]


def uprights(axes: "Axes", at: Sequence[float], low: Sequence[float], high: Sequence[float], **look: object) -> None:
    """Vertical strokes, each at its place from low to high."""
    x = [part for place in at for part in (place, place, nan)]
    y = [part for a, b in zip(low, high, strict=True) for part in (a, b, nan)]
    axes.plot(x, y, solid_capstyle="butt", **look)  # type: ignore[arg-type]
