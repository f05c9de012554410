"""Both sides of one number, and what may be said of the difference."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from report.changes import Change, change_of_failures, change_of_numbers
from report.load import LoadedCell
from report.numbers import BETTER, CellNumber
from report.words import at_label, number_label
from repro.environment import Comparability
from repro.intervals import wilson
from repro.model import Baseline, ComparedNumber, Measurement


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """Whether two sides are comparable, and why not or what is unknown."""

    state: Comparability
    reasons: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def why_no_verdict(self) -> str:
        if self.state == "not_comparable":
            return "not comparable"
        return "unverified: not all facts are known on both sides"


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One side of a number. ``values``: one for each launch; ``reason``: why there is no number."""

    middle: float | None
    low: float | None
    high: float | None
    values: tuple[float, ...]
    reason: str | None

    @classmethod
    def of_cell(cls, number: CellNumber | None, *, missing: str) -> "Side":
        """A cell's launches: their median, lowest and highest."""
        values = number.values if number is not None else ()
        several = len(values) > 1
        return cls(
            middle=number.middle if number is not None else None,
            low=min(values) if several else None,
            high=max(values) if several else None,
            values=values,
            reason=(number.reason if number is not None else missing) if not values else None,
        )

    @classmethod
    def of_archive(cls, measurement: Measurement) -> "Side":
        """A figure of an account, which counts as one number, whatever it was taken over."""
        value = measurement.value
        return cls(
            middle=value,
            low=measurement.low,
            high=measurement.high,
            values=() if value is None else (value,),
            reason=measurement.reason,
        )


def compared_number(
    name: str, at: Mapping[str, int], unit: str, *, ours: Side, theirs: Side, standing: Standing
) -> tuple[ComparedNumber, str | None]:
    """Both sides of a number; and, where there is a change, what decided it."""
    change: Change | None = None
    note: str | None = None
    reason: str | None = None
    if not ours.values:
        reason = ours.reason or "no number here"
    elif theirs.middle is None and theirs.low is None:
        reason = theirs.reason or "no number there"
    elif standing.state != "comparable":
        reason = standing.why_no_verdict
    else:
        change, why = change_of_numbers(ours.values, theirs.values, BETTER.get(name, 1))
        note = f"{number_label(name)}{', ' + at_label(at) if at else ''}: {why}"
    ratio = None
    if standing.state != "not_comparable" and ours.middle is not None and theirs.middle:
        ratio = round(ours.middle / theirs.middle, 4)
    number = ComparedNumber(
        name=name,
        at=dict(at),
        unit=unit,
        ours=ours.middle,
        ours_low=ours.low,
        ours_high=ours.high,
        baseline=theirs.middle,
        baseline_low=theirs.low,
        baseline_high=theirs.high,
        ratio=ratio,
        change=change,
        reason=reason,
    )
    return number, note


def failure_share(
    cell: LoadedCell, there: LoadedCell | None, standing: Standing, unstated: str
) -> tuple[ComparedNumber, str | None]:
    """k of n on both sides; ``there`` None for a baseline, whose launches are not counted, as ``unstated`` says."""
    ours = None if cell.planted or not cell.summary.n else cell.summary
    theirs = there.summary if there is not None and there.summary.n and not there.planted else None
    change: Change | None = None
    note: str | None = None
    reason: str | None = None
    if ours is None:
        reason = "planted_fault" if cell.planted else "no launch decided here"
    elif theirs is None:
        reason = unstated
    elif standing.state != "comparable":
        reason = standing.why_no_verdict
    else:
        change, note = change_of_failures((ours.k, ours.n), (theirs.k, theirs.n))
    low, high = _bounds(ours.k, ours.n) if ours is not None else (None, None)
    there_low, there_high = _bounds(theirs.k, theirs.n) if theirs is not None else (None, None)
    number = ComparedNumber(
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
    return number, note


def with_doubts(number: ComparedNumber, baseline: Baseline) -> ComparedNumber:
    """The number with what its source leaves open about it, where there is no verdict anyway."""
    names = (name for name in baseline.unknown if name == number.name or name.startswith(f"{number.name}_"))
    doubts = [baseline.unknown[name] for name in sorted(names)]
    if number.reason is None or not doubts:
        return number
    return replace(number, reason="; ".join((number.reason, *doubts)))


def _bounds(k: int, n: int) -> tuple[float | None, float | None]:
    interval = wilson(k, n)
    return (None, None) if interval is None else (round(interval[0], 4), round(interval[1], 4))
