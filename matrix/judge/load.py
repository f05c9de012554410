"""`load`: what was said while requests joined, left and were given up, token by token against the reference."""

from collections.abc import Mapping, Sequence

from matrix.judge.lossless import MAX_DIFFERENCES, first_difference
from matrix.judge.reference import Reference, ReferenceOutput
from matrix.judge.results import check_result, measured
from matrix.judge.rounds import middle, rounds_of
from repro.model import CheckEvidence, CheckPlan, CheckResult, Difference, Measurement, RequestRecord


def judge_load(plan: CheckPlan, evidence: CheckEvidence | None, reference: Reference | None) -> CheckResult:
    """`pass`: every output is the beginning of the reference's, as long as was asked for; one that the client gave up,
    as far as it came. `fail` (content_wrong): an output leaves the reference at a token that the reference decided by
    at least ``plan.tie_margin`` nats, or ends too early; with the smallest concurrency at which that was seen.
    """
    if evidence is None or not evidence.requests:
        return check_result("load", "not_run", "no_evidence", "no request of this check was sent")
    times = _times(plan, evidence)
    if reference is None:
        told = "the reference arm gave no complete set of outputs"
        return check_result("load", "inconclusive", "no_reference", told, measurements=times)
    compared = [r for r in evidence.requests if r.error is None and r.prompt in reference and r.output_ids]
    differences = [d for r in compared if (d := load_difference(r, reference)) is not None]
    tie = plan.tie_margin or 0.0
    wrong = [d for d in differences if d.got is None or (d.margin is not None and d.margin >= tie)]
    equal = len(compared) - len(differences)
    missing = len(evidence.requests) - len(compared)
    told = f"{equal} of {len(compared) + missing} outputs are the beginning of the reference's"
    measurements = (*_equal(compared, differences), *_smallest(wrong), *times)
    kept = tuple(sorted(differences, key=lambda d: (d not in wrong, d.concurrency, d.prompt))[:MAX_DIFFERENCES])
    if wrong:
        first = min(wrong, key=lambda d: (d.concurrency, d.at))
        told += f"; {len(wrong)} are wrong, first at concurrency {first.concurrency}: {_where(first)}"
        return check_result("load", "fail", "content_wrong", told, measurements=measurements, differences=kept)
    reason = _why_open(evidence, len(compared), missing, differences)
    if reason is not None:
        code, why = reason
        return check_result("load", "inconclusive", code, f"{told}; {why}", measurements=measurements, differences=kept)
    return check_result("load", "pass", None, f"{told}, at {_levels(compared)} at a time", measurements=measurements)


def load_difference(request: RequestRecord, reference: Reference) -> Difference | None:
    """Where the output leaves the reference, cut to the length that this request was to have; None if it does not."""
    known = reference.get(request.prompt)
    if known is None:
        return None
    length = len(request.output_ids) if request.cancelled or request.asked_tokens is None else request.asked_tokens
    shortened = ReferenceOutput(ids=known.ids[:length], margins=known.margins[:length])
    return first_difference(request, {request.prompt: shortened})


def _why_open(
    evidence: CheckEvidence, compared: int, missing: int, differences: Sequence[Difference]
) -> tuple[str, str] | None:
    """(code, words) for what keeps outputs without a wrong one from passing."""
    if not compared:
        return "no_output", f"none of {missing} requests brought tokens to compare"
    if any(d.margin is None for d in differences):
        return "margin_unknown", "differences lie where no margin is known"
    if differences:
        return "tie", f"{len(differences)} differences lie at ties"
    if missing or not evidence.complete:
        return "requests_missing", f"{max(missing, 1)} were not answered"
    return None


def _times(plan: CheckPlan, evidence: CheckEvidence) -> tuple[Measurement, ...]:
    """What time it took, so that a change of speed under load is seen; joins and leaves make it no throughput."""
    numbers: list[Measurement] = []
    for level in sorted(plan.concurrency):
        for round_ in rounds_of(evidence.requests, (), level):
            at = {"concurrency": level}
            rate, first_ms = round_.rate(), middle(round_.first_tokens_ms())
            if any(r.error is not None for r in round_.requests):
                rate, first_ms = None, None
            reason = None if rate is not None else "requests_failed"
            rounded = None if rate is None else round(rate, 2)
            n = len(round_.requests)
            numbers.append(measured("output_rate_under_load", rounded, "tok/s", at=at, n=n, reason=reason))
            if first_ms is not None:
                numbers.append(measured("ttft_median_under_load", round(first_ms, 2), "ms", at=at, n=n))
    return tuple(numbers)


def _equal(compared: Sequence[RequestRecord], differences: Sequence[Difference]) -> list[Measurement]:
    total, differing = _by_level(compared), _by_level(differences)
    return [
        measured("outputs_equal", n - differing.get(level, 0), "count", at={"concurrency": level}, n=n)
        for level, n in sorted(total.items())
    ]


def _by_level(entries: Sequence[RequestRecord] | Sequence[Difference]) -> Mapping[int, int]:
    counts: dict[int, int] = {}
    for entry in entries:
        counts[entry.concurrency] = counts.get(entry.concurrency, 0) + 1
    return counts


def _smallest(wrong: Sequence[Difference]) -> list[Measurement]:
    if not wrong:
        return []
    level = min(d.concurrency for d in wrong)
    return [measured("smallest_wrong_concurrency", level, "count", n=len(wrong))]


def _where(difference: Difference) -> str:
    place = f"prompt {difference.prompt}, token {difference.at}"
    if difference.got is None:
        return f"{place}: the output ends there, too early"
    margin = "" if difference.margin is None else f", which the reference decided by {difference.margin:.3g} nats"
    return place + margin


def _levels(compared: Sequence[RequestRecord]) -> str:
    return ", ".join(map(str, sorted({request.concurrency for request in compared})))
