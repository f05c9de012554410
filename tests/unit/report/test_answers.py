"""What the first screen says of a run, and that every format says it first."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from report import console, html, markdown
from report.answers import answers, in_order, overview
from report.document import Document, assemble
from report.load import LoadedRun, load
from repro import baselines, codec
from repro.model import Comparison, Findings, Planted

CELL, AR = "cpu-b8t4-eager-nonvls", "cpu-ar-eager-nonvls"
RECORD = codec.read(Path(__file__).parents[2] / "data" / "records" / "findings-v2.json", Findings)
NUMBER = next(item.numbers[0] for item in RECORD.comparisons if item.numbers)
SHIPPED = {baseline.name: baseline for baseline in baselines.load()}


def document(root: Path, against: Path | None = None) -> Document:
    other = load([against]) if against is not None else None
    return assemble(load([root]), other, baselines.load(), tool_version="0.1.0")


def run_of(make: SimpleNamespace, root: Path, *launches: object, **planned: int) -> LoadedRun:
    make.write_run(root, make.run_record(), launches, planned=planned or {CELL: 1})
    return load([root]).newest()[0]


def compared(baseline: str, change: str | None = None, **changes: object) -> Comparison:
    plain = Comparison(
        cell=CELL,
        target="cpu",
        baseline=baseline,
        comparable="comparable",
        reasons=(),
        unknown=(),
        changed=(),
        change=change,  # type: ignore[arg-type]
        numbers=(NUMBER,),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def test_what_failed_has_its_interval_and_what_did_not_its_bound(all_states: Path) -> None:
    found = document(all_states)
    gpu, cpu = (found.answers(run) for run in found.shown)
    assert gpu.failed.startswith("4 of 11 cells failed: sm_103-b32t8-graph-nvls in the only launch that decided (wrong")
    assert [one.told for one in gpu.worst][-1].startswith(
        "in 2 of 3 launches (crashed, cuda illegal memory access; 95 %"
    )
    assert gpu.more == ""
    assert gpu.sure == (
        "Of 3 of the failed cells only one launch decided: that it fails, not how often. 3 cells had no failure in 5 "
        "launches: below 45 % of launches fail there at 95 % confidence, if all are equally likely to."
    )
    assert gpu.undecided == (
        "Nothing is known of 4 cells: 3 inconclusive, 1 not run. In cells that decided, 1 launch did not. "
        "Not part of the run: 1 deselected, 1 over budget. Unfinished: 3 of 17 launches missing."
    )
    assert cpu.failed == "Nothing failed in 9 launches of 3 cells."
    assert cpu.sure.startswith("Below 28 % of launches fail at 95 % confidence")
    assert cpu.undecided == "Not part of the run: 1 unsupported."


def test_what_was_run_is_said_as_the_launches_state_it(all_states: Path, make: SimpleNamespace, tmp_path: Path) -> None:
    found = document(all_states)
    gpu, cpu = (found.answers(run).ran for run in found.shown)
    assert gpu == (
        "sglang 0.5.23 with moonshotai/Kimi-K2.6 and the drafter Kimi-K2.6-DFlash on 8 x NVIDIA B300 SXM6 AC: "
        "budgets 8, 12, 16 and 32, flat chain of 7, no speculation; with CUDA graphs and eager."
    )
    assert " on a CPU: budgets 8 and 16, no speculation; eager." in cpu
    two = [make.Launch(CELL, n, facts={"model": make.fact(name)}) for n, name in enumerate("aab", 1)]
    assert " with a or b and the drafter" in answers(run_of(make, tmp_path / "two", *two), [], {}).ran
    bare = make.Launch(CELL, facts=dict.fromkeys(("model", "draft_model", "cpu_model"), make.unknown()))
    assert answers(run_of(make, tmp_path / "bare", bare), [], {}).ran == "sglang 0.5.23: budget 8; eager."
    assert answers(run_of(make, tmp_path / "none"), [], {}).ran == ""


def test_of_many_failed_cells_the_rest_is_counted(make: SimpleNamespace, tmp_path: Path) -> None:
    names = [f"cpu-b{budget}t4-eager-nonvls" for budget in (4, 6, 8, 12, 16, 24)]
    bad = {"outcome": "crashed", "checks": (), "diagnosis": make.illegal_access()}
    found = answers(
        run_of(make, tmp_path, *(make.Launch(name, **bad) for name in names), **dict.fromkeys(names, 1)), [], {}
    )
    assert (len(found.worst), found.more) == (4, "2 cells more")
    assert found.failed.endswith("(crashed, cuda illegal memory access); and 2 cells more.")
    assert found.sure == "Of every failed cell only one launch decided: that it fails, not how often."


def test_archived_baselines_are_one_sentence(all_states: Path) -> None:
    found = document(all_states)
    (gpu,), (cpu,) = (found.answers(run).compared for run in found.shown)
    assert gpu.startswith("Compared with 10 archived baselines (b300, rtxpro6000): 8 set beside ours without a verdict")
    assert "because 16 to 20 facts of each are not known on both sides; 2 not comparable, because" in gpu
    assert ": none comparable, because this run has no cell at the baseline's coordinates (6), architecture" in cpu


@pytest.mark.parametrize(
    ("items", "said"),
    [
        (
            [
                *[compared("run-before", "regression")] * 2,
                *[compared("run-before", "equivalent")] * 5,
                compared("run-before", "undecided"),
            ],
            "Compared with run before, 8 cells beside it: 2 regressions, 5 equivalent, 1 undecided.",
        ),
        (
            [
                compared("run-x", comparable="not_comparable", reasons=("gpu_driver is 580 here and 590 there",)),
                compared("run-x", comparable="unverified", unknown=("model", "dtype"), changed=("image is a, not b",)),
            ],
            (
                "Compared with run x, 2 cells beside it: 1 not verified (2 facts of each are not known on both sides), "
                "1 not comparable (gpu driver differs). Changed: image is a, not b."
            ),
        ),
        (
            [compared("mine", cell=None, comparable="not_comparable", reasons=("no such cell",), numbers=())],
            "Compared with baseline mine: nothing beside it, because no such cell.",
        ),
        ([], "Compared with nothing: there is no baseline and no other run."),
    ],
)
def test_a_sentence_for_each_other_side(
    make: SimpleNamespace, tmp_path: Path, items: list[Comparison], said: str
) -> None:
    assert answers(run_of(make, tmp_path, make.Launch(CELL)), items, SHIPPED).compared == (said,)


def test_nothing_and_planted_are_said(make: SimpleNamespace, tmp_path: Path, planted: Path) -> None:
    nothing = answers(run_of(make, tmp_path / "a"), [], {})
    assert (nothing.failed, nothing.undecided) == (
        "No launch decided anything yet.",
        "Nothing is known of 1 cell: 1 not run. Unfinished: 1 of 1 launch missing.",
    )
    assert answers(load([planted]).newest()[0], [], {}).sure == "Faults were planted in this run."
    slow = make.Launch(CELL, planted=Planted(fault="slow", number=None))
    assert "confidence" not in answers(run_of(make, tmp_path / "b", slow), [], {}).sure


def test_many_targets_are_summed_up_and_failing_ones_come_first(make: SimpleNamespace, tmp_path: Path) -> None:
    for number in range(6):
        bad = {"outcome": "crashed", "checks": (), "diagnosis": make.illegal_access()} if number == 5 else {}
        make.write_run(tmp_path, make.run_record(f"t{number}"), [make.Launch(CELL, **bad)], planned={CELL: 1})
    found = document(tmp_path)
    assert in_order(found.shown)[0].run.target == "t5"
    said = "6 targets: launches failed in 1 of them (t5)."
    assert overview(found.shown) == said
    page, text = html.render(found), markdown.render(found)
    assert page.index(said) < page.index("<strong>t5, run") < page.index("The other 2 targets") < page.index("<nav")
    assert text.index(said) < text.index("- t5, run") < text.index("- t0, run")
    assert overview(found.shown[:2]) == ""


@pytest.mark.parametrize("render", [html.render, markdown.render, console.render])
def test_every_format_says_it_before_anything_else(render, all_states: Path) -> None:  # type: ignore[no-untyped-def]
    found = document(all_states)
    text = render(found).replace("\\_", "_").replace("&#39;", "'")
    first = text.index(found.answers(found.shown[0]).compared[0].removeprefix("Compared with ")[:60])
    assert text.index("launches finished") < text.index("4 of 11 cells failed") < first
    assert first < text.index("f-47ea4c2dde")
