"""Plans: what runs, in which order, with which references; why the rest does not; and that a plan touches nothing."""

import socket
import subprocess
from collections import Counter
from importlib import resources
from typing import Any

import pytest

from matrix.arguments import EngineChoice
from matrix.engines.overlay import load_overlay, parse_overlay
from matrix.plan import PlanOptions, list_cells, make_plan
from matrix.spec import Spec, built_in_specs, load_spec, parse_spec
from repro import codec
from repro.errors import NothingToRunError, SpecError
from repro.model import CellList, CheckPlan, Plan, PlanStep, PlantedRule


def planned(target: str | Spec, engines: EngineChoice | None = None, **options: Any) -> Plan:
    spec = load_spec(target) if isinstance(target, str) else target
    return make_plan(spec, PlanOptions(**options), engines or EngineChoice())


def roles(plan: Plan) -> list[tuple[str, str]]:
    return [(step.role, step.cell) for step in plan.steps]


def cells(plan: Plan) -> set[str]:
    return {step.cell for step in plan.steps}


def reasons(plan: Plan, state: str) -> dict[str, str]:
    return {skip.cell: skip.reason for skip in plan.skips if skip.state == state}


def step_of(plan: Plan, cell: str) -> PlanStep:
    return next(step for step in plan.steps if step.cell == cell)


def changed(name: str, old: str, new: str) -> Spec:
    text = (resources.files("matrix") / "specs" / f"{name}.toml").read_text(encoding="utf-8")
    assert old in text
    return parse_spec(text.replace(old, new, 1).encode(), origin="mine.toml")


# --- the four targets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", built_in_specs())
@pytest.mark.parametrize("depth", ["screen", "full"])
def test_plan_and_list_are_valid_records(target: str, depth: str) -> None:
    plan = planned(target, depth=depth)
    assert codec.decode(codec.encode(plan), Plan, where="plan") == plan
    listed = list_cells(load_spec(target), EngineChoice())
    assert codec.decode(codec.encode(listed), CellList, where="cells") == listed
    planned_cells = {step.cell for step in plan.steps if step.role != "self-test"}
    assert {cell.id for cell in listed.cells} == planned_cells | {skip.cell for skip in plan.skips}
    assert len({skip.cell for skip in plan.skips}) == len(plan.skips)


@pytest.mark.parametrize("target", built_in_specs())
@pytest.mark.parametrize("options", [{}, {"select": ("*b16*-eager-nonvls",)}, {"skip": ("*-ar-*",)}, {"depth": "full"}])
def test_no_cell_is_both_planned_and_skipped(target: str, options: dict[str, Any]) -> None:
    plan = planned(target, **options)
    assert not cells(plan) & {skip.cell for skip in plan.skips}


def test_b300_screens_the_matrix_and_its_arms_in_about_three_hours() -> None:
    plan = planned("b300")
    matrix = {
        f"sm_103-{arm}-{graph}" for arm in ("ar", "b8t4", "b12t4", "b16t8", "b32t8") for graph in ("graph", "eager")
    }
    listed = list_cells(load_spec("b300"), EngineChoice()).cells
    grid = [entry for entry in listed if entry.id.rpartition("-")[0] in matrix and "+" not in entry.id]
    assert len(grid) == 20
    assert {entry.state for entry in grid} == {"planned"}
    assert plan.skips == ()
    assert {
        "sm_103-c7-graph-nvls",
        "sm_103-b7-graph-nvls",
        "sm_103-b16t8-verify-eager-nvls",
        *(f"sm_103-n{width}-graph-nvls+stock" for width in (8, 12, 16, 32)),
        "sm_103-b8t4-graph-nvls+allreduce-nccl",
        "sm_103-b8t4-graph-nonvls+allreduce-nccl",
    } <= cells(plan)
    assert 2.5 <= plan.forecast.hours <= 3.5
    assert plan.forecast.hours_worst > plan.forecast.hours
    assert {step.launches for step in plan.steps} == {1}


