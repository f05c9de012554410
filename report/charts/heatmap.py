"""The matrix of a run at a glance: a square for each cell, shaded by the share of launches that failed, with k of n,
its interval and the verdict written in it."""

from xml.etree import ElementTree as ET

from markupsafe import Markup

from report.charts import svg
from report.grid import Place, grid
from report.load import LoadedRun
from report.words import percent, sign, spoken

_LEFT, _TOP, _WIDE, _HIGH = 90, 26, 160, 50
_MOST_ROWS = 40
"""A taller picture is no glance any more: the matrix itself is a table below it."""


def heat_map(run: LoadedRun) -> Markup:
    """Budgets by (graph, NVLS); nothing for a matrix with fewer than two cells that ran, or too many rows.

    Where several cells share a place, the one with the largest share of failures is drawn, and their number is told.
    """
    table = grid(run)
    ran = [place for row in table.rows for places in row.places for place in places if place.n]
    if len(ran) < 2 or len(table.rows) > _MOST_ROWS:
        return Markup("")
    told = "; ".join(f"{place.cell}: {place.k} of {place.n} failed, {spoken(place.word)}" for place in ran)
    width, height = _LEFT + _WIDE * len(table.columns), _TOP + _HIGH * len(table.rows)
    root = svg.picture(width, height, f"Failed launches of {run.run.target} by arm, graph and NVLS. {told}")
    root.set("class", "chart heat")
    for column, name in enumerate(table.columns):
        svg.add(root, "text", name, class_="tick middle", x=_LEFT + _WIDE * (column + 0.5), y=16)
    for line, row in enumerate(table.rows):
        y = _TOP + _HIGH * line
        svg.add(root, "text", row.label, class_="tick", x=_LEFT - 8, y=y + 28, text_anchor="end")
        for column, places in enumerate(row.places):
            if places:
                worst = max(places, key=lambda place: place.k / place.n if place.n else -1.0)
                _square(root, worst, len(places), _LEFT + _WIDE * column, y)
    return svg.markup(root)


def _square(root: ET.Element, place: Place, count: int, x: float, y: float) -> None:
    group = svg.add(root, "g", class_="square" if place.n else "square open")
    svg.add(group, "title", f"{place.cell}: {place.reason}" if place.reason else place.cell)
    svg.add(group, "rect", class_="edge", x=x + 2, y=y + 2, width=_WIDE - 4, height=_HIGH - 4)
    if place.n:
        shade = f"{0.55 * place.k / place.n:.2f}"
        svg.add(group, "rect", class_="heat", x=x + 2, y=y + 2, width=_WIDE - 4, height=_HIGH - 4, fill_opacity=shade)
    middle = x + _WIDE / 2
    more = f" (+{count - 1})" if count > 1 else ""
    word = f"{sign(place.word)} {spoken(place.word)}{more}"
    svg.add(group, "text", word, class_="said", x=middle, y=y + (20 if place.n else 29))
    if place.n and place.interval is not None:
        low, high = (percent(bound) for bound in place.interval)
        svg.add(group, "text", f"{place.k} of {place.n} ({low} to {high})", class_="said", x=middle, y=y + 37)
