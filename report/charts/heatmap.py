"""The matrix of a run at a glance: a square for each cell, the darker the larger the share of launches that failed,
with the verdict, k of n, and the 95 % interval of that share in words and as a bar."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from report.charts.ink import ink
from report.charts.picture import CHARACTER_PX, Canvas, picture, shortened
from report.grid import Grid, Place, grid
from report.load import LoadedRun
from report.words import percent, sign, spoken
from repro.escape import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOP, _WIDE, _HIGH, _KEY = 24, 158, 50, 34
_MOST_ROWS = 40
"""A taller picture is no glance any more: the matrix itself is a table below it."""
_DARKEST = 0.45
"""Opacity of a square in which every launch failed: text on it keeps its contrast."""
_INSET = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class _Square:
    """A place of the grid, the number of cells that share it, and its upper left corner."""

    place: Place
    cells: int
    x: float
    y: float


def heat_map(run: LoadedRun, key: str) -> Markup:
    """Budgets by (graph, NVLS); nothing for a matrix with fewer than two cells that ran, or too many rows.

    Where several cells share a place, the one with the largest share of failures is drawn, and their number is told.
    """
    table = grid(run)
    ran = [place for row in table.rows for places in row.places for place in places if place.n]
    if len(ran) < 2 or len(table.rows) > _MOST_ROWS:
        return Markup("")
    left = min(150, 14 + CHARACTER_PX * max(len(row.label) for row in table.rows))
    squares = list(_squares(table, left))
    width = round(left + _WIDE * len(table.columns))
    architecture = f" ({run.plan.architecture})" if run.plan is not None else ""
    return picture(
        max(width, 560),
        _TOP + _HIGH * len(table.rows) + _KEY,
        lambda canvas: _paint(canvas, table, squares, left),
        key=key,
        title=f"Failed launches of {run.run.target}{architecture}, by arm, graph and NVLS",
        told="; ".join(f"{place.cell}: {place.k} of {place.n} failed, {spoken(place.word)}" for place in ran),
    )


def _squares(table: Grid, left: float) -> Iterator[_Square]:
    for line, row in enumerate(table.rows):
        for column, places in enumerate(row.places):
            if places:
                worst = max(places, key=lambda place: place.k / place.n if place.n else -1.0)
                yield _Square(place=worst, cells=len(places), x=left + _WIDE * column, y=float(_TOP + _HIGH * line))


def _paint(canvas: Canvas, table: Grid, squares: list[_Square], left: float) -> None:
    sheet = canvas.sheet()
    for column, name in enumerate(table.columns):
        sheet.text(left + _WIDE * (column + 0.5), 15, shortened(name, _WIDE), ha="center", color=ink("soft"))
    for line, row in enumerate(table.rows):
        y = _TOP + _HIGH * (line + 0.5) + 4
        sheet.text(left - 8, y, shortened(row.label, left), ha="right", color=ink("ink"))
    for square in squares:
        _shade(sheet, square.place, square.x + 2, square.y + 2)
        _say(sheet, square)
    _bars(sheet, squares)
    _explain(sheet, left, _TOP + _HIGH * len(table.rows) + 22)


def _shade(sheet: "Axes", place: Place, x: float, y: float) -> None:
    """A frame, thick around wrong outputs and of dashes where nothing ran; in it the colour of the failures."""
    from matplotlib.patches import Rectangle

    width, height = _WIDE - 4, _HIGH - 4
    corrupt = place.word == "corrupt"
    if place.n and place.k:
        colour = ink("corrupt" if corrupt else "fail")
        shade = _DARKEST * place.k / place.n
        sheet.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor="none", alpha=shade))
    sheet.add_patch(
        Rectangle(
            (x, y),
            width,
            height,
            facecolor="none",
            edgecolor=ink("corrupt" if corrupt else "soft"),
            linewidth=2 if corrupt else 1,
            linestyle="solid" if place.n else (0, (3, 3)),
        )
    )


def _say(sheet: "Axes", square: _Square) -> None:
    place, middle = square.place, square.x + _WIDE / 2
    more = f" (+{square.cells - 1} more)" if square.cells > 1 else ""
    word = one_line(f"{sign(place.word)} {spoken(place.word)}{more}", 26)
    ran = bool(place.n and place.interval)
    sheet.text(middle, square.y + (17 if ran else 29), word, ha="center", color=ink("ink" if ran else "soft"))
    if place.interval is not None and place.n:
        low, high = (percent(bound) for bound in place.interval)
        counted = f"{place.k} of {place.n} ({low.removesuffix(' %')} to {high})"
        sheet.text(middle, square.y + 31, counted, ha="center")


def _bars(sheet: "Axes", squares: list[_Square]) -> None:
    """Under the words: from 0 to 100 %, where the interval lies, and a mark at k of n."""
    ran = [square for square in squares if square.place.n and square.place.interval]
    begin = [square.x + _INSET for square in ran]
    long = _WIDE - 2 * _INSET
    y = [square.y + _HIGH - 11 for square in ran]
    spans = [square.place.interval or (0.0, 0.0) for square in ran]
    sheet.hlines(y, begin, [x + long for x in begin], colors=ink("soft"), linewidth=0.7)
    low, high = ([x + long * span[side] for x, span in zip(begin, spans, strict=True)] for side in (0, 1))
    sheet.hlines(y, low, high, colors=ink("ink"), linewidth=2.5)
    shares = [x + long * square.place.k / square.place.n for x, square in zip(begin, ran, strict=True)]
    sheet.plot(shares, y, linestyle="none", marker="D", markersize=6, color=ink("paper"), markeredgecolor=ink("ink"))


def _explain(sheet: "Axes", left: float, y: float) -> None:
    """What the shades and frames mean."""
    from matplotlib.patches import Rectangle

    x = left
    for label, share in (("none failed", 0.0), ("half", 0.5), ("all failed", 1.0)):
        if share:
            patch = Rectangle((x, y - 10), 14, 12, facecolor=ink("fail"), edgecolor="none", alpha=_DARKEST * share)
            sheet.add_patch(patch)
        sheet.add_patch(Rectangle((x, y - 10), 14, 12, facecolor="none", edgecolor=ink("soft")))
        sheet.text(x + 19, y, label, color=ink("soft"))
        x += 30 + CHARACTER_PX * len(label)
    sheet.add_patch(Rectangle((x, y - 10), 14, 12, facecolor="none", edgecolor=ink("corrupt"), linewidth=2))
    sheet.text(x + 19, y, "wrong output", color=ink("soft"))
    x += 30 + CHARACTER_PX * 12
    sheet.add_patch(Rectangle((x, y - 10), 14, 12, facecolor="none", edgecolor=ink("soft"), linestyle=(0, (3, 3))))
    sheet.text(x + 19, y, "no launch decided", color=ink("soft"))
