"""`throughput`: output tokens a second at each concurrency, counted from ids.

The first rung, concurrency 1, is the plain pass of the `lossless` requests; the others are requests of its own. Whether
a number may be compared is decided later: only cells whose content is right have comparable numbers.
"""

from collections.abc import Sequence
from statistics import median

from matrix.judge.reference import plain_requests
from matrix.judge.results import check_result, measured
from repro.model import CheckEvidence, CheckPlan, CheckResult, Measurement, RequestRecord


def judge_throughput(
    plan: CheckPlan, evidence: CheckEvidence | None, solo: CheckEvidence | None, *, gpu_count: int
) -> CheckResult:
    """`pass`: every rung was measured, and ids agree with the engine's own count of tokens.

    A rung with failed requests, or with counts that disagree, has no number but a reason, and leaves the check
    `inconclusive`.
    """
    requests = [*(plain_requests(solo) if solo else ()), *(evidence.requests if evidence else ())]
    if not requests:
        return check_result("throughput", "not_run", "no_evidence", "no request of this check was sent")
    levels = sorted({1, *plan.concurrency})
    measurements: list[Measurement] = []
    withheld: list[str] = []
    for level in levels:
        rung = [request for request in requests if request.concurrency == level]
        numbers, reason = _rung(level, rung, gpu_count)
        measurements += numbers
        if reason:
            withheld.append(f"concurrency {level}: {reason}")
    if withheld:
        told = "numbers withheld: " + "; ".join(withheld)
        return check_result("throughput", "inconclusive", "withheld", told, measurements=tuple(measurements))
    rates = ", ".join(f"{m.value:.0f} tok/s at {m.at['concurrency']}" for m in measurements if m.name == "output_rate")
    return check_result("throughput", "pass", None, rates, measurements=tuple(measurements))


def _rung(level: int, rung: Sequence[RequestRecord], gpu_count: int) -> tuple[list[Measurement], str | None]:
    at = {"concurrency": level}
    reason = _why_withheld(rung)
    if reason is not None:
        return [measured("output_rate", None, "tok/s", at=at, n=len(rung), reason=reason)], reason
    tokens = sum(len(request.output_ids) for request in rung)
    duration_s = max(request.ended_s for request in rung) - min(request.begun_s for request in rung)
    rate = tokens / duration_s
    numbers = [
        measured("output_rate", round(rate, 2), "tok/s", at=at, n=len(rung)),
        measured("output_rate_per_user", round(rate / level, 2), "tok/s", at=at, n=len(rung)),
    ]
    if gpu_count:
        numbers.append(measured("output_rate_per_gpu", round(rate / gpu_count, 2), "tok/s", at=at, n=len(rung)))
    firsts = [r.first_token_s - r.begun_s for r in rung if r.first_token_s is not None]
    if firsts:
        numbers.append(measured("ttft_median", round(1000 * median(firsts), 2), "ms", at=at, n=len(firsts)))
    steps = sum(request.verify_calls or 0 for request in rung)
    if level == 1 and steps:
        numbers.append(measured("step_time", round(1000 * duration_s / steps, 3), "ms", at=at, n=steps))
    return numbers, None


def _why_withheld(rung: Sequence[RequestRecord]) -> str | None:
    if not rung:
        return "not_measured"
    if any(request.error is not None or not request.output_ids for request in rung):
        return "requests_failed"
    if any(r.usage_tokens is not None and r.usage_tokens != len(r.output_ids) for r in rung):
        return "token_counts_disagree"
    if max(request.ended_s for request in rung) <= min(request.begun_s for request in rung):
        return "clock_did_not_advance"
    return None
