"""`lossless`, first form: greedy token ids against the `ar` arm's, prompt by prompt, in every round that was sent."""

from collections.abc import Iterable, Sequence

from matrix.judge.reference import Reference
from matrix.judge.results import check_result, measured
from matrix.judge.text import Absolute, disagreeing_counts, judge_text
from repro.model import CheckEvidence, CheckPlan, CheckResult, CheckState, Difference, Measurement, RequestRecord

MAX_DIFFERENCES = 50
"""How many differences a result keeps; the measurements count them all."""


def judge_lossless(
    plan: CheckPlan,
    evidence: CheckEvidence | None,
    under_load: CheckEvidence | None,
    reference: Reference | None,
    *,
    real_weights: bool = True,
) -> CheckResult:
    """`pass`: every prompt equal in every round. `fail` (content_wrong): an output leaves the reference at a token that
    the reference decided by at least ``plan.tie_margin`` nats; or (text_degenerate) the text is broken where the
    reference's is not. `inconclusive`: only ties, margins unknown, requests without an answer, counts that disagree, no
    reference, or text that is degenerate on both sides. Without ``real_weights`` any text is garbage, and says nothing.
    """
    if evidence is None or not evidence.requests:
        return check_result("lossless", "not_run", "no_evidence", "no request of this check was sent")
    if reference is None:
        return check_result(
            "lossless", "inconclusive", "no_reference", "the reference arm gave no complete set of outputs"
        )
    requests = [*evidence.requests, *(under_load.requests if under_load else ())]
    answered = [r for r in requests if r.error is None and r.output_ids and r.prompt in reference]
    differences = [d for request in answered if (d := first_difference(request, reference)) is not None]
    tie = plan.tie_margin or 0.0
    wrong = [d for d in differences if d.margin is not None and d.margin >= tie]
    missing = len(requests) - len(answered) if evidence.complete else max(1, len(requests) - len(answered))
    state, reason, detail = _state(len(answered), missing, differences, wrong, tie)
    if answered:
        absolute = judge_text((r for r in answered if r.margins is None), reference)
        if real_weights:
            state, reason, detail = _with_absolute(absolute, state, reason, detail)
        state, reason, detail = _with_counts(disagreeing_counts(answered), state, reason, detail)
    kept = sorted(differences, key=lambda d: (d not in wrong, d.concurrency, d.prompt))[:MAX_DIFFERENCES]
    return check_result(
        "lossless",
        state,
        reason,
        detail,
        measurements=(
            *_per_concurrency(answered, differences),
            *_smallest(wrong),
            *_of_other_length(answered, reference),
            *(absolute.measurements if answered else ()),
        ),
        differences=tuple(kept),
    )


def judge_reference(evidence: CheckEvidence | None, *, real_weights: bool = True) -> CheckResult:
    """For the reference arm itself: its plain pass against its pass with log-probabilities, ties aside; and whether its
    text is broken, which would make every arm that agrees with it suspect too."""
    if evidence is None or not evidence.requests:
        return check_result("lossless", "not_run", "no_evidence", "no request of this check was sent")
    margins = {request.prompt: request for request in evidence.requests if request.margins is not None}
    plain = [request for request in evidence.requests if request.margins is None]
    if not evidence.complete or not margins or any(r.error or not r.output_ids for r in evidence.requests):
        return check_result(
            "lossless", "inconclusive", "reference_incomplete", "the reference arm did not answer every request"
        )
    equal = sum(r.prompt in margins and margins[r.prompt].output_ids == r.output_ids for r in plain)
    equality = measured("prompts_equal", equal, "count", at={"concurrency": 1}, n=len(plain))
    words = f"{equal} of {len(plain)} prompts gave the same ids in two passes of the reference"
    absolute = judge_text(plain, None)
    numbers = (equality, *absolute.measurements)
    if absolute.mostly and real_weights:
        words += f"; {absolute.statement}"
        return check_result("lossless", "inconclusive", "text_degenerate", words, measurements=numbers)
    if equal == len(plain):
        return check_result("lossless", "pass", None, words, measurements=numbers)
    return check_result("lossless", "inconclusive", "reference_unstable", words, measurements=numbers)


