"""`load`: content under joins, leaves and cancels, against the beginning of the reference."""

from collections.abc import Callable
from typing import Any

import pytest

from matrix.judge.load import judge_load, load_difference
from matrix.judge.reference import ReferenceOutput
from repro.model import CheckResult, RequestRecord

Make = Callable[..., Any]
Judge = Callable[..., CheckResult]

WANTED = tuple(range(10, 20))
REFERENCE = {
    "p1": ReferenceOutput(ids=WANTED, margins=(2.0,) * 9 + (0.1,)),
    "p2": ReferenceOutput(ids=WANTED, margins=()),
}


@pytest.fixture
def judged(evidence: Make, check_plan: Make) -> Judge:
    def judge(*requests: RequestRecord, reference: Any = REFERENCE, **changes: Any) -> CheckResult:
        return judge_load(check_plan("load"), evidence("load", *requests, **changes), reference)

    return judge


def test_outputs_of_all_lengths_pass_as_beginnings(answer: Make, judged: Judge) -> None:
    result = judged(
        answer(ids=WANTED, concurrency=3),
        answer(ids=WANTED[:4], concurrency=3),
        answer(ids=WANTED[:3], concurrency=33, cancelled=True, asked_tokens=8, finish_reason=None),
    )
    assert (result.state, result.reason, result.differences) == ("pass", None, ())
    assert result.detail == "3 of 3 outputs are the beginning of the reference's, at 3, 33 at a time"
    equal = {m.at["concurrency"]: (m.value, m.n) for m in result.measurements if m.name == "outputs_equal"}
    assert equal == {3: (2, 2), 33: (1, 1)}


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_wrong_token_is_found_with_the_smallest_concurrency(answer: Make, judged: Judge, cancelled: bool) -> None:
    wrong = (*WANTED[:2], 99, WANTED[3])
    result = judged(
        answer(ids=wrong, concurrency=33),
        answer(ids=wrong, concurrency=7, cancelled=cancelled, asked_tokens=10 if cancelled else 4),
        answer(ids=WANTED, concurrency=3),
    )
    assert (result.state, result.reason) == ("fail", "content_wrong")
    (smallest,) = [m for m in result.measurements if m.name == "smallest_wrong_concurrency"]
    assert (smallest.value, smallest.n) == (7, 2)
    assert result.detail == (
        "1 of 3 outputs are the beginning of the reference's; 2 are wrong, first at concurrency 7: prompt p1, token 2, "
        "which the reference decided by 2 nats"
    )
    assert [(d.concurrency, d.at, d.expected, d.got) for d in result.differences] == [(7, 2, 12, 99), (33, 2, 12, 99)]


def test_fewer_tokens_than_asked_for_are_wrong_and_no_tie(answer: Make, judged: Judge) -> None:
    result = judged(answer(ids=WANTED[:9], asked_tokens=10, concurrency=3))
    assert result.reason == "content_wrong"
    assert "token 9: the output ends there, too early" in result.detail
    assert judged(answer(ids=WANTED[:9], asked_tokens=10, cancelled=True)).state == "pass"


def test_a_difference_at_a_tie_or_without_a_margin_stays_open(answer: Make, judged: Judge) -> None:
    assert judged(answer(ids=(*WANTED[:9], 99))).reason == "tie"
    assert judged(answer("p2", ids=(*WANTED[:9], 99))).reason == "margin_unknown"


def test_requests_without_an_answer_keep_it_from_passing(answer: Make, judged: Judge) -> None:
    right = answer(ids=WANTED)
    assert judged(right, answer(ids=(), error="closed")).reason == "requests_missing"
    assert judged(right, complete=False).reason == "requests_missing"
    assert judged(answer(ids=(), error="closed")).reason == "no_output"
    assert judged(right, answer(ids=(), cancelled=True)).reason == "requests_missing"


def test_a_wrong_token_counts_even_if_others_have_no_answer(answer: Make, judged: Judge) -> None:
    assert judged(answer(ids=(9,)), answer(ids=(), error="closed"), complete=False).state == "fail"


def test_without_evidence_or_reference(answer: Make, check_plan: Make, judged: Judge) -> None:
    assert judge_load(check_plan("load"), None, REFERENCE).reason == "no_evidence"
    assert judged().reason == "no_evidence"
    without = judged(answer(ids=WANTED), reference=None)
    assert (without.state, without.reason) == ("inconclusive", "no_reference")


def test_time_is_measured_and_withheld_where_requests_failed(answer: Make, judged: Judge) -> None:
    result = judged(answer(ids=WANTED, concurrency=3), answer(ids=WANTED, concurrency=33, error="closed"))
    rates = {
        m.at["concurrency"]: (m.value, m.reason) for m in result.measurements if m.name == "output_rate_under_load"
    }
    assert rates == {3: (5.0, None), 33: (None, "requests_failed")}
    firsts = {m.at["concurrency"]: m.value for m in result.measurements if m.name == "ttft_median_under_load"}
    assert firsts == {3: 500.0}


def test_a_record_of_before_counts_as_whole(answer: Make) -> None:
    """Without the number asked for, an output has to be as long as the output it is."""
    assert load_difference(answer(ids=WANTED[:3], asked_tokens=None), REFERENCE) is None
    assert load_difference(answer("p3", ids=(1,)), REFERENCE) is None
