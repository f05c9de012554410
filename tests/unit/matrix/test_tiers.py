"""Tiers: a spec of its own for each, whose cells say so in their ids and are compared with a reference of their own."""

from importlib import resources

import pytest

from matrix.arguments import EngineChoice
from matrix.cli import main
from matrix.expand import expand, reference_cell
from matrix.plan import PlanOptions, list_cells, make_plan
from matrix.spec import load_spec, parse_spec
from repro.errors import NothingToRunError, SpecError
from repro.model import Plan, PlanStep, Tier

TARGETS = {"b300": "sm_103", "rtxpro6000": "sm_120"}
DRAFT = EngineChoice(draft_model="/models/draft")


def planned(target: str, tier: Tier | None, engines: EngineChoice | None = None) -> Plan:
    return make_plan(load_spec(target), PlanOptions(tier=tier), engines or EngineChoice())


def step(plan: Plan, cell: str) -> PlanStep:
    return next(step for step in plan.steps if step.cell == cell)


@pytest.mark.parametrize("target", TARGETS)
def test_without_a_tier_only_the_default_one_runs(target: str) -> None:
    assert {step.coordinates.tier for step in planned(target, None).steps} == {"full"}
    assert planned(target, None) == planned(target, "full")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("tier", ["small", "dummy"])
def test_a_tier_is_in_every_id_and_has_its_own_reference(target: str, tier: Tier) -> None:
    plan = planned(target, tier, DRAFT)
    assert {step.coordinates.tier for step in plan.steps} == {tier}
    assert all(f"+{tier}" in step.cell for step in plan.steps)
    ends = (plan.steps[0], plan.steps[-1])
    assert [(step.role, step.cell) for step in ends] == [
        ("reference", f"{TARGETS[target]}-ar-eager-nonvls+{tier}"),
        ("reference-again", f"{TARGETS[target]}-ar-eager-nonvls+{tier}"),
    ]
    assert reference_cell(load_spec(target).of_tier(tier)).id == plan.steps[0].cell
    assert load_spec(target).of_tier(tier).hardware.gpu_count == 1


@pytest.mark.parametrize("tier", ["small", "dummy"])
def test_nvls_is_unsupported_with_one_rank(tier: Tier) -> None:
    skips = planned("b300", tier, DRAFT).skips
    nvls = [skip for skip in skips if "-nvls" in skip.cell]
    assert len(nvls) == 10
    assert {skip.state for skip in nvls} == {"unsupported"}
    assert all("tensor parallel size 1" in skip.reason for skip in nvls)
    assert not any("-nvls" in step.cell for step in planned("b300", tier, DRAFT).steps)


def test_small_is_a_public_model_with_a_draft_of_block_size_16() -> None:
    spec = load_spec("b300").of_tier("small")
    assert (spec.model.name, spec.model.draft_path, spec.deployment.block_size) == ("Qwen/Qwen3-8B", None, 16)
    argv = " ".join(step(planned("b300", "small", DRAFT), "sm_103-b16t8-graph-nonvls+small").argv)
    assert "--tp-size 1 " in argv
    assert "--model-path /models/Qwen3-8B " in argv
    assert "--speculative-draft-model-path /models/draft " in argv
    assert "--trust-remote-code" not in argv
    assert step(planned("b300", "small", DRAFT), "sm_103-c15-graph-nonvls+small").expectation.width == 16


def test_small_asks_for_its_draft_which_nobody_has_named() -> None:
    trees = [skip for skip in planned("b300", "small").skips if skip.cell.startswith("sm_103-b16t8-graph-nonvls")]
    assert [skip.reason for skip in trees] == ["DDTREE needs a draft model: give --draft-model"]


def test_dummy_loads_no_weights_and_judges_no_text() -> None:
    tree = step(planned("b300", "dummy"), "sm_103-b16t8-graph-nonvls+dummy")
    argv = " ".join(tree.argv)
    assert "--load-format dummy" in argv
    assert "--speculative-draft-load-format dummy" in argv
    left_out = {check.check: check.reason for check in tree.checks if not check.applicable}
    assert set(left_out) == {"coding", "lossless", "acceptance", "load"}
    assert all(reason and reason.startswith("not run: ") for reason in left_out.values())
    assert next(check for check in tree.checks if check.check == "throughput").prompts


def test_each_tier_is_listed_and_no_id_is_of_two() -> None:
    spec = load_spec("b300")
    tiers: tuple[Tier, ...] = ("full", "small", "dummy")
    listed = {tier: list_cells(spec.of_tier(tier), EngineChoice()).cells for tier in tiers}
    assert all({cell.coordinates.tier for cell in cells} == {tier} for tier, cells in listed.items())
    assert len({cell.id for cells in listed.values() for cell in cells}) == sum(map(len, listed.values()))


def test_one_choice_of_engines_serves_all_tiers() -> None:
    engines = EngineChoice()
    list_cells(load_spec("b300"), engines)
    spec = load_spec("b300").of_tier("small")
    (cell,) = (entry.cell for entry in expand(spec) if entry.cell.id == "sm_103-ar-eager-nonvls+small")
    assert "/models/Qwen3-8B" in engines.resolve(spec, cell).argv


def test_a_tier_that_a_spec_does_not_have() -> None:
    with pytest.raises(NothingToRunError, match="nothing selected"):
        planned("b300", "kernel")
    assert load_spec("cpu").of_tier("full") == load_spec("cpu")


def test_a_tier_that_a_spec_does_not_have_is_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--spec", "b300", "--tier", "kernel"]) == 3
    assert capsys.readouterr() == ("", "matrix: b300 has no cell of tier kernel; without --tier: full\n")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[tiers.small]\nmodel = { name = 'm' }", r"b300.toml \[tiers.small\]: /model: .*'path'"),
        ("[tiers.small.hardware]\ngpu_count = -1", r"b300.toml \[tiers.small\]: /hardware/gpu_count"),
        ("[tiers.full]\ntitle = 'x'", "/tiers/full: is the default tier"),
        ("[tiers.small]\ndefaults = { tier = 'small' }", "/tiers/small/defaults"),
        ("[tiers.small]\nreference = { graph = 'eager' }", "/tiers/small"),
        ("[tiers.tiny]\ntitle = 'x'", "tiny"),
    ],
)
def test_wrong_tiers_are_told_where_and_what(text: str, told: str) -> None:
    base = (resources.files("matrix") / "specs" / "b300.toml").read_text(encoding="utf-8")
    base = base.partition("# --- other tiers")[0]
    with pytest.raises(SpecError, match=told):
        parse_spec(f"{base}\n{text}\n".encode(), origin="b300.toml")
