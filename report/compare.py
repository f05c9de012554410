"""A cell beside an archived baseline, or beside the same cell of another run: may they be compared, and what follows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from repro.environment import Comparability, common_facts, compare_keys, declared_facts, key_facts
from repro.intervals import wilson
from repro.model import Baseline, ComparedNumber, Comparison, Expectation, Fact
from report.changes import Change, change_of_failures, change_of_numbers
from report.escape import one_line
from report.load import LoadedCell, LoadedRun
from report.numbers import BETTER, CellNumber, cell_numbers
from report.words import at_label, number_label

RUN_PREFIX = "run-"
"""A comparison with another run names it by this and the run's id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Standing:
    """Whether two sides are comparable, and what that lets be said of a number."""

    state: Comparability
    reasons: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def why_no_verdict(self) -> str:
        return "not comparable" if self.state == "not_comparable" else "unverified: not all facts are known on both sides"


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
        return [_with_baseline(run, cell, baseline) for cell in cells]
    missing = [name for name in ("budget", "shape") if getattr(baseline, name) is None]
    reason = (
        f"the archive does not state its {' and its '.join(missing)}"
        if missing
        else "this run has no cell at the baseline's coordinates"
    )
    return [_nothing_to_compare(None, run.run.target, baseline.name, (reason,))]


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


def _with_baseline(run: LoadedRun, cell: LoadedCell, baseline: Baseline) -> Comparison:
    if not cell.attempts:
        return _nothing_to_compare(cell.id, run.run.target, baseline.name, ("no launch of this cell has a result",))
    speculates = cell.coordinates.shape != "none"
    key = compare_keys(cell_facts(run, cell), baseline.facts, drafts=speculates)
    reasons = (*key.reasons, *_planted(run, cell), *_topk(cell.attempts[0].result.expectation, baseline.topk))
    unstated = tuple(
        name
        for name in ("topk", "graph", "nvls")
        if getattr(baseline, name) is None and not baseline.unknown.get(name, "").startswith("not applicable")
    )
    unknown = (*unstated, *key.unknowns)
    standing = _standing(reasons, unknown)
    ours = {(number.name, number.at, number.unit): number for number in cell_numbers(cell)}
    numbers: list[ComparedNumber] = []
    notes: list[str] = []
    for theirs in baseline.measurements:
        at = tuple(sorted(theirs.at.items()))
        there = (theirs.value, theirs.low, theirs.high)
        number, note = _number(
            ours.get((theirs.name, at, theirs.unit)), theirs.name, theirs.at, theirs.unit, there, (), standing
        )
        numbers.append(number)
        notes += note
    if baseline.outcome is not None:
        said = f"the account says {baseline.outcome!r}, and not of how many launches"
        numbers.append(_failure_share(cell, None, standing, said))
    return _comparison(run, cell, baseline.name, standing, numbers, notes)


def _beside_run(run: LoadedRun, other: LoadedRun) -> list[Comparison]:
    name = RUN_PREFIX + other.run.run_id
    if other.run.run_id == run.run.run_id:
        return [_nothing_to_compare(None, run.run.target, name, ("it is the same run",))]
    theirs = {cell.id: cell for cell in other.cells}
    found = [_with_cell(run, cell, other, theirs[cell.id], name) for cell in run.cells if cell.id in theirs]
    ours = {cell.id for cell in run.cells}
    absent = [
        _nothing_to_compare(cell.id, run.run.target, name, ("the other run does not have this cell",))
        for cell in run.cells
        if cell.id not in theirs
    ]
    only_there = [
        _nothing_to_compare(None, run.run.target, name, (f"this run does not have the cell {cell.id}",))
        for cell in other.cells
        if cell.id not in ours
    ]
    return found + absent + only_there


def _with_cell(run: LoadedRun, cell: LoadedCell, other: LoadedRun, there: LoadedCell, name: str) -> Comparison:
    if not cell.attempts or not there.attempts:
        side = "here" if not cell.attempts else "there"
        return _nothing_to_compare(cell.id, run.run.target, name, (f"no launch of this cell has a result {side}",))
    key = compare_keys(
        cell_facts(run, cell), cell_facts(other, there), drafts=cell.coordinates.shape != "none"
    )
    other_topk = there.attempts[0].result.expectation.topk_effective
    reasons = (
        *key.reasons,
        *_planted(run, cell),
        *(reason + " there" for reason in _planted(other, there)),
        *_topk(cell.attempts[0].result.expectation, other_topk),
    )
    standing = _standing(reasons, key.unknowns)
    theirs = {(number.name, number.at, number.unit): number for number in cell_numbers(there)}
    numbers: list[ComparedNumber] = []
    notes: list[str] = []
    for ours in cell_numbers(cell):
        match = theirs.get((ours.name, ours.at, ours.unit))
        if ours.name not in BETTER or match is None:
            continue
        low_high = (min(match.values), max(match.values)) if len(match.values) > 1 else (None, None)
        number, note = _number(
            ours, ours.name, dict(ours.at), ours.unit, (match.middle, *low_high), match.values, standing
        )
        numbers.append(number)
        notes += note
    share = _failure_share(cell, there, standing, "no launch decided on one of the sides")
    if share.change is not None:
        notes.append(
            change_of_failures((cell.summary.k, cell.summary.n), (there.summary.k, there.summary.n))[1]
        )
    return _comparison(run, cell, name, standing, [share, *numbers], notes)


