"""Results -> verdicts: what an attempt, and then a cell, means. Pure: no file, no clock."""

from collections.abc import Sequence
from dataclasses import dataclass

from repro.intervals import wilson
from repro.model import CheckResult, Outcome, Result, Verdict, VerdictName

_FROM_OUTCOME: dict[Outcome, VerdictName] = {
    "crashed": "fail",
    "hung": "fail",
    "oom": "fail",
    "refused": "unsupported",
    "killed": "inconclusive",
    "bad_evidence": "inconclusive",
    "runtime_error": "void",
    "lost": "void",
}
_WORST_FIRST: tuple[VerdictName, ...] = ("corrupt", "fail", "inconclusive", "unsupported", "pass", "not_run")
_DECIDED: frozenset[VerdictName] = frozenset({"pass", "fail", "corrupt"})
_FAILED: frozenset[VerdictName] = frozenset({"fail", "corrupt"})
MUST_BE_PROVEN = frozenset({"algorithm", "width", "topk", "graph_replayed"})
"""Facts of the configuration about which `unknown` weighs as much as a contradiction (design: proven, not assumed)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CellVerdict:
    """The worst of a cell's attempts that are not void.

    ``k`` attempts failed or were corrupt, of ``n`` that decided (pass, fail or corrupt): an inconclusive attempt is
    neither, and is counted apart. ``interval`` is the 95 % Wilson interval of k of n; None when n is 0.
    """

    cell: str
    verdict: VerdictName
    k: int
    n: int
    inconclusive: int
    void: int
    interval: tuple[float, float] | None
    reasons: tuple[str, ...]


def run_verdicts(results: Sequence[Result]) -> tuple[Verdict, ...]:
    """One verdict for each attempt, in the same order.

    The second launch of the reference cell is the control: when its outputs differ from the first's, no difference from
    the reference is evidence about a cell, and `corrupt` becomes `inconclusive`.
    """
    unstable = {
        (result.run_id, result.target)
        for result in results
        if result.role == "reference-again" and result.outcome == "completed" and _state(result, "lossless") == "fail"
    }
    return tuple(_verdict(result, (result.run_id, result.target) in unstable) for result in results)


def cell_verdict(cell: str, verdicts: Sequence[Verdict]) -> CellVerdict:
    """The verdict of a cell over its attempts; `void` if all of them are void, `not_run` if there are none."""
    names = [verdict.verdict for verdict in verdicts]
    counted = [name for name in names if name != "void"]
    k = sum(name in _FAILED for name in counted)
    n = sum(name in _DECIDED for name in counted)
    nothing: VerdictName = "void" if names else "not_run"
    worst = next((name for name in _WORST_FIRST if name in counted), nothing)
    reasons = dict.fromkeys(reason for v in verdicts if v.verdict == worst for reason in v.reasons)
    return CellVerdict(
        cell=cell,
        verdict=worst,
        k=k,
        n=n,
        inconclusive=counted.count("inconclusive"),
        void=names.count("void"),
        interval=wilson(k, n),
        reasons=tuple(reasons),
    )


def _verdict(result: Result, reference_unstable: bool) -> Verdict:
    name, reasons, statement = _judge(result, reference_unstable)
    return Verdict(
        run_id=result.run_id,
        cell=result.cell,
        attempt=result.attempt,
        verdict=name,
        reasons=reasons,
        statement=statement,
    )


def _judge(result: Result, reference_unstable: bool) -> tuple[VerdictName, tuple[str, ...], str]:
    if result.outcome != "completed":
        kind = result.diagnosis.kind if result.diagnosis else "no_diagnosis"
        reasons = (result.outcome,) if kind in {"unknown", "no_diagnosis", "ok"} else (result.outcome, kind)
        return _FROM_OUTCOME[result.outcome], reasons, f"{result.outcome}: {result.outcome_detail}"
    failed = [check for check in result.checks if check.state == "fail"]
    # A server that brought no answers ran no pass that could prove anything: that it failed does not depend on it.
    mute = any(check.check == "launch" for check in failed)
    unproven = _unproven(result, contradicted_only=mute)
    if unproven:
        also = _codes(failed)
        return "inconclusive", ("configuration_not_proven", *also), "; ".join(unproven)
    return _judge_checks(result, failed, reference_unstable)


def _judge_checks(
    result: Result, failed: Sequence[CheckResult], reference_unstable: bool
) -> tuple[VerdictName, tuple[str, ...], str]:
    wrong = [check for check in failed if check.check in {"lossless", "load", "coding"}]
    if wrong and reference_unstable:
        return "inconclusive", ("reference_unstable",), "the reference differs from itself; " + wrong[0].detail
    if wrong:
        return "corrupt", _codes(wrong), _details(wrong)
    if failed:
        return "fail", _codes(failed), _details(failed)
    open_checks = [check for check in result.checks if check.state == "inconclusive" or _is_missing(check)]
    if open_checks:
        return "inconclusive", _codes(open_checks), _details(open_checks)
    if result.expectation.topk_requested != result.expectation.topk_effective:
        note = result.expectation.note or "the engine source cannot honour the requested top-k"
        return "inconclusive", ("topk_not_honoured",), f"top-k not honoured: {note}"
    return "pass", (), "every check that applies passed"


def _is_missing(check: CheckResult) -> bool:
    """A check that applies and left nothing to judge keeps a cell from passing; the power drawn says nothing of it."""
    return check.state == "not_run" and check.check != "power"


def _codes(checks: Sequence[CheckResult]) -> tuple[str, ...]:
    return tuple(check.reason or check.check for check in checks)


def _details(checks: Sequence[CheckResult]) -> str:
    return "; ".join(check.detail for check in checks)


def _unproven(result: Result, *, contradicted_only: bool) -> list[str]:
    return [
        f"{proof.fact}: expected {proof.expected}, {proof.source} says {proof.observed}"
        if proof.state == "contradicted"
        else f"{proof.fact}: expected {proof.expected}, not provable from {proof.source}"
        for proof in result.proof
        if proof.state == "contradicted"
        or (proof.state == "unknown" and proof.fact in MUST_BE_PROVEN and not contradicted_only)
    ]


def _state(result: Result, name: str) -> str | None:
    return next((check.state for check in result.checks if check.check == name), None)
