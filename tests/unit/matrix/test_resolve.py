"""`step.json`: everything filled in, and nothing left for the attempt to guess."""

from typing import Any

import pytest

from matrix.arguments import EngineChoice
from matrix.plan import PlanOptions, make_plan
from matrix.promptset import load_prompts
from matrix.resolve import resolve_step
from matrix.spec import built_in_specs, load_spec
from repro import codec
from repro.errors import SpecError
from repro.model import CheckPlan, Plan, PlanStep, Step

PLACES = {"python": "/env/bin/python", "payload": "/payload"}


def planned(target: str, **options: Any) -> Plan:
    return make_plan(load_spec(target), PlanOptions(**options), EngineChoice())


def resolved(target: str, step: PlanStep, **changes: Any) -> Step:
    spec = load_spec(target)
    facts: dict[str, Any] = {
        "run_id": "r",
        "target": target,
        "attempt": 3,
        "port": 31234,
        "prompts": load_prompts(spec.load.prompts, spec.load.count),
        "placeholders": PLACES,
        "spec": spec,
        "release": EngineChoice().release(spec, step.coordinates),
        **changes,
    }
    return resolve_step(step, **facts)


@pytest.mark.parametrize("target", built_in_specs())
def test_steps_of_every_target_resolve_into_valid_records(target: str) -> None:
    for step in planned(target, depth="full").steps:
        made = resolved(target, step)
        assert codec.decode(codec.encode(made), Step, where="step") == made
        words = [*made.argv, *made.environment.values()]
        assert not any(mark in word for word in words for mark in "{}")
        assert "31234" in made.argv
        assert made.argv[0] == "/env/bin/python"
        assert {mark.phase for mark in made.marks} <= {limit.phase for limit in made.limits}


def test_the_simulated_engine_is_told_its_cell_launch_and_script() -> None:
    argv = " ".join(resolved("sim", planned("sim").steps[1]).argv)
    assert "--script /payload/simulated/scripts/default.json" in argv
    assert "--launch 3" in argv
    assert "--cell sim-ar-graph-nvls" in argv


def test_a_placeholder_that_nothing_fills_is_named() -> None:
    step = planned("cpu").steps[0]
    with pytest.raises(SpecError, match=r"nothing fills the placeholder \{python\}"):
        resolved("cpu", step, placeholders={"payload": "/payload"})


def lossless(checks: tuple[CheckPlan, ...]) -> CheckPlan:
    return next(check for check in checks if check.check == "lossless")


def test_without_references_the_requests_are_sent_all_the_same() -> None:
    """Acceptance and the first rung of the ladder are judged by them."""
    step = planned("sim", references=False).steps[0]
    assert not lossless(step.checks).applicable
    assert lossless(resolved("sim", step).checks).applicable
    coding = next(check for check in resolved("cpu", planned("cpu").steps[0]).checks if check.check == "coding")
    assert not coding.applicable, "it sends nothing"
