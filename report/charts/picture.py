"""A picture: matplotlib draws it, without pyplot and whatever its user's settings are; the page takes it as SVG.

matplotlib is imported with the first picture, since that takes half a second. Units are pixels of the page.
"""

import io
import logging
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from report.charts.ink import ink
from report.charts.svg import for_page
from repro.escape import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FONT_PX = 11
"""Size of most texts. The page's style sheet has the same, so that it is not said again for each of them."""
CHARACTER_PX = 6.6
"""Width that a character of that size needs at most, as a rule: the page's font is not known here."""

_MOST_TOLD = 40
_LARGEST = 1e12

_SETTINGS = {
    "svg.fonttype": "none",  # texts stay texts
    "svg.hashsalt": "graphrepro",
    "text.parse_math": False,  # a dollar sign of a record is a dollar sign
    "text.usetex": False,
    "font.family": "DejaVu Sans",  # comes with matplotlib: texts have the same size on every machine
    "font.monospace": ["DejaVu Sans Mono"],
    "font.size": FONT_PX,
    "axes.labelsize": FONT_PX,
    "xtick.labelsize": FONT_PX,
    "ytick.labelsize": FONT_PX,
    "legend.fontsize": FONT_PX,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.unicode_minus": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.edgecolor": ink("soft"),
    "axes.labelcolor": ink("soft"),
    "xtick.color": ink("soft"),
    "ytick.color": ink("soft"),
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "text.color": ink("ink"),
    "grid.color": ink("line"),
    "grid.linewidth": 1,
    "hatch.color": ink("fail"),
    "hatch.linewidth": 1,
    "patch.edgecolor": ink("ink"),
}


def picture(
    width: int, height: int, paint: Callable[["Canvas"], None], *, key: str, title: str, told: str, style: str = ""
) -> Markup:
    """What ``paint`` draws, as an SVG element with a text alternative: its ``title``, and what is ``told`` about it.

    ``key`` begins its ids, and must be that of no other picture of the page. ``style``: more classes of the element.
    Deterministic: the same drawing gives the same bytes.
    """
    with library().rc_context(_settings()), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the reader's font may have it
        canvas = Canvas(width, height)
        paint(canvas)
        drawn = canvas.svg()
    return for_page(drawn, width=width, height=height, key=key, title=one_line(title), told=one_line(told), style=style)


class Canvas:
    """A figure whose places are given in pixels from its upper left corner."""

    def __init__(self, width: int, height: int) -> None:
        from matplotlib.figure import Figure

        self.width, self.height = width, height
        self.figure: Figure = Figure(figsize=(width / 72, height / 72), dpi=72)

    def axes(self, left: float, top: float, width: float, height: float) -> "Axes":
        """Axes whose frame is that rectangle."""
        return self.figure.add_axes(
            (left / self.width, 1 - (top + height) / self.height, width / self.width, height / self.height)
        )

    def sheet(self) -> "Axes":
        """Axes over everything, in pixels from the upper left corner, without a frame."""
        axes = self.axes(0, 0, self.width, self.height)
        axes.set_axis_off()
        axes.set_xlim(0, self.width)
        axes.set_ylim(self.height, 0)
        return axes

    def svg(self) -> str:
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        file = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        FigureCanvasSVG(self.figure).print_svg(file, metadata=nothing)  # type: ignore[no-untyped-call]
        return file.getvalue()


def drawable(value: float | None) -> bool:
    """Whether a number has a place on an axis: there is one, and scales can be computed for it."""
    return value is not None and abs(value) < _LARGEST


def shortened(text: str, width: float, size: float = FONT_PX) -> str:
    """The text on one line, cut so that it needs about that many pixels at most."""
    return one_line(text, max(4, int(width / (CHARACTER_PX * size / FONT_PX))))


def listed(items: Sequence[str]) -> str:
    """What a text alternative tells of many things: the first ones, and how many more the table has."""
    more = f"; and {len(items) - _MOST_TOLD} more" if len(items) > _MOST_TOLD else ""
    return f"{'; '.join(items[:_MOST_TOLD])}{more}. The same as a table follows."


@cache
def _settings() -> dict[str, Any]:
    """Ours on top of matplotlib's own: a matplotlibrc of the user changes nothing."""
    defaults = dict(library().rcParamsDefault)
    return {name: value for name, value in defaults.items() if not name.startswith("backend")} | _SETTINGS


@cache
def library() -> ModuleType:
    """matplotlib. On its import it warns where it finds no place for its cache, which does not matter here."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        import matplotlib
        import matplotlib.backends.backend_svg
        import matplotlib.figure
    finally:
        logger.setLevel(level)
    return matplotlib
