"""The reference: what the `ar` arm said to each prompt, with the margins it was decided by."""

from collections.abc import Mapping
from dataclasses import dataclass

from repro.model import CheckEvidence, RequestRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferenceOutput:
    """``margins[i]``: top-2 log-probability gap (nats) of token i; empty when the engine gave none. ``text``: as the
    engine decoded it, if it is known."""

    ids: tuple[int, ...]
    margins: tuple[float, ...]
    text: str | None = None


Reference = Mapping[str, ReferenceOutput]
"""Prompt id -> what the reference arm answered."""


def plain_requests(evidence: CheckEvidence) -> tuple[RequestRecord, ...]:
    """The requests that were sent as a user would send them, without asking for log-probabilities."""
    return tuple(request for request in evidence.requests if request.margins is None)


def reference_from(evidence: CheckEvidence | None) -> Reference | None:
    """The reference in the `lossless` evidence of an `ar` attempt; None if it is missing or incomplete.

    Ids come from the plain pass; margins from the second pass, where its ids agree.
    """
    if evidence is None or not evidence.complete:
        return None
    margins = {request.prompt: request for request in evidence.requests if request.margins is not None}
    reference = {}
    for request in plain_requests(evidence):
        if request.error is not None or not request.output_ids:
            if request.prompt in reference:  # the pass for the margins, which this engine refused
                continue
            return None
        again = margins.get(request.prompt)
        known = again.margins if again is not None and again.output_ids == request.output_ids else None
        reference[request.prompt] = ReferenceOutput(
            ids=request.output_ids, margins=known or (), text=request.output_text
        )
    return reference or None
