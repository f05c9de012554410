"""The matrix as a grid: a row for each arm, a column for each graph mode and NVLS state, a verdict in each place."""

import re
from dataclasses import dataclass

from report.load import LoadedRun

_CELL = re.compile(
    r"[^-]+-(?P<arm>ar|[bcn]\d+(?:t\d+)?)-(?P<graph>graph|eager|verify-eager)-(?P<nvls>nvls|nonvls)(?P<rest>\+.*)?"
)
_COLUMNS = ("graph", "verify-eager", "eager")
_KINDS = ("ar", "c", "n", "b")
_NUMBERS = re.compile(r"\d+")
_OTHER = "other"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """One cell or skip. ``word``: its verdict or the state of the skip; ``anchor`` None for a skip. ``planted_run``: a
    cell that no fault was planted in, of a run with some, where a fault may show in any cell."""

    cell: str
    word: str
    k: int
    n: int
    interval: tuple[float, float] | None
    inconclusive: int
    void: int
    missing: int
    planted: bool
    planted_run: bool
    reason: str
    anchor: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class GridRow:
    label: str
    places: tuple[tuple[Place, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """``rows[i].places[j]``: what is at row i and column j; empty if the matrix has nothing there."""

    columns: tuple[str, ...]
    rows: tuple[GridRow, ...]


def grid(run: LoadedRun) -> Grid:
    """The grid of a run, skips included. A cell id that is not spelled as ids are has a row of its own."""
    placed: dict[tuple[str, str], list[Place]] = {}
    for place in places(run):
        placed.setdefault(_position(place.cell), []).append(place)
    columns = tuple(sorted({column for _, column in placed}, key=_column_order))
    rows = sorted({row for row, _ in placed}, key=row_order)
    return Grid(
        columns=columns,
        rows=tuple(
            GridRow(label=row, places=tuple(tuple(placed.get((row, column), ())) for column in columns)) for row in rows
        ),
    )


def places(run: LoadedRun) -> tuple[Place, ...]:
    """Every cell of a run and every skip of its plan, in the order of the plan."""
    cells = [
        Place(
            cell=cell.id,
            word=cell.summary.verdict,
            k=cell.summary.k,
            n=cell.summary.n,
            interval=cell.summary.interval,
            inconclusive=cell.summary.inconclusive,
            void=cell.summary.void,
            missing=cell.missing,
            planted=cell.planted,
            planted_run=run.planted and not cell.planted,
            reason=", ".join(cell.summary.reasons),
            anchor=cell.anchor,
        )
        for cell in run.cells
    ]
    known = {place.cell for place in cells}
    skips = [
        Place(
            cell=skip.cell,
            word=skip.state,
            k=0,
            n=0,
            interval=None,
            inconclusive=0,
            void=0,
            missing=0,
            planted=False,
            planted_run=False,
            reason=skip.reason,
            anchor=None,
        )
        for skip in run.skips
        if skip.cell not in known
    ]
    return (*cells, *skips)


def row_order(label: str) -> tuple[int, tuple[int, ...], str]:
    """Arms without speculation first, then chains, NGRAM and trees, each by its numbers; controls after their arm."""
    arm, _, rest = label.partition("+")
    kind = next((i for i, kind in enumerate(_KINDS) if arm.startswith(kind)), len(_KINDS))
    return kind, tuple(int(number) for number in _NUMBERS.findall(arm)), rest


def _position(cell: str) -> tuple[str, str]:
    found = _CELL.fullmatch(cell)
    if found is None:
        return cell, _OTHER
    return found["arm"] + (found["rest"] or ""), f"{found['graph']} · {found['nvls']}"


def _column_order(column: str) -> tuple[int, str]:
    graph, _, nvls = column.partition(" · ")
    return (_COLUMNS.index(graph) if graph in _COLUMNS else len(_COLUMNS)), nvls
