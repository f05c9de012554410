"""From what happened to what it means."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro import codec
from repro.model import (
    CheckResult,
    Diagnosis,
    Difference,
    Expectation,
    Measurement,
    Planted,
    Proof,
    Rescoring,
    Result,
    Verdict,
    Vote,
)
from repro.verdict import MUST_BE_PROVEN, cell_verdict, run_verdicts, verdicts_by_cell

FILES = Path(__file__).parents[2] / "data" / "records"
DIAGNOSIS: Diagnosis = codec.read(FILES / "diagnosis-v1.json", Diagnosis)
HONOURED = Expectation(
    algorithm="DDTREE",
    width=17,
    topk_requested=8,
    topk_effective=8,
    window=2048,
    graph="graph",
    nvls="nvls",
    note=None,
)


def check(name: str, state: str, reason: str | None = None) -> CheckResult:
    return CheckResult(
        check=name,  # type: ignore[arg-type]
        state=state,  # type: ignore[arg-type]
        reason=reason,
        detail=f"{name}: {reason or state}",
        measurements=(),
        differences=(),
        histogram=None,
    )


def proof(fact: str, state: str) -> Proof:
    return Proof(fact=fact, expected=17, observed=None, state=state, source="/server_info x")  # type: ignore[arg-type]


PROVEN = tuple(proof(fact, "proven") for fact in sorted(MUST_BE_PROVEN))
GOOD = tuple(check(name, "pass") for name in ("launch", "lossless", "acceptance", "throughput"))
WELL: Result = replace(
    codec.read(FILES / "result-v1.json", Result),
    outcome="completed",
    outcome_detail="the server started, answered and stopped",
    role="cell",
    planted=None,
    expectation=HONOURED,
    proof=PROVEN,
    checks=GOOD,
    diagnosis=None,
)


def result(*checks: CheckResult, **changes: Any) -> Result:
    """A launch that went well but for these checks and facts."""
    named = {one.check for one in checks}
    return replace(WELL, checks=(*(one for one in GOOD if one.check not in named), *checks), **changes)


def verdict(one: Result) -> Verdict:
    return run_verdicts([one])[0]


# --- an attempt -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "name"),
    [
        ("crashed", "fail"),
        ("hung", "fail"),
        ("oom", "fail"),
        ("refused", "unsupported"),
        ("killed", "inconclusive"),
        ("bad_evidence", "inconclusive"),
        ("runtime_error", "void"),
        ("lost", "void"),
        ("completed", "pass"),
    ],
)
def test_the_outcome_decides_first(outcome: str, name: str) -> None:
    """Whatever its checks say: a server that died has no say about its numbers."""
    found = verdict(replace(WELL, outcome=outcome))  # type: ignore[arg-type]
    assert found.verdict == name
    assert (found.run_id, found.cell, found.attempt) == (WELL.run_id, WELL.cell, WELL.attempt)
    if outcome != "completed":
        assert found.reasons == (outcome,)
        assert found.statement.startswith(f"{outcome}: ")
        failing = replace(WELL, outcome=outcome, checks=(check("launch", "fail", "requests_failed"),))  # type: ignore[arg-type]
        assert verdict(failing).verdict == name


@pytest.mark.parametrize(
    ("kind", "reasons"),
    [
        ("cuda_illegal_memory_access", ("crashed", "cuda_illegal_memory_access")),
        ("unknown", ("crashed",)),
        ("ok", ("crashed",)),
    ],
)
def test_a_diagnosis_that_says_something_is_a_reason(kind: str, reasons: tuple[str, ...]) -> None:
    assert verdict(replace(WELL, outcome="crashed", diagnosis=replace(DIAGNOSIS, kind=kind))).reasons == reasons


@pytest.mark.parametrize(
    ("checks", "name", "reasons"),
    [
        ((), "pass", ()),
        ((check("acceptance", "not_applicable", "not_applicable"),), "pass", ()),
        ((check("power", "not_run", "no_nvml"),), "pass", ()),
        ((check("lossless", "fail", "content_wrong"),), "corrupt", ("content_wrong",)),
        ((check("coding", "fail", "too_few_solved"),), "corrupt", ("too_few_solved",)),
        ((check("load", "fail", "content_wrong"),), "corrupt", ("content_wrong",)),
        ((check("acceptance", "fail", "acceptance_at_floor"),), "fail", ("acceptance_at_floor",)),
        (
            (check("launch", "fail", "no_tokens"), check("lossless", "inconclusive", "no_output")),
            "fail",
            ("no_tokens",),
        ),
        (
            (check("launch", "fail", "requests_failed"), check("lossless", "fail", "content_wrong")),
            "corrupt",
            ("content_wrong",),
        ),
        ((check("lossless", "inconclusive", "tie"),), "inconclusive", ("tie",)),
        (
            (check("lossless", "inconclusive", "tie"), check("throughput", "inconclusive", "withheld")),
            "inconclusive",
            ("tie", "withheld"),
        ),
        ((check("throughput", "fail"),), "fail", ("throughput",)),
    ],
)
def test_checks_decide_about_a_completed_launch(
    checks: tuple[CheckResult, ...], name: str, reasons: tuple[str, ...]
) -> None:
    found = verdict(result(*checks))
    assert (found.verdict, found.reasons) == (name, reasons)


@pytest.mark.parametrize("name", ["launch", "lossless", "acceptance", "throughput"])
def test_a_check_that_applies_and_left_no_evidence_keeps_it_from_passing(name: str) -> None:
    found = verdict(result(check(name, "not_run", "no_evidence")))
    assert (found.verdict, found.reasons) == ("inconclusive", ("no_evidence",))


def with_proof(*changed: Proof) -> tuple[Proof, ...]:
    """All that must be proven, but for these."""
    named = {one.fact for one in changed}
    return (*(one for one in PROVEN if one.fact not in named), *changed)


@pytest.mark.parametrize("fact", ["width", "nvls_initialised", "window"])
def test_a_contradicted_configuration_is_inconclusive_whatever_the_checks_say(fact: str) -> None:
    for checks in ((), (check("lossless", "fail", "content_wrong"),)):
        found = verdict(result(*checks, proof=with_proof(proof(fact, "contradicted"))))
        assert found.verdict == "inconclusive"
        assert found.reasons[0] == "configuration_not_proven"
        assert found.reasons[1:] == (("content_wrong",) if checks else ())
        assert found.statement.startswith(f"{fact}: expected 17, /server_info x says")


@pytest.mark.parametrize("fact", sorted(MUST_BE_PROVEN))
def test_what_must_be_proven_and_is_unknown_weighs_as_much(fact: str) -> None:
    found = verdict(result(proof=with_proof(proof(fact, "unknown"))))
    assert (found.verdict, found.reasons) == ("inconclusive", ("configuration_not_proven",))
    assert "not provable from /server_info x" in found.statement


def test_other_unknown_facts_do_not_keep_a_cell_from_passing() -> None:
    assert (
        verdict(result(proof=with_proof(proof("nvls_initialised", "unknown"), proof("window", "proven")))).verdict
        == "pass"
    )


def test_a_topk_that_is_not_honoured_never_passes() -> None:
    lowered = replace(HONOURED, topk_effective=3, note="pr29907 makes top-k 3 of the requested 8 at budget 16")
    found = verdict(result(expectation=lowered))
    assert (found.verdict, found.reasons) == ("inconclusive", ("topk_not_honoured",))
    assert "top-k 3 of the requested 8" in found.statement
    unknown = verdict(result(expectation=replace(HONOURED, topk_effective=None)))
    assert unknown.reasons == ("topk_not_honoured",)
    corrupt = verdict(result(check("lossless", "fail", "content_wrong"), expectation=lowered))
    assert corrupt.verdict == "corrupt", "what is wrong is wrong at any top-k"


# --- the control ------------------------------------------------------------------------------------------------------

WRONG = check("lossless", "fail", "content_wrong")


def test_a_reference_that_differs_from_itself_is_no_witness() -> None:
    again = result(WRONG, role="reference-again", cell="sm_103-ar-eager-nonvls")
    accused, floor = result(WRONG), result(check("acceptance", "fail", "acceptance_at_floor"))
    found = run_verdicts([accused, floor, WELL, again])
    assert [one.verdict for one in found] == ["inconclusive", "fail", "pass", "inconclusive"]
    assert found[0].reasons == ("reference_unstable",)
    assert "the reference differs from itself" in found[0].statement


@pytest.mark.parametrize(
    "again",
    [
        result(role="reference-again"),
        result(check("lossless", "inconclusive", "tie"), role="reference-again"),
        result(WRONG, role="reference-again", outcome="crashed"),
        result(WRONG, role="reference-again", run_id="another-run"),
        result(WRONG, role="reference-again", target="another"),
        result(WRONG, role="cell"),
    ],
)
def test_a_reference_that_did_not_differ_or_is_anothers_changes_nothing(again: Result) -> None:
    assert run_verdicts([result(WRONG), again])[0].verdict == "corrupt"


def test_planted_results_stay_marked_and_are_judged_like_others() -> None:
    planted = result(WRONG, planted=Planted(fault="stale-mask", number=None))
    assert verdict(planted).verdict == "corrupt"
    assert codec.decode(codec.encode(planted), Result, where="it").planted == planted.planted


# --- what is absent is unknown ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["launch", "lossless", "throughput", "acceptance"])
def test_a_check_that_the_result_lacks_keeps_it_from_passing(name: str) -> None:
    lacking = replace(WELL, checks=tuple(one for one in GOOD if one.check != name))
    assert (verdict(lacking).verdict, verdict(lacking).reasons) == ("inconclusive", ("check_missing",))
    assert name in verdict(lacking).statement


def test_without_speculation_there_is_no_acceptance_to_lack() -> None:
    where = replace(WELL.coordinates, budget=0, topk=None, shape="none")
    plain = replace(HONOURED, algorithm=None, width=None, topk_requested=None, topk_effective=None)
    facts = (proof("algorithm", "proven"), proof("graph_replayed", "proven"))
    one = replace(WELL, coordinates=where, expectation=plain, proof=facts, checks=GOOD[:2] + GOOD[3:])
    assert verdict(one).verdict == "pass"


@pytest.mark.parametrize("fact", sorted(MUST_BE_PROVEN))
def test_a_fact_that_the_result_is_silent_about_is_not_proven(fact: str) -> None:
    silent = verdict(replace(WELL, proof=tuple(one for one in PROVEN if one.fact != fact)))
    assert (silent.verdict, silent.reasons) == ("inconclusive", ("configuration_not_proven",))
    assert f"{fact}: the result says nothing of it" in silent.statement


def test_content_that_was_compared_with_nothing_is_no_pass() -> None:
    unchecked = check("lossless", "not_applicable", "not_applicable")
    assert verdict(result(unchecked)).reasons == ("content_not_checked",)
    assert verdict(result(unchecked)).verdict == "inconclusive"
    assert verdict(result(unchecked, check("coding", "pass"))).verdict == "pass"
    assert verdict(result(unchecked, check("acceptance", "fail", "acceptance_at_floor"))).verdict == "fail"


# --- rescoring --------------------------------------------------------------------------------------------------------

KNOWN: Rescoring = codec.read(FILES / "result-v2.json", Result).rescoring  # type: ignore[assignment]
LAST = "sm_103-ar-eager-nonvls"
TIE = check("lossless", "inconclusive", "tie")


def scored(state: str, *, exact: bool = False, one: Result = WELL, **changes: Any) -> Result:
    """The last launch, whose rescoring says this of the attempt."""
    assert KNOWN.calibration is not None
    score = replace(
        KNOWN.scores[0],
        cell=one.cell,
        attempt=one.attempt,
        state=state,  # type: ignore[arg-type]
        reason=None if state == "sound" else "tokens_wrong",
    )
    facts: dict[str, Any] = {
        "calibration": replace(KNOWN.calibration, exact=exact),
        "scores": (score,),
        "self_tests": (),
        "votes": (),
        **changes,
    }
    return result(role="reference-again", cell=LAST, rescoring=replace(KNOWN, **facts))


def judged(one: Result, last: Result) -> Verdict:
    return run_verdicts([one, last])[0]


def test_a_wrong_score_is_corrupt_whatever_the_first_differences_say() -> None:
    for checks in ((), (TIE,), (check("acceptance", "fail", "acceptance_at_floor"),)):
        found = judged(result(*checks), scored("wrong"))
        assert (found.verdict, found.reasons) == ("corrupt", ("tokens_wrong",))
        assert "rescoring: 9 of 1920 tokens lie above" in found.statement
    both = judged(result(WRONG), scored("wrong"))
    assert both.reasons == ("content_wrong", "tokens_wrong")


@pytest.mark.parametrize(
    ("checks", "exact", "name", "reasons"),
    [
        ((TIE,), False, "pass", ()),
        ((TIE,), True, "pass", ()),
        ((check("lossless", "inconclusive", "margin_unknown"),), True, "pass", ()),
        ((check("load", "inconclusive", "tie"),), False, "pass", ()),
        ((WRONG,), False, "pass", ()),
        ((WRONG,), True, "corrupt", ("content_wrong",)),
        ((WRONG, check("load", "fail", "content_wrong")), False, "pass", ()),
        ((check("lossless", "fail", "text_degenerate"),), False, "corrupt", ("text_degenerate",)),
        ((check("lossless", "inconclusive", "requests_missing"),), False, "inconclusive", ("requests_missing",)),
        ((check("coding", "fail", "too_few_solved"),), False, "corrupt", ("too_few_solved",)),
        ((check("acceptance", "fail", "acceptance_at_floor"),), False, "fail", ("acceptance_at_floor",)),
        ((check("lossless", "not_applicable", "not_applicable"),), False, "pass", ()),
    ],
)
def test_a_sound_score_explains_what_rounding_can_do_and_no_more(
    checks: tuple[CheckResult, ...], exact: bool, name: str, reasons: tuple[str, ...]
) -> None:
    found = judged(result(*checks), scored("sound", exact=exact))
    assert (found.verdict, found.reasons) == (name, reasons)


def test_tokens_that_are_not_there_cannot_be_scored() -> None:
    cut = Difference(prompt="p1", concurrency=1, at=40, expected=7, got=None, margin=3.0)
    short = replace(WRONG, differences=(cut,))
    counted = Measurement(
        name="outputs_of_other_length",
        at={},
        value=2,
        low=None,
        high=None,
        unit="count",
        n=20,
        basis="measured",
        reason=None,
    )
    assert judged(result(short), scored("sound")).verdict == "corrupt"
    assert judged(result(replace(WRONG, measurements=(counted,))), scored("sound")).verdict == "corrupt"


def test_an_unknown_score_leaves_the_checks_alone_and_says_what_is_lost() -> None:
    nothing = result(role="reference-again", cell=LAST, rescoring=None)
    refused = scored("sound", scores=(), calibration=None, reason="input log-probabilities were refused")
    for last in (scored("unknown"), nothing, refused):
        assert judged(WELL, last).verdict == "pass"
        assert "only what precedes its first difference was judged" in judged(WELL, last).statement
        assert judged(result(TIE), last).reasons == ("tie",)
        assert judged(result(WRONG), last).verdict == "corrupt"
    assert "were refused" in judged(WELL, refused).statement
    assert verdict(WELL).statement == "every check that applies passed", "the run is not over"


@pytest.mark.parametrize("place", ["recorded", "copies", "launch"])
def test_an_oracle_that_missed_what_was_planted_is_believed_in_nothing(place: str) -> None:
    missed = (replace(KNOWN.self_tests[0], state="missed", place=place),)  # type: ignore[arg-type]
    floor = result(check("acceptance", "fail", "acceptance_at_floor"))
    for one, state in ((WELL, "sound"), (WELL, "wrong"), (result(WRONG), "wrong")):
        found = judged(one, scored(state, self_tests=missed))
        assert (found.verdict, found.reasons) == ("inconclusive", ("oracle_not_trusted",))
        assert "one wrong token in 200" in found.statement
    assert judged(floor, scored("sound", self_tests=missed)).verdict == "fail"
    not_run = (replace(KNOWN.self_tests[0], state="not_run"),)
    assert judged(WELL, scored("sound", self_tests=not_run)).verdict == "pass"


def test_an_outvoted_reference_is_no_witness() -> None:
    votes = (Vote(arms=(LAST, "a", "b"), odd=LAST, statement="a and b agree, and the reference with neither"),)
    for one, state in ((WELL, "sound"), (result(WRONG), "wrong")):
        found = judged(one, scored(state, votes=votes))
        assert (found.verdict, found.reasons) == ("inconclusive", ("reference_outvoted",))
        assert "a and b agree" in found.statement
    coding = result(check("coding", "fail", "too_few_solved"))
    assert judged(coding, scored("sound", votes=votes)).verdict == "corrupt", "no reference was asked"
    others = (replace(votes[0], odd="a"),)
    assert judged(WELL, scored("sound", votes=others)).verdict == "pass"


# --- the self-test launch ---------------------------------------------------------------------------------------------

FAULT = Planted(fault="wrong-token", number=200)


def self_test(*checks: CheckResult, **changes: Any) -> Result:
    return result(*checks, **{"role": "self-test", "planted": FAULT, "attempt": 7, **changes})


def test_a_planted_fault_that_is_found_is_what_a_self_test_passes_by() -> None:
    for one, last in (
        (self_test(WRONG), scored("sound")),
        (self_test(check("acceptance", "fail", "acceptance_at_floor")), scored("sound")),
        (self_test(), scored("wrong", one=self_test())),
    ):
        own, other, _ = run_verdicts([one, WELL, last])
        assert (own.verdict, own.reasons, other.verdict) == ("pass", (), "pass")
        assert "wrong-token was planted and found" in own.statement


def test_a_self_test_that_found_nothing_takes_the_run_with_it() -> None:
    own, other, _ = run_verdicts([self_test(), WELL, scored("sound")])
    assert (own.verdict, own.reasons) == ("fail", ("self_test_missed",))
    assert (other.verdict, other.reasons) == ("inconclusive", ("oracle_not_trusted",))


def test_a_self_test_waits_for_the_last_launch_and_one_that_died_says_nothing() -> None:
    assert verdict(self_test()).reasons == ("self_test_open",)
    for outcome, name in (("crashed", "inconclusive"), ("lost", "void")):
        own, other, _ = run_verdicts([self_test(outcome=outcome), WELL, scored("sound")])
        assert (own.verdict, own.reasons[0]) == (name, "self_test_not_run")
        assert other.verdict == "pass"


def test_a_self_test_counts_in_no_cell() -> None:
    results = [self_test(), result(attempt=1), result(WRONG, attempt=2)]
    assert [v.attempt for v in verdicts_by_cell(results, run_verdicts(results))[WELL.cell]] == [1, 2]
    assert verdicts_by_cell([self_test()], run_verdicts([self_test()])) == {}


# --- a cell -----------------------------------------------------------------------------------------------------------


def verdicts(*names: str) -> list[Verdict]:
    return [
        Verdict(run_id="r", cell="c", attempt=n, verdict=name, reasons=(f"{name}-{n}",), statement="s")  # type: ignore[arg-type]
        for n, name in enumerate(names, start=1)
    ]


@pytest.mark.parametrize(
    ("names", "worst", "k", "n"),
    [
        ((), "not_run", 0, 0),
        (("void", "void", "void"), "void", 0, 0),
        (("void", "pass"), "pass", 0, 1),
        (("pass", "fail", "pass"), "fail", 1, 3),
        (("fail", "corrupt"), "corrupt", 2, 2),
        (("pass", "inconclusive"), "inconclusive", 0, 1),
        (("inconclusive", "fail", "void"), "fail", 1, 1),
        (("unsupported", "pass"), "unsupported", 0, 1),
        (("unsupported",), "unsupported", 0, 0),
    ],
)
def test_a_cell_is_its_worst_attempt_that_is_not_void(names: tuple[str, ...], worst: str, k: int, n: int) -> None:
    cell = cell_verdict("c", verdicts(*names))
    assert (cell.verdict, cell.k, cell.n) == (worst, k, n)
    assert cell.void == names.count("void")
    assert cell.inconclusive == names.count("inconclusive")
    assert (cell.interval is None) == (n == 0)
    assert cell.reasons == tuple(f"{name}-{i}" for i, name in enumerate(names, start=1) if name == worst)


SEVERITY = ["corrupt", "fail", "inconclusive", "unsupported", "pass"]


@given(st.lists(st.sampled_from([*SEVERITY, "void"])), st.randoms())
def test_the_order_of_attempts_does_not_matter_and_more_are_never_milder(names: list[str], random: Any) -> None:
    cell = cell_verdict("c", verdicts(*names))
    shuffled = list(names)
    random.shuffle(shuffled)
    again = cell_verdict("c", verdicts(*shuffled))
    assert (cell.verdict, cell.k, cell.n, cell.interval) == (again.verdict, again.k, again.n, again.interval)
    assert cell.k <= cell.n <= len(names)
    counted = [name for name in names if name != "void"]
    if counted:
        assert cell.verdict == min(counted, key=SEVERITY.index)


def test_the_reasons_of_a_cell_are_each_said_once() -> None:
    twice = [replace(one, reasons=("crashed", "oom_gpu_init")) for one in verdicts("fail", "fail")]
    assert cell_verdict("c", twice).reasons == ("crashed", "oom_gpu_init")


def test_a_scorer_that_agrees_with_no_arm_is_believed_in_nothing() -> None:
    last = scored("unknown")
    assert last.rescoring is not None
    (score,) = last.rescoring.scores
    doubted = replace(score, reason="reference_not_trusted", detail="no arm at all agrees with the reference")
    last = replace(last, rescoring=replace(last.rescoring, scores=(doubted,)))
    for one in (WELL, result(WRONG)):
        found = judged(one, last)
        assert (found.verdict, found.reasons) == ("inconclusive", ("reference_not_trusted",))


def test_an_arm_is_not_corrupt_for_differing_from_a_reference_that_is_wrong_itself() -> None:
    reference = result(role="reference", cell=LAST)
    last = scored("sound", exact=True)
    assert last.rescoring is not None
    (sound,) = last.rescoring.scores
    wrong = replace(sound, cell=LAST, state="wrong", reason="content_wrong", detail="48 of 588 tokens")
    last = replace(last, attempt=2, rescoring=replace(last.rescoring, scores=(sound, wrong)))
    of_reference, of_arm, _ = run_verdicts([reference, result(WRONG), last])
    assert (of_reference.verdict, of_reference.reasons) == ("corrupt", ("content_wrong",))
    assert (of_arm.verdict, of_arm.reasons) == ("inconclusive", ("reference_wrong",))
    assert "48 of 588 tokens" in of_arm.statement
