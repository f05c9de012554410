"""The kernel checks in the report: what is read, what stands beside a server's cells, what is found, how it is told."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import html5lib
import pytest

from report import console, html, junit, markdown
from report.cli import main
from report.document import Document
from report.kernels import chosen
from report.kernels_beside import beside_cell, beside_line, beside_table
from report.kernels_load import load_kernels
from report.kernels_words import by_budget
from repro import codec
from repro.model import Findings

Tell = Callable[..., Document]
B8, B16, B32 = (f"sm_103-{arm}-graph-nvls" for arm in ("b8t4", "b16t8", "b32t8"))


def plain(text: str) -> str:
    return " ".join(text.replace("\\", "").replace("&#39;", "'").split())


EVERY_FORMAT = {"html": html.render, "markdown": markdown.render, "console": console.render}


@pytest.mark.parametrize("name", EVERY_FORMAT)
def test_every_format_says_what_does_not_count(name: str, beside_server: Path, told: Tell) -> None:
    text = plain(EVERY_FORMAT[name](told(beside_server)))
    assert "it is no launch, and counts in no cell and in no verdict" in text
    assert "Nothing that ran on a CPU is evidence of what a GPU does." in text
    assert "kernel-memory is broken in run 20261130T100000Z" in text
    assert "stale_kv_indptr; nothing that it says counts" in text
    assert "kernel-emulated is unfinished in run 20261130T100000Z: 12 cases are left" in text
    assert "no GPU on this machine" in text
    assert "rows.jsonl:" in text
    assert "the last line is cut off after 16 bytes" in text


@pytest.mark.parametrize("name", EVERY_FORMAT)
def test_each_budget_is_told_in_words_beside_the_one_that_works(name: str, beside_server: Path, told: Tell) -> None:
    text = plain(EVERY_FORMAT[name](told(beside_server)))
    assert "13 query rows (budget 12) and 9 (budget 8) run the same compiled code and the same grid" in text
    assert "None of it is a verdict." in text
    assert re.search(
        r"not shown[^.]{0,40}: no code was run on|no code was run on sm_103|not run on a GPU of sm_103", text
    )


def test_a_report_over_kernel_results_alone(
    kernels_only: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["build", "--results", str(kernels_only), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    assert "Kernel checks, runs 20261130T100000Z, 20261129T100000Z" in capsys.readouterr().out
    record = codec.read(tmp_path / "out/findings.json", Findings)
    assert record.runs == ()
    assert record.findings
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"findings.html", "findings.md", "junit.xml"}
    assert main([*command, "--target", "b300"]) == 0, "there is no server run that could limit them"
    assert main(["build", "--results", str(kernels_only / "kernels"), "--out", str(tmp_path / "out")]) == 0
    assert (
        main(["build", "--results", str(kernels_only / "kernels/20261130T100000Z"), "--out", str(tmp_path / "o")]) == 0
    )


def test_rows_stand_beside_cells_of_the_same_versions_only(beside_server: Path, told: Tell) -> None:
    found = told(beside_server)
    (run,) = found.shown
    cells = {cell.id: cell for cell in run.cells}
    for name in (B8, B16):
        rows = beside_cell(found.kernels, run, cells[name])
        assert rows
        assert {row.subject.sglang for row in rows} == {"0.5.23"}
        assert {row.subject.triton for row in rows} <= {"3.8.0", None}
        assert all(row.cell.architecture in ("sm_103", None) for row in rows)
    assert {row.subject.triton for row in beside_cell(found.kernels, run, cells[B32])} <= {"3.6.0", None}
    assert "kernel-memory" not in beside_line(found.kernels, run, cells[B16]), "a broken arm says nothing"
    assert {line[0] for line in beside_table(found.kernels, run).rows} == {"8", "16", "32"}


@pytest.mark.parametrize("packages", [{"sglang": "0.5.23"}, {"sglang": "0.5.22", "triton": "3.8.0"}])
def test_what_a_server_does_not_state_stands_beside_nothing_compiled(
    packages: dict[str, str], make: SimpleNamespace, write: SimpleNamespace, tmp_path: Path, told: Tell
) -> None:
    make.write_run(tmp_path, make.run_record("b300", "r"), [make.Launch(B16, packages=packages)], planned={B16: 1})
    write.write_kernels(tmp_path, write.kernel_run(arms=[write.arm("kernel-reference")]), some(write))
    found = told(tmp_path)
    (run,) = found.shown
    assert beside_cell(found.kernels, run, run.cells[0]) == ()
    text = plain(html.render(found))
    if "triton" not in packages:
        assert "the Triton of the server on b300 is not recorded" in text
    assert "Kernel checks beside these cells" not in text


def some(write: SimpleNamespace) -> list[object]:
    return [write.row(budget=16, planted="causal_mask"), write.row(budget=8), write.row(budget=16)]


def test_a_cpu_run_has_no_rows_beside_its_cells(
    make: SimpleNamespace, write: SimpleNamespace, tmp_path: Path, told: Tell
) -> None:
    cell = "cpu-b16t8-eager-nonvls"
    launch = make.Launch(cell, packages=write.SERVER)
    make.write_run(tmp_path, make.run_record("cpu", "r"), [launch], planned={cell: 1})
    write.write_kernels(tmp_path, write.kernel_run(arms=[write.arm("kernel-reference")]), some(write))
    found = told(tmp_path)
    assert beside_cell(found.kernels, found.shown[0], found.shown[0].cells[0]) == ()
    assert by_budget(found.kernels), "without a GPU's run all architectures are told"


def test_a_failing_row_is_a_finding_of_its_cause(beside_server: Path, told: Tell) -> None:
    found = {finding.kind: finding for finding in told(beside_server).record.findings}
    reference, gpu = found["kernel_reference_out_of_bound"], found["kernel_gpu_out_of_bound"]
    assert (reference.severity, gpu.severity) == ("medium", "high")
    assert "2 of 7 decided cases, budgets 31, 32, sm_103" in reference.statement
    assert "extend_attention.py:740" in reference.statement
    assert reference.evidence == ()
    assert reference.scope[0].startswith("kernels/20261130T100000Z/rows.jsonl, sm_103-b31-")
    assert reference.next.startswith("nox -s kernels -- --arm reference --budget 31 32 --shape gqa-4-2-128")
    assert reference.bundle == (
        "python -m repro kernels --reproducer verify_attention_repro.py --cell sm_103-b31-gqa-4-2-128-fp16-bs3"
    )
    assert found["kernel_buffers_short_buffer"].severity == "low"
    assert found["kernel_buffers_short_buffer"].bundle is None


def test_rows_of_a_broken_arm_are_no_findings(write: SimpleNamespace, tmp_path: Path, told: Tell) -> None:
    rows = [write.row(planted="causal_mask", state="fail", reason="missed"), write.row(state="fail")]
    write.write_kernels(tmp_path, write.kernel_run(arms=[write.arm("kernel-reference")]), rows)
    found = told(tmp_path)
    assert found.record.findings == ()
    assert found.kernels.arms[0].state == "broken", "whatever the run's record says"
    (case,) = [one for one in ET.fromstring(junit.render(found)).iter("testcase") if "b16" in one.attrib["name"]]
    assert case.find("skipped") is not None


def test_a_complete_arm_without_a_planted_fault_is_broken(write: SimpleNamespace, tmp_path: Path, told: Tell) -> None:
    write.write_kernels(tmp_path, write.kernel_run(arms=[write.arm("kernel-reference")]), [write.row()])
    assert told(tmp_path).kernels.arms[0].state == "broken"


def test_a_finding_about_a_server_names_rows_of_its_budgets(beside_server: Path, told: Tell) -> None:
    found = told(beside_server)
    (crash,) = [one for one in found.record.findings if B16 in one.cells and one.severity == "high"]
    near = found.near[crash.id]
    assert near.text.startswith("Kernel checks of the same budgets on sm_103, which decide nothing here.")
    own, _, other = near.text.partition("Of other code")
    assert "budget 16, sglang 0.5.23, Triton 3.8.0" in own
    assert "budget 32, sglang 0.5.23, Triton 3.8.0" in other, "the server ran Triton 3.6.0 there"
    assert "budget 16, sglang 0.5.15, Triton 3.6.0" in other
    assert near.links[0] == ("kernels--sm_103--b16", "budget 16 on sm_103")
    healthy = [one.id for one in found.record.findings if one.severity == "info"]
    assert not set(healthy) & set(found.near)
    assert crash.hypotheses == told(beside_server).record.findings[0].hypotheses


def test_the_newest_rows_of_each_code_are_shown(beside_server: Path) -> None:
    shown = chosen(load_kernels([beside_server]))
    references = {arm.run_id: arm for arm in shown.arms if arm.check == "kernel-reference"}
    assert set(references) == {"20261130T100000Z", "20261129T100000Z"}
    assert references["20261129T100000Z"].codes == (("0.5.15", "3.6.0"),)
    assert [(one.run_id, one.arms) for one in shown.older] == [("20261129T100000Z", "reference")]


def test_a_target_and_a_day_leave_rows_out(
    beside_server: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["build", "--results", str(beside_server), "--out", str(tmp_path / "out")]
    assert main([*command, "--target", "b300"]) == 0
    assert "row(s) of the kernel checks about other architectures are left out" in capsys.readouterr().err
    text = (tmp_path / "out/findings.html").read_text(encoding="utf-8")
    assert 'id="kernels--sm_103--b12"' in text
    assert 'id="kernels--sm_120' not in text
    loaded = load_kernels([beside_server]).since(datetime.fromisoformat("2026-11-30T00:00:00+00:00"))
    assert [one.run.run_id for one in loaded.runs] == ["20261130T100000Z"]


def test_what_cannot_be_read_is_named(write: SimpleNamespace, tmp_path: Path) -> None:
    folder = write.write_kernels(tmp_path, write.kernel_run(), [write.row()] * 2, more=b"{}\n" * 25)
    (tmp_path / "kernels/half").mkdir()
    (tmp_path / "kernels/half/rows.jsonl").write_bytes(b"")
    (tmp_path / "kernels/link").symlink_to(folder)
    copy = tmp_path / "kernels/copy"
    copy.mkdir()
    (copy / "kernels.json").write_bytes((folder / "kernels.json").read_bytes())
    (tmp_path / "kernels/.scratch").mkdir()
    loaded = load_kernels([tmp_path, tmp_path])
    problems = {problem.path: problem.problem for problem in loaded.problems}
    assert len(loaded.runs) == 1
    assert len(loaded.runs[0].rows) == 2
    assert "belongs to another place" in problems["kernels/copy/kernels.json"]
    assert "cannot be read" in problems["kernels/half/kernels.json"]
    assert "symbolic link" in problems["kernels/link"]
    assert problems[f"kernels/{folder.name}/rows.jsonl"] == "5 more lines are no records of this kind"
    assert "it is shown once" in problems[f"kernels/{folder.name}/kernels.json"]


def test_junit_has_one_suite(beside_server: Path, told: Tell) -> None:
    suites = ET.fromstring(junit.render(told(beside_server)))
    (suite,) = [one for one in suites if one.attrib["name"] == "kernel checks"]
    cases = list(suite.iter("testcase"))
    for tag, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        assert int(suite.attrib[attribute]) == sum(case.find(tag) is not None for case in cases) > 0
    errors = [case.attrib["classname"] for case in cases if case.find("error") is not None]
    assert errors.count("kernel-memory") == 1, "the arm, and none of its rows"
    assert any(case.attrib["classname"] == "kernel-gpu" and case.find("skipped") is not None for case in cases)


def test_links_of_the_page_lead_somewhere(beside_server: Path, told: Tell) -> None:
    tree = html5lib.parse(html.render(told(beside_server)), treebuilder="etree", namespaceHTMLElements=False)
    ids = [element.attrib["id"] for element in tree.iter() if "id" in element.attrib]
    assert len(ids) == len(set(ids))
    links = [element.attrib["href"] for element in tree.iter("a")]
    assert [link for link in links if link[1:] not in ids] == []
    assert "#kernels--sm_103--b16" in links


def test_many_rows_stay_small(write: SimpleNamespace, tmp_path: Path, told: Tell) -> None:
    rows = [write.row(budget=16, planted="causal_mask")]
    rows += [
        replace(made, cell=replace(made.cell, id=f"{made.cell.id}-{number}"))
        for number in range(60)
        for budget in range(1, 33)
        for made in [write.row(budget=budget, state="fail" if number % 3 else "pass", detail="x" * 300)]
    ]
    write.write_kernels(tmp_path, write.kernel_run(arms=[write.arm("kernel-reference")]), rows)
    found = told(tmp_path)
    assert len(html.render(found).encode()) < 1_000_000
    assert len(markdown.render(found).encode()) <= markdown.LIMIT_BYTES
    assert "1080 more, counted above, not told here." in html.render(found)
