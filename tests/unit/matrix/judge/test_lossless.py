"""`lossless`: right, wrong, a tie, or not to be told."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix.judge.lossless import MAX_DIFFERENCES, first_difference, judge_lossless, judge_reference
from matrix.judge.reference import ReferenceOutput, reference_from
from repro.model import CheckResult

Make = Callable[..., Any]
TIE = 0.25  # of the b300 spec
REFERENCE = {
    "p1": ReferenceOutput(ids=(1, 2, 3, 4), margins=(5.0, 0.1, 3.0, 0.25)),
    "p2": ReferenceOutput(ids=(7, 8), margins=(2.0, 2.0)),
    "p3": ReferenceOutput(ids=(9, 9, 9), margins=()),
}


@pytest.fixture
def judged(answer: Make, evidence: Make, check_plan: Make) -> Make:
    def judge(*requests: Any, under_load: tuple[Any, ...] = (), **options: Any) -> CheckResult:
        load = evidence("throughput", *under_load) if under_load else None
        reference = options.pop("reference", REFERENCE)
        return judge_lossless(check_plan("lossless"), evidence("lossless", *requests, **options), load, reference)

    return judge


def test_equal_outputs_pass(judged: Make, answer: Make) -> None:
    result = judged(answer("p1"), answer("p2", (7, 8)), under_load=(answer("p2", (7, 8), concurrency=32),))
    assert (result.state, result.reason) == ("pass", None)
    assert result.detail == "3 of 3 outputs equal the reference token by token"
    assert [(m.name, m.at, m.value, m.n) for m in result.measurements if m.name == "outputs_equal"] == [
        ("outputs_equal", {"concurrency": 1}, 2, 2),
        ("outputs_equal", {"concurrency": 32}, 1, 1),
    ]


@pytest.mark.parametrize(
    ("ids", "at", "expected", "got", "margin"),
    [
        ((9, 2, 3, 4), 0, 1, 9, 5.0),
        ((1, 2, 9, 4), 2, 3, 9, 3.0),
        ((1, 2, 3, 9), 3, 4, 9, 0.25),  # a margin of exactly the tie margin is no tie
        ((1, 2), 2, 3, None, 3.0),  # it ends too early
    ],
)
def test_a_decided_token_that_differs_is_wrong_content(
    judged: Make, answer: Make, ids: tuple[int, ...], at: int, expected: int, got: int | None, margin: float
) -> None:
    result = judged(answer("p1", ids), answer("p2", (7, 8)))
    assert (result.state, result.reason) == ("fail", "content_wrong")
    (difference,) = result.differences
    assert (difference.at, difference.expected, difference.got, difference.margin) == (at, expected, got, margin)
    assert f"prompt p1 at token {at}" in result.detail
    assert result.detail.startswith("1 of 2 outputs equal")


def test_a_difference_below_the_tie_margin_is_inconclusive(judged: Make, answer: Make) -> None:
    result = judged(answer("p1", (1, 9, 9, 9)))
    assert (result.state, result.reason) == ("inconclusive", "tie")
    assert "gap below 0.25 nats" in result.detail


@pytest.mark.parametrize("ids", [(9, 9, 1), (9, 9, 9, 1)])
def test_a_difference_without_a_known_margin_is_inconclusive(judged: Make, answer: Make, ids: tuple[int, ...]) -> None:
    result = judged(answer("p3", ids))
    assert (result.state, result.reason) == ("inconclusive", "margin_unknown")


def test_an_output_longer_than_the_reference_has_no_margin(judged: Make, answer: Make) -> None:
    result = judged(answer("p2", (7, 8, 9)))
    assert (result.state, result.reason) == ("inconclusive", "margin_unknown")
    assert (result.differences[0].at, result.differences[0].expected, result.differences[0].got) == (2, None, 9)


def test_one_wrong_output_outweighs_ties_and_missing_ones(judged: Make, answer: Make) -> None:
    result = judged(answer("p1", (1, 9)), answer("p2", (9,)), answer("p3", (), error="HTTP 500"))
    assert (result.state, result.reason) == ("fail", "content_wrong")
    assert result.differences[0].prompt == "p2", "what is wrong comes first"


def test_wrong_only_at_a_concurrency(judged: Make, answer: Make) -> None:
    loaded = [answer("p2", (7, 8), concurrency=32), answer("p2", (7, 1), concurrency=128)]
    result = judged(answer("p1"), answer("p2", (7, 8)), under_load=tuple(loaded))
    assert (result.state, result.reason) == ("fail", "content_wrong")
    assert "first at concurrency 128" in result.detail
    numbers = {(m.name, m.at.get("concurrency")): m.value for m in result.measurements}
    assert {name: value for name, value in numbers.items() if name[0].endswith(("_equal", "_concurrency"))} == {
        ("outputs_equal", 1): 2,
        ("outputs_equal", 32): 1,
        ("outputs_equal", 128): 0,
        ("smallest_wrong_concurrency", None): 128,
    }


def test_no_output_at_all_is_inconclusive(judged: Make, answer: Make) -> None:
    result = judged(answer("p1", ()), answer("p2", (), error="HTTP 500"))
    assert (result.state, result.reason) == ("inconclusive", "no_output")


@pytest.mark.parametrize("changes", [{"error": "closed"}, {"ids": ()}, {"prompt": "unknown"}])
def test_a_missing_answer_keeps_it_from_passing(judged: Make, answer: Make, changes: dict[str, Any]) -> None:
    result = judged(answer("p1"), answer(**{"prompt": "p2", "ids": (7, 8), **changes}))
    assert (result.state, result.reason) == ("inconclusive", "requests_missing")


def test_a_check_that_was_cut_off_does_not_pass(judged: Make, answer: Make) -> None:
    result = judged(answer("p1"), complete=False)
    assert (result.state, result.reason) == ("inconclusive", "requests_missing")


def test_without_evidence_or_reference(judged: Make, answer: Make, check_plan: Make, evidence: Make) -> None:
    nothing = judge_lossless(check_plan("lossless"), None, None, REFERENCE)
    assert (nothing.state, nothing.reason) == ("not_run", "no_evidence")
    assert judged().reason == "no_evidence"
    alone = judged(answer("p1"), reference=None)
    assert (alone.state, alone.reason) == ("inconclusive", "no_reference")


def test_a_result_keeps_few_differences_and_counts_all(judged: Make, answer: Make) -> None:
    result = judged(*[answer("p2", (1, 1)) for _ in range(MAX_DIFFERENCES + 30)])
    assert len(result.differences) == MAX_DIFFERENCES
    assert result.measurements[0].n == MAX_DIFFERENCES + 30
    assert result.measurements[0].value == 0


ids = st.lists(st.integers(0, 3), max_size=6).map(tuple)


@given(ids, ids)
def test_there_is_no_difference_exactly_between_equal_outputs(mine: tuple[int, ...], theirs: tuple[int, ...]) -> None:
    from repro.model import RequestRecord

    request = RequestRecord(
        prompt="p",
        concurrency=1,
        repeat=1,
        cancelled=False,
        asked_tokens=None,
        begun_s=0.0,
        first_token_s=None,
        ended_s=1.0,
        status=200,
        error=None,
        finish_reason=None,
        output_ids=mine,
        output_text=None,
        usage_tokens=None,
        verify_calls=None,
        accept_histogram=None,
        margins=None,
        token_times=(),
    )
    known = {"p": ReferenceOutput(ids=theirs, margins=tuple(1.0 for _ in theirs))}
    difference = first_difference(request, known)
    assert (difference is None) == (mine == theirs)
    if difference is not None:
        assert mine[: difference.at] == theirs[: difference.at]
        assert difference.expected != difference.got


# --- the reference ----------------------------------------------------------------------------------------------------


def test_the_reference_passes_when_its_two_passes_agree(answer: Make, evidence: Make) -> None:
    both = evidence("lossless", answer("p1"), answer("p1", margins=(1.0, 2.0, 3.0, 4.0)))
    assert judge_reference(both).state == "pass"
    assert reference_from(both) == {"p1": ReferenceOutput(ids=(1, 2, 3, 4), margins=(1.0, 2.0, 3.0, 4.0))}


def test_a_reference_that_differs_from_itself_is_inconclusive_and_gives_no_margin(answer: Make, evidence: Make) -> None:
    both = evidence("lossless", answer("p1"), answer("p1", (1, 2, 3, 9), margins=(1.0, 2.0, 3.0, 4.0)))
    assert judge_reference(both).reason == "reference_unstable"
    assert reference_from(both) == {"p1": ReferenceOutput(ids=(1, 2, 3, 4), margins=())}


def test_an_incomplete_reference_is_none(answer: Make, evidence: Make) -> None:
    cut = evidence("lossless", answer("p1"), complete=False)
    failed = evidence("lossless", answer("p1"), answer("p2", (), error="HTTP 500"))
    empty = evidence("lossless", answer("p1", ()))
    for one in (cut, failed, empty, evidence("lossless"), None):
        assert reference_from(one) is None
    assert judge_reference(cut).reason == "reference_incomplete"
    assert judge_reference(failed).reason == "reference_incomplete"
    assert judge_reference(evidence("lossless", answer("p1"))).reason == "reference_incomplete"
    assert judge_reference(None).state == "not_run"