def test_b300_holds_the_reference_deployment() -> None:
    argv = " ".join(step_of(planned("b300"), "sm_103-b16t8-graph-nvls").argv)
    for option in (
        "--tp-size 8",
        "--trust-remote-code",
        "--page-size 1",
        "--attention-backend triton",
        "--max-running-requests 128",
        "--speculative-ddtree-budget 16",
        "draft-window-size 2048",
        "--enable-nccl-nvls",
    ):
        assert option in argv
    assert step_of(planned("b300"), "sm_103-b16t8-graph-nonvls").environment["NCCL_NVLS_ENABLE"] == "0"


@pytest.mark.parametrize(
    ("cell", "effective"),
    [("sm_103-b8t4", 2), ("sm_103-b12t4", 2), ("sm_103-b16t8", 3), ("sm_103-b32t8", 5)],
)
def test_a_topk_that_the_pull_request_lowers_is_flagged(cell: str, effective: int) -> None:
    expectation = step_of(planned("b300"), f"{cell}-graph-nvls").expectation
    assert expectation.topk_effective == effective
    assert expectation.topk_requested == int(cell.rpartition("t")[2])
    assert f"top-k {effective} of the requested" in (expectation.note or "")


def test_rtxpro6000_has_no_nvls_cell() -> None:
    listed = list_cells(load_spec("rtxpro6000"), EngineChoice()).cells
    with_nvls = [cell for cell in listed if cell.coordinates.nvls == "nvls"]
    assert len(with_nvls) == 11
    for cell in with_nvls:
        assert cell.state == "unsupported"
        assert "NVSwitch" in (cell.reason or "")
        assert cell.source
    assert {cell.state for cell in listed if cell.coordinates.nvls == "nonvls"} == {"planned"}


def test_cpu_has_no_graph_and_no_nvls_cell_and_ngram_only_at_full_depth() -> None:
    screen, full = planned("cpu"), planned("cpu", depth="full")
    matrix = {f"cpu-{arm}-eager-nonvls" for arm in ("ar", "c7", "b8t4", "b12t4", "b16t8", "b32t8")}
    assert cells(screen) == matrix | {"cpu-b16t8-eager-nonvls+selftest-wrong.token"}
    assert "no CUDA graphs" in reasons(screen, "unsupported")["cpu-b16t8-graph-nonvls"]
    assert "NVSwitch" in reasons(screen, "unsupported")["cpu-b16t8-eager-nvls"]
    ngram = {f"cpu-n{width}-eager-nonvls+stock" for width in (8, 12, 16, 32)}
    assert set(reasons(screen, "deselected")) == ngram
    assert cells(full) == cells(screen) | ngram


def test_cpu_says_why_checks_do_not_apply() -> None:
    checks = {check.check: check for check in step_of(planned("cpu"), "cpu-ar-eager-nonvls").checks}
    assert "toy model" in (checks["coding"].reason or "")
    assert checks["power"].reason == "this machine has no GPU"
    assert checks["acceptance"].reason == "no speculation"
    assert checks["lossless"].applicable
    assert checks["lossless"].margins


# --- selections -------------------------------------------------------------------------------------------------------


def test_a_selection_brings_its_eager_arms_and_ar_at_both_ends() -> None:
    plan = planned("b300", select=("*b16*-graph-nvls",))
    assert roles(plan) == [
        ("reference", "sm_103-ar-eager-nonvls"),
        ("cell", "sm_103-b16t8-graph-nvls"),
        ("cell", "sm_103-b16t8-eager-nvls"),
        ("reference-again", "sm_103-ar-eager-nonvls"),
    ]
    assert plan.steps[0].checks[1].margins
    assert not plan.steps[-1].checks[1].margins
    assert set(reasons(plan, "deselected").values()) == {"not selected on the command line"}


def test_the_reference_is_planned_once_though_it_is_a_cell_of_the_matrix() -> None:
    plan = planned("sim")
    assert Counter(role for role, _ in roles(plan))["reference"] == 1
    assert [role for role, cell in roles(plan) if cell == "sim-ar-eager-nonvls"] == ["reference", "reference-again"]


