"""Cases of emulated capture and replay."""

from dataclasses import replace

from repro.kernels.arms import ARMS
from repro.kernels.case import BUDGETS, Selection
from repro.kernels.emulated import FAULTS, QUERY_TILES

EVERYTHING = Selection(
    budgets=None, shapes=None, architectures=None, quick=False, tritons=(), wheels=None, releases=None
)


def test_plan_has_every_budget_for_each_query_tile_and_plants_first() -> None:
    cases = ARMS["emulated"].plan(EVERYTHING)
    asked = {(case.cell.budget, case.cell.shape, case.cell.architecture) for case in cases if not case.planted}
    assert asked == {(b, s, a) for b in BUDGETS for s in QUERY_TILES for a in ("sm_103", "sm_120")}
    assert len({case.key for case in cases}) == len(cases)
    for group in {case.group for case in cases}:
        planted = [bool(case.planted) for case in cases if case.group == group]
        assert planted == [True] * len(FAULTS) + [False] * len(BUDGETS)


def test_nothing_of_it_is_called_a_graph() -> None:
    for case in ARMS["emulated"].plan(EVERYTHING):
        assert case.evidence_class == "emulated"
        assert "graph" not in case.key
        assert case.cell.mode is None


def test_what_is_named_is_asked() -> None:
    selection = replace(EVERYTHING, quick=True, budgets=(5,), shapes=("gqa-2-1-64",), architectures=("sm_90",))
    cases = ARMS["emulated"].plan(selection)
    assert [(c.cell.budget, c.cell.shape, c.cell.architecture) for c in cases if not c.planted] == [
        (5, "gqa-2-1-64", "sm_90")
    ]
    assert {case.cell.budget for case in cases if case.planted} == {16, 32}, (
        "faults sized for budget 8 need a larger one"
    )


def test_quick_plan_is_three_budgets_and_one_shape() -> None:
    cases = [case for case in ARMS["emulated"].plan(replace(EVERYTHING, quick=True)) if not case.planted]
    assert {case.cell.budget for case in cases} == {8, 9, 16}
    assert {case.cell.shape for case in cases} == {"gqa-4-2-128"}
