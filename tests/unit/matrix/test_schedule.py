"""The order of launches, and that a run ends, whatever its attempts come to."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix.arguments import EngineChoice
from matrix.plan import PlanOptions, make_plan
from matrix.schedule import MAX_VOID, VOID_OUTCOMES, launches, next_attempt, unfinished
from matrix.spec import load_spec
from repro import codec
from repro.model import Plan, Result

FILES = Path(__file__).parents[2] / "data" / "records"
RESULT: Result = codec.read(FILES / "result-v1.json", Result)
OUTCOMES = ("completed", "crashed", "hung", "refused", "oom", "killed", "runtime_error", "lost", "bad_evidence")


def planned(**options: Any) -> Plan:
    return make_plan(load_spec("sim"), PlanOptions(**options), EngineChoice())


def result(cell: str, role: str, attempt: int, outcome: str) -> Result:
    return dataclasses.replace(RESULT, cell=cell, role=role, attempt=attempt, outcome=outcome)  # type: ignore[arg-type]


def test_rounds_are_interleaved_between_the_two_references() -> None:
    order = launches(planned(select=("*b16*-graph-nvls", "*c7-graph-nvls"), launches=2))
    assert [(launch.step.role, launch.step.cell, launch.index) for launch in order] == [
        ("reference", "sim-ar-eager-nonvls", 0),
        *(
            (role, cell, index)
            for index in (0, 1)
            for role, cell in (
                ("cell", "sim-b16t8-graph-nvls"),
                ("cell", "sim-b16t8-eager-nvls"),
                ("extra", "sim-c7-graph-nvls"),
                ("extra", "sim-c7-eager-nvls"),
            )
        ),
        ("reference-again", "sim-ar-eager-nonvls", 1),
    ]


@pytest.mark.parametrize("outcome", sorted(set(OUTCOMES) - VOID_OUTCOMES))
def test_what_is_not_void_is_never_repeated(outcome: str) -> None:
    launch = launches(planned(select=("*c7-graph-nvls",)))[1]
    assert next_attempt(launch, []) == 1
    assert next_attempt(launch, [result(launch.step.cell, "extra", 1, outcome)]) is None


@pytest.mark.parametrize("outcome", sorted(VOID_OUTCOMES))
def test_void_launches_are_made_again_at_most_twice(outcome: str) -> None:
    launch = launches(planned(select=("*c7-graph-nvls",)))[1]
    void = [result(launch.step.cell, "extra", number, outcome) for number in (1, 2, 3)]
    assert [next_attempt(launch, void[:n]) for n in range(4)] == [1, 2, 3, None]


def test_a_void_launch_is_no_launch_of_the_next_round() -> None:
    plan = planned(select=("*c7-graph-nvls",), launches=2)
    first, second = (launch for launch in launches(plan) if launch.step.cell == "sim-c7-graph-nvls")
    history = [result("sim-c7-graph-nvls", "extra", n, o) for n, o in ((1, "lost"), (2, "crashed"))]
    assert next_attempt(first, history) is None
    assert next_attempt(second, history) == 3


@given(st.data())
def test_for_any_outcomes_a_run_ends_with_every_launch_done_or_exhausted(data: st.DataObject) -> None:
    """Killed and resumed at any moment too: each pass starts from the results alone."""
    plan = planned(select=("*b16*-graph-nvls",), launches=data.draw(st.integers(1, 4)))
    results: dict[str, list[Result]] = {}
    left = 3 * sum(step.launches for step in plan.steps)
    done = False
    while not done:
        done = True
        for launch in launches(plan):
            cell = launch.step.cell
            while (number := next_attempt(launch, results.get(cell, []))) is not None:
                assert number == len(results.get(cell, [])) + 1
                assert (left := left - 1) >= 0, "more attempts than launches and their repeats"
                outcome = data.draw(st.sampled_from(OUTCOMES))
                results.setdefault(cell, []).append(result(cell, launch.step.role, number, outcome))
                if data.draw(st.booleans(), label="killed here"):
                    done = False
                    break
            if not done:
                break
    everything = [r for of_cell in results.values() for r in of_cell]
    assert not unfinished(plan, data.draw(st.permutations(everything)))
    for cell, of_cell in results.items():
        wanted = sum(step.launches for step in plan.steps if step.cell == cell)
        counted = sum(r.outcome not in VOID_OUTCOMES for r in of_cell)
        exhausted = wanted - counted
        assert sum(r.outcome in VOID_OUTCOMES for r in of_cell) >= exhausted * (MAX_VOID + 1)
        assert counted <= wanted


def test_a_run_is_unfinished_until_its_last_launch_is_done() -> None:
    plan = planned(select=("*c7-eager-nvls",))
    history = [
        result("sim-ar-eager-nonvls", "reference", 1, "completed"),
        result("sim-c7-eager-nvls", "extra", 1, "crashed"),
        result("sim-ar-eager-nonvls", "reference-again", 2, "completed"),
    ]
    assert [unfinished(plan, history[:n]) for n in range(4)] == [True, True, True, False]