def _standing(reasons: Sequence[str], unknown: Sequence[str]) -> _Standing:
    state: Comparability = "not_comparable" if reasons else "unverified" if unknown else "comparable"
    return _Standing(state=state, reasons=tuple(one_line(reason) for reason in reasons), unknown=tuple(unknown))


def _planted(run: LoadedRun, cell: LoadedCell) -> tuple[str, ...]:
    if cell.planted:
        return ("faults were planted in this cell",)
    return ("the run has planted faults",) if run.planted else ()


def _topk(ours: Expectation, theirs: int | None) -> tuple[str, ...]:
    if theirs is None or ours.topk_effective == theirs:
        return ()
    asked = f" (requested {ours.topk_requested})" if ours.topk_requested != ours.topk_effective else ""
    return (f"effective top-k is {ours.topk_effective}{asked} here and {theirs} there",)


def _number(
    ours: CellNumber | None,
    name: str,
    at: Mapping[str, int],
    unit: str,
    there: tuple[float | None, float | None, float | None],
    repeats: Sequence[float],
    standing: _Standing,
) -> tuple[ComparedNumber, list[str]]:
    """Both sides of a number, and what is to be said beside its change. ``repeats``: the other side's launches."""
    values = ours.values if ours is not None else ()
    middle = ours.middle if ours is not None else None
    baseline, low, high = there
    change: Change | None = None
    notes: list[str] = []
    if middle is None:
        reason: str | None = (ours.reason if ours is not None else None) or "not measured here"
    elif baseline is None and low is None:
        reason = "no number there"
    elif standing.state != "comparable":
        reason = standing.why_no_verdict
    else:
        reason = None
        change, why = change_of_numbers(values, repeats or (baseline or 0.0,), BETTER.get(name, 1))
        notes.append(f"{number_label(name)}{', ' + at_label(at) if at else ''}: {why}")
    ratio = None
    if standing.state != "not_comparable" and middle is not None and baseline:
        ratio = round(middle / baseline, 4)
    number = ComparedNumber(
        name=name,
        at=dict(at),
        unit=unit,
        ours=middle,
        ours_low=min(values) if len(values) > 1 else None,
        ours_high=max(values) if len(values) > 1 else None,
        baseline=baseline,
        baseline_low=low,
        baseline_high=high,
        ratio=ratio,
        change=change,
        reason=reason,
    )
    return number, notes


def _failure_share(cell: LoadedCell, there: LoadedCell | None, standing: _Standing, unstated: str) -> ComparedNumber:
    """k of n on both sides; ``there`` None for a baseline, whose launches are not counted."""
    ours = None if cell.planted or not cell.summary.n else cell.summary
    theirs = there.summary if there is not None and there.summary.n and not there.planted else None
    change: Change | None = None
    if ours is None:
        reason: str | None = "planted_fault" if cell.planted else "no launch decided here"
    elif theirs is None:
        reason = unstated
    elif standing.state != "comparable":
        reason = standing.why_no_verdict
    else:
        reason = None
        change = change_of_failures((ours.k, ours.n), (theirs.k, theirs.n))[0]
    low, high = _bounds(ours.k, ours.n) if ours is not None else (None, None)
    there_low, there_high = _bounds(theirs.k, theirs.n) if theirs is not None else (None, None)
    return ComparedNumber(
        name="failure_share",
        at={},
        unit="share",
        ours=None if ours is None else round(ours.k / ours.n, 4),
        ours_low=low,
        ours_high=high,
        baseline=None if theirs is None else round(theirs.k / theirs.n, 4),
        baseline_low=there_low,
        baseline_high=there_high,
        ratio=None,
        change=change,
        reason=reason,
    )


def _bounds(k: int, n: int) -> tuple[float | None, float | None]:
    interval = wilson(k, n)
    return (None, None) if interval is None else (round(interval[0], 4), round(interval[1], 4))


def _comparison(
    run: LoadedRun,
    cell: LoadedCell,
    name: str,
    standing: _Standing,
    numbers: Sequence[ComparedNumber],
    notes: Sequence[str],
) -> Comparison:
    changes = {number.change for number in numbers}
    change: Change | None = None
    reasons = standing.reasons
    if standing.state == "comparable":
        order: tuple[Change, ...] = ("regression", "improvement", "equivalent")
        change = next((c for c in order if c in changes), "undecided")
        reasons = tuple(notes) or ("no number is known on both sides",)
    return Comparison(
        cell=cell.id,
        target=run.run.target,
        baseline=name,
        comparable=standing.state,
        reasons=reasons,
        unknown=standing.unknown,
        change=change,
        numbers=tuple(numbers),
    )


def _nothing_to_compare(cell: str | None, target: str, name: str, reasons: tuple[str, ...]) -> Comparison:
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
