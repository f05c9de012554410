"""`coding`: programming tasks solved, against how many of them the reference solved."""

from math import comb

from matrix.judge.results import check_result, measured
from repro.model import CheckEvidence, CheckPlan, CheckResult, CheckState, CodingJudgement, Measurement

ALPHA = 0.05
"""A loss counts as one if a healthy arm would show it in fewer runs than this (Fisher's exact test, one-sided)."""

SHOWN = 120
"""Characters that the words about one task may take; `evidence/coding.json` has them all."""


def judge_coding(
    plan: CheckPlan,
    evidence: CheckEvidence | None,
    judgement: CodingJudgement | None,
    reference: CodingJudgement | None,
    *,
    is_reference: bool = False,
) -> CheckResult:
    """`pass`: no task that the reference solved is lost. `fail` (coding_lost): so many are lost that chance does not
    explain it. `inconclusive`: fewer are lost (coding_lost), answers that could not be run (coding_not_judged), nothing
    to compare with (coding_unsolved). `not_run`: no answers, or no sandbox (no_sandbox).
    """
    if not plan.applicable:
        return check_result("coding", "not_applicable", "not_applicable", plan.reason or "not applicable")
    if evidence is None or not evidence.requests:
        return check_result("coding", "not_run", "no_evidence", "no task was sent")
    if judgement is None or judgement.sandbox is None:
        why = judgement.reason if judgement is not None and judgement.reason else "nobody ran the answers"
        return check_result("coding", "not_run", "no_sandbox", f"{len(evidence.requests)} answers not judged: {why}")
    return _judged(judgement, reference, is_reference=is_reference)


def chance_of_loss(solved: int, n: int, solved_before: int, n_before: int) -> float:
    """The one-sided p of Fisher's exact test: how likely an arm solves this few of ``n`` tasks, or fewer, if it is as
    good as one that solved ``solved_before`` of ``n_before``."""
    both = solved + solved_before
    ways = sum(comb(n, k) * comb(n_before, both - k) for k in range(max(0, both - n_before), solved + 1))
    return ways / comb(n + n_before, both)


def _judged(judgement: CodingJudgement, reference: CodingJudgement | None, *, is_reference: bool) -> CheckResult:
    n = len(judgement.tasks)
    solved = _solved(judgement)
    measurement = measured("coding_correct", len(solved), "count", n=n)
    told = f"{len(solved)} of {n} tasks solved"
    unjudged = [task for task in judgement.tasks if task.state == "not_judged"]
    if unjudged:
        told += f"; {len(unjudged)} answers could not be run: {unjudged[0].detail}"
        return _result("inconclusive", "coding_not_judged", told, measurement)
    told += "".join(f"; {task.task}: {task.detail[:SHOWN]}" for task in judgement.tasks if task.state != "passed")
    if is_reference:
        return _alone(told, measurement, any_is_enough=True)
    if reference is None or reference.sandbox is None:
        return _alone(f"{told}; the reference's answers were not judged", measurement, any_is_enough=False)
    return _compared(told, measurement, solved, reference)


def _compared(told: str, measurement: Measurement, solved: frozenset[str], reference: CodingJudgement) -> CheckResult:
    before, n = _solved(reference), measurement.n or 0
    told += f"; the reference solved {len(before)} of {len(reference.tasks)}"
    if not before:
        return _result("inconclusive", "coding_unsolved", f"{told}: nothing can be lost", measurement)
    lost = sorted(before - solved)
    if not lost:
        return _result("pass", None, told, measurement)
    p = chance_of_loss(len(solved), n, len(before), len(reference.tasks))
    told += f"; lost: {', '.join(lost)} (one-sided p = {p:.3f})"
    return _result("fail" if p < ALPHA else "inconclusive", "coding_lost", told, measurement)


def _alone(told: str, measurement: Measurement, *, any_is_enough: bool) -> CheckResult:
    """Without another arm to compare with. The reference itself is what others are measured against: it need not solve
    all, but something."""
    value, n = measurement.value or 0, measurement.n or 0
    good = value > 0 if any_is_enough else value == n
    return _result("pass" if good else "inconclusive", None if good else "coding_unsolved", told, measurement)


def _result(state: CheckState, reason: str | None, told: str, measurement: Measurement) -> CheckResult:
    return check_result("coding", state, reason, told, measurements=(measurement,))


def _solved(judgement: CodingJudgement) -> frozenset[str]:
    return frozenset(task.task for task in judgement.tasks if task.state == "passed")
