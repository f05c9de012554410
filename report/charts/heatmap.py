"""The matrix of a run at a glance: a square for each cell, the darker the larger the share of launches that failed,
with the verdict, k of n, and the 95 % interval of that share in words and as a bar."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from report.charts.boxes import Look, boxes, strokes
from report.charts.ink import ink
from report.charts.picture import CHARACTER_PX, Canvas, listed, picture, shortened
from report.grid import Grid, Place, grid
from report.load import LoadedRun
from report.words import percent, sign, spoken
from repro.escape import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOP, _KEY, _INSET, _FRAME = 36, 34, 12, 2
_MOST_ROWS = 40
"""A taller picture is no glance any more: the matrix itself is a table below it."""
_MOST_IN_WORDS = 60
"""In a larger matrix squares are smaller, and their intervals are bars alone."""
_DARKEST = 0.45
"""Opacity of a square in which every launch failed: text on it keeps its contrast."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Size:
    """Of a square; ``words``: it has room for its verdict and interval in words."""

    wide: int
    high: int
    words: bool


_LARGE, _SMALL = _Size(wide=158, high=50, words=True), _Size(wide=104, high=34, words=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Square:
    """A place of the grid, the number of cells that share it, and its upper left corner."""

    place: Place
    cells: int
    x: float
    y: float

    @property
    def ran(self) -> bool:
        return bool(self.place.n and self.place.interval)

    @property
    def corrupt(self) -> bool:
        return self.place.word == "corrupt"


def heat_map(run: LoadedRun, key: str) -> Markup:
    """Budgets by (graph, NVLS); nothing for a matrix with fewer than two cells that ran, or too many rows.

    Where several cells share a place, the one with the largest share of failures is drawn, and their number is told.
    """
    table = grid(run)
    taken = [places for row in table.rows for places in row.places if places]
    ran = [place for places in taken for place in places if place.n]
    if len(ran) < 2 or len(table.rows) > _MOST_ROWS:
        return Markup("")
    left = min(150, 14 + CHARACTER_PX * max(len(row.label) for row in table.rows))
    size = _LARGE if len(taken) <= _MOST_IN_WORDS else _SMALL
    architecture = f" ({run.plan.architecture})" if run.plan is not None else ""
    return picture(
        max(round(left + size.wide * len(table.columns)), 560),
        _TOP + size.high * len(table.rows) + _KEY,
        lambda canvas: _paint(canvas, table, size, left),
        key=key,
        title=f"Failed launches of {run.run.target}{architecture}, by arm, graph and NVLS",
        told=listed([f"{place.cell}: {place.k} of {place.n} failed, {spoken(place.word)}" for place in ran]),
    )


def _squares(table: Grid, size: _Size, left: float) -> Iterator[_Square]:
    for line, row in enumerate(table.rows):
        for column, places in enumerate(row.places):
            if places:
                worst = max(places, key=lambda place: place.k / place.n if place.n else -1.0)
                x, y = left + size.wide * column, float(_TOP + size.high * line)
                yield _Square(place=worst, cells=len(places), x=x, y=y)


def _paint(canvas: Canvas, table: Grid, size: _Size, left: float) -> None:
    sheet = canvas.sheet()
    for column, name in enumerate(table.columns):
        middle = left + size.wide * (column + 0.5)
        for line, part in enumerate(name.split(" · ", 1)):
            sheet.text(middle, 14 + 14 * line, shortened(part, size.wide), ha="center", color=ink("soft"))
    for line, row in enumerate(table.rows):
        y = _TOP + size.high * (line + 0.5) + 4
        sheet.text(left - 8, y, shortened(row.label, left), ha="right")
    squares = list(_squares(table, size, left))
    _shade(sheet, squares, size)
    for square in squares:
        _say(sheet, square, size)
    _bars(sheet, [square for square in squares if square.ran], size)
    _explain(sheet, left, _TOP + size.high * len(table.rows) + 22)


def _shade(sheet: "Axes", squares: Sequence[_Square], size: _Size) -> None:
    """In each square the colour of its failures; a frame, thick around wrong outputs, of dashes where nothing ran."""
    width, height = size.wide - 2 * _FRAME, size.high - 2 * _FRAME
    looks: dict[Look, list[tuple[float, float]]] = {}
    for square in squares:
        corner = (square.x + _FRAME, square.y + _FRAME)
        place = square.place
        if place.n and place.k:
            fill = Look(fill="corrupt" if square.corrupt else "fail", opacity=_DARKEST * place.k / place.n)
            looks.setdefault(fill, []).append(corner)
        frame = _WRONG if square.corrupt else Look(edge="soft", dashed=not place.n)
        looks.setdefault(frame, []).append(corner)
    for look, corners in sorted(looks.items(), key=lambda item: item[0].edge):  # frames lie on what they frame
        boxes(sheet, corners, width, height, look)


_WRONG = Look(edge="corrupt", width=2)


def _say(sheet: "Axes", square: _Square, size: _Size) -> None:
    place, middle = square.place, square.x + size.wide / 2
    more = f" (+{square.cells - 1}{' more' if size.words else ''})" if square.cells > 1 else ""
    if not square.ran:
        y = square.y + size.high / 2 + 4
        told = shortened(f"{sign(place.word)} {spoken(place.word)}{more}", size.wide)
        sheet.text(middle, y, told, ha="center", color=ink("soft"))
    elif size.words:
        low, high = (percent(bound) for bound in place.interval or ())
        sheet.text(middle, square.y + 17, one_line(f"{sign(place.word)} {spoken(place.word)}{more}", 26), ha="center")
        counted = f"{place.k} of {place.n} ({low.removesuffix(' %')} to {high})"
        sheet.text(middle, square.y + 31, counted, ha="center")
    else:
        sheet.text(middle, square.y + 16, f"{sign(place.word)} {place.k} of {place.n}{more}", ha="center")


def _bars(sheet: "Axes", ran: Sequence[_Square], size: _Size) -> None:
    """Under the words: from 0 to 100 %, where the interval lies, and a mark at k of n."""
    long = size.wide - 2 * _INSET
    begin = [square.x + _INSET for square in ran]
    y = [square.y + size.high - 10 for square in ran]
    spans = [square.place.interval or (0.0, 0.0) for square in ran]
    low, high = ([x + long * span[side] for x, span in zip(begin, spans, strict=True)] for side in (0, 1))
    strokes(sheet, begin, [x + long for x in begin], y, color=ink("soft"), linewidth=0.7)
    strokes(sheet, low, high, y, color=ink("ink"), linewidth=2.5)
    shares = [x + long * square.place.k / square.place.n for x, square in zip(begin, ran, strict=True)]
    sheet.plot(shares, y, linestyle="none", marker="D", markersize=6, color=ink("paper"), markeredgecolor=ink("ink"))


def _explain(sheet: "Axes", left: float, y: float) -> None:
    """What the shades and frames mean."""
    half, full = (Look(fill="fail", opacity=_DARKEST * share) for share in (0.5, 1.0))
    plain = Look(edge="soft")
    x = left
    for label, looks in (
        ("none failed", (plain,)),
        ("half", (half, plain)),
        ("all failed", (full, plain)),
        ("wrong output", (_WRONG,)),
        ("no launch decided", (Look(edge="soft", dashed=True),)),
    ):
        for look in looks:
            boxes(sheet, [(x, y - 10)], 14, 12, look)
        sheet.text(x + 19, y, label, color=ink("soft"))
        x += 30 + CHARACTER_PX * len(label)
