"""Which failing attempt is launched again with hooks armed, and what that launch gets beside the measured one."""

from dataclasses import replace
from typing import Any

import pytest

from matrix import armed
from matrix.arguments import EngineChoice
from matrix.plan import PlanOptions, make_plan
from matrix.resolve import stop_ladder
from matrix.spec import load_spec
from repro import codec
from repro.model import PlanStep, Result, StopLadder


def step(target: str, select: str = "*b16t8*") -> PlanStep:
    options = PlanOptions(select=(select,), references=False)
    return make_plan(load_spec(target), options, EngineChoice()).steps[0]


@pytest.fixture
def result(pytestconfig: pytest.Config) -> Result:
    path = pytestconfig.rootpath / "tests/data/records/result-v1.json"
    return replace(codec.read(path, Result, where="result"), attempt=1, explains=None)


def ended(result: Result, attempt: int, outcome: str, **changes: Any) -> Result:
    return replace(result, attempt=attempt, outcome=outcome, checks=(), proof=(), **changes)


@pytest.mark.parametrize(
    ("asked", "target", "depth", "answer"),
    [
        (None, "b300", "screen", True),
        (None, "rtxpro6000", "full", True),
        (None, "cpu", "screen", False),
        (None, "sim", "screen", False),
        (None, "cpu", "rates", True),
        (True, "sim", "screen", True),
        (False, "b300", "screen", False),
    ],
)
def test_who_wants_it(asked: bool | None, target: str, depth: Any, answer: bool) -> None:
    assert armed.wanted(asked, load_spec(target), depth) is answer


def test_the_first_failing_attempt_is_explained_once(result: Result) -> None:
    killed, crashed, hung = (ended(result, n, o) for n, o in ((1, "killed"), (2, "crashed"), (3, "hung")))
    assert armed.due([killed, crashed, hung], []) == crashed
    assert armed.due([killed], []) is None
    assert armed.due([], []) is None
    assert armed.due([crashed, hung], [ended(result, 4, "completed", explains=2)]) is None


def test_hooks_on_gpus() -> None:
    plain = step("b300")
    loaded = armed.arm(plain, release="0.5.23", gpus=8)
    assert loaded.argv == (*plain.argv, "--crash-dump-folder", "dumps", "--kv-canary", "log")
    new = dict(loaded.environment.items() - plain.environment.items())
    assert {name for name in new if name.startswith("CUDA_")} == {
        "CUDA_ENABLE_COREDUMP_ON_EXCEPTION",
        "CUDA_ENABLE_USER_TRIGGERED_COREDUMP",
        "CUDA_COREDUMP_FILE",
        "CUDA_COREDUMP_GENERATION_FLAGS",
    }
    assert new["SGLANG_ENABLE_NAN_LOGITS_CHECK"] == "1"
    assert new["SGLANG_INVARIANT_CHECK"] == "1"
    assert replace(loaded, argv=plain.argv, environment=plain.environment) == plain


def test_hooks_without_gpus_and_in_an_old_release() -> None:
    assert "--kv-canary" not in armed.arm(step("cpu"), release="0.5.23", gpus=0).argv
    assert "--kv-canary" not in armed.arm(step("b300"), release="0.5.11", gpus=8).argv
    assert not any("CUDA_ENABLE" in name for name in armed.arm(step("cpu"), release="0.5.23", gpus=0).environment)


def test_what_the_step_says_wins() -> None:
    given = replace(step("b300"), environment={"SGLANG_INVARIANT_CHECK": "2"})
    assert armed.arm(given, release="0.5.23", gpus=8).environment["SGLANG_INVARIANT_CHECK"] == "2"


def test_only_an_armed_sglang_is_asked_for_its_dump() -> None:
    stop = stop_ladder(load_spec("b300"))
    assert stop.dump_signal is None
    loaded = armed.ladder(stop, step("b300"), gpus=8)
    assert loaded == replace(stop, dump_signal="SIGQUIT", dump_s=90.0)
    assert armed.ladder(stop, step("sim"), gpus=0) == stop
    assert isinstance(loaded, StopLadder)
