"""Why one launch needs a human: the rules, applied to one attempt at a time."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from repro.model import Result, Signature, Verdict

Severity: TypeAlias = Literal["high", "medium", "low", "info"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """Why one launch needs a human: ``family`` is the rule, ``kind`` and ``signature`` say which failure it is."""

    family: str
    kind: str
    signature: Signature
    severity: Severity


def causes(result: Result, verdict: Verdict) -> tuple[Cause, ...]:
    """What is to be told of one launch; empty when it passed and proved what it ran."""
    found: list[Cause] = []
    if verdict.verdict in {"fail", "corrupt"}:
        found.append(_failure(result, verdict))
    contradicted = sorted(proof.fact for proof in result.proof if proof.state == "contradicted")
    found += [_plain("proof", f"{fact}_contradicted", "medium") for fact in contradicted]
    if result.expectation.topk_requested != result.expectation.topk_effective:
        found.append(_plain("topk", "topk_not_honoured", "medium"))
    if verdict.verdict == "inconclusive" and not found:
        found.append(_plain("inconclusive", verdict.reasons[0] if verdict.reasons else "inconclusive", "low"))
    if verdict.verdict == "void":
        found.append(_plain("void", verdict.reasons[-1] if verdict.reasons else result.outcome, "low"))
    if verdict.verdict == "unsupported":
        found.append(_plain("refused", verdict.reasons[-1] if verdict.reasons else result.outcome, "info"))
    if result.planted is not None and verdict.verdict == "pass":
        found.append(_plain("unnoticed", "planted_fault_unnoticed", "high"))
    return tuple(found)


def _failure(result: Result, verdict: Verdict) -> Cause:
    reasons = verdict.reasons
    diagnosis = result.diagnosis
    located = diagnosis is not None and diagnosis.kind not in {"ok", "unknown"}
    if verdict.verdict == "corrupt":
        signature = diagnosis.signature if diagnosis is not None and located else unlocated("corrupt_output", "serving")
        return Cause(family="corrupt", kind="corrupt_output", signature=signature, severity="high")
    if diagnosis is not None and located:
        severity: Severity = "high" if result.outcome != "completed" else "medium"
        return Cause(family="failure", kind=diagnosis.kind, signature=diagnosis.signature, severity=severity)
    kind = reasons[0] if reasons else result.outcome
    severity = "medium" if result.outcome == "completed" else "high"
    return _plain("failure", kind, severity)


def _plain(family: str, kind: str, severity: Severity) -> Cause:
    return Cause(family=family, kind=kind, signature=unlocated(kind), severity=severity)


def unlocated(kind: str, phase: Literal["serving", "none"] = "none") -> Signature:
    return Signature(kind=kind, phase=phase, subsystem=None)


def same_failure(one: Signature, other: Signature) -> bool:
    """Whether two signatures say the same failure: an unlocated subsystem matches any."""
    subsystems = {one.subsystem, other.subsystem} - {None}
    return one.kind == other.kind and one.phase == other.phase and len(subsystems) <= 1
