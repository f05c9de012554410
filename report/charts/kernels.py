"""The kernel checks at a glance: a square for each arm, architecture and budget, with its state and counts in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from report.charts.boxes import Look, boxes
from report.charts.ink import ink
from report.charts.picture import CHARACTER_PX, Canvas, listed, picture, shortened
from report.kernels import Kernels
from report.kernels_tables import GridLine, GridSquare, grid_lines
from report.words import sign

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEFT, _TOP, _WIDE, _HIGH, _KEY, _FRAME = 130, 36, 60, 34, 34, 2
_MOST_LINES, _MOST_BUDGETS = 40, 10
"""What is beyond stands in the table alone."""
_SHADE = 0.45
_SHORT = {"pass": "pass", "fail": "fail", "inconclusive": "open", "not_run": "not run", "not_applicable": "n/a"}


@dataclass(frozen=True, slots=True)
class _Placed:
    """A square of the picture and its upper left corner."""

    square: GridSquare
    x: float
    y: float


def kernel_map(kernels: Kernels, key: str) -> Markup:
    """Arms by budget; nothing where no row speaks about a budget."""
    lines = grid_lines(kernels)[:_MOST_LINES]
    budgets = sorted({budget for line in lines for budget in line.squares})[:_MOST_BUDGETS]
    if not budgets:
        return Markup("")
    told = [
        f"{line.label}, budget {budget}: {_said(line.squares[budget])}"
        for line in lines
        for budget in budgets
        if budget in line.squares
    ]
    return picture(
        max(_LEFT + _WIDE * len(budgets), 560),
        _TOP + _HIGH * len(lines) + _KEY,
        lambda canvas: _paint(canvas, lines, budgets),
        key=key,
        title="Kernel checks by arm, architecture and budget: cases that pass or fail, no launches",
        told=listed(told),
    )


def _said(square: GridSquare) -> str:
    found = square.tally
    if not square.counts:
        return "broken, does not count"
    return f"{_SHORT[square.word]}, {found.failed or found.passed} of {found.cases}"


def _paint(canvas: Canvas, lines: Sequence[GridLine], budgets: Sequence[int]) -> None:
    sheet = canvas.sheet()
    sheet.text(_LEFT - 8, 24, "budget", ha="right", color=ink("soft"))
    for column, budget in enumerate(budgets):
        sheet.text(_LEFT + _WIDE * (column + 0.5), 24, shortened(str(budget), _WIDE), ha="center", color=ink("soft"))
    for index, line in enumerate(lines):
        sheet.text(_LEFT - 8, _TOP + _HIGH * (index + 0.5) + 4, shortened(line.label, _LEFT), ha="right")
    placed = list(_places(lines, budgets))
    _shade(sheet, placed)
    for one in placed:
        _say(sheet, one)
    _explain(sheet, _TOP + _HIGH * len(lines) + 22)


def _places(lines: Sequence[GridLine], budgets: Sequence[int]) -> Iterator[_Placed]:
    for index, line in enumerate(lines):
        for column, budget in enumerate(budgets):
            if budget in line.squares:
                yield _Placed(line.squares[budget], _LEFT + _WIDE * column, _TOP + _HIGH * index)


def _shade(sheet: "Axes", placed: Sequence[_Placed]) -> None:
    """Colour for the share that fails; dashes where nothing was decided, or nothing counts."""
    looks: dict[Look, list[tuple[float, float]]] = {}
    for one in placed:
        corner = (one.x + _FRAME, one.y + _FRAME)
        found = one.square.tally
        if one.square.counts and found.failed:
            fill = Look(fill="fail", opacity=_SHADE * max(0.2, found.failed / found.decided))
            looks.setdefault(fill, []).append(corner)
        looks.setdefault(_frame(one.square), []).append(corner)
    for look, corners in sorted(looks.items(), key=lambda item: item[0].edge):
        boxes(sheet, corners, _WIDE - 2 * _FRAME, _HIGH - 2 * _FRAME, look)


def _frame(square: GridSquare) -> Look:
    return Look(edge="soft", dashed=not square.counts or not square.tally.decided)


def _say(sheet: "Axes", one: _Placed) -> None:
    middle, found = one.x + _WIDE / 2, one.square.tally
    if not one.square.counts:
        sheet.text(middle, one.y + _HIGH / 2 + 4, "broken", ha="center", color=ink("soft"))
        return
    word = one.square.word
    sheet.text(middle, one.y + 15, shortened(f"{sign(word)} {_SHORT[word]}", _WIDE), ha="center")
    counted = f"{found.failed or found.passed} of {found.decided or found.cases}"
    sheet.text(middle, one.y + 28, shortened(counted, _WIDE), ha="center")


def _explain(sheet: "Axes", y: float) -> None:
    x = float(_LEFT)
    failing = Look(fill="fail", opacity=_SHADE)
    plain, dashed = Look(edge="soft"), Look(edge="soft", dashed=True)
    for label, looks in (
        ("all pass", (plain,)),
        ("all fail", (failing, plain)),
        ("nothing decided, or the arm is broken", (dashed,)),
    ):
        for look in looks:
            boxes(sheet, [(x, y - 10)], 14, 12, look)
        sheet.text(x + 19, y, label, color=ink("soft"))
        x += 30 + CHARACTER_PX * len(label)
