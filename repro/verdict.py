"""Results -> verdicts: what an attempt, and then a cell, means. Pure: no file, no clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from repro.intervals import wilson
from repro.model import AttemptScore, CheckName, CheckResult, Outcome, Result, Verdict, VerdictName
from repro.trust import COMPARED, CONTENT_CHECKS, Trust, trust_in

Judged: TypeAlias = tuple[VerdictName, tuple[str, ...], str]
"""A verdict, its reason codes, and what it says."""

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
    """One verdict for each attempt, in the same order, from the results of one run or of several.

    The last launch of a run says what its oracles found: a score for each attempt, votes, self-tests. Where they cannot
    be trusted (a planted fault was missed, the reference was outvoted or differed from itself), `pass` and `corrupt`
    become `inconclusive`.
    """
    runs: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        runs.setdefault((result.run_id, result.target), []).append(result)
    trusts = {key: _trust(run) for key, run in runs.items()}
    return tuple(_verdict(result, trusts[result.run_id, result.target]) for result in results)


def verdicts_by_cell(results: Sequence[Result], verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    """The verdicts that count, by cell and in order of the cells: a self-test is about the tool, and counts nowhere."""
    by_cell: dict[str, list[Verdict]] = {}
    for result, verdict in zip(results, verdicts, strict=True):
        if result.role != "self-test":
            by_cell.setdefault(result.cell, []).append(verdict)
    return {cell: by_cell[cell] for cell in sorted(by_cell)}


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


def _trust(results: Sequence[Result]) -> Trust:
    trust = trust_in(results, [None] * len(results))
    return trust_in(results, [_caught(result, trust) for result in results])


def _caught(result: Result, trust: Trust) -> bool | None:
    """Whether a self-test launch was found out; None if it is none, did not come to its end, or waits for its score."""
    if result.role != "self-test" or result.outcome != "completed" or result.planted is None:
        return None
    score = trust.score(result)
    if any(check.state == "fail" for check in result.checks) or (score is not None and score.state == "wrong"):
        return True
    return False if trust.ended else None


def _verdict(result: Result, trust: Trust) -> Verdict:
    judge = _judge_self_test if result.role == "self-test" else _judge
    name, reasons, statement = judge(result, trust)
    return Verdict(
        run_id=result.run_id,
        cell=result.cell,
        attempt=result.attempt,
        verdict=name,
        reasons=reasons,
        statement=statement,
    )


def _judge_self_test(result: Result, trust: Trust) -> Judged:
    if result.outcome != "completed":
        name = _FROM_OUTCOME[result.outcome]
        told = f"self-test: {result.outcome}: {result.outcome_detail}"
        return ("void" if name == "void" else "inconclusive"), ("self_test_not_run", result.outcome), told
    fault = result.planted.fault if result.planted is not None else "nothing"
    caught = _caught(result, trust)
    if caught is None:
        return "inconclusive", ("self_test_open",), f"self-test: {fault} was planted; the last launch is still to judge"
    if not caught:
        return "fail", ("self_test_missed",), f"self-test: {fault} was planted and nothing noticed it"
    score = trust.score(result)
    failed = [check for check in result.checks if check.state == "fail"]
    told = _details(failed) if failed else score.detail if score is not None else ""
    return "pass", (), f"self-test: {fault} was planted and found: {told}"


def _judge(result: Result, trust: Trust) -> Judged:
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
    return _judge_checks(result, trust)


def _judge_checks(result: Result, trust: Trust) -> Judged:
    score = trust.score(result)
    explained = [check for check in result.checks if trust.explains(check, score)]
    unlooked = _not_looked(result, score)
    left = [check for check in result.checks if check not in explained and check is not unlooked]
    failed = [check for check in left if check.state == "fail"]
    wrong = [check for check in failed if check.check in CONTENT_CHECKS]
    if wrong or (score is not None and score.state == "wrong"):
        return _wrong(wrong, score, trust)
    if failed:
        return "fail", _codes(failed), _details(failed)
    lost = _power_lost(result, score, trust)
    open_codes, open_words = _open(result, left, score)
    if open_codes:
        return "inconclusive", open_codes, "; ".join([*open_words, *lost])
    doubt = trust.doubt(compared=True, wrong=False)
    if doubt is not None:
        return "inconclusive", (doubt[0],), doubt[1]
    said = ["every check that applies passed"]
    if explained and score is not None:
        said.append(f"first differences are explained by rescoring: {score.detail}")
    if unlooked is not None:
        said.append(f"the coding tasks: {unlooked.detail}")
    if score is None and not any(c.check in COMPARED and c.state != "not_applicable" for c in result.checks):
        said.append("only the coding tasks looked at the content: no output was compared with a reference")
    return "pass", (), "; ".join([*said, *lost])


def _wrong(wrong: Sequence[CheckResult], score: AttemptScore | None, trust: Trust) -> Judged:
    by_score = score if score is not None and score.state == "wrong" else None
    compared = by_score is not None or any(check.check != "coding" for check in wrong)
    words = [*([_details(wrong)] if wrong else []), *([f"rescoring: {by_score.detail}"] if by_score else [])]
    doubt = trust.doubt(compared=compared, wrong=True)
    if doubt is None and trust.reference_wrong is not None and by_score is None and compared:
        doubt = "reference_wrong", f"the reference's own outputs are wrong: {trust.reference_wrong}"
    if doubt is not None:
        return "inconclusive", (doubt[0],), "; ".join([doubt[1], words[0]])
    codes = [*_codes(wrong), *([by_score.reason or "rescoring"] if by_score else [])]
    return "corrupt", tuple(dict.fromkeys(codes)), "; ".join(words)


def _open(
    result: Result, left: Sequence[CheckResult], score: AttemptScore | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What keeps a launch without a failure from passing: codes and words. What is absent is unknown."""
    checks = [check for check in left if check.state == "inconclusive" or _is_missing(check)]
    found = [(check.reason or check.check, check.detail) for check in checks]
    made = {check.check for check in result.checks}
    found += [("check_missing", f"the result has no {name}") for name in _demanded_checks(result) if name not in made]
    seen = any(check.check in CONTENT_CHECKS and check.state != "not_applicable" for check in left)
    sound = score is not None and score.state == "sound"
    if not seen and not sound and "lossless" in made:
        found.append(("content_not_checked", "what was said was compared with nothing"))
    expectation = result.expectation
    if not found and expectation.topk_requested != expectation.topk_effective:
        note = expectation.note or "the engine source cannot honour the requested top-k"
        found.append(("topk_not_honoured", f"top-k not honoured: {note}"))
    return tuple(code for code, _ in found), tuple(words for _, words in found)


