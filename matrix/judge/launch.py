"""`launch`: the server came up, and answered every request with tokens."""

from collections.abc import Sequence

from matrix.judge.results import check_result, measured
from repro.model import CheckEvidence, CheckName, CheckResult, PhaseTiming, RequestRecord


def judge_launch(phases: Sequence[PhaseTiming], rounds: Sequence[CheckEvidence]) -> CheckResult:
    """`fail`: never ready, requests that failed while the server lived (requests_failed), or replies that succeeded and
    brought no token at all (no_tokens). Times are seconds from the start of the server."""
    serving = next((phase for phase in phases if phase.phase == "serving"), None)
    if serving is None:
        return check_result("launch", "fail", "not_ready", "the server never became ready")
    begun = min(phase.begun_s for phase in phases)
    ready = measured("ready", round(serving.begun_s - begun, 3), "s", n=1)
    requests = [request for evidence in rounds for request in evidence.requests]
    failed = [request for request in requests if request.error is not None]
    empty = [request for evidence in rounds for request in evidence.requests if _is_empty(evidence.check, request)]
    if empty:
        told = f"{len(empty)} of {len(requests)} requests succeeded and brought no token"
        return check_result("launch", "fail", "no_tokens", told, measurements=(ready,))
    if failed:
        told = f"{len(failed)} of {len(requests)} requests failed; the first: {failed[0].error}"
        return check_result("launch", "fail", "requests_failed", told, measurements=(ready,))
    told = f"ready after {ready.value:.1f} s; {len(requests)} requests answered"
    return check_result("launch", "pass", None, told, measurements=(ready,))


def _is_empty(check: CheckName, request: RequestRecord) -> bool:
    """Whether the request succeeded and brought nothing. Chat endpoints, which `coding` asks, give text without ids."""
    if request.error is not None:
        return False
    return not (request.output_text or request.usage_tokens) if check == "coding" else not request.output_ids