def test_without_references_only_what_was_selected_runs_and_lossless_says_why_not() -> None:
    plan = planned("b300", select=("*b16*-graph-nvls",), references=False)
    assert roles(plan) == [("cell", "sm_103-b16t8-graph-nvls")]
    lossless = next(check for check in plan.steps[0].checks if check.check == "lossless")
    assert not lossless.applicable
    assert lossless.reason == "no reference arm was asked for"
    assert lossless.prompts == 20, "its requests serve the other checks"


def test_without_references_ar_is_a_cell_like_others() -> None:
    assert ("cell", "sim-ar-eager-nonvls") in roles(planned("sim", references=False))


def test_skip_wins_over_select_and_over_the_eager_arms() -> None:
    plan = planned("sim", select=("*b16*", "*b8*"), skip=("*-eager-*",))
    assert {cell for role, cell in roles(plan) if role == "cell"} == {
        "sim-b16t8-graph-nvls",
        "sim-b16t8-graph-nonvls",
        "sim-b8t4-graph-nvls",
        "sim-b8t4-graph-nonvls",
    }
    assert "sim-b16t8-eager-nvls" in reasons(plan, "deselected")


def test_globs_are_for_whole_ids() -> None:
    with pytest.raises(NothingToRunError, match=r"none of the 22 cells of sim is left \(22 deselected\)"):
        planned("sim", select=("b16",))


def test_a_selection_of_unsupported_cells_leaves_nothing() -> None:
    with pytest.raises(NothingToRunError, match=r"unsupported.*python -m matrix list"):
        planned("cpu", select=("*graph*",))


