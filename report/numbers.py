"""The numbers of an attempt, and which of them may be set beside others: correctness gates performance."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from report.load import LoadedAttempt, LoadedCell
from report.words import spoken
from repro.model import CheckName, CheckResult, Measurement, Result
from repro.verdict import MUST_BE_PROVEN

CONTENT_CHECKS: frozenset[CheckName] = frozenset({"lossless", "coding", "load"})
"""The checks that look at what was said."""

_SPEED_CHECKS: frozenset[CheckName] = frozenset({"throughput", "load"})
_SPEED_NAMES = ("output_rate", "ttft", "step_time")

BETTER: dict[str, int] = {
    "output_rate": 1,
    "acceptance": 1,
    "coding_correct": 1,
    "ttft_median": -1,
    "step_time": -1,
    "ready": -1,
    "failure_share": -1,
}
"""Numbers with a better direction, 1 for more and -1 for less: those that two runs are compared by. Rates per user and
per GPU say nothing that the output rate does not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownNumber:
    """A measurement as the report shows it. ``withheld`` is a reason code: then no value may be shown or compared."""

    check: CheckName
    measurement: Measurement
    withheld: str | None

    @property
    def value(self) -> float | None:
        return None if self.withheld else self.measurement.value


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownCheck:
    """A check as the report shows it. ``state`` is `withheld` where a pass would be about numbers that are withheld."""

    check: CheckName
    state: str
    reason: str | None
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CellNumber:
    """One number over the launches of a cell. ``values`` has one entry for each launch that gave a number to compare;
    ``reason`` says why there is none."""

    name: str
    at: tuple[tuple[str, int], ...]
    unit: str
    values: tuple[float, ...]
    reason: str | None

    @property
    def middle(self) -> float | None:
        return median(self.values) if self.values else None


def why_withheld(result: Result) -> str | None:
    """Why no number of this attempt may be compared; None if they may."""
    if result.planted is not None:
        return "planted_fault"
    return _not_shown_right(result)


def shown_numbers(attempt: LoadedAttempt) -> tuple[ShownNumber, ...]:
    """Every number of the attempt, those of speed withheld unless its content was shown to be right."""
    reason = _not_shown_right(attempt.result)
    return tuple(
        ShownNumber(
            check=check.check,
            measurement=measurement,
            withheld=reason if _is_speed(check.check, measurement.name) else None,
        )
        for check in attempt.result.checks
        for measurement in check.measurements
    )


def shown_checks(attempt: LoadedAttempt) -> tuple[ShownCheck, ...]:
    """Every check of the attempt. The words of `throughput` are its numbers: they are withheld where those are."""
    reason = _not_shown_right(attempt.result)
    return tuple(_shown_check(check, reason) for check in attempt.result.checks)


def cell_numbers(cell: LoadedCell) -> tuple[CellNumber, ...]:
    """The numbers of a cell to compare, each over its launches, in the order in which they were measured."""
    return merge_numbers([attempt.result for attempt in cell.attempts])


def merge_numbers(results: Sequence[Result]) -> tuple[CellNumber, ...]:
    found: dict[tuple[str, tuple[tuple[str, int], ...], str], list[float]] = {}
    reasons: dict[tuple[str, tuple[tuple[str, int], ...], str], str] = {}
    for result in results:
        withheld = why_withheld(result)
        for measurement in (m for check in result.checks for m in check.measurements):
            key = (measurement.name, tuple(sorted(measurement.at.items())), measurement.unit)
            values = found.setdefault(key, [])
            if withheld is None and measurement.value is not None:
                values.append(measurement.value)
            else:
                reasons.setdefault(key, withheld or measurement.reason or "not known")
    return tuple(
        CellNumber(
            name=name, at=at, unit=unit, values=tuple(values), reason=None if values else reasons.get((name, at, unit))
        )
        for (name, at, unit), values in found.items()
    )


def _not_shown_right(result: Result) -> str | None:
    if result.outcome != "completed":
        return f"launch_{result.outcome}"
    if any(p.state == "contradicted" or (p.state == "unknown" and p.fact in MUST_BE_PROVEN) for p in result.proof):
        return "configuration_not_proven"
    states = [check.state for check in result.checks if check.check in CONTENT_CHECKS]
    for state, reason in (
        ("fail", "content_wrong"),
        ("inconclusive", "content_inconclusive"),
        ("not_run", "content_not_checked"),
    ):
        if state in states:
            return reason
    return None if "pass" in states else "content_not_checked"


def _shown_check(check: CheckResult, withheld: str | None) -> ShownCheck:
    if withheld is None or check.check != "throughput" or check.state in {"not_run", "not_applicable"}:
        return ShownCheck(check=check.check, state=check.state, reason=check.reason, detail=check.detail)
    state = "withheld" if check.state == "pass" else check.state
    return ShownCheck(check=check.check, state=state, reason=check.reason, detail=f"withheld: {spoken(withheld)}")


def _is_speed(check: CheckName, name: str) -> bool:
    return check in _SPEED_CHECKS or name.startswith(_SPEED_NAMES)
