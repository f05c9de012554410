"""The numbers of an attempt, and which of them may be set beside others: correctness gates performance."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from report.load import LoadedAttempt, LoadedCell
from report.words import spoken
from repro.model import CheckName, CheckResult, Measurement, Result
from repro.trust import CONTENT_CHECKS

_DOUBTS = frozenset({"configuration_not_proven", "oracle_not_trusted", "reference_outvoted", "reference_unstable"})
"""Reasons of a verdict for which nothing that was measured may be compared."""
_SPEED_CHECKS: frozenset[CheckName] = frozenset({"throughput"})
_SPEED_NAMES = ("output_rate", "ttft", "itl", "step_time")

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


def why_withheld(attempt: LoadedAttempt) -> str | None:
    """Why no number of this attempt may be compared; None if they may."""
    if attempt.result.planted is not None:
        return "planted_fault"
    return _not_shown_right(attempt)


def shown_numbers(attempt: LoadedAttempt) -> tuple[ShownNumber, ...]:
    """Every number of the attempt, those of speed withheld unless its content was shown to be right."""
    reason = _not_shown_right(attempt)
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
    reason = _not_shown_right(attempt)
    return tuple(_shown_check(check, reason) for check in attempt.result.checks)


def cell_numbers(cell: LoadedCell) -> tuple[CellNumber, ...]:
    """The numbers of a cell to compare, each over its launches, in the order in which they were measured."""
    return merge_numbers(cell.attempts)


def merge_numbers(attempts: Sequence[LoadedAttempt]) -> tuple[CellNumber, ...]:
    found: dict[tuple[str, tuple[tuple[str, int], ...], str], list[float]] = {}
    reasons: dict[tuple[str, tuple[tuple[str, int], ...], str], str] = {}
    for attempt in attempts:
        withheld = why_withheld(attempt)
        for measurement in (m for check in attempt.result.checks for m in check.measurements):
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


def _not_shown_right(attempt: LoadedAttempt) -> str | None:
    result, verdict = attempt.result, attempt.verdict
    if result.outcome != "completed":
        return f"launch_{result.outcome}"
    doubts = [reason for reason in verdict.reasons if reason in _DOUBTS]
    if doubts or verdict.verdict == "corrupt":
        return doubts[0] if doubts else "content_wrong"
    if verdict.verdict == "pass" or (attempt.score is not None and attempt.score.state == "sound"):
        return None
    return _unseen(result)


def _unseen(result: Result) -> str | None:
    """Why the checks of content do not show that the content is right."""
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
