"""What the last launch of a run rescores: everything that the others have said, and copies with planted faults; and
what it makes of the scores. Pure but for reading evidence."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from matrix.evidence import Evidence
from matrix.judge import rescoring as judging
from matrix.judge.reference import Reference
from matrix.judge.rescoring import Counts, Ids, Output, Scales, Scored, Spoken
from matrix.judge.results import check_result, measured
from matrix.judge.votes import Arm, arm_of, judge_votes
from matrix.spec import Spec
from repro.model import (
    AttemptScore,
    Calibration,
    CheckEvidence,
    CheckName,
    CheckResult,
    RescoreEvidence,
    Rescoring,
    Result,
    ScoredText,
    SelfTest,
    Text,
)

MAX_TEXTS = 5000
"""More than a matrix says in three hours; a prefill each."""
MAX_COPIED = 20
WRONG_EVERY = 200
_EXACT = frozenset({"float32", "fp32"})
_CONTENT: tuple[CheckName, ...] = ("lossless", "throughput", "load")


@dataclass(frozen=True, kw_only=True, slots=True)
class Heard:
    """An attempt of the run with the evidence that it is heard by."""

    result: Result
    lossless: CheckEvidence | None
    spoken: Spoken


@dataclass(frozen=True, kw_only=True, slots=True)
class Material:
    """All that the last launch of a run has to judge. ``left_out``: texts beyond MAX_TEXTS, which are not sent."""

    heard: tuple[Heard, ...]
    texts: tuple[Text, ...]
    copies: Mapping[str, tuple[Output, ...]]
    scales: Scales
    reference: Reference | None
    left_out: int


def scales_of(spec: Spec) -> Scales:
    """How outputs of this target are measured. The simulated engine has no rounding at all."""
    dtype = spec.model.dtype or "a dtype that the spec does not state"
    exact = spec.engine.name == "simulated" or spec.model.dtype in _EXACT
    return Scales(
        delta=spec.load.tie_margin, exact=exact, dtype="exact numbers" if spec.engine.name == "simulated" else dtype
    )


def material(attempts: Iterable[tuple[Result, Evidence]], reference: Reference | None, scales: Scales) -> Material:
    """From all measured attempts of the run so far."""
    heard = tuple(
        Heard(result=result, lossless=evidence.checks.get("lossless"), spoken=_spoken(result, evidence))
        for result, evidence in attempts
        if result.explains is None
    )
    copies = {name: _copies(reference or {}, change) for name, change in PLANTED.items()}
    copied = _texts([output for outputs in copies.values() for output in outputs])
    said = _texts([output for one in heard for output in one.spoken.outputs])
    kept = said[: max(0, MAX_TEXTS - len(copied))]
    texts = {text.id: text for text in (*copied, *kept)}
    return Material(
        heard=heard,
        texts=tuple(texts.values()),
        copies=copies,
        scales=scales,
        reference=reference,
        left_out=len(said) - len(kept),
    )


def text_id(prompt: str, ids: Ids) -> str:
    """The same for the same text in every run."""
    return "t" + hashlib.sha256(repr((prompt, ids)).encode()).hexdigest()[:20]


def _spoken(result: Result, evidence: Evidence) -> Spoken:
    outputs = tuple(
        Output(check=name, concurrency=request.concurrency, prompt=request.prompt, ids=request.output_ids)
        for name in _CONTENT
        if name in evidence.checks
        for request in evidence.checks[name].requests
        if request.output_ids and request.margins is None
    )
    return Spoken(
        cell=result.cell,
        attempt=result.attempt,
        role=result.role,
        coordinates=result.coordinates,
        outputs=outputs,
    )


def _texts(outputs: Sequence[Output]) -> list[Text]:
    return [
        Text(id=text_id(prompt, ids), prompt=prompt, output_ids=ids)
        for prompt, ids in sorted(judging.distinct(outputs))
    ]


# --- planted copies ---------------------------------------------------------------------------------------------------


def _other(ids: Ids, at: int) -> int:
    """A token of the same output that is not the one at this place."""
    return next(
        (token for step in range(1, len(ids)) if (token := ids[(at + step) % len(ids)]) != ids[at]), ids[at] + 1
    )


def _one_in_200(ids: Ids, offset: int) -> Ids:
    return tuple(
        _other(ids, at) if (offset + at) % WRONG_EVERY == WRONG_EVERY // 2 else token for at, token in enumerate(ids)
    )


def _last_tenth(ids: Ids, _: int) -> Ids:
    begin = len(ids) - max(1, len(ids) // 10)
    return (*ids[:begin], *(_other(ids, at) for at in range(begin, len(ids))))


def _one_token(ids: Ids, _: int) -> Ids:
    return ids[:1] * len(ids)


def _shuffled(ids: Ids, _: int) -> Ids:
    return tuple(reversed(ids))


PLANTED: Mapping[str, Callable[[Ids, int], Ids]] = {
    "one wrong token in 200": _one_in_200,
    "wrong tokens in the last tenth": _last_tenth,
    "one token for all": _one_token,
    "tokens in another order": _shuffled,
}
"""What is done to copies of the reference's own outputs; the scoring launch reads them among all others."""


def _copies(reference: Reference, change: Callable[[Ids, int], Ids]) -> tuple[Output, ...]:
    outputs, offset = [], 0
    for prompt in sorted(reference)[:MAX_COPIED]:
        ids = reference[prompt].ids
        changed = change(ids, offset)
        offset += len(ids)
        outputs.append(Output(check="rescoring", concurrency=1, prompt=prompt, ids=changed))
    return tuple(outputs)


