"""What is asked: selections, cases and their keys, and how arms and runs are judged."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from repro.errors import SpecError
from repro.kernels.arms import ARMS
from repro.kernels.case import ARCHITECTURES, BUDGETS, SHAPES, Case, HeadShape, Selection, capability, head_shape
from repro.kernels.conversation import own_result
from repro.kernels.summary import arm_of, exit_status
from repro.kernels.table import details, interpreted_table, summary
from repro.model.kernels import KernelResult, KernelSubject
from repro.model.result import Measurement

EVERYTHING = Selection(
    budgets=None, shapes=None, architectures=None, quick=False, tritons=(), wheels=None, releases=None
)


@pytest.mark.parametrize("name", ["reference", "memory"])
def test_plan_covers_every_budget_shape_and_architecture_and_plants_first(name: str) -> None:
    cases = ARMS[name].plan(EVERYTHING)
    asked = {(case.cell.budget, case.cell.shape, case.cell.architecture) for case in cases if not case.planted}
    assert asked == {(b, s, a) for b in BUDGETS for s in SHAPES for a in ARCHITECTURES}
    assert len({case.key for case in cases}) == len(cases)
    for group in {case.group for case in cases}:
        planted = [bool(case.planted) for case in cases if case.group == group]
        assert planted[0]
        assert planted == sorted(planted, reverse=True)


@pytest.mark.parametrize("name", ["reference", "memory"])
def test_quick_plan_is_three_budgets_and_one_shape(name: str) -> None:
    cases = [case for case in ARMS[name].plan(replace(EVERYTHING, quick=True)) if not case.planted]
    assert {case.cell.budget for case in cases} == {8, 9, 16}
    assert len({case.cell.shape for case in cases}) == 1
    assert {case.cell.architecture for case in cases} == {"sm_103", "sm_120"}


def test_named_values_stand_for_themselves_even_in_a_quick_plan() -> None:
    selection = replace(EVERYTHING, quick=True, budgets=(5,), shapes=("mla-12-1-576-512",), architectures=("sm_90",))
    cases = [case for case in ARMS["memory"].plan(selection) if not case.planted]
    assert [(case.cell.budget, case.cell.shape, case.cell.architecture) for case in cases] == [
        (5, "mla-12-1-576-512", "sm_90")
    ]


def test_bf16_is_asked_for_once_so_that_its_refusal_is_recorded() -> None:
    assert [case.cell.dtype for case in ARMS["reference"].plan(EVERYTHING)].count("bf16") == 1


def test_faults_sized_for_budget_8_are_planted_at_a_larger_one() -> None:
    for case in ARMS["memory"].plan(replace(EVERYTHING, budgets=(4,))):
        if case.planted:
            assert case.cell.budget == 16


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("gqa-64-8-128", HeadShape(query_heads=64, key_heads=8, key_dim=128, value_dim=128)),
        ("mla-12-1-576-512", HeadShape(query_heads=12, key_heads=1, key_dim=576, value_dim=512)),
    ],
)
def test_shape_says_heads_and_dimensions(name: str, shape: HeadShape) -> None:
    assert head_shape(name) == shape


@pytest.mark.parametrize("name", ["gqa", "gqa-0-2-64", "gqa-8-2", "swa-8-2-64", "gqa-8-2-64-64-64", "gqa-7-2-64", ""])
def test_what_is_no_shape_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="give"):
        head_shape(name)


def test_capability_of_an_architecture() -> None:
    assert (capability("sm_90"), capability("sm_103"), capability("sm_120")) == ((9, 0), (10, 3), (12, 0))
    with pytest.raises(SpecError, match="give one such as sm_103"):
        capability("sm_9")


@pytest.fixture
def judged(make_case: Callable[..., Case], subject: KernelSubject) -> Callable[..., tuple[object, ...]]:
    """State of the arm, and status of the run, for these states of cases (first the planted one)."""

    def of(
        *states: str, left: int = 0, why_not: str | None = None, named: bool = False, surveys: bool = False
    ) -> tuple[object, ...]:
        cases = [make_case(16, planted="fault"), *(make_case(budget) for budget in range(1, len(states) + left))]
        rows: list[KernelResult] = [
            replace(
                own_result(case, subject, state="inconclusive", reason="r", detail="d"),
                state=state,  # type: ignore[arg-type]
                reason=None if state == "pass" else "r",
            )
            for case, state in zip(cases, states, strict=False)
        ]
        arm = arm_of(rows, cases, why_not=why_not)
        assert (arm.reason is None) == (arm.state == "complete")
        told = summary((arm,), rows, [arm.check] if surveys else [])
        assert arm.state in told
        assert ("findings about releases" in told) == (surveys and "fail" in states[1:])
        named_arms = [arm.check] if named else []
        found = [arm.check] if surveys else []
        return arm.state, exit_status((arm,), rows, asked_by_name=named_arms, surveys=found)

    return of


def test_states_of_arms_and_runs(judged: Callable[..., tuple[object, ...]]) -> None:
    assert judged("pass", "pass", "pass") == ("complete", 0)
    assert judged("pass", "pass", "not_applicable") == ("complete", 0)
    assert judged("pass", "fail", "pass") == ("complete", 1)
    assert judged("pass", "inconclusive", "fail") == ("complete", 1)
    assert judged("pass", "inconclusive", "pass") == ("complete", 7)
    assert judged("fail", "fail", "pass") == ("broken", 7)
    assert judged("inconclusive", "pass") == ("broken", 7)
    assert judged("not_run", "pass") == ("broken", 7)
    assert judged("not_run", "not_run") == ("not_run", 4)
    assert judged("pass", "pass", left=2) == ("unfinished", 7)
    assert judged("pass", "pass", left=2, why_not="it does not start") == ("unfinished", 7)
    assert judged(left=2, why_not="it does not start") == ("not_run", 4)


def test_what_fails_in_a_survey_is_a_finding(judged: Callable[..., tuple[object, ...]]) -> None:
    assert judged("pass", "fail", "pass", surveys=True) == ("complete", 0)
    assert judged("pass", "fail", "inconclusive", surveys=True) == ("complete", 7)
    assert judged("fail", "fail", "pass", surveys=True) == ("broken", 7)


def test_arm_that_cannot_run_here_is_an_error_only_where_it_was_asked_for(
    judged: Callable[..., tuple[object, ...]], make_case: Callable[..., Case], subject: KernelSubject
) -> None:
    well = make_case(8, check="kernel-reference")
    cases = [make_case(16, check="kernel-reference", planted="fault"), well]
    blank = [own_result(case, subject, state="inconclusive", reason="r", detail="d") for case in cases]
    rows = [replace(row, state="pass", reason=None) for row in blank]
    ran, absent = arm_of(rows, cases, why_not=None), arm_of([], [make_case(8)], why_not="no GPU")
    assert exit_status((ran, absent), rows, asked_by_name=[], surveys=[]) == 0
    assert exit_status((ran, absent), rows, asked_by_name=["kernel-memory"], surveys=[]) == 4


def test_table_holds_the_worst_of_all_budgets(make_case: Callable[..., Case], subject: KernelSubject) -> None:
    def row(budget: int, error: float) -> KernelResult:
        blank = own_result(make_case(budget, check="kernel-reference"), subject, state="pass", reason="r", detail="d")
        names = {"max_error": error, "max_error_of_bound": error * 2, "mask_bits_seen": 1 - error}
        numbers = tuple(
            Measurement(
                name=name, at={}, value=value, low=None, high=None, unit="1", n=None, basis="measured", reason=None
            )
            for name, value in names.items()
        )
        return replace(blank, reason=None, measurements=numbers)

    (found,) = interpreted_table([row(8, 0.125), row(16, 0.25)]).rows
    assert found[:3] == ("gqa-4-2-128", "fp16", "sm_103")
    assert found[4:7] == ("2", "2.5e-01", "0.500")
    assert found[8] == "75.0%"
    assert "0.500" in details([row(8, 0.125), row(16, 0.25)])
    assert details([]) == ""
