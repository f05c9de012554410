"""Which steps ask coding tasks, and which sandbox a command gets without a daemon."""

import argparse
from typing import Any

import pytest

from matrix.arguments import EngineChoice
from matrix.coding.choice import add_sandbox_options, choose_sandbox
from matrix.coding.tasks import built_in_tasks
from matrix.plan import PlanOptions, make_plan
from matrix.promptset import load_prompts
from matrix.resolve import asks_tasks, resolve_step
from matrix.spec import load_spec
from repro.errors import UnavailableError
from repro.model import Plan, Step

NO_DAEMON = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}


class Local:
    name = "local"


def planned(target: str, **options: Any) -> Plan:
    return make_plan(load_spec(target), PlanOptions(**options), EngineChoice())


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_sandbox_options(parser)
    return parser.parse_args(words)


def chosen(plan: Plan, *words: str) -> Any:
    return choose_sandbox(options(*words), plan, Local(), NO_DAEMON)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("target", "plan_options", "asked"),
    [
        ("b300", {}, True),
        ("rtxpro6000", {}, True),
        ("sim", {}, True),
        ("cpu", {}, False),
        ("b300", {"tier": "dummy"}, False),
    ],
)
def test_who_asks_coding_tasks(target: str, plan_options: dict[str, Any], asked: bool) -> None:
    plan = planned(target, **plan_options)
    assert {asks_tasks(step) for step in plan.steps} == {asked}
    checks = [check for check in plan.steps[0].checks if check.check == "coding"]
    assert [(check.applicable, check.prompts, check.max_new_tokens) for check in checks if asked] == (
        [(True, 5, 1024)] if asked else []
    )
    assert all(check.reason for check in checks if not check.applicable)


@pytest.mark.parametrize(("target", "chat"), [("b300", {"thinking": False}), ("sim", {}), ("cpu", {})])
def test_a_step_holds_the_questions_and_the_templates_options(target: str, chat: dict[str, Any]) -> None:
    spec, step = load_spec(target), planned(target).steps[0]
    resolved: Step = resolve_step(
        step,
        run_id="r",
        target=target,
        attempt=1,
        port=1,
        prompts=load_prompts(spec.load.prompts, spec.load.count),
        placeholders={"python": "/python", "payload": "/payload"},
        spec=spec,
        release=EngineChoice().release(spec, step.coordinates),
    )
    assert [task.id for task in resolved.tasks] == ([task.id for task in built_in_tasks()] if target != "cpu" else [])
    assert dict(resolved.chat) == chat


@pytest.mark.parametrize(
    ("target", "words", "reason"),
    [
        ("cpu", (), "the plan asks no coding task"),
        ("cpu", ("--sandbox-image", "x"), "the plan asks no coding task"),
        ("sim", (), "no image was named for it: with Docker here, give --sandbox-image IMAGE"),
        ("sim", ("--sandbox-image", "none"), "switched off with --sandbox-image none"),
    ],
)
def test_without_an_image_there_is_no_sandbox(target: str, words: tuple[str, ...], reason: str) -> None:
    sandbox = chosen(planned(target), *words)
    assert (sandbox.image, sandbox.reason) == (None, reason)


def test_an_image_without_a_daemon_is_an_error() -> None:
    with pytest.raises(UnavailableError, match="--sandbox-image x: docker: no docker daemon answers"):
        chosen(planned("sim"), "--sandbox-image", "x")
