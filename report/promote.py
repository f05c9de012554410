"""A cell of a run of ours -> a baseline, with its launches, its facts and where it is from. Pure."""

from statistics import fmean

from report.compare import cell_facts
from report.load import Loaded, LoadedCell, LoadedRun
from report.numbers import BETTER, CellNumber, cell_numbers
from report.sides import failures_of
from repro import codec
from repro.canonical import sha256_of
from repro.errors import NothingToRunError, SpecError
from repro.escape import one_line
from repro.intervals import mean_interval
from repro.model import Baseline, BaselineNumber, BaselineSource


def the_run(loaded: Loaded, given: str) -> LoadedRun:
    """The one run that is meant. Raises NothingToRunError if there is none, SpecError if there are several."""
    every = loaded.reported()
    if len(every) == 1:
        return loaded.runs[0]
    if not every:
        raise NothingToRunError(f"no run below {given}; give the directory of a run: results/<target>/<run>")
    known = ", ".join(f"{run.target}/{run.run_id}" for run in every[:5])
    raise SpecError(f"{given} holds {len(every)} runs ({known}); give the directory of one of them")


def promote(run: LoadedRun, cell_id: str, name: str, *, now: str) -> Baseline:
    """The baseline ``name``: the cell's numbers as means over launches with 95 % intervals and each launch's value, and
    the facts of its comparability key as they were recorded.

    Raises SpecError for a cell that is not there, has no result, is a control, or had faults planted.
    """
    cell = _cell(run, cell_id)
    at = cell.coordinates
    results = [attempt.result for attempt in cell.attempts]
    return Baseline(
        name=name,
        source=BaselineSource(
            title=f"run {run.run.run_id} of {run.run.target}",
            reference=f"{run.directory}/cells/{cell.id}",
            dated=run.run.created_at,
            sha256=sha256_of([codec.encode(result) for result in results]),
            imported_at=now,
        ),
        target=run.run.target,
        budget=at.budget,
        topk=at.topk,
        shape=at.shape,
        graph=at.graph,
        nvls=at.nvls,
        outcome=", ".join(sorted({result.outcome for result in results})),
        stated=(f"verdict {cell.summary.verdict}", f"{len(results)} launches"),
        measurements=tuple(_number(number) for number in cell_numbers(cell) if number.name in BETTER),
        failures=failures_of(cell),
        facts=cell_facts(run, cell),
        unknown={},
        unread=(),
    )


def _cell(run: LoadedRun, cell_id: str) -> LoadedCell:
    cell = next((cell for cell in run.cells if cell.id == cell_id), None)
    if cell is None:
        known = ", ".join(cell.id for cell in run.cells[:8])
        raise SpecError(f"{run.directory} has no cell {one_line(cell_id)!r}; it has: {known}")
    if not cell.attempts:
        raise SpecError(f"{run.directory}: no launch of {cell.id} has a result; run it first")
    if run.planted:
        raise SpecError(f"{run.directory} is a run with planted faults: nothing of it can be a baseline")
    if cell.coordinates.variant:
        raise SpecError(f"{cell.id} is a control, which is another arm than any cell; promote a cell without a +")
    return cell


def _number(number: CellNumber) -> BaselineNumber:
    low = high = None
    if number.values:
        _, low, high = mean_interval(number.values)
    return BaselineNumber(
        name=number.name,
        at=dict(number.at),
        value=round(fmean(number.values), 4) if number.values else None,
        low=None if low is None else round(low, 4),
        high=None if high is None else round(high, 4),
        unit=number.unit,
        n=len(number.values) or None,
        values=number.values,
        basis="measured",
        reason=None if number.values else number.reason or "not known",
    )
