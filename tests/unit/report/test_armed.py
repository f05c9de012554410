"""A relaunch with evidence hooks armed explains an attempt and counts nowhere; what it showed is said with the cell."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from report import html, markdown
from report.document import Document, assemble
from report.load import load

CELL = "cpu-b8t4-eager-nonvls"
LINE = "Detected NaN in next_token_logits"


def document(make: SimpleNamespace, root: Path, **armed: object) -> Document:
    wrong = make.Launch(CELL, checks=make.checks(3.3, 200.0, make.wrong()))
    found = replace(
        make.illegal_access(None), kind="nan_logits", evidence=(replace(make.illegal_access().evidence[0], text=LINE),)
    )
    again = make.Launch(CELL, 2, detail="stopped", diagnosis=found, explains=1, checks=())
    make.write_run(root, make.run_record(), [wrong, replace(again, **armed)], planned={CELL: 1})
    return assemble(load([root]), None, (), tool_version="0.1.0")


def test_what_it_showed_is_in_the_statement(make: SimpleNamespace, tmp_path: Path) -> None:
    finding = document(make, tmp_path).record.findings[0]
    assert finding.kind == "corrupt_output"
    assert finding.statement.endswith(
        f"Launched again with evidence hooks armed, {CELL} showed nan logits: {LINE} (attempt 2, which counts nowhere)."
    )


@pytest.mark.parametrize("armed", [{"diagnosis": None}, {"explains": 3}])
def test_nothing_shown_or_another_attempt_is_no_sentence(
    make: SimpleNamespace, tmp_path: Path, armed: dict[str, object]
) -> None:
    assert "hooks armed" not in document(make, tmp_path, **armed).record.findings[0].statement


def test_the_cell_tells_of_it_and_does_not_count_it(make: SimpleNamespace, tmp_path: Path) -> None:
    told = document(make, tmp_path)
    for text in (html.render(told), markdown.render(told)):
        assert "Attempt 2 repeated attempt 1 with evidence hooks armed, and counts nowhere" in text
    assert told.shown[0].cells[0].summary.n == 1
