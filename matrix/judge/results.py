"""How judges word what they found: the records of a check's result, filled in."""

from collections.abc import Mapping
from typing import Literal

from repro.model import CheckName, CheckResult, CheckState, Difference, Measurement


def measured(
    name: str,
    value: float | None,
    unit: str,
    *,
    at: Mapping[str, int] | None = None,
    n: int | None = None,
    low: float | None = None,
    high: float | None = None,
    basis: Literal["measured", "stated"] = "measured",
    reason: str | None = None,
) -> Measurement:
    """A number of our own, or one that another program states. ``reason`` is needed exactly when ``value`` is None."""
    return Measurement(
        name=name,
        at=dict(at or {}),
        value=value,
        low=low,
        high=high,
        unit=unit,
        n=n,
        basis=basis,
        reason=reason,
    )


def check_result(
    check: CheckName,
    state: CheckState,
    reason: str | None,
    detail: str,
    *,
    measurements: tuple[Measurement, ...] = (),
    differences: tuple[Difference, ...] = (),
    histogram: tuple[int, ...] | None = None,
) -> CheckResult:
    return CheckResult(
        check=check,
        state=state,
        reason=reason,
        detail=detail,
        measurements=measurements,
        differences=differences,
        histogram=histogram,
    )
