"""How the acceptance of trees moves with the budget, and what else differs between the arms that show it."""

from collections.abc import Sequence
from dataclasses import dataclass

from report.changes import launches
from report.load import LoadedAttempt, LoadedCell, LoadedRun
from report.rules.draft import Draft
from report.rules.settings import Setting, listed, machine, selected, selection
from report.words import figure

NAME = "acceptance"


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """The acceptance of a cell: the lowest and highest over its launches, or of the range that a launch states."""

    cell: LoadedCell
    low: float
    high: float
    attempts: tuple[LoadedAttempt, ...]
    unit: str

    @property
    def budget(self) -> int:
        return self.cell.coordinates.budget

    @property
    def words(self) -> str:
        span = figure(self.low) if self.low == self.high else f"{figure(self.low)} to {figure(self.high)}"
        return f"{span} {self.unit} at budget {self.budget} ({launches(len(self.attempts))})"


def acceptance_by_budget(run: LoadedRun) -> tuple[Draft, ...]:
    """One for the run, if trees of two budgets show an acceptance and their ranges do not overlap.

    Launches that failed or were corrupt tell nothing of a healthy tree, and a planted run nothing at all. Arms that
    differ in the budget and its top-k alone are preferred; otherwise what differs is named.
    """
    if run.planted:
        return ()
    seen = [found for cell in run.cells if cell.coordinates.shape == "tree" and (found := _seen(cell)) is not None]
    by_setting: dict[Setting, list[Seen]] = {}
    for one in seen:
        by_setting.setdefault(Setting.of(one.cell.coordinates), []).append(one)
    series = max(sorted(by_setting.items()), key=lambda item: len({one.budget for one in item[1]}), default=None)
    if series is None:
        return ()
    chosen = series[1] if len({one.budget for one in series[1]}) > 1 else seen
    ordered = sorted(chosen, key=lambda one: (one.budget, one.cell.id))
    first, last = ordered[0], ordered[-1]
    if first.budget == last.budget or (first.low <= last.high and last.low <= first.high):
        return ()
    return (_draft(run, ordered, "rises" if last.low > first.high else "falls"),)


def _draft(run: LoadedRun, ordered: Sequence[Seen], moves: str) -> Draft:
    first, last = ordered[0], ordered[-1]
    told = " \N{RIGHTWARDS ARROW} ".join(one.words for one in ordered)
    differs = _differences(first, last)
    also = f" They differ in more than the budget: {listed(differs)}." if differs else ""
    cells = (first.cell, last.cell)
    return Draft(
        run=run,
        family="acceptance",
        kind="acceptance_by_budget",
        severity="info",
        subject=moves,
        statement=f"Acceptance {moves} with the budget on {machine(run)}: {told}.{also} It says nothing "
        "about whether the text is right.",
        cells=tuple(one.cell for one in ordered),
        scope=tuple(f"{machine(run)}, {Setting.of(one.cell.coordinates).words}: {one.words}" for one in ordered),
        hypotheses=tuple(f"That it is the budget and not {what}: no other arm tells." for what in differs),
        next=f"python -m matrix run --spec {run.run.target} {selected(map(selection, cells))} --launches 10",
        attempts=tuple(attempt for one in ordered for attempt in one.attempts),
        n=sum(len(one.attempts) for one in ordered),
    )


def _differences(first: Seen, last: Seen) -> list[str]:
    """What differs between two arms beside the budget, and what is not known to be equal."""
    one, other = (Setting.of(seen.cell.coordinates) for seen in (first, last))
    found = []
    topks = (first.cell.coordinates.topk, last.cell.coordinates.topk)
    if topks[0] != topks[1]:
        found.append("top-k " + " and ".join("not stated" if k is None else str(k) for k in topks))
    for axis, name in (("graph", "graph mode"), ("nvls", "NVLS")):
        values = (one.known(axis), other.known(axis))  # type: ignore[arg-type]
        if values[0] is None or values[1] is None:
            stated = [value for value in values if value is not None]
            found.append(f"{name} ({' and '.join(['not stated', *stated])})")
        elif values[0] != values[1]:
            found.append(f"{name} ({values[0]} and {values[1]})")
    return found


def _seen(cell: LoadedCell) -> Seen | None:
    lows: list[float] = []
    highs: list[float] = []
    attempts = []
    unit = ""
    for attempt in cell.attempts:
        if attempt.verdict.verdict not in {"pass", "inconclusive"} or not _proven(attempt):
            continue
        for measured in (m for check in attempt.result.checks for m in check.measurements if m.name == NAME):
            low = measured.value if measured.value is not None else measured.low
            high = measured.value if measured.value is not None else measured.high
            if low is not None and high is not None:
                lows.append(low)
                highs.append(high)
                attempts.append(attempt)
                unit = measured.unit
    if not lows:
        return None
    return Seen(cell=cell, low=min(lows), high=max(highs), attempts=tuple(attempts), unit=unit)


def _proven(attempt: LoadedAttempt) -> bool:
    """Not of another configuration than the cell's, as far as is known."""
    result = attempt.result
    honoured = result.expectation.topk_requested == result.expectation.topk_effective
    return honoured and all(proof.state != "contradicted" for proof in result.proof)