def _power_lost(result: Result, score: AttemptScore | None, trust: Trust) -> list[str]:
    """What was not seen, once the run has ended, because the outputs were not scored; the reference needs no score."""
    if not trust.ended or result.role in {"reference", "reference-again"}:
        return []
    if score is not None and score.state != "unknown":
        return []
    why = score.detail if score is not None else trust.not_rescored or "these outputs were not sent"
    return [f"not rescored ({why}): of each output only what precedes its first difference was judged"]


def _demanded_checks(result: Result) -> tuple[CheckName, ...]:
    always: tuple[CheckName, ...] = ("launch", "lossless", "throughput")
    return always if result.coordinates.shape == "none" else (*always, "acceptance")


def _demanded_facts(result: Result) -> list[str]:
    """Facts that every launch of this shape must have looked for; which of those it found unknown is another matter."""
    facts = ["algorithm", "graph_replayed"]
    if result.coordinates.shape != "none":
        facts.append("width")
    if result.expectation.topk_requested is not None:
        facts.append("topk")
    return facts


def _not_looked(result: Result, score: AttemptScore | None) -> CheckResult | None:
    """The coding check, if only a sandbox was missing for it and another look at the content passed: it does not count
    then (docs/adr/0007-coding-without-docker.md)."""
    looked = {check.check for check in result.checks if check.check in CONTENT_CHECKS and check.state == "pass"}
    if not looked and (score is None or score.state != "sound"):
        return None
    return next((c for c in result.checks if c.check == "coding" and c.reason == "no_sandbox"), None)


def _is_missing(check: CheckResult) -> bool:
    """A check that applies and left nothing to judge keeps a cell from passing; the power drawn says nothing of it."""
    return check.state == "not_run" and check.check != "power"


def _codes(checks: Sequence[CheckResult]) -> tuple[str, ...]:
    return tuple(check.reason or check.check for check in checks)


def _details(checks: Sequence[CheckResult]) -> str:
    return "; ".join(check.detail for check in checks)


def _unproven(result: Result, *, contradicted_only: bool) -> list[str]:
    unproven = [
        f"{proof.fact}: expected {proof.expected}, {proof.source} says {proof.observed}"
        if proof.state == "contradicted"
        else f"{proof.fact}: expected {proof.expected}, not provable from {proof.source}"
        for proof in result.proof
        if proof.state == "contradicted"
        or (proof.state == "unknown" and proof.fact in MUST_BE_PROVEN and not contradicted_only)
    ]
    if contradicted_only:
        return unproven
    stated = {proof.fact for proof in result.proof}
    return unproven + [
        f"{fact}: the result says nothing of it" for fact in _demanded_facts(result) if fact not in stated
    ]