@pytest.mark.parametrize("option", [{"select": ("*b16*", "*b61*")}, {"select": ("*b16*",), "skip": ("*b61*",)}])
def test_a_glob_that_matches_nothing_beside_others_is_refused(option: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(SpecError, match=r"'\*b61\*' matches no cell of sim"):
        planned("sim", **option)


def test_tier_selects() -> None:
    assert cells(planned("sim", tier="small")) == cells(planned("sim"))
    with pytest.raises(NothingToRunError):
        planned("sim", tier="dummy")


def test_launches_replace_the_depths() -> None:
    plan = planned("sim", launches=3)
    assert {step.launches for step in plan.steps if step.role == "cell"} == {3}
    assert {step.launches for step in plan.steps if step.role.startswith("reference")} == {1}
    assert plan.forecast.launches == sum(step.launches for step in plan.steps)
    assert {step.launches for step in planned("b300", depth="full").steps} == {1, 10}


def test_depth_full_climbs_the_whole_ladder() -> None:
    throughput = next(c for c in planned("b300", depth="full").steps[1].checks if c.check == "throughput")
    assert throughput.concurrency == (1, 2, 4, 8, 16, 32, 64, 96, 128)
    screen = next(c for c in planned("b300").steps[1].checks if c.check == "throughput")
    assert screen.concurrency == (1, 32, 128)


def test_load_takes_fewer_concurrencies_on_a_screen_and_none_where_the_spec_names_none() -> None:
    def load(plan: Plan) -> CheckPlan:
        return next(check for check in plan.steps[1].checks if check.check == "load")

    screen, full = load(planned("b300")), load(planned("b300", depth="full"))
    assert (screen.concurrency, full.concurrency) == ((3, 33, 100), (3, 7, 13, 33, 65, 100))
    assert screen.cancel_every == 5
    assert screen.limit_s == 600
    without = load(planned(changed("sim", "under_load = [3, 5]\n", "")))
    assert (without.applicable, without.prompts, without.reason) == (False, 0, "the spec names no concurrencies for it")
    alone = load(planned("sim", references=False))
    assert (alone.prompts, alone.reason) == (0, "no reference arm was asked for")


def test_the_peer_measures_beside_throughput_alone_and_costs_time() -> None:
    plain, both = planned("cpu"), planned("cpu", bench_serving=True)
    peers = {check.check: check.peer for check in both.steps[1].checks if check.peer}
    assert peers == {"throughput": "sglang.bench_serving"}
    assert not [check for step in plain.steps for check in step.checks if check.peer]
    assert both.forecast.hours > plain.forecast.hours
    limits = [next(c.limit_s for c in p.steps[1].checks if c.check == "throughput") for p in (plain, both)]
    assert limits[1] == 2 * limits[0]


# --- hours ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hours", [0.3, 1.0, 2.0, 2.9])
def test_hours_bound_the_forecast_and_the_rest_is_over_budget(hours: float) -> None:
    plan = planned("b300", hours=hours)
    assert plan.forecast.hours <= hours
    assert roles(plan)[0][0] == "reference"
    assert roles(plan)[-1][0] == "reference-again"
    over = reasons(plan, "over_budget")
    assert len(cells(plan)) + len(over) == 38
    assert all("h asked for" in reason for reason in over.values())


def test_hours_that_hold_no_cell_are_told_so() -> None:
    with pytest.raises(NothingToRunError, match=r"17 deselected, 5 over budget"):
        planned("sim", select=("*b16*",), hours=0.0001)


# --- depth rates ------------------------------------------------------------------------------------------------------


def test_rates_repeats_failing_cells_and_exactly_their_neighbours() -> None:
    plan = planned("sim", depth="rates", failing=frozenset({"sim-b16t8-graph-nvls"}))
    assert {cell for role, cell in roles(plan) if role == "cell"} == {
        "sim-b16t8-graph-nvls",
        "sim-b12t4-graph-nvls",  # one budget down
        "sim-b32t8-graph-nvls",  # one budget up
        "sim-b16t8-eager-nvls",  # the other graph mode
        "sim-b16t8-graph-nonvls",  # the other NVLS state
        # and, as references of the neighbours, their eager arms
        "sim-b12t4-eager-nvls",
        "sim-b32t8-eager-nvls",
        "sim-b16t8-eager-nonvls",
    }
    assert {step.launches for step in plan.steps if step.role == "cell"} == {10}


def test_rates_without_references_repeats_no_more_than_the_neighbours() -> None:
    plan = planned("sim", depth="rates", failing=frozenset({"sim-b16t8-graph-nvls"}), references=False)
    assert len(plan.steps) == 5
    far = reasons(plan, "deselected")["sim-b8t4-graph-nvls"]
    assert far == "not part of depth rates: it neither failed in the latest run nor stands beside a cell that did"


def test_rates_knows_the_neighbours_of_extra_cells() -> None:
    plan = planned("sim", depth="rates", failing=frozenset({"sim-c7-graph-nvls"}), references=False)
    assert cells(plan) == {"sim-c7-graph-nvls", "sim-c7-eager-nvls"}
    stock = planned("b300", depth="rates", failing=frozenset({"sm_103-n8-graph-nvls+stock"}), references=False)
    assert cells(stock) == {"sm_103-n8-graph-nvls+stock", "sm_103-n8-eager-nvls+stock"}


def test_rates_with_nothing_failing_has_nothing_to_do() -> None:
    with pytest.raises(NothingToRunError, match="saw no cell fail"):
        planned("sim", depth="rates")


# --- what the spec and the engine rule out ----------------------------------------------------------------------------


def test_excluded_cells_are_neither_listed_nor_run() -> None:
    rule = '[[exclude]]\nmatch = "sim-b32t8-*"\nreason = "too wide"\nsource = "we"\n\n[load]'
    spec = changed("sim", "[load]", rule)
    assert not [cell for cell in list_cells(spec, EngineChoice()).cells if "b32t8" in cell.id]
    assert reasons(planned(spec), "deselected") == {
        f"sim-b32t8-{graph}-{nvls}": "too wide" for graph in ("graph", "eager") for nvls in ("nvls", "nonvls")
    }


def test_a_reference_that_cannot_run_is_an_error_not_a_plan_that_passes_everything() -> None:
    rule = '[[exclude]]\nmatch = "sim-ar-eager-nonvls"\nreason = "not today"\nsource = "we"\n\n[load]'
    spec = changed("sim", "[load]", rule)
    with pytest.raises(SpecError, match=r"/reference: its cell sim-ar-eager-nonvls cannot run \(not today\)"):
        planned(spec)
    assert planned(spec, references=False).steps


def test_a_flag_that_the_release_lacks_makes_a_cell_unsupported() -> None:
    spec = changed("b300", "page-size = 1", "page-size = 1\nno-such-flag = true")
    listed = list_cells(spec, EngineChoice()).cells
    assert {cell.state for cell in listed} == {"unsupported"}
    assert all("no-such-flag" in (cell.reason or "") and cell.source for cell in listed)


def test_a_private_overlay_replaces_the_specs_own_source_and_no_other() -> None:
    text = (resources.files("matrix.engines") / "overlays" / "pr29907.toml").read_bytes()
    mine = parse_overlay(text.replace(b'name = "pr29907"', b'name = "mine"'), origin="mine.toml")
    plan = planned("b300", engines=EngineChoice(overlay=mine, model="/m", draft_model="/d"))
    assert step_of(plan, "sm_103-b16t8-graph-nvls").engine.source == "mine"
    assert step_of(plan, "sm_103-n8-graph-nvls+stock").engine.source == "stock"
    assert "/d" in step_of(plan, "sm_103-b16t8-graph-nvls").argv
    assert load_overlay("stock").name == "stock"


# --- planted faults ---------------------------------------------------------------------------------------------------


def test_planted_faults_are_in_the_step_and_reach_the_engine() -> None:
    rules = (
        PlantedRule(cells="*-b16*", fault="wrong-token", number=200),
        PlantedRule(cells="*b16*-graph-nvls", fault="sigkill", number=None),
    )
    plan = planned("sim", planted=rules)
    eager, graph = step_of(plan, "sim-b16t8-eager-nvls"), step_of(plan, "sim-b16t8-graph-nvls")
    assert (eager.planted and eager.planted.fault, eager.environment["GRAPHREPRO_FAULT"]) == (
        "wrong-token",
        "wrong-token:200",
    )
    assert (graph.planted and graph.planted.fault, graph.environment["GRAPHREPRO_FAULT"]) == ("sigkill", "sigkill")
    untouched = step_of(plan, "sim-b8t4-eager-nvls")
    assert untouched.planted is None
    assert "GRAPHREPRO_FAULT" not in untouched.environment


# --- pure -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", built_in_specs())
def test_planning_is_deterministic_and_needs_nothing_from_outside(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = codec.dumps(planned(target, depth="full"))

    def outside(*_: object, **__: object) -> None:
        raise AssertionError("a plan reached for the network or a program")

    monkeypatch.setattr(socket, "socket", outside)
    monkeypatch.setattr(subprocess, "Popen", outside)
    monkeypatch.setenv("PATH", "")
    assert codec.dumps(planned(target, depth="full")) == first


def test_a_plan_of_many_cells_holds_each_once() -> None:
    budgets = ", ".join(f'"b{budget}t{topk}"' for budget in range(8, 58) for topk in range(1, 11))
    spec = changed("sim", '"ar", "b8t4", "b12t4", "b16t8", "b32t8"', f'"ar", {budgets}')
    plan = planned(spec)
    assert len(cells(plan)) == 4 * 501 + 2


def test_a_launch_with_a_planted_fault_stands_before_the_last_and_is_no_cell_of_the_matrix() -> None:
    steps = planned("cpu").steps
    assert [step.role for step in steps][-2:] == ["self-test", "reference-again"]
    test = steps[-2]
    assert (test.planted.fault, test.planted.number) == ("wrong-token", 200) if test.planted else None
    assert test.environment["GRAPHREPRO_FAULT"] == "wrong-token:200"
    assert {check.check for check in test.checks} == {"launch", "lossless", "acceptance"}
    plain = next(step for step in steps if step.cell == "cpu-b16t8-eager-nonvls")
    assert plain.planted is None
    assert test.argv == plain.argv
    assert not any(step.role == "self-test" for step in planned("cpu", select=("*b8t4*",)).steps)


def test_only_the_last_launch_rescores() -> None:
    rescoring = [step.role for step in planned("cpu").steps if any(c.check == "rescoring" for c in step.checks)]
    assert rescoring == ["reference-again"]
