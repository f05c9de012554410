"""`launch`, `acceptance` and `power`: each state, and the numbers behind it."""

from collections.abc import Callable
from typing import Any

import pytest

from matrix.judge.acceptance import judge_acceptance
from matrix.judge.launch import judge_launch
from matrix.judge.power import judge_power
from repro.model import CheckResult, PhaseTiming, PowerEvidence, PowerSample

Make = Callable[..., Any]


def numbers(result: CheckResult) -> dict[tuple[str, int | None], float | None]:
    return {(m.name, m.at.get("concurrency")): m.value for m in result.measurements}


# --- launch -----------------------------------------------------------------------------------------------------------

READY = (
    PhaseTiming(phase="launch", state="completed", begun_s=0.5, ended_s=4.0),
    PhaseTiming(phase="serving", state="completed", begun_s=4.0, ended_s=9.0),
)


def test_launch_passes_with_the_time_to_ready(answer: Make, evidence: Make) -> None:
    result = judge_launch(READY, (evidence("lossless", answer()),))
    assert (result.state, result.reason, numbers(result)) == ("pass", None, {("ready", None): 3.5})


def test_a_server_that_never_served_failed_its_launch() -> None:
    for phases in ((), READY[:1]):
        assert judge_launch(phases, ()).reason == "not_ready"


def test_replies_without_tokens_fail_although_they_succeeded(answer: Make, evidence: Make) -> None:
    result = judge_launch(READY, (evidence("lossless", answer(), answer(ids=())),))
    assert (result.state, result.reason) == ("fail", "no_tokens")
    assert "1 of 2 requests" in result.detail


def test_failed_requests_fail_the_launch_and_the_first_is_quoted(answer: Make, evidence: Make) -> None:
    result = judge_launch(READY, (evidence("lossless", answer(), answer(error="HTTP 500: boom")),))
    assert (result.state, result.reason) == ("fail", "requests_failed")
    assert "HTTP 500: boom" in result.detail


# --- acceptance -------------------------------------------------------------------------------------------------------


def test_acceptance_takes_the_prefill_token_out(answer: Make, evidence: Make, check_plan: Make) -> None:
    """96 tokens in 38 steps: SGLang says 96 / 38 = 2.53, ours is 95 / 38 = 2.5."""
    replies = [answer(f"p{n}", range(96), verify_calls=38, accept_histogram=(10, 13, 15)) for n in range(2)]
    result = judge_acceptance(check_plan("acceptance"), evidence("lossless", *replies, server_accept_length=2.53))
    assert result.state == "pass"
    assert numbers(result) == {
        ("acceptance", None): 2.5,
        ("verify_steps", None): 76,
        ("server_accept_length", None): 2.53,
    }
    assert result.histogram == (20, 26, 30)
    assert sum(result.histogram) == 76


@pytest.mark.parametrize(("steps", "state"), [(95, "fail"), (100, "fail"), (94, "pass"), (80, "pass")])
def test_the_floor_is_exactly_one(answer: Make, evidence: Make, check_plan: Make, steps: int, state: str) -> None:
    """Nothing accepted: n tokens take n - 1 steps. The engine's own figure would be n / (n - 1), above one."""
    result = judge_acceptance(check_plan("acceptance"), evidence("lossless", answer(ids=range(96), verify_calls=steps)))
    assert result.state == state
    if steps == 95:
        assert numbers(result)["acceptance", None] == 1.0
        assert result.reason == "acceptance_at_floor"


def test_one_accepted_draft_in_a_hundred_steps_is_still_the_floor(
    answer: Make, evidence: Make, check_plan: Make
) -> None:
    found = judge_acceptance(check_plan("acceptance"), evidence("lossless", answer(ids=range(1012), verify_calls=1001)))
    assert found.reason == "acceptance_at_floor"


def test_histograms_of_different_widths_add_up(answer: Make, evidence: Make, check_plan: Make) -> None:
    replies = [answer(accept_histogram=h) for h in ((1, 2), (1, 0, 0, 5), None, ())]
    assert judge_acceptance(check_plan("acceptance"), evidence("lossless", *replies)).histogram == (2, 2, 0, 5)


def test_acceptance_counts_plain_and_whole_replies_only(answer: Make, evidence: Make, check_plan: Make) -> None:
    replies = [
        answer(ids=range(11), verify_calls=5),
        answer(ids=range(11), verify_calls=10, margins=(1.0,)),
        answer(ids=range(11), verify_calls=10, error="closed"),
        answer(ids=(), verify_calls=10),
    ]
    assert numbers(judge_acceptance(check_plan("acceptance"), evidence("lossless", *replies)))["acceptance", None] == 2


@pytest.mark.parametrize("steps", [None, 0])
def test_acceptance_without_counters_is_inconclusive(
    answer: Make, evidence: Make, check_plan: Make, steps: int | None
) -> None:
    result = judge_acceptance(check_plan("acceptance"), evidence("lossless", answer(verify_calls=steps)))
    assert (result.state, result.reason) == ("inconclusive", "no_counters")


def test_acceptance_without_evidence_or_speculation(evidence: Make, check_plan: Make) -> None:
    for nothing in (None, evidence("lossless")):
        assert judge_acceptance(check_plan("acceptance"), nothing).state == "not_run"
    result = judge_acceptance(check_plan("acceptance", shape="none"), None)
    assert (result.state, result.detail) == ("not_applicable", "no speculation")


# --- power ------------------------------------------------------------------------------------------------------------


def sample(gpu: int, power_w: float | None) -> PowerSample:
    return PowerSample(at_s=1.0, gpu=gpu, power_w=power_w, temperature_c=None, sm_clock_mhz=None, memory_used_mib=None)


def test_power_is_over_all_samples_of_all_gpus(check_plan: Make) -> None:
    samples = (sample(0, 100.0), sample(1, 300.0), sample(1, None))
    result = judge_power(check_plan("power"), PowerEvidence(reason=None, samples=samples))
    assert (result.state, numbers(result)) == ("pass", {("gpu_power", None): 200.0, ("gpu_power_max", None): 300.0})


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        (None, "no sample holds a power reading"),
        (PowerEvidence(reason="NVML: driver not loaded", samples=()), "NVML: driver not loaded"),
        (PowerEvidence(reason=None, samples=(sample(0, None),)), "no sample holds a power reading"),
    ],
)
def test_power_without_nvml_is_null_with_its_reason(
    check_plan: Make, evidence: PowerEvidence | None, reason: str
) -> None:
    result = judge_power(check_plan("power"), evidence)
    assert (result.state, result.reason) == ("not_run", "no_nvml")
    assert [(m.value, m.reason) for m in result.measurements] == [(None, reason)]


def test_power_on_a_machine_without_gpus_does_not_apply(check_plan: Make) -> None:
    result = judge_power(check_plan("power", target="cpu"), None)
    assert (result.state, result.measurements[0].reason) == ("not_applicable", "this machine has no GPU")


def test_more_tokens_a_step_than_it_has_rows_are_impossible(answer: Make, evidence: Make, check_plan: Make) -> None:
    one_step = evidence("lossless", answer(ids=range(96), verify_calls=1))
    found = judge_acceptance(check_plan("acceptance"), one_step, width=17)
    assert (found.state, found.reason) == ("inconclusive", "acceptance_impossible")
    assert judge_acceptance(check_plan("acceptance"), one_step, width=95).state == "pass"
