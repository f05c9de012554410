"""A cell beside a baseline, or beside the same cell of another run: may they be compared, and what follows.

What the user declares as changed is the subject of a comparison, and everything else must be equal. All that is
compared between two runs, or between a run and a baseline, is tested together: the more numbers, the surer each must
be.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from report.changes import overall
from report.load import LoadedCell, LoadedRun
from report.numbers import BETTER, cell_numbers
from report.sides import Side, Sided, Standing, compared_number, failure_share, failures_of, settle, with_doubts
from repro.environment import Comparability, common_facts, compare_keys, declared_facts, key_facts, upgraded_fields
from repro.escape import one_line
from repro.model import Baseline, ComparedNumber, Comparison, Expectation, Fact

RUN_PREFIX = "run-"
"""A comparison with another run names it by this and the run's id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """What the user says of a comparison: the ``changed`` fields of the key, which are its subject, and the ``margin``
    (a share) within which a difference in a number counts as none; None: the number's own."""

    changed: frozenset[str] = field(default_factory=frozenset)
    margin: float | None = None


NOTHING_DECLARED = Declared()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Drawn:
    """A comparison whose numbers are still to be decided. ``cell`` None: there is nothing beside it."""

    cell: str | None
    target: str
    beside: str
    standing: Standing
    numbers: tuple[Sided, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Here:
    """The cell that something is put beside."""

    run: LoadedRun
    cell: LoadedCell
    beside: str
    declared: Declared

    @property
    def speculates(self) -> bool:
        return self.cell.coordinates.shape != "none"

    @property
    def expectation(self) -> Expectation:
        return self.cell.attempts[0].result.expectation

    def nothing(self, *reasons: str) -> _Drawn:
        return _nothing(self.cell.id, self.run.run.target, self.beside, *reasons)


def cell_facts(run: LoadedRun, cell: LoadedCell) -> dict[str, Fact]:
    """The comparability key of a cell over its attempts."""
    results = [attempt.result for attempt in cell.attempts]
    return common_facts([key_facts(r.environment.facts, declared_facts(run.plan, r)) for r in results])


def against_baselines(
    runs: Sequence[LoadedRun], baselines: Sequence[Baseline], declared: Declared = NOTHING_DECLARED
) -> tuple[Comparison, ...]:
    """Every baseline beside every cell at its coordinates; one without such a cell is named with the reason."""
    return tuple(
        comparison
        for run in runs
        for baseline in baselines
        for comparison in _decided(_beside(run, baseline, declared))
    )


def against_runs(
    runs: Sequence[LoadedRun], others: Sequence[LoadedRun], declared: Declared = NOTHING_DECLARED
) -> tuple[Comparison, ...]:
    """Every run beside the other run of its target, cell by cell."""
    by_target = {other.run.target: other for other in others}
    return tuple(
        comparison
        for run in runs
        if (other := by_target.get(run.run.target)) is not None
        for comparison in _decided(_beside_run(run, other, declared))
    )


def _beside(run: LoadedRun, baseline: Baseline, declared: Declared) -> list[_Drawn]:
    cells = [cell for cell in run.cells if _at_coordinates(cell, baseline)]
    if cells:
        return [
            _with_baseline(_Here(run=run, cell=cell, beside=baseline.name, declared=declared), baseline)
            for cell in cells
        ]
    missing = [name for name in ("budget", "shape") if getattr(baseline, name) is None]
    reason = "this run has no cell at the baseline's coordinates"
    if missing:
        source = "archive" if baseline.source.sha256 is None else "baseline"
        reason = f"the {source} does not state its {' and its '.join(missing)}"
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


def _with_baseline(here: _Here, baseline: Baseline) -> _Drawn:
    if not here.cell.attempts:
        return here.nothing("no launch of this cell has a result")
    facts = cell_facts(here.run, here.cell)
    changed = here.declared.changed
    if not changed and any(number.basis == "measured" for number in baseline.measurements):  # it is from a run of ours
        changed = upgraded_fields(facts, baseline.facts)
    key = compare_keys(facts, baseline.facts, drafts=here.speculates, changed=changed)
    reasons = (*key.reasons, *_planted(here.run, here.cell), *_topk(here.expectation, baseline.topk))
    unstated = [
        name
        for name in ("topk", "graph", "nvls")
        if getattr(baseline, name) is None and not baseline.unknown.get(name, "").startswith("not applicable")
    ]
    standing = _standing(reasons, (*unstated, *key.unknowns), key.changed)
    ours = {(number.name, number.at, number.unit): number for number in cell_numbers(here.cell)}
    numbers = [
        with_doubts(
            compared_number(
                theirs.name,
                theirs.at,
                theirs.unit,
                ours=Side.of_cell(
                    ours.get((theirs.name, tuple(sorted(theirs.at.items())), theirs.unit)), missing="not measured here"
                ),
                theirs=Side.of_baseline(theirs),
                standing=standing,
                margin=here.declared.margin,
            ),
            baseline,
        )
        for theirs in baseline.measurements
    ]
    if baseline.failures is not None:
        numbers.append(failure_share(here.cell, baseline.failures, standing, "no launch decided there"))
    elif baseline.outcome is not None:
        said = f"the account says {baseline.outcome!r}, and not of how many launches"
        numbers.append(failure_share(here.cell, None, standing, said))
    return _drawn(here, standing, numbers)


def _beside_run(run: LoadedRun, other: LoadedRun, declared: Declared) -> list[_Drawn]:
    name = RUN_PREFIX + other.run.run_id
    if other.run.run_id == run.run.run_id:
        return [_nothing(None, run.run.target, name, "it is the same run")]
    theirs = {_place(cell, declared): cell for cell in other.cells}
    found: list[_Drawn] = []
    for cell in run.cells:
        here = _Here(run=run, cell=cell, beside=name, declared=declared)
        there = theirs.pop(_place(cell, declared), None)
        missing = "the other run does not have this cell"
        found.append(here.nothing(missing) if there is None else _with_cell(here, other, there))
    only_there = (f"this run does not have the cell {cell.id}" for cell in theirs.values())
    return found + [_nothing(None, run.run.target, name, reason) for reason in only_there]


def _place(cell: LoadedCell, declared: Declared) -> tuple[object, ...]:
    """What must be equal for two cells to be the same one: their ids, or, where the source of the engine is what was
    changed, all other coordinates."""
    if "engine_source" not in declared.changed:
        return (cell.id,)
    at = cell.coordinates
    return (at.budget, at.topk, at.shape, at.graph, at.nvls, at.tier, tuple(sorted(at.variant.items())))


def _with_cell(here: _Here, other: LoadedRun, there: LoadedCell) -> _Drawn:
    if not here.cell.attempts or not there.attempts:
        return here.nothing(f"no launch of this cell has a result {'there' if here.cell.attempts else 'here'}")
    ours_key, their_key = cell_facts(here.run, here.cell), cell_facts(other, there)
    changed = here.declared.changed or upgraded_fields(ours_key, their_key)
    key = compare_keys(ours_key, their_key, drafts=here.speculates, changed=changed)
    standing = _standing(
        (
            *key.reasons,
            *_planted(here.run, here.cell),
            *(("the other run has planted faults",) if other.planted else ()),
            *_topk(here.expectation, there.attempts[0].result.expectation.topk_effective),
        ),
        key.unknowns,
        key.changed or _unchanged(here.declared, ours_key),
    )
    numbers = [failure_share(here.cell, failures_of(there), standing, "no launch decided there")]
    theirs = {(number.name, number.at, number.unit): number for number in cell_numbers(there)}
    for ours in cell_numbers(here.cell):
        match = theirs.get((ours.name, ours.at, ours.unit))
        if ours.name in BETTER and match is not None:
            numbers.append(
                compared_number(
                    ours.name,
                    dict(ours.at),
                    ours.unit,
                    ours=Side.of_cell(ours, missing=""),
                    theirs=Side.of_cell(match, missing=""),
                    standing=standing,
                    margin=here.declared.margin,
                )
            )
    return _drawn(here, standing, numbers)


def _unchanged(declared: Declared, facts: Mapping[str, Fact]) -> tuple[str, ...]:
    """That what was declared as changed is the same on both sides: then the declaration is wrong."""
    known = [name for name in sorted(declared.changed) if name in facts and facts[name].value is not None]
    return tuple(f"{name} was declared as changed, and is {facts[name].value} on both sides" for name in known)


def _standing(reasons: Iterable[str], unknown: Iterable[str], changed: Iterable[str]) -> Standing:
    said, open_facts = tuple(one_line(reason) for reason in reasons), tuple(unknown)
    state: Comparability = "not_comparable" if said else "unverified" if open_facts else "comparable"
    return Standing(
        state=state, reasons=said, unknown=open_facts, changed=tuple(one_line(difference) for difference in changed)
    )


def _planted(run: LoadedRun, cell: LoadedCell) -> tuple[str, ...]:
    if cell.planted:
        return ("faults were planted in this cell",)
    return ("the run has planted faults",) if run.planted else ()


def _topk(ours: Expectation, theirs: int | None) -> tuple[str, ...]:
    if theirs is None or ours.topk_effective == theirs:
        return ()
    asked = f" (requested {ours.topk_requested})" if ours.topk_requested != ours.topk_effective else ""
    return (f"effective top-k is {ours.topk_effective}{asked} here and {theirs} there",)


def _drawn(here: _Here, standing: Standing, numbers: Iterable[Sided]) -> _Drawn:
    return _Drawn(
        cell=here.cell.id,
        target=here.run.run.target,
        beside=here.beside,
        standing=standing,
        numbers=tuple(numbers),
    )


def _nothing(cell: str | None, target: str, name: str, *reasons: str) -> _Drawn:
    standing = _standing(reasons, (), ())
    return _Drawn(cell=cell, target=target, beside=name, standing=standing, numbers=())


def _decided(drawn: Sequence[_Drawn]) -> list[Comparison]:
    """The comparisons with what follows from all of their numbers together."""
    settled = iter(settle([number for one in drawn for number in one.numbers]))
    return [_comparison(one, [next(settled) for _ in one.numbers]) for one in drawn]


def _comparison(drawn: _Drawn, numbers: Sequence[tuple[ComparedNumber, str | None]]) -> Comparison:
    """Only what is comparable has a change; its reasons are then what decided each number."""
    standing = drawn.standing
    reasons, comparable = standing.reasons, standing.state == "comparable"
    if comparable:
        reasons = tuple(note for _, note in numbers if note) or ("no number is known on both sides",)
    changes = [number.change for number, _ in numbers if not _without_failure(number)]
    return Comparison(
        cell=drawn.cell,
        target=drawn.target,
        baseline=drawn.beside,
        comparable=standing.state,
        reasons=reasons,
        unknown=standing.unknown,
        changed=standing.changed,
        change=overall(changes) if comparable else None,
        numbers=tuple(number for number, _ in numbers),
    )


def _without_failure(number: ComparedNumber) -> bool:
    """Whether no launch failed on either side: that stands in the way of no verdict about the numbers."""
    return number.name == "failure_share" and number.ours == 0 and number.baseline == 0
