"""What is asked of a GPU."""

from dataclasses import replace

import pytest

from repro.errors import SpecError
from repro.kernels.arms import ARMS
from repro.kernels.case import Selection
from repro.kernels.gpu import BATCHES, BUDGETS, MODES, PLANTED, SANITIZER_PLANTED, SHAPES, TOOLS

EVERYTHING = Selection(
    budgets=None, shapes=None, architectures=None, quick=False, tritons=(), wheels=None, releases=None
)
PLAN = ARMS["gpu"].plan


def test_every_mode_budget_shape_and_batch_is_asked_once() -> None:
    cells = [case.cell for case in PLAN(EVERYTHING) if case.planted is None]
    assert len(cells) == 252
    assert {(cell.mode, cell.budget, cell.shape, cell.batch) for cell in cells} == {
        (mode, budget, shape, batch) for mode in MODES for budget in BUDGETS for shape in SHAPES for batch in BATCHES
    }
    assert {cell.dtype for cell in cells} == {"bf16"}
    assert len({case.key for case in PLAN(EVERYTHING)}) == len(PLAN(EVERYTHING))


def test_cells_have_no_architecture_unless_one_is_named() -> None:
    assert {case.cell.architecture for case in PLAN(EVERYTHING)} == {None}
    assert "b16-gqa-64-8-128-bf16-bs2-replay-refreshed" in {case.cell.id for case in PLAN(EVERYTHING)}
    named = PLAN(replace(EVERYTHING, architectures=("sm_103",)))
    assert {case.cell.architecture for case in named} == {"sm_103"}
    assert "sm_103-b16-gqa-64-8-128-bf16-bs2-replay-refreshed" in {case.cell.id for case in named}
    with pytest.raises(SpecError, match="give one such as sm_103"):
        PLAN(replace(EVERYTHING, architectures=("b300",)))


def test_faults_are_planted_first_in_a_process_that_asks_other_cells_too() -> None:
    for selection in (EVERYTHING, replace(EVERYTHING, quick=True)):
        cases = PLAN(selection)
        planted = [case for case in cases if case.planted]
        assert cases[: len(planted)] == tuple(planted)
        assert {case.group for case in planted} <= {case.group for case in cases if not case.planted}
        assert {case.group.partition("-bs")[0] for case in planted} == {
            case.group.partition("-bs")[0] for case in cases
        }


def test_small_grid_is_planted_where_tiles_have_few_rows() -> None:
    shapes = {case.cell.shape for case in PLAN(EVERYTHING) if case.planted == "grid_of_budget_8"}
    assert shapes == {"mla-12-1-576-512"}
    others = {case.planted for case in PLAN(EVERYTHING) if case.cell.shape == "gqa-64-8-128" and case.planted}
    assert others == {fault for fault, _, _ in PLANTED} - {"grid_of_budget_8"}


def test_quick_plan_is_three_budgets_of_one_shape() -> None:
    cells = [case.cell for case in PLAN(replace(EVERYTHING, quick=True)) if not case.planted]
    assert len(cells) == 18
    assert {cell.budget for cell in cells} == {8, 9, 16}
    assert {cell.mode for cell in cells} == set(MODES)


@pytest.mark.parametrize("tool", TOOLS)
def test_sanitizer_adds_a_few_cells_of_its_own(tool: str) -> None:
    plain, cases = PLAN(EVERYTHING), PLAN(replace(EVERYTHING, sanitizers=(tool,)))
    assert cases[: len(plain)] == plain
    added = cases[len(plain) :]
    assert {case.program for case in added} == {"gpu_sanitizer"}
    assert len({case.group for case in added}) == 4  # so that some of these slow cases run at a time
    assert all(case.cell.id.endswith(f"-{tool}") and case.parameters["tool"] == tool for case in added)
    assert all(case.parameters["tight"] is True for case in added)
    assert 10 <= len(added) <= 20
    planted = {case.planted for case in added if case.planted}
    assert planted == ({SANITIZER_PLANTED[tool]} if tool in SANITIZER_PLANTED else set())
