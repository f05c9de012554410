"""What the reference answered to each prompt, and what the failing launch did."""

from pathlib import Path

from repro import codec
from repro.model import BundleOracle, CheckEvidence, CheckName, OracleAnswer, Prompt, RequestRecord, Result, Step

_CHECKS: tuple[CheckName, ...] = ("lossless", "throughput", "load")
"""The checks that send the prompts which the reference answered."""
_LARGEST_BYTES = 64_000_000


def oracle_of(
    result: Result, directory: Path, step: Step | None, reference: Result, reference_directory: Path
) -> BundleOracle | None:
    """Both arms' answers, prompt by prompt, at each concurrency at which the failing launch gave one; a prompt that it
    never answered has no ids of it. None if the reference has no answers. The evidence was verified before."""
    expected = _reference(_evidence(reference, reference_directory, "lossless"))
    if not expected:
        return None
    prompts = {prompt.id: prompt for prompt in step.prompts} if step is not None else {}
    answers: list[OracleAnswer] = []
    for check in _CHECKS:
        answers += [
            _answer(request, check, expected[request.prompt], prompts.get(request.prompt))
            for request in _first_of_each(_evidence(result, directory, check))
            if request.prompt in expected
        ]
    answered = {answer.prompt for answer in answers}
    answers += [_unanswered(request, prompts.get(name)) for name, request in expected.items() if name not in answered]
    return BundleOracle(
        reference_cell=reference.cell,
        reference_attempt=reference.attempt,
        cell=result.cell,
        attempt=result.attempt,
        answers=tuple(answers),
    )


def _evidence(result: Result, directory: Path, check: CheckName) -> CheckEvidence | None:
    listed = next((item for item in result.evidence if item.path == f"evidence/checks/{check}.json"), None)
    if listed is None or listed.size_bytes > _LARGEST_BYTES:
        return None
    return codec.read(directory / listed.path, CheckEvidence, where=listed.path)


def _reference(evidence: CheckEvidence | None) -> dict[str, RequestRecord]:
    """Prompt id -> the answer, with the margins of the second pass where that answered the same."""
    if evidence is None:
        return {}
    plain = {r.prompt: r for r in reversed(evidence.requests) if r.margins is None and r.error is None and r.output_ids}
    margins = {r.prompt: r for r in evidence.requests if r.margins is not None and r.error is None}
    return {
        name: margins[name] if name in margins and margins[name].output_ids == request.output_ids else request
        for name, request in sorted(plain.items())
    }


def _first_of_each(evidence: CheckEvidence | None) -> list[RequestRecord]:
    """One complete answer for each prompt and concurrency, best one that is as long as was asked for."""
    found: dict[tuple[int, str], RequestRecord] = {}
    for request in evidence.requests if evidence is not None else ():
        if request.error is None and not request.cancelled and request.margins is None and request.output_ids:
            found.setdefault((request.concurrency, request.prompt), request)
    return [found[key] for key in sorted(found)]


def _answer(request: RequestRecord, check: CheckName, expected: RequestRecord, prompt: Prompt | None) -> OracleAnswer:
    at = _first_difference(expected.output_ids, request.output_ids)
    margins = expected.margins or ()
    return OracleAnswer(
        prompt=request.prompt,
        check=check,
        concurrency=request.concurrency,
        text=prompt.text if prompt is not None else None,
        input_ids=prompt.input_ids if prompt is not None else None,
        expected_ids=expected.output_ids,
        got_ids=request.output_ids,
        first_difference=at,
        margin=margins[at] if at is not None and at < len(margins) else None,
    )


def _unanswered(expected: RequestRecord, prompt: Prompt | None) -> OracleAnswer:
    return OracleAnswer(
        prompt=expected.prompt,
        check="lossless",
        concurrency=expected.concurrency,
        text=prompt.text if prompt is not None else None,
        input_ids=prompt.input_ids if prompt is not None else None,
        expected_ids=expected.output_ids,
        got_ids=(),
        first_difference=None,
        margin=None,
    )


def _first_difference(expected: tuple[int, ...], got: tuple[int, ...]) -> int | None:
    """Where they part; within what both have, since the one that was asked for fewer tokens is no different for it."""
    pairs = zip(expected, got, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), None)
