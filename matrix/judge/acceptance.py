"""`acceptance`: tokens a verify step, with the token that prefill brings taken out.

The engine's own figure for a request counts that token, so its floor is n / (n - 1) and not 1. Ours is
(tokens - 1) / verify steps, whose floor is exactly 1.
"""

from matrix.judge.reference import plain_requests
from matrix.judge.results import check_result, measured
from repro.model import CheckEvidence, CheckPlan, CheckResult, Measurement

FLOOR = 1.01
"""At or below this many tokens a step nothing that was drafted is being accepted."""
FEWEST_STEPS = 10
"""An answer's last step brings what is left of it: with fewer steps than this the floor may be the answer's end."""


def judge_acceptance(plan: CheckPlan, evidence: CheckEvidence | None, *, width: int | None = None) -> CheckResult:
    """`fail` (acceptance_at_floor): drafts are never accepted. `inconclusive`: the engine counted no verify steps, or
    so few that a step would have brought more tokens than its ``width`` has rows.

    Acceptance says nothing about whether the text is right.
    """
    if not plan.applicable:
        return check_result("acceptance", "not_applicable", "not_applicable", plan.reason or "no speculation")
    if evidence is None or not evidence.requests:
        return check_result("acceptance", "not_run", "no_evidence", "no request of this check was sent")
    counted = [r for r in plain_requests(evidence) if r.error is None and r.output_ids and r.verify_calls]
    if not counted:
        return check_result("acceptance", "inconclusive", "no_counters", "no reply says how many verify steps it took")
    steps = sum(request.verify_calls or 0 for request in counted)
    tokens = sum(len(request.output_ids) - 1 for request in counted)
    value = tokens / steps
    measurements = (
        measured("acceptance", round(value, 4), "tokens/step", n=len(counted)),
        measured("verify_steps", steps, "count", n=len(counted)),
        _server_figure(evidence),
    )
    histograms = [r.accept_histogram for r in counted if r.accept_histogram is not None]
    longest = max((len(h) for h in histograms), default=0)
    histogram = tuple(sum(h[i] for h in histograms if i < len(h)) for i in range(longest)) or None
    told = f"{value:.2f} tokens a step over {len(counted)} requests and {steps} steps"
    if width is not None and value > width:
        told += f", more than the {width} rows of a step can bring"
        return check_result("acceptance", "inconclusive", "acceptance_impossible", told, measurements=measurements)
    if value <= FLOOR and steps < FEWEST_STEPS:
        told += ", too few to tell whether drafts are accepted"
        return check_result("acceptance", "inconclusive", "too_few_steps", told, measurements=measurements)
    state, reason = ("fail", "acceptance_at_floor") if value <= FLOOR else ("pass", None)
    return check_result(
        "acceptance",
        "fail" if state == "fail" else "pass",
        reason,
        told + ("; nothing that was drafted is accepted" if reason else ""),
        measurements=measurements,
        histogram=histogram,
    )


def _server_figure(evidence: CheckEvidence) -> Measurement:
    figure = evidence.server_accept_length
    return measured(
        "server_accept_length",
        figure,
        "tokens/step",
        reason=None if figure is not None else "/server_info gives no avg_spec_accept_length",
    )
