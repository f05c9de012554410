"""`coding`: tasks solved against the reference's, and what a loss has to be to count."""

from collections.abc import Callable
from typing import Any

import pytest
from scipy.stats import fisher_exact

from matrix.judge.coding import chance_of_loss, judge_coding
from repro.model import CheckEvidence, CheckPlan, CheckResult, CodingJudgement, TaskOutcome

NAMES = ("a", "b", "c", "d", "e")
PLAN = CheckPlan(
    check="coding",
    applicable=True,
    reason=None,
    prompts=5,
    max_new_tokens=1024,
    concurrency=(5,),
    margins=False,
    tie_margin=None,
    repeats=None,
    cancel_every=None,
    peer=None,
    limit_s=60.0,
)


def judgement(solved: str, *, unjudged: str = "", sandbox: str | None = "image") -> CodingJudgement:
    states = {name: "passed" if name in solved else "not_judged" if name in unjudged else "failed" for name in NAMES}
    return CodingJudgement(
        sandbox=sandbox,
        reason=None if sandbox else "no Docker here",
        tasks=tuple(
            TaskOutcome(task=name, state=state, detail=f"{state} it", code_sha256=None)  # type: ignore[arg-type]
            for name, state in states.items()
        ),
    )


@pytest.fixture
def judged(evidence: Callable[..., CheckEvidence], answer: Callable[..., Any]) -> Callable[..., CheckResult]:
    asked = evidence("coding", *(answer(name, ()) for name in NAMES))

    def judge(mine: CodingJudgement | None, reference: CodingJudgement | None = None, **options: Any) -> CheckResult:
        return judge_coding(PLAN, options.pop("asked", asked), mine, reference, **options)

    return judge


Judge = Callable[..., CheckResult]


def told(result: CheckResult) -> tuple[str, str | None]:
    return result.state, result.reason


@pytest.mark.parametrize(
    ("solved", "before", "expected"),
    [
        ("abcde", "abcde", ("pass", None)),
        ("abc", "abc", ("pass", None)),
        ("abcde", "ab", ("pass", None)),
        ("abcd", "abcde", ("inconclusive", "coding_lost")),
        ("ab", "abcde", ("inconclusive", "coding_lost")),
        ("a", "abcde", ("fail", "coding_lost")),
        ("", "abcde", ("fail", "coding_lost")),
        ("", "abcd", ("fail", "coding_lost")),
        ("", "abc", ("inconclusive", "coding_lost")),
        ("de", "abc", ("inconclusive", "coding_lost")),
        ("abcde", "", ("inconclusive", "coding_unsolved")),
    ],
)
def test_against_the_reference(judged: Judge, solved: str, before: str, expected: tuple[str, str | None]) -> None:
    result = judged(judgement(solved), judgement(before))
    assert told(result) == expected
    (number,) = result.measurements
    assert (number.name, number.value, number.n, number.unit) == ("coding_correct", len(solved), 5, "count")


def test_what_is_lost_is_named_with_its_chance(judged: Judge) -> None:
    detail = judged(judgement("a"), judgement("abcde")).detail
    assert "1 of 5 tasks solved; b: failed it" in detail
    assert detail.endswith("the reference solved 5 of 5; lost: b, c, d, e (one-sided p = 0.024)")


@pytest.mark.parametrize("solved", range(6))
@pytest.mark.parametrize("before", range(6))
def test_the_chance_is_that_of_fishers_test(solved: int, before: int) -> None:
    expected = fisher_exact([[solved, 5 - solved], [before, 5 - before]], alternative="less").pvalue
    assert chance_of_loss(solved, 5, before, 5) == pytest.approx(expected)


def test_the_reference_itself(judged: Judge) -> None:
    assert told(judged(judgement("abcde"), is_reference=True)) == ("pass", None)
    assert told(judged(judgement("a"), is_reference=True)) == ("pass", None)
    assert told(judged(judgement(""), is_reference=True)) == ("inconclusive", "coding_unsolved")


@pytest.mark.parametrize("reference", [None, judgement("abcde", sandbox=None)])
def test_without_a_reference_only_all_is_enough(judged: Judge, reference: CodingJudgement | None) -> None:
    assert told(judged(judgement("abcde"), reference)) == ("pass", None)
    assert told(judged(judgement("abcd"), reference)) == ("inconclusive", "coding_unsolved")


def test_answers_that_could_not_be_run(judged: Judge) -> None:
    result = judged(judgement("abc", unjudged="de"), judgement("abcde"))
    assert told(result) == ("inconclusive", "coding_not_judged")
    assert "2 answers could not be run: not_judged it" in result.detail


@pytest.mark.parametrize(("mine", "why"), [(None, "nobody ran"), (judgement("", sandbox=None), "no Docker here")])
def test_without_a_sandbox_it_is_not_run(judged: Judge, mine: CodingJudgement | None, why: str) -> None:
    result = judged(mine, judgement("abcde"))
    assert told(result) == ("not_run", "no_sandbox")
    assert why in result.detail


def test_without_answers_it_is_not_run(judged: Judge, evidence: Callable[..., CheckEvidence]) -> None:
    assert told(judged(None, asked=None)) == ("not_run", "no_evidence")
    assert told(judged(None, asked=evidence("coding"))) == ("not_run", "no_evidence")
