"""The Markdown file stays below its limit, whatever there is to tell; what is left out is counted."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from report import markdown
from report.document import Document, assemble
from report.load import load
from repro import baselines
from repro.model import Finding, Problem

LONG = "ä&|`<" * 4000


def document(root: Path) -> Document:
    return assemble(load([root]), None, baselines.load(), tool_version="0.1.0")


def run_of(
    make: SimpleNamespace, root: Path, cells: int, attempts: int, target: str = "b300", **launch: object
) -> None:
    names = [f"sm_103-b{4 + number}t4-{graph}-nvls" for number in range(cells // 2) for graph in ("graph", "eager")]
    launches = [
        make.Launch(
            name,
            number,
            **({"outcome": "crashed", "checks": (), "diagnosis": make.illegal_access()} if bad else {}),
            **launch,
        )
        for index, name in enumerate(names)
        for number in range(1, attempts + 1)
        if (bad := (index + number) % 10 == 0) or True
    ]
    make.write_run(root, make.run_record(target), launches, planned=dict.fromkeys(names, attempts))


def left_out(text: str) -> dict[str, tuple[int, int]]:
    rows = text.split("## Left out")[1].splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if row.startswith("| ")][1:]
    return {what: (int(told), int(total)) for what, told, total in cells}


@pytest.mark.parametrize("name", ["all_states", "planted", "hostile"])
def test_what_fits_is_whole(name: str, request: pytest.FixtureRequest) -> None:
    text = markdown.render(document(request.getfixturevalue(name)))
    assert len(text.encode()) < markdown.LIMIT_BYTES
    assert "## Left out" not in text
    assert "left out here" not in text


def test_a_large_run_is_shortened_from_the_end_and_all_is_counted(make: SimpleNamespace, tmp_path: Path) -> None:
    run_of(make, tmp_path, 60, 5)
    told = document(tmp_path)
    text = markdown.render(told)
    assert 50_000 < len(text.encode()) <= markdown.LIMIT_BYTES
    assert "> Shortened: what is left out is counted at the end" in text[:200]
    counted = left_out(text)
    assert set(counted) <= {kind.words for kind in markdown.KINDS}
    assert "cells that passed, and their launches" in counted
    for finding in told.record.findings:
        assert f"### {finding.id}" in text, "findings never go first"
    assert text.count("| `b") >= 60 // 2, "and neither does the matrix"


def test_many_targets_each_have_their_part(make: SimpleNamespace, tmp_path: Path) -> None:
    for number in range(40):
        run_of(make, tmp_path, 8, 2, target=f"t{number:02}")
    text = markdown.render(document(tmp_path))
    assert len(text.encode()) <= markdown.LIMIT_BYTES
    for number in range(40):
        assert f"- t{number:02}, run r1" in text
        assert f"## Target t{number:02}" in text


def test_long_words_of_a_record_are_cut_and_nothing_makes_it_longer(make: SimpleNamespace, tmp_path: Path) -> None:
    bad = make.check("lossless", "fail", "content_wrong", LONG)
    run_of(make, tmp_path, 40, 1, detail=LONG)
    make.write_run(
        tmp_path,
        make.run_record("cpu", "long"),
        [
            make.Launch(f"cpu-b{n}t4-eager-nonvls", detail=LONG, checks=make.checks(3.0, 200.0, bad))
            for n in range(4, 30)
        ],
        planned={"cpu-b4t4-eager-nonvls": 1},
    )
    text = markdown.render(document(tmp_path))
    assert len(text.encode()) <= markdown.LIMIT_BYTES
    assert LONG[:2000] not in text


def test_more_findings_and_problems_than_fit(all_states: Path) -> None:
    told = document(all_states)
    (first, *_) = told.record.findings
    many = tuple(_renamed(first, number) for number in range(2000))
    record = replace(
        told.record, findings=many, problems=tuple(Problem(path=f"p{n}", problem=LONG) for n in range(3000))
    )
    text = markdown.render(replace(told, record=record))
    assert len(text.encode()) <= markdown.LIMIT_BYTES
    counted = left_out(text)
    kept, total = counted["findings"]
    assert (total, kept) == (2000, text.count("\n### f-"))
    assert kept > 10
    assert text.index(many[0].id) < text.index(many[1].id)
    assert "| `b16t8` |" in text, "findings do not take the place of the matrix"


def test_a_command_is_never_cut(all_states: Path) -> None:
    told = document(all_states)
    (first, *_) = told.record.findings
    record = replace(told.record, findings=(replace(first, next="python -m matrix run --select " + "x" * 3000),))
    text = markdown.render(replace(told, record=record))
    assert "next: too long to stand here; `findings.json` has it" in text
    assert "xxx…" not in text


def _renamed(finding: Finding, number: int) -> Finding:
    return replace(finding, id=f"f-{number:010x}", statement=f"{finding.statement} {LONG[:300]}")
