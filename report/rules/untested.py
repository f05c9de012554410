"""Where it is not known whether a failure shows: cells of the plan that no launch decided, and why."""

from collections.abc import Iterable

from report.load import LoadedCell, LoadedRun
from report.rules.settings import spelled
from report.words import spoken

_MOST = 10


def not_tested(run: LoadedRun, failing: Iterable[LoadedCell]) -> tuple[str, ...]:
    """The undecided cells of the run that lie in the rows and columns of the ``failing`` ones, the nearest first: those
    of other budgets at the same settings, and those of the same budgets at others."""
    places = [found for cell in failing if (found := spelled(cell.id)) is not None]
    near: list[tuple[int, str]] = []
    known = {cell.id for cell in run.cells}
    undecided = {cell.id: why for cell in run.cells if (why := _why(cell)) is not None}
    undecided |= {skip.cell: f"{spoken(skip.state)}: {skip.reason}" for skip in run.skips if skip.cell not in known}
    for name, why in undecided.items():
        here = spelled(name)
        if here is None:
            continue
        same_arm = any(here.arm == there.arm for there in places)
        same_column = any(
            (here.graph, here.nvls, here.rest, here.arm[0]) == (there.graph, there.nvls, there.rest, there.arm[0])
            for there in places
        )
        if same_arm or same_column:
            near.append((0 if same_arm and not here.rest else 1, f"{name}: {why}"))
    lines = [line for _, line in sorted(near)]
    more = len(lines) - _MOST
    return (*lines[:_MOST], *([f"and {more} more cell{'s' if more > 1 else ''}"] if more > 0 else []))


def undecided_cells(run: LoadedRun) -> tuple[str, ...]:
    """Every cell and skip of a run that no launch decided, with the reason."""
    known = {cell.id for cell in run.cells}
    told = [f"{cell.id}: {why}" for cell in run.cells if (why := _why(cell)) is not None]
    told += [f"{skip.cell}: {spoken(skip.state)}: {skip.reason}" for skip in run.skips if skip.cell not in known]
    more = len(told) - _MOST
    return (*told[:_MOST], *([f"and {more} more cell{'s' if more > 1 else ''}"] if more > 0 else []))


def _why(cell: LoadedCell) -> str | None:
    """Why no launch of the cell decided; None if one did."""
    if cell.summary.n:
        return None
    verdict = cell.summary.verdict
    reasons = f" ({', '.join(spoken(reason) for reason in cell.summary.reasons)})" if cell.summary.reasons else ""
    if verdict == "not_run":
        return "planned and not run"
    if verdict == "void":
        return f"void{reasons}: the launch says nothing about the engine"
    return f"{spoken(verdict)}{reasons}"
