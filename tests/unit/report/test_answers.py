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
    assert "and 1 cell more. 3 cells had no failure in 5 launches: below 45 % there at 95 % confidence" in gpu.failed
    assert gpu.undecided.startswith(
        "Nothing is known of 6 cells: 3 inconclusive, 1 not run, 1 deselected, 1 over budget"
    )
    assert gpu.undecided.endswith("Unfinished: 3 of 17 launches missing.")
    assert cpu.failed.startswith("Nothing failed in 9 launches of 3 cells: below 28 % of launches fail")
    assert cpu.undecided == "Nothing is known of 1 cell: 1 unsupported."


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
    assert answers(load([planted]).newest()[0], [], {}).failed.endswith("Faults were planted in this run.")
    slow = make.Launch(CELL, planted=Planted(fault="slow", number=None))
    assert "confidence" not in answers(run_of(make, tmp_path / "b", slow), [], {}).failed


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
    first = text.index(found.answers(found.shown[0]).compared[0][:60])
    assert text.index("launches finished") < text.index("4 of 11 cells failed") < first
    assert first < text.index("f-47ea4c2dde")
