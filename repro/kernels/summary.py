"""How arms stand and how a run ended: from results alone."""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from repro.kernels.case import Case
from repro.kernels.record import finished_keys
from repro.model.kernels import KernelArm, KernelResult

ArmState = Literal["complete", "unfinished", "broken", "not_run"]


def arm_of(check_rows: Sequence[KernelResult], cases: Sequence[Case], *, why_not: str | None) -> KernelArm:
    """How an arm stands. ``why_not``: why the cases that are left are not asked, None while they still may be.

    A planted fault that could not be tried, such as in a release that is not at hand, is not one that was missed.
    """
    planted = [row for row in check_rows if row.planted and row.state != "not_run"]
    missed = [row for row in planted if row.state != "pass"]
    done = finished_keys(check_rows, cases)
    left = len(cases) - len(done)
    state, reason = _state(check_rows, missed, left, why_not)
    return KernelArm(
        check=cases[0].check,
        state=state,
        cases=len(done),
        caught=len(planted) - len(missed),
        planted=len(planted),
        wall_s=round(sum(row.wall_s for row in check_rows), 3),
        reason=reason,
    )


def _state(
    rows: Sequence[KernelResult], missed: Sequence[KernelResult], left: int, why_not: str | None
) -> tuple[ArmState, str | None]:
    if missed:
        names = ", ".join(sorted({f"{row.planted} in {row.cell.id}" for row in missed})[:3])
        return "broken", f"planted and not caught: {names}; nothing that this arm says counts"
    if not rows and why_not:
        return "not_run", why_not
    if left:
        return "unfinished", why_not or f"{left} cases are left: the same command goes on with them"
    if all(row.state == "not_run" for row in rows):
        return "not_run", rows[0].detail
    if not any(row.planted and row.state == "pass" for row in rows):
        return "broken", "no fault could be planted, so that nothing shows that this arm can see one"
    return "complete", None


def exit_status(
    arms: Iterable[KernelArm],
    rows: Iterable[KernelResult],
    *,
    asked_by_name: Collection[str],
    surveys: Collection[str],
) -> int:
    """0 everything holds, 1 a case failed, 4 an arm that was asked for by name cannot run here, 7 something is broken,
    left or inconclusive. Arms that were not named and cannot run here count for nothing, and what fails in ``surveys``
    is a finding."""
    arms = tuple(arms)
    believed = {arm.check for arm in arms if arm.state != "broken"}
    counted = [row for row in rows if row.check in believed and row.planted is None]
    states = {row.state for row in counted if row.state != "fail" or row.check not in surveys}
    absent = {arm.check for arm in arms if arm.state == "not_run"}
    if "fail" in states:
        return 1
    if absent & set(asked_by_name):
        return 4
    if "inconclusive" in states or any(arm.state in ("broken", "unfinished") for arm in arms):
        return 7
    return 4 if arms and len(absent) == len(arms) else 0
