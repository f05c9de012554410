"""Comparisons refuse what is not comparable, and show both sides all the same."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from report.compare import against_baselines, against_runs
from report.load import load
from repro import baselines
from repro.model import Comparison, Fact


def compared(root: Path) -> dict[tuple[str, str | None], Comparison]:
    found = against_baselines(load([root]).newest(), baselines.load())
    return {(item.baseline, item.cell): item for item in found}


def gpu_run(make: SimpleNamespace, root: Path, *launches: object, planned: dict[str, int] | None = None) -> Path:
    cells = planned or {launch.cell: 1 for launch in launches}
    make.write_run(root, make.run_record("b300", "r1"), launches, planned=cells)
    return root


def test_every_baseline_is_named_for_every_run(all_states: Path) -> None:
    found = against_baselines(load([all_states]).newest(), baselines.load())
    for target in ("b300", "cpu"):
        assert {item.baseline for item in found if item.target == target} == {b.name for b in baselines.load()}


def test_equal_in_all_that_both_state_is_unverified_with_a_ratio_and_no_verdict(all_states: Path) -> None:
    item = compared(all_states)["nvls_b8t4", "sm_103-b8t4-graph-nvls"]
    assert (item.comparable, item.change, item.reasons) == ("unverified", None, ())
    assert {"engine_version", "gpu_driver", "model_digest"} <= set(item.unknown)
    rate = item.numbers[0]
    assert (rate.ours, rate.baseline, rate.ratio, rate.change) == (301.0, 303.0, 0.9934, None)
    assert rate.reason is not None
    assert rate.reason.startswith("unverified")


def test_another_architecture_is_not_comparable_and_both_sides_are_shown(all_states: Path) -> None:
    item = compared(all_states)["b16t8_eager", "cpu-b16t8-eager-nonvls"]
    assert item.comparable == "not_comparable"
    assert item.reasons[0] == "architecture is cpu here and sm_103 there"
    rate = next(number for number in item.numbers if number.name == "output_rate")
    assert (rate.ours, rate.baseline, rate.ratio, rate.change) == (245.0, 111.0, None, None)


def test_topk_that_was_not_honoured_is_never_comparable(tmp_path: Path, make: SimpleNamespace) -> None:
    launch = make.Launch("sm_103-b16t8-eager-nvls", topk_effective=3)
    item = compared(gpu_run(make, tmp_path, launch))["b16t8_eager", "sm_103-b16t8-eager-nvls"]
    assert item.comparable == "not_comparable"
    assert "effective top-k is 3 (requested 8) here and 8 there" in item.reasons


def test_a_planted_run_is_never_comparable(tmp_path: Path, make: SimpleNamespace) -> None:
    launch = make.Launch("sm_103-b16t8-eager-nvls", planted=make.Planted(fault="hang", number=None))
    item = compared(gpu_run(make, tmp_path, launch))["b16t8_eager", "sm_103-b16t8-eager-nvls"]
    assert item.comparable == "not_comparable"
    assert "faults were planted in this cell" in item.reasons
    assert all(number.ours is None for number in item.numbers)


def test_a_cell_beside_a_planted_one_is_not_comparable_either(tmp_path: Path, make: SimpleNamespace) -> None:
    root = gpu_run(
        make,
        tmp_path,
        make.Launch("sm_103-b8t4-graph-nvls", proof=(make.proof(),)),
        make.Launch("sm_103-ar-eager-nonvls", planted=make.Planted(fault="hang", number=None)),
    )
    item = compared(root)["nvls_b8t4", "sm_103-b8t4-graph-nvls"]
    assert "the run has planted faults" in item.reasons


def test_a_number_that_is_withheld_is_not_compared(all_states: Path) -> None:
    item = compared(all_states)["b32t8_graph", "sm_103-b32t8-graph-nvls"]
    acceptance = next(number for number in item.numbers if number.name == "acceptance")
    assert (acceptance.ours, acceptance.baseline, acceptance.ratio) == (None, 1.0, None)
    assert acceptance.reason is not None
    assert acceptance.reason.startswith("content_wrong")


def test_what_the_archive_leaves_open_about_a_number_is_said(all_states: Path) -> None:
    item = compared(all_states)["b8t4_acceptance", "sm_103-b8t4-graph-nvls"]
    assert "prefill" in (item.numbers[0].reason or "")
    item = compared(all_states)["autoregressive", "sm_103-ar-eager-nonvls"]
    assert "derived" in (item.numbers[0].reason or "")


def test_a_coordinate_that_the_archive_does_not_state_is_unknown(all_states: Path) -> None:
    item = compared(all_states)["b12_graph", "sm_103-b12t4-graph-nvls"]
    assert item.comparable == "unverified"
    assert {"topk", "nvls"} <= set(item.unknown)


def test_a_control_is_not_beside_a_baseline(all_states: Path) -> None:
    assert not any(cell and "+tp1" in cell for _, cell in compared(all_states))


def test_a_baseline_without_coordinates_says_so(all_states: Path) -> None:
    item = compared(all_states)["auto", None]
    assert item.reasons == ("the archive does not state its budget and its shape",)


def test_a_cell_without_a_result_has_nothing_to_compare(tmp_path: Path, make: SimpleNamespace) -> None:
    root = gpu_run(make, tmp_path, planned={"sm_103-b16t8-graph-nvls": 1})
    item = compared(root)["b16t8_graph", "sm_103-b16t8-graph-nvls"]
    assert item.reasons == ("no launch of this cell has a result",)


CELL = "cpu-b8t4-eager-nonvls"


def two_runs(make: SimpleNamespace, root: Path, ours: list[float], theirs: list[float], **facts: Fact) -> Comparison:
    for name, rates, more in (("ours", ours, facts), ("theirs", theirs, {})):
        launches = [
            make.Launch(CELL, n, checks=make.checks(3.3, rate), facts=more) for n, rate in enumerate(rates, start=1)
        ]
        make.write_run(root / name, make.run_record(run_id=name), launches, planned={CELL: len(rates)})
    (item,) = against_runs(load([root / "ours"]).newest(), load([root / "theirs"]).newest())
    return item


def test_single_launches_of_two_runs_are_undecided_and_say_why(tmp_path: Path, make: SimpleNamespace) -> None:
    item = two_runs(make, tmp_path, [200.0], [300.0])
    assert (item.baseline, item.comparable, item.change) == ("run-theirs", "comparable", "undecided")
    assert any("n is too small" in reason for reason in item.reasons)
    assert all(number.change == "undecided" and number.reason is None for number in item.numbers)


@pytest.mark.parametrize(("ours", "theirs", "change"), [(300, 200, "improvement"), (200, 300, "regression")])
def test_repeats_on_both_sides_can_decide(
    tmp_path: Path, make: SimpleNamespace, ours: int, theirs: int, change: str
) -> None:
    item = two_runs(make, tmp_path, [ours + n / 10 for n in range(6)], [theirs + n / 10 for n in range(6)])
    assert item.change == change
    rate = next(number for number in item.numbers if number.name == "output_rate")
    assert rate.change == change


def test_another_processor_is_not_comparable(tmp_path: Path, make: SimpleNamespace) -> None:
    item = two_runs(make, tmp_path, [200.0], [300.0], cpu_model=make.fact("another CPU"))
    assert (item.comparable, item.change) == ("not_comparable", None)
    assert all(number.ratio is None for number in item.numbers)


def test_an_unknown_fact_leaves_two_runs_unverified(tmp_path: Path, make: SimpleNamespace) -> None:
    item = two_runs(make, tmp_path, [200.0], [300.0], model_digest=make.unknown("not read"))
    assert (item.comparable, item.change, item.unknown) == ("unverified", None, ("model_digest",))
    assert next(n for n in item.numbers if n.name == "output_rate").ratio == 0.6667


def test_cells_of_one_side_only_are_named(tmp_path: Path, make: SimpleNamespace) -> None:
    make.write_run(tmp_path / "a", make.run_record(run_id="a"), [make.Launch(CELL)], planned={CELL: 1})
    other = "cpu-b16t8-eager-nonvls"
    make.write_run(tmp_path / "b", make.run_record(run_id="b"), [make.Launch(other)], planned={other: 1})
    found = against_runs(load([tmp_path / "a"]).newest(), load([tmp_path / "b"]).newest())
    assert [(item.cell, item.comparable) for item in found] == [(CELL, "not_comparable"), (None, "not_comparable")]
    assert other in found[1].reasons[0]


def test_the_same_run_is_not_compared_with_itself(all_states: Path) -> None:
    runs = load([all_states]).newest()
    assert {item.reasons for item in against_runs(runs, runs)} == {("it is the same run",)}
