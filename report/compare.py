"""A cell beside an archived baseline, or beside the same cell of another run: may they be compared, what follows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from report.changes import overall
from report.escape import one_line
from report.load import LoadedCell, LoadedRun
from report.numbers import BETTER, cell_numbers
from report.sides import Side, Standing, compared_number, failure_share, with_doubts
from repro.environment import Comparability, common_facts, compare_keys, declared_facts, key_facts
from repro.model import Baseline, ComparedNumber, Comparison, Expectation, Fact

RUN_PREFIX = "run-"
"""A comparison with another run names it by this and the run's id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Here:
    """The cell that something is put beside."""

    run: LoadedRun
    cell: LoadedCell
    beside: str

    @property
    def speculates(self) -> bool:
        return self.cell.coordinates.shape != "none"

    @property
    def expectation(self) -> Expectation:
        return self.cell.attempts[0].result.expectation

    def nothing(self, *reasons: str) -> Comparison:
        return _nothing(self.cell.id, self.run.run.target, self.beside, *reasons)


def cell_facts(run: LoadedRun, cell: LoadedCell) -> dict[str, Fact]:
    """The comparability key of a cell over its attempts."""
    results = [attempt.result for attempt in cell.attempts]
    return common_facts([key_facts(r.environment.facts, declared_facts(run.plan, r)) for r in results])


def against_baselines(runs: Sequence[LoadedRun], baselines: Sequence[Baseline]) -> tuple[Comparison, ...]:
    """Every baseline beside every cell at its coordinates; one without such a cell is named with the reason."""
    return tuple(comparison for run in runs for baseline in baselines for comparison in _beside(run, baseline))


def against_runs(runs: Sequence[LoadedRun], others: Sequence[LoadedRun]) -> tuple[Comparison, ...]:
    """Every run beside the other run of its target, cell by cell."""
    by_target = {other.run.target: other for other in others}
    return tuple(
        comparison
        for run in runs
        if (other := by_target.get(run.run.target)) is not None
        for comparison in _beside_run(run, other)
    )


def _beside(run: LoadedRun, baseline: Baseline) -> list[Comparison]:
    cells = [cell for cell in run.cells if _at_coordinates(cell, baseline)]
    if cells:
        return [_with_baseline(_Here(run=run, cell=cell, beside=baseline.name), baseline) for cell in cells]
    missing = [name for name in ("budget", "shape") if getattr(baseline, name) is None]
    reason = "this run has no cell at the baseline's coordinates"
    if missing:
        reason = f"the archive does not state its {' and its '.join(missing)}"
    return [_nothing(None, run.run.target, baseline.name, reason)]


def _at_coordinates(cell: LoadedCell, baseline: Baseline) -> bool:
    """Whether the cell is at every coordinate that the baseline states. A control is at none: it is another arm."""
    ours = cell.coordinates
    stated = ((baseline.topk, ours.topk), (baseline.graph, ours.graph), (baseline.nvls, ours.nvls))
    return (
        not ours.variant
        and baseline.budget == ours.budget
        and baseline.shape == ours.shape
        and all(theirs is None or theirs == here for theirs, here in stated)
    )


def _with_baseline(here: _Here, baseline: Baseline) -> Comparison:
    if not here.cell.attempts:
        return here.nothing("no launch of this cell has a result")
    key = compare_keys(cell_facts(here.run, here.cell), baseline.facts, drafts=here.speculates)
    reasons = (*key.reasons, *_planted(here.run, here.cell), *_topk(here.expectation, baseline.topk))
    unstated = [
        name
        for name in ("topk", "graph", "nvls")
        if getattr(baseline, name) is None and not baseline.unknown.get(name, "").startswith("not applicable")
    ]
    standing = _standing(reasons, (*unstated, *key.unknowns))
    ours = {(number.name, number.at, number.unit): number for number in cell_numbers(here.cell)}
    numbers: list[ComparedNumber] = []
    notes: list[str | None] = []
    for theirs in baseline.measurements:
        match = ours.get((theirs.name, tuple(sorted(theirs.at.items())), theirs.unit))
        number, note = compared_number(
            theirs.name,
            theirs.at,
            theirs.unit,
            ours=Side.of_cell(match, missing="not measured here"),
            theirs=Side.of_archive(theirs),
            standing=standing,
        )
        numbers.append(with_doubts(number, baseline))
        notes.append(note)
    if baseline.outcome is not None:
        said = f"the account says {baseline.outcome!r}, and not of how many launches"
        share, note = failure_share(here.cell, None, standing, said)
        numbers.append(share)
        notes.append(note)
    return _comparison(here, standing, numbers, notes)