def first_difference(request: RequestRecord, reference: Reference) -> Difference | None:
    """Where the output first leaves the reference, or ends before or after it; None if it is the reference, or if the
    reference does not have the prompt."""
    known = reference.get(request.prompt)
    if known is None:
        return None
    ids = request.output_ids
    at = next((i for i, (got, want) in enumerate(zip(ids, known.ids, strict=False)) if got != want), None)
    if at is None:
        if len(ids) == len(known.ids):
            return None
        at = min(len(ids), len(known.ids))
    return Difference(
        prompt=request.prompt,
        concurrency=request.concurrency,
        at=at,
        expected=known.ids[at] if at < len(known.ids) else None,
        got=ids[at] if at < len(ids) else None,
        margin=known.margins[at] if at < len(known.margins) else None,
    )


def _state(
    answered: int, missing: int, differences: Sequence[Difference], wrong: Sequence[Difference], tie: float
) -> tuple[CheckState, str | None, str]:
    told = f"{answered - len(differences)} of {answered + missing} outputs equal the reference token by token"
    if wrong:
        first = min(wrong, key=lambda d: (d.concurrency, d.at))
        prompts = len({d.prompt for d in wrong})
        where = (
            f"{len(wrong)} outputs of {prompts} prompts are wrong, first at concurrency {first.concurrency} in "
            f"prompt {first.prompt} at token {first.at}, which the reference decided by {first.margin:.3g} nats"
        )
        return "fail", "content_wrong", f"{told}; {where}"
    if not answered:
        return "inconclusive", "no_output", f"none of {missing} requests brought tokens to compare"
    if differences:
        unknown = sum(d.margin is None for d in differences)
        if unknown:
            return "inconclusive", "margin_unknown", f"{told}; {unknown} differences lie where no margin is known"
        return "inconclusive", "tie", f"{told}; the {len(differences)} differences lie at ties (gap below {tie:g} nats)"
    if missing:
        return "inconclusive", "requests_missing", f"{told}; {missing} were not answered"
    return "pass", None, told


def _with_absolute(
    absolute: Absolute, state: CheckState, reason: str | None, detail: str
) -> tuple[CheckState, str | None, str]:
    """What comparison says, corrected by what the text looks like by itself (docs/oracles.md, "Absolute checks")."""
    told = f"{detail}; {absolute.statement}" if absolute.statement else detail
    if absolute.reference_mostly and absolute.mostly:
        return "inconclusive", "text_degenerate", f"{told}: both are suspect, whether they agree or not"
    if absolute.reference_mostly:
        return "inconclusive", "reference_degenerate", f"{told}: nothing can be held against such a reference"
    if state == "fail":
        return state, reason, told
    if absolute.worse_for_certain:
        return "fail", "text_degenerate", told
    return ("inconclusive", "text_degenerate", told) if absolute.doubtful else (state, reason, detail)


def _with_counts(
    disagreeing: int, state: CheckState, reason: str | None, detail: str
) -> tuple[CheckState, str | None, str]:
    if not disagreeing:
        return state, reason, detail
    told = f"{detail}; the engine counted another number of tokens than it sent in {disagreeing} answers"
    return ("inconclusive", "token_counts_disagree", told) if state == "pass" else (state, reason, told)


def _of_other_length(answered: Iterable[RequestRecord], reference: Reference) -> list[Measurement]:
    """Outputs that end before or after the reference's: rescoring, which looks at tokens, cannot explain those."""
    lengths = [len(request.output_ids) == len(reference[request.prompt].ids) for request in answered]
    wrong = lengths.count(False)
    return [measured("outputs_of_other_length", wrong, "count", n=len(lengths))] if wrong else []


def _per_concurrency(answered: Iterable[RequestRecord], differences: Iterable[Difference]) -> list[Measurement]:
    total: dict[int, int] = {}
    for request in answered:
        total[request.concurrency] = total.get(request.concurrency, 0) + 1
    differing: dict[int, int] = {}
    for difference in differences:
        differing[difference.concurrency] = differing.get(difference.concurrency, 0) + 1
    return [
        measured(
            "outputs_equal", total[level] - differing.get(level, 0), "count", at={"concurrency": level}, n=total[level]
        )
        for level in sorted(total)
    ]


def _smallest(wrong: Sequence[Difference]) -> list[Measurement]:
    if not wrong:
        return []
    level = min(d.concurrency for d in wrong)
    return [measured("smallest_wrong_concurrency", level, "count", n=len(wrong))]
