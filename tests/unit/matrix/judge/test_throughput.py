"""`throughput`: what each number is, when it has an interval, and when it is withheld."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from matrix.judge.rounds import Round, p99, rounds_of, why_withheld
from matrix.judge.throughput import judge_throughput
from repro.model import CheckPlan, CheckResult, Measurement, Repeats, RequestRecord, RoundCount

Make = Callable[..., Any]
Plan = Callable[..., CheckPlan]


def count(level: int, repeat: int, tokens: int | None, requests: int | None) -> RoundCount:
    return RoundCount(concurrency=level, repeat=repeat, generated_tokens=tokens, finished_requests=requests)


def found(result: CheckResult, name: str, level: int) -> Measurement:
    (number,) = [m for m in result.measurements if m.name == name and m.at["concurrency"] == level]
    return number


@pytest.fixture
def plan(check_plan: Make) -> Plan:
    def make(*levels: int, **changes: Any) -> CheckPlan:
        return replace(check_plan("throughput"), concurrency=levels, **changes)

    return make


@pytest.fixture
def judged(evidence: Make, plan: Plan) -> Callable[..., CheckResult]:
    """The requests of concurrency 2, judged with the counts that are right for them."""

    def judge(*requests: RequestRecord, counts: Any = None, raw: Any = None, **changes: Any) -> CheckResult:
        rounds = rounds_of(requests, (), 2)
        right = [count(2, r.repeat, r.tokens, len(r.requests)) for r in rounds] if counts is None else counts
        taken = evidence("throughput", *requests, counts=tuple(right), **changes)
        return judge_throughput(plan(2), taken, gpu_count=8, **({"raw": raw} if raw else {}))

    return judge


def two_rounds(answer: Make, *, second_s: float = 2.0, **changes: Any) -> list[RequestRecord]:
    """4 tokens each of two requests, in 2 s and in ``second_s``."""
    first = [answer(p, concurrency=2, begun_s=1.0, ended_s=3.0, **changes) for p in ("a", "b")]
    again = [answer(p, concurrency=2, repeat=2, begun_s=5.0, first_token_s=5.5, ended_s=5.0 + second_s) for p in "ab"]
    return [*first, *again]


def test_a_rate_is_the_mean_over_rounds_with_its_t_interval(answer: Make, judged: Any) -> None:
    """8 tokens in 2 s and in 1.6 s: 4 and 5 tok/s; t for one degree of freedom is 12.7062."""
    result = judged(*two_rounds(answer, second_s=1.6))
    rate = found(result, "output_rate", 2)
    assert (result.state, rate.value, rate.n) == ("pass", 4.5, 2)
    assert rate.high is not None
    assert rate.high - 4.5 == pytest.approx(12.7062 * 0.5**0.5 / 2**0.5, abs=0.01)
    assert rate.low == 0.0, "no rate is below zero"
    assert found(result, "output_rate_per_user", 2).value == 2.25
    assert found(result, "output_rate_per_gpu", 2).value == 0.56
    closer = found(judged(*two_rounds(answer, second_s=1.9)), "output_rate", 2)
    assert closer.low is not None
    assert closer.high is not None
    assert closer.value is not None
    assert closer.value - closer.low == pytest.approx(closer.high - closer.value, abs=0.02)


def test_a_single_round_has_no_interval(answer: Make, judged: Any) -> None:
    rate = found(judged(*two_rounds(answer)[:2]), "output_rate", 2)
    assert (rate.value, rate.low, rate.high, rate.n) == (4.0, None, None, 1)


def test_warm_up_rounds_measure_nothing(answer: Make, judged: Any) -> None:
    cold = [answer("a", concurrency=2, repeat=0, begun_s=0.0, ended_s=0.9)]
    assert judged(*cold, *two_rounds(answer)).measurements == judged(*two_rounds(answer)).measurements


def test_a_rate_that_did_not_settle_says_so(answer: Make, evidence: Make, plan: Plan) -> None:
    requests = two_rounds(answer, second_s=1.6)
    taken = evidence("throughput", *requests, counts=(count(2, 1, 8, 2), count(2, 2, 8, 2)))
    repeats = Repeats(warm_up=0, at_least=2, at_most=2, relative=0.03)
    result = judge_throughput(plan(2, repeats=repeats), taken, gpu_count=0)
    assert result.state == "pass"
    assert result.detail == "4 tok/s at 2; at concurrency 2 known to ±141 % after 2 rounds"


def test_latencies_and_steps(answer: Make, judged: Any) -> None:
    """First token after 500 ms; then 3 ids in one chunk 900 ms later, then 1 after 300 ms; two verify steps."""
    times = ((1.5, 1), (2.4, 4), (2.7, 5))
    requests = [answer(p, range(5), concurrency=2, token_times=times, verify_calls=2) for p in "ab"]
    result = judged(*requests)
    assert found(result, "ttft_median", 2).value == 500
    assert found(result, "ttft_p99", 2).value == 500
    assert found(result, "itl_median", 2).value == 300  # each of the three ids of the bundle took a third of its gap
    assert found(result, "step_time", 2).value == 600
    assert found(result, "steps_per_request", 2).value == 2


def test_steady_is_while_all_streams_are_busy(answer: Make) -> None:
    """Streams begin at 0 and 2 s, and end at 6 and 10 s: one id each half second, two streams from 2.5 to 6 s."""

    def streamed(begun_s: float, ended_s: float) -> RequestRecord:
        times = tuple((begun_s + 0.5 * n, n) for n in range(1, int(2 * (ended_s - begun_s)) + 1))
        ids = range(len(times))
        return answer(  # type: ignore[no-any-return]
            "p", ids, concurrency=2, begun_s=begun_s, first_token_s=times[0][0], ended_s=ended_s, token_times=times
        )

    round_ = Round(concurrency=2, repeat=1, requests=(streamed(0.0, 6.0), streamed(2.0, 10.0)), count=None)
    assert round_.rate() == 28 / 10
    assert round_.steady_rate() == 4.0
    alone = Round(concurrency=2, repeat=1, requests=(streamed(0.0, 2.0), streamed(2.0, 4.0)), count=None)
    assert alone.steady_rate() is None


def test_p99_is_the_nearest_rank() -> None:
    assert p99([float(n) for n in range(1, 201)]) == 198
    assert p99([1.0, 2.0]) == 2.0
    assert p99([]) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"error": "HTTP 500"}, "requests_failed"),
        ({"ids": ()}, "requests_failed"),
        ({"usage_tokens": None}, "usage_missing"),
        ({"usage_tokens": 5}, "token_counts_disagree"),
        ({"ended_s": 1.0, "begun_s": 1.0}, "clock_did_not_advance"),
    ],
)
def test_a_level_that_cannot_be_trusted_has_no_number_but_a_reason(
    answer: Make, judged: Any, changes: dict[str, Any], reason: str
) -> None:
    result = judged(answer(concurrency=2, **changes))
    assert (result.state, result.reason) == ("inconclusive", "withheld")
    assert result.detail == f"numbers withheld: concurrency 2: {reason}"
    withheld = [m for m in result.measurements if m.value is None]
    assert [(m.name, m.at, m.reason) for m in withheld] == [("output_rate", {"concurrency": 2}, reason)]


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        ((), "server_counts_missing"),
        ((count(2, 1, None, 2),), "server_counts_missing"),
        ((count(2, 1, 8, None),), "server_counts_missing"),
        ((count(2, 1, 9, 2),), "server_counts_disagree"),
        ((count(2, 1, 8, 3),), "server_counts_disagree"),
        ((count(1, 1, 8, 2),), "server_counts_missing"),
    ],
)
def test_the_servers_own_counters_have_to_agree(
    answer: Make, judged: Any, counts: tuple[RoundCount, ...], reason: str
) -> None:
    requests = two_rounds(answer)[:2]
    assert judged(*requests, counts=counts).detail == f"numbers withheld: concurrency 2: {reason}"
    right = Round(concurrency=2, repeat=1, requests=tuple(requests), count=count(2, 1, 8, 2))
    assert why_withheld(right) is None


def test_a_failed_request_withholds_its_level_and_is_counted_apart(answer: Make, evidence: Make, plan: Plan) -> None:
    requests = [answer(concurrency=1), *two_rounds(answer)[:1], answer("b", concurrency=2, error="closed")]
    taken = evidence("throughput", *requests, counts=(count(1, 1, 4, 1), count(2, 1, 8, 2)))
    result = judge_throughput(plan(1, 2), taken, gpu_count=8)
    assert found(result, "output_rate", 1).value == 2.0
    assert found(result, "output_rate", 2).reason == "requests_failed"
    failed = found(result, "requests_failed", 2)
    assert (failed.value, failed.n) == (1, 2)
    assert not [m for m in result.measurements if m.name == "requests_failed" and m.at["concurrency"] == 1]


def test_a_round_that_the_limit_cut_off_is_dropped(answer: Make, judged: Any) -> None:
    cut_off = answer(concurrency=2, repeat=2, error="the limit was reached", ids=(1,))
    result = judged(*two_rounds(answer)[:2], cut_off, complete=False)
    assert result.state == "pass"
    assert found(result, "output_rate", 2).n == 1
    assert "cut_off" in judged(cut_off, complete=False).detail


def test_a_level_that_was_not_reached_is_withheld(answer: Make, evidence: Make, plan: Plan) -> None:
    taken = evidence("throughput", answer(concurrency=1), counts=(count(1, 1, 4, 1),), complete=False)
    result = judge_throughput(plan(1, 2), taken, gpu_count=8)
    assert result.detail == "numbers withheld: concurrency 2: not_measured"
    assert found(result, "output_rate", 1).value == 2.0


def test_without_evidence(plan: Plan) -> None:
    assert judge_throughput(plan(1), None, gpu_count=8).reason == "no_evidence"


FIGURES = '{"completed": 16, "output_throughput": 640.5, "median_ttft_ms": 12.25, "accept_length": null}\n'


def test_the_peers_figures_stand_beside_ours_as_stated(answer: Make, evidence: Make, plan: Plan) -> None:
    files = {"bench_serving/2.jsonl": f"{FIGURES}\n", "bench_serving/4.txt": "a\nNo module named sglang\n\n"}
    taken = evidence("throughput", *two_rounds(answer)[:2], counts=(count(2, 1, 8, 2),))
    result = judge_throughput(plan(2, 4, 8, peer="sglang.bench_serving"), taken, gpu_count=0, raw=files.get)
    rate = found(result, "bench_serving_output_rate", 2)
    assert (rate.value, rate.n, rate.basis) == (640.5, 16, "stated")
    assert found(result, "bench_serving_ttft_median", 2).value == 12.25
    assert not [m for m in result.measurements if m.name == "bench_serving_acceptance"]
    missing = found(result, "bench_serving_output_rate", 4)
    assert (missing.value, missing.reason) == (None, "bench_serving gave no figures: No module named sglang")
    assert found(result, "bench_serving_output_rate", 8).reason == "bench_serving was not run at this concurrency"


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"output_throughput": "fast"}', "[" * 100_000])
def test_what_are_no_figures(answer: Make, evidence: Make, plan: Plan, text: str) -> None:
    taken = evidence("throughput", *two_rounds(answer)[:2], counts=(count(2, 1, 8, 2),))
    result = judge_throughput(plan(2, peer="sglang.bench_serving"), taken, gpu_count=0, raw=lambda _: text)
    assert found(result, "bench_serving_output_rate", 2).value is None
    assert result.state == "pass", "the peer's failure is not the engine's"