def _beside_run(run: LoadedRun, other: LoadedRun) -> list[Comparison]:
    name = RUN_PREFIX + other.run.run_id
    if other.run.run_id == run.run.run_id:
        return [_nothing(None, run.run.target, name, "it is the same run")]
    theirs = {cell.id: cell for cell in other.cells}
    found: list[Comparison] = []
    for cell in run.cells:
        here = _Here(run=run, cell=cell, beside=name)
        there = theirs.pop(cell.id, None)
        missing = "the other run does not have this cell"
        found.append(here.nothing(missing) if there is None else _with_cell(here, other, there))
    only_there = (f"this run does not have the cell {cell}" for cell in theirs)
    return found + [_nothing(None, run.run.target, name, reason) for reason in only_there]


def _with_cell(here: _Here, other: LoadedRun, there: LoadedCell) -> Comparison:
    if not here.cell.attempts or not there.attempts:
        return here.nothing(f"no launch of this cell has a result {'there' if here.cell.attempts else 'here'}")
    key = compare_keys(cell_facts(here.run, here.cell), cell_facts(other, there), drafts=here.speculates)
    standing = _standing(
        (
            *key.reasons,
            *_planted(here.run, here.cell),
            *(("the other run has planted faults",) if other.planted else ()),
            *_topk(here.expectation, there.attempts[0].result.expectation.topk_effective),
        ),
        key.unknowns,
    )
    share, note = failure_share(here.cell, there, standing, "no launch decided there")
    numbers = [share]
    notes = [note]
    theirs = {(number.name, number.at, number.unit): number for number in cell_numbers(there)}
    for ours in cell_numbers(here.cell):
        match = theirs.get((ours.name, ours.at, ours.unit))
        if ours.name in BETTER and match is not None:
            number, note = compared_number(
                ours.name,
                dict(ours.at),
                ours.unit,
                ours=Side.of_cell(ours, missing=""),
                theirs=Side.of_cell(match, missing=""),
                standing=standing,
            )
            numbers.append(number)
            notes.append(note)
    return _comparison(here, standing, numbers, notes)


def _standing(reasons: Iterable[str], unknown: Iterable[str]) -> Standing:
    said, open_facts = tuple(one_line(reason) for reason in reasons), tuple(unknown)
    state: Comparability = "not_comparable" if said else "unverified" if open_facts else "comparable"
    return Standing(state=state, reasons=said, unknown=open_facts)


def _planted(run: LoadedRun, cell: LoadedCell) -> tuple[str, ...]:
    if cell.planted:
        return ("faults were planted in this cell",)
    return ("the run has planted faults",) if run.planted else ()


def _topk(ours: Expectation, theirs: int | None) -> tuple[str, ...]:
    if theirs is None or ours.topk_effective == theirs:
        return ()
    asked = f" (requested {ours.topk_requested})" if ours.topk_requested != ours.topk_effective else ""
    return (f"effective top-k is {ours.topk_effective}{asked} here and {theirs} there",)


def _comparison(
    here: _Here, standing: Standing, numbers: Sequence[ComparedNumber], notes: Iterable[str | None]
) -> Comparison:
    """Only what is comparable has a change; its reasons are then what decided each number."""
    reasons, comparable = standing.reasons, standing.state == "comparable"
    if comparable:
        reasons = tuple(note for note in notes if note) or ("no number is known on both sides",)
    return Comparison(
        cell=here.cell.id,
        target=here.run.run.target,
        baseline=here.beside,
        comparable=standing.state,
        reasons=reasons,
        unknown=standing.unknown,
        change=overall(number.change for number in numbers) if comparable else None,
        numbers=tuple(numbers),
    )


def _nothing(cell: str | None, target: str, name: str, *reasons: str) -> Comparison:
    return Comparison(
        cell=cell,
        target=target,
        baseline=name,
        comparable="not_comparable",
        reasons=reasons,
        unknown=(),
        change=None,
        numbers=(),
    )
