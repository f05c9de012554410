"""When a command goes on with a run, and when it begins a new one."""

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest

ONE = ("--select", "*-b8t4-eager*")

pytestmark = pytest.mark.slow


def test_after_a_finished_run_a_new_one_begins(harness: Any) -> None:
    assert harness.run(*ONE).returncode == 0
    first = harness.bytes_of_results()
    again = harness.run(*ONE)
    assert again.returncode == 0, again.stderr
    assert "3 launches, 0 done before" in again.stderr
    assert len(harness.runs()) == 2
    after = harness.bytes_of_results()
    assert {path: after[path] for path in first} == first
    assert len(after) == 6


def test_another_plan_or_another_fault_begins_a_new_run(harness: Any, until: Callable[..., None]) -> None:
    process = harness.start(*ONE)
    until(harness.bytes_of_results, "no result")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    (unfinished,) = harness.runs()
    kept = harness.bytes_of_results()
    other = harness.run("--select", "*-b16t8-eager*")
    assert other.returncode == 0, other.stderr
    planted = harness.run(*ONE, "--inject", "*b8*=wrong-token:3")
    assert planted.returncode == 1, planted.stderr
    for run in (other, planted):
        assert "3 launches, 0 done before" in run.stderr
    resumed = harness.run(*ONE)
    assert "3 launches, 1 done before" in resumed.stderr
    assert len(harness.runs()) == 3
    assert len(harness.records("result", unfinished)) == 3
    after = harness.bytes_of_results()
    assert {path: after[path] for path in kept} == kept


def test_two_harnesses_on_one_run(harness: Any) -> None:
    process = harness.start(*ONE)
    harness.until_event("check-begun", check="lossless")
    second = harness.run(*ONE)
    assert second.returncode == 4
    (line,) = second.stderr.strip().splitlines()
    assert line.startswith("matrix: run ")
    assert "in use by another graphrepro process" in line
    assert second.stdout == ""
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert len(harness.runs()) == 1


def test_an_attempt_without_a_result_is_made_again_under_its_number(harness: Any) -> None:
    process = harness.start(*ONE)
    harness.until_event("check-begun", check="lossless")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    (run,) = harness.runs()
    torn = run / "cells" / "sim-ar-eager-nonvls" / "1"
    assert torn.is_dir()
    (torn / "evidence" / "stray").write_text("of the attempt that was cut off")
    assert harness.run(*ONE).returncode == 0
    assert not (torn / "evidence" / "stray").exists()
    assert set(harness.records("result")) == {
        ("sim-ar-eager-nonvls", 1),
        ("sim-b8t4-eager-nonvls", 1),
        ("sim-ar-eager-nonvls", 2),
    }


@pytest.mark.parametrize("fault", ["truncated", "hand-edited", "of-a-newer-version"])
def test_a_damaged_result_stops_the_resumption_and_is_named(
    harness: Any, until: Callable[..., None], fault: str
) -> None:
    process = harness.start(*ONE)
    until(harness.bytes_of_results, "no result")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    (path,) = harness.bytes_of_results()
    whole = path.read_bytes()
    document = json.loads(whole)
    damaged = {
        "truncated": whole[: len(whole) // 2],
        "hand-edited": json.dumps({**document, "outcome": "fine"}).encode(),
        "of-a-newer-version": json.dumps({**document, "schema_version": 999}).encode(),
    }
    path.write_bytes(damaged[fault])
    stopped = harness.run(*ONE)
    assert stopped.returncode == 5
    (line,) = stopped.stderr.strip().splitlines()
    assert "sim-ar-eager-nonvls/1/result.json" in line
    assert path.read_bytes() == damaged[fault]
    path.write_bytes(whole)
    assert harness.run(*ONE).returncode == 0
    assert path.read_bytes() == whole