# --- what the scores say ----------------------------------------------------------------------------------------------


def judge(material: Material, evidence: RescoreEvidence | None) -> Rescoring:
    """The rescoring of the run, from what the last launch left."""
    if evidence is None:
        return _nothing("the last launch was to rescore the run's outputs and left no scores")
    by_id = {text.id: text for text in evidence.texts}
    scored = Scored(
        {(text.prompt, text.output_ids): by_id[text.id] for text in material.texts if _fits(by_id.get(text.id), text)}
    )
    margins = [margin for output in (material.reference or {}).values() for margin in output.margins]
    judged = judging.judge([one.spoken for one in material.heard], scored, material.scales, margins)
    if judged.calibration is None:
        return _nothing(judged.reason or "nothing was scored")
    scores = {(score.cell, score.attempt): score for score in judged.scores}
    return Rescoring(
        reason=None,
        calibration=judged.calibration,
        self_tests=_self_tests(material, scored, judged.calibration),
        scores=judged.scores,
        votes=judge_votes(
            _arms(material, scores),
            reference=next((one.result.cell for one in material.heard if one.result.role == "reference"), ""),
            calibration=judged.calibration,
            gaps=_gaps(material, scored),
            margins=material.reference,
        ),
    )


def rescoring_check(rescoring: Rescoring | None, material: Material | None) -> CheckResult:
    """The state of the check `rescoring` of the last launch: whether it could judge, not what it found."""
    if rescoring is None or material is None:
        return check_result("rescoring", "not_run", "no_evidence", "this launch rescored nothing")
    if rescoring.calibration is None:
        told = f"{rescoring.reason}; outputs are only compared up to their first difference from the reference"
        return check_result("rescoring", "inconclusive", "not_rescored", told)
    missed = [test.planted for test in rescoring.self_tests if test.state == "missed"]
    counts = (
        measured("texts_scored", len(material.texts), "count"),
        measured("tokens_scored", sum(len(text.output_ids) for text in material.texts), "count"),
    )
    if missed:
        told = f"planted faults were not found: {', '.join(missed)}"
        return check_result("rescoring", "inconclusive", "self_test_missed", told, measurements=counts)
    untold = [s for s in rescoring.scores if s.outputs and s.state == "unknown"]
    if untold:
        told = f"{len(untold)} attempts could not be judged: {untold[0].cell}: {untold[0].detail}"
        return check_result("rescoring", "inconclusive", untold[0].reason, told, measurements=counts)
    if material.left_out:
        told = f"{material.left_out} outputs beyond the first {MAX_TEXTS} texts were not sent"
        return check_result("rescoring", "inconclusive", "too_many_outputs", told, measurements=counts)
    return check_result("rescoring", "pass", None, rescoring.calibration.statement, measurements=counts)


def _nothing(reason: str) -> Rescoring:
    return Rescoring(reason=reason, calibration=None, self_tests=(), scores=(), votes=())


def _fits(scored: ScoredText | None, text: Text) -> bool:
    """A text whose scores are of another length is as good as unscored: another text was answered."""
    return scored is not None and (
        scored.error is not None or len(scored.gaps) == len(scored.logprobs) == len(text.output_ids)
    )


def _self_tests(material: Material, scored: Scored, calibration: Calibration) -> tuple[SelfTest, ...]:
    healthy = _null_counts(material, scored, calibration)
    return tuple(_self_test(name, outputs, scored, healthy, calibration) for name, outputs in material.copies.items())


def _null_counts(material: Material, scored: Scored, calibration: Calibration) -> list[Counts]:
    null = {(arm.cell, arm.attempt) for arm in calibration.arms}
    return [
        judging.count(one.spoken.outputs, scored, calibration.delta)
        for one in material.heard
        if (one.result.cell, one.result.attempt) in null
    ]


def _self_test(
    name: str, outputs: Sequence[Output], scored: Scored, healthy: Sequence[Counts], calibration: Calibration
) -> SelfTest:
    planted = judging.count(outputs, scored, calibration.delta)
    scales = Scales(delta=calibration.delta, exact=calibration.exact, dtype=calibration.dtype)
    state, _, told, _ = judging.verdict(planted, healthy, scales)
    if state == "wrong":
        return SelfTest(place="copies", planted=name, state="caught", detail=told)
    if not planted.tokens:
        return SelfTest(place="copies", planted=name, state="not_run", detail=told)
    limit = calibration.detection_share
    if name == "one wrong token in 200" and (limit is None or limit > 1 / WRONG_EVERY):
        least = "no limit is known" if limit is None else f"{100 * limit:.2g} % could be found"
        told = f"{planted.tokens} tokens are too few for so rare a fault: {least}"
        return SelfTest(place="copies", planted=name, state="not_run", detail=told)
    return SelfTest(place="copies", planted=name, state="missed", detail=told)


def _arms(material: Material, scores: Mapping[tuple[str, int], AttemptScore]) -> list[Arm]:
    found = (
        arm_of(one.result, one.lossless, scores.get((one.result.cell, one.result.attempt))) for one in material.heard
    )
    return [arm for arm in found if arm is not None]


def _gaps(material: Material, scored: Scored) -> dict[tuple[str, Ids], tuple[float | None, ...]]:
    found = {}
    for one in material.heard:
        for output in one.spoken.outputs:
            gaps = scored.gaps(output.prompt, output.ids)
            if gaps is not None:
                found[output.prompt, output.ids] = gaps
    return found
