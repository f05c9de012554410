"""What a terminal shows of the oracles at the end of a run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from repro import codec, oracle_lines
from repro.model import Planted, Rescoring, Result
from repro.verdict import run_verdicts

RECORD: Result = codec.read(Path(__file__).parents[2] / "data" / "records" / "result-v2.json", Result)
FAULT = Planted(fault="wrong-token", number=200)
KNOWN: Rescoring = RECORD.rescoring  # type: ignore[assignment]


def shown(*results: Result) -> tuple[str, ...]:
    return oracle_lines.lines(results, run_verdicts(results))


def last(**changes: Any) -> Result:
    return replace(RECORD, role="reference-again", outcome="completed", rescoring=replace(KNOWN, **changes))


def test_self_test_calibration_limit_scores_and_votes_are_said() -> None:
    text = "\n".join(shown(last()))
    assert "self-test: 1 of 1 planted faults caught" in text
    assert "0.001 nats below the reference's choice; healthy arms 0 of 1920 tokens (cpu-ar-eager-nonvls 0 of" in text
    assert "detection limit: one wrong token in 600 would be seen with 95 % power" in text
    assert "rescoring: 1 attempts, 1 wrong" in text
    assert "cpu-b16t8-eager-nonvls attempt 1: 9 of 1920 tokens lie above" in text
    assert "worst: p01 token 10 at 1" in text
    assert "vote of 3 arms: the other two agree" in text


def test_a_miss_is_shouted_and_what_was_not_run_is_said() -> None:
    tests = (replace(KNOWN.self_tests[0], state="missed"), replace(KNOWN.self_tests[0], state="not_run"))
    (line, *_) = shown(last(self_tests=tests))
    assert line.startswith("self-test: 0 of 1 planted faults caught; MISSED: one wrong token in 200 (copies)")
    assert "; not run: " in line


def test_a_self_test_launch_counts() -> None:
    launch = replace(RECORD, role="self-test", outcome="completed", planted=FAULT, rescoring=None, checks=())
    assert "self-test: 1 of 2 planted faults caught; MISSED: wrong-token (launch)" in shown(launch, last())[0]


def test_without_scores_the_power_lost_is_said() -> None:
    refused = last(calibration=None, reason="input log-probabilities were refused", self_tests=(), scores=(), votes=())
    none, lost = shown(refused)
    assert none == "self-test: none was made"
    assert "(input log-probabilities were refused): of each output only" in lost
    assert "gave no scores" in shown(replace(refused, rescoring=None))[1]
    assert shown(replace(RECORD, role="cell")) == ()


def test_without_a_healthy_arm_no_count_of_none_is_told() -> None:
    known = KNOWN.calibration
    assert known is not None
    for exact, said in ((True, "none is needed: one such token is wrong"), (False, "no attempt can be tested")):
        text = shown(last(calibration=replace(known, arms=(), exact=exact)))[1]
        assert "0 of 0" not in text
        assert "no healthy arm has a scored token" in text
        assert said in text
