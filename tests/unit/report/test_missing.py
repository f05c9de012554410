"""What is missing or cannot be used is shown in every format: runs that go on, void launches, mixed targets, records of
earlier versions, records that are none."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import html5lib
import pytest

from report import console, html, junit, markdown
from report.cli import main
from report.document import Document, assemble
from report.load import load
from repro import baselines, codec
from repro.model import Findings

CELL, AR = "cpu-b8t4-eager-nonvls", "cpu-ar-eager-nonvls"
OLD = Path(__file__).parents[2] / "data" / "records" / "result-v1.json"
READ = {
    "html": html.render,
    "markdown": lambda document: markdown.render(document).replace("\\", ""),
    "console": console.render,
}
every_format = pytest.mark.parametrize("name", READ)


def document(*roots: Path) -> Document:
    return assemble(load(roots), None, baselines.load(), tool_version="0.1.0")


@pytest.fixture
def says(name: str) -> Callable[[Document, str], bool]:
    return lambda found, said: " ".join(said.split()) in " ".join(READ[name](found).replace("&#39;", "'").split())


@every_format
def test_a_run_that_goes_on(make: SimpleNamespace, tmp_path: Path, says) -> None:  # type: ignore[no-untyped-def]
    run = make.write_run(tmp_path, make.run_record(), [make.Launch(AR)], planned={AR: 1, CELL: 3})
    (run / "cells" / CELL / "1").mkdir(parents=True)
    found = document(tmp_path)
    assert says(found, "Unfinished: 3 of 4 launches missing, and 1 launch begun without a result: running, or killed.")
    assert says(found, "1 of 4 launches finished, 3 missing")
    assert b'message="not_run: 3 of 3 planned launches missing"' in junit.render(found)


@every_format
def test_void_launches(make: SimpleNamespace, tmp_path: Path, says) -> None:  # type: ignore[no-untyped-def]
    lost = make.Launch(CELL, outcome="lost", detail="contact to the host was lost", checks=())
    make.write_run(tmp_path, make.run_record(), [lost], planned={CELL: 1})
    found = document(tmp_path)
    assert says(found, "Void (lost): 1 launch of")
    assert says(found, "1 void")
    assert says(found, "Nothing is known of 1 cell: 1 void. Unfinished: 1 of 1 launch missing.")
    assert b'errors="1"' in junit.render(found)


@every_format
def test_targets_that_are_mixed_in_one_directory(all_states: Path, planted: Path, says) -> None:  # type: ignore[no-untyped-def]
    found = document(all_states, planted)
    assert [run.run.target for run in found.shown] == ["b300", "cpu", "sim"]
    for run in found.shown:
        assert says(found, f"{run.run.target}, run {run.run.run_id} of")
    assert says(found, "20261101-cpu"), "the older run of a target is listed"


@every_format
def test_records_of_an_earlier_version(make: SimpleNamespace, tmp_path: Path, says) -> None:  # type: ignore[no-untyped-def]
    run = make.write_run(tmp_path, make.run_record(), [make.Launch(CELL)], planned={CELL: 1})
    path = run / "cells" / CELL / "1" / "result.json"
    present = json.loads(path.read_text(encoding="utf-8"))
    earlier = {key: value for key, value in present.items() if key in json.loads(OLD.read_text(encoding="utf-8"))}
    path.write_text(json.dumps({**earlier, "schema_version": 1}), encoding="utf-8")
    found = document(tmp_path)
    (finding,) = [one for one in found.record.findings if one.kind == "records_migrated"]
    assert says(found, finding.statement)
    assert found.shown[0].finished == 1


@every_format
def test_records_that_are_none(make: SimpleNamespace, tmp_path: Path, says) -> None:  # type: ignore[no-untyped-def]
    run = make.write_run(tmp_path, make.run_record(), [make.Launch(CELL), make.Launch(AR)], planned={CELL: 1, AR: 1})
    (run / "cells" / CELL / "1" / "result.json").write_text('{"record": "result"', encoding="utf-8")
    (tmp_path / "cpu" / "broken").mkdir()
    (tmp_path / "cpu" / "broken" / "run.json").write_text("[]", encoding="utf-8")
    found = document(tmp_path)
    assert says(found, "Problems: 2")
    assert says(found, f"cpu/r1/cells/{CELL}/1/result.json")
    assert says(found, "cpu/broken/run.json")
    for problem in found.record.problems:
        assert says(found, problem.problem[:40].partition("<")[0])


def test_a_folder_against_another(make: SimpleNamespace, tmp_path: Path) -> None:
    """Two targets of which one is on both sides, with a cell more on either side."""
    for side, cells in (("before", (AR, CELL)), ("after", (AR, "cpu-b16t8-eager-nonvls"))):
        root = tmp_path / side
        make.write_run(
            root, make.run_record("cpu", side), [make.Launch(cell) for cell in cells], planned=dict.fromkeys(cells, 1)
        )
    cell = "sm_103-b8t4-graph-nvls"
    make.write_run(tmp_path / "after", make.run_record("b300", "gpu"), [make.Launch(cell)], planned={cell: 1})
    out = tmp_path / "out"
    command = ["build", "--results", str(tmp_path / "after"), "--against", str(tmp_path / "before"), "--out", str(out)]
    assert main(command) == 0
    record = codec.read(out / "findings.json", Findings)
    beside = {item.cell: item for item in record.comparisons if item.baseline == "run-before"}
    assert set(beside) == {AR, "cpu-b16t8-eager-nonvls", None}
    assert beside[AR].comparable == "comparable"
    assert beside[None].reasons == (f"this run does not have the cell {CELL}",)
    assert [problem.path for problem in record.problems] == ["(other side) b300"]
    for file in ("findings.html", "findings.md"):
        text = (out / file).read_text(encoding="utf-8")
        assert "run before, 1 cell beside it: 1 undecided, 2 without a counterpart." in text


def test_the_page_works_out_of_a_zip(all_states: Path, tmp_path: Path) -> None:
    """Nothing on it is anywhere else: no address, no file beside it."""
    out = tmp_path / "out"
    assert main(["build", "--results", str(all_states), "--out", str(out)]) == 0
    with zipfile.ZipFile(tmp_path / "report.zip", "w") as archive:
        for file in sorted(out.iterdir()):
            archive.write(file, f"report/{file.name}")
    with zipfile.ZipFile(tmp_path / "report.zip") as archive:
        archive.extract("report/findings.html", tmp_path / "elsewhere")
    page = (tmp_path / "elsewhere" / "report" / "findings.html").read_text(encoding="utf-8")
    tree = html5lib.parse(page, treebuilder="etree", namespaceHTMLElements=False)
    loading = {"src", "srcset", "href", "action", "data", "poster", "background", "formaction", "xlink:href"}
    for element in tree.iter():
        for attribute, value in element.attrib.items():
            assert str(attribute).rpartition("}")[2] not in loading or value.startswith("#"), (element.tag, value)
        assert element.tag not in {"link", "iframe", "object", "embed", "base", "img"}
        if element.tag == "style":
            assert "url(" not in (element.text or "")
            assert "@import" not in (element.text or "")
        if element.tag == "script":
            asks = ("fetch(", "XMLHttpRequest", "import(", "WebSocket", "sendBeacon", "http:", "https:")
            assert not any(word in (element.text or "") for word in asks)
