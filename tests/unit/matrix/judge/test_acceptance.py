"""Acceptance from the engine's own counts of verify steps."""

from collections.abc import Callable

from matrix.judge.acceptance import FEWEST_STEPS, judge_acceptance
from repro.model import CheckEvidence, CheckPlan, RequestRecord


def test_the_floor_takes_enough_steps_to_be_one(
    check_plan: Callable[..., CheckPlan],
    evidence: Callable[..., CheckEvidence],
    answer: Callable[..., RequestRecord],
) -> None:
    def judged(steps: int) -> tuple[str, str | None]:
        request = answer(ids=tuple(range(steps + 1)), verify_calls=steps)
        found = judge_acceptance(check_plan("acceptance"), evidence("lossless", request))
        return found.state, found.reason

    assert judged(FEWEST_STEPS) == ("fail", "acceptance_at_floor")
    assert judged(1) == ("inconclusive", "too_few_steps")
