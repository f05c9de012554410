"""A page of many launches stays small: which are told in full, which in a row, and that all are counted."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from markupsafe import Markup

from report import html
from report.document import Document, assemble
from report.folding import MOST_PICTURED, PAGE_BYTES, Listed, fold, listed, pictured
from report.load import load

CELLS = ("sm_103-b4t4-graph-nvls", "sm_103-b6t4-graph-nvls", "sm_103-b8t4-graph-nvls")


def document(root: Path) -> Document:
    return assemble(load([root]), None, (), tool_version="0.1.0")


def many(
    make: SimpleNamespace, root: Path, launches: int, target: str = "b300", cells: tuple[str, ...] = CELLS
) -> Document:
    """Each tenth launch of the last cell has crashed."""
    crash = {"outcome": "crashed", "detail": "ended", "checks": (), "diagnosis": make.illegal_access()}
    made = [
        make.Launch(cell, number, **(crash if cell == cells[-1] and number % 10 == 0 else {}))
        for cell in cells
        for number in range(1, launches + 1)
    ]
    make.write_run(root, make.run_record(target), made, planned=dict.fromkeys(cells, launches))
    return document(root)


def full(one: Listed) -> Markup:
    return Markup(f"<full {one.attempt.anchor}>").ljust(1000, ".")  # type: ignore[return-value]


def told_in_full(found: Document, room: int) -> list[str]:
    folded = fold(listed(found), lambda one: Markup(full(one)), room)
    return [name for text in folded.lists.values() for name in re.findall(r"<full (\S+)>", text)]


def test_the_most_telling_launches_are_told_in_full(make: SimpleNamespace, tmp_path: Path) -> None:
    found = many(make, tmp_path, 20)
    names = [name.removeprefix("b300--sm_103-") for name in told_in_full(found, 8_000)]
    assert names == [
        "b4t4-graph-nvls--1",
        "b4t4-graph-nvls--2",
        "b6t4-graph-nvls--1",
        "b8t4-graph-nvls--1",
        "b8t4-graph-nvls--10",
        "b8t4-graph-nvls--20",
    ], "the first of each cell, all that failed, and one more"


def test_every_launch_is_told_or_in_a_row_or_counted(make: SimpleNamespace, tmp_path: Path) -> None:
    found = many(make, tmp_path, 60)
    folded = fold(listed(found), lambda one: Markup(full(one)), 20_000)
    text = "".join(folded.lists.values())
    in_full, rows = text.count("<full "), text.count("<tr id=")
    more = sum(int(count) for count in re.findall(r"(\d+) more launch", text))
    assert in_full + rows + more == 180
    assert min(in_full, rows, more) > 0
    assert len(text.encode()) < 22_000
    assert folded.notes["b300"].startswith(
        f"Of 180 launches {in_full} are told in full and {rows} in a row, {more} only"
    )


def test_what_fits_is_told_in_full_and_nothing_is_said_of_it(make: SimpleNamespace, tmp_path: Path) -> None:
    found = many(make, tmp_path, 20)
    folded = fold(listed(found), lambda one: Markup(full(one)), 61_000)
    assert folded.notes == {}
    assert "".join(folded.lists.values()).count("<full ") == 60
    assert "in short" not in "".join(folded.lists.values())


def test_a_huge_launch_does_not_keep_the_others_out(make: SimpleNamespace, tmp_path: Path) -> None:
    found = many(make, tmp_path, 20)

    def render(one: Listed) -> Markup:
        return Markup("<full big>" + "." * 10**6) if one.attempt.result.attempt == 1 else Markup(full(one))

    folded = fold(listed(found), render, 30_000)
    assert "".join(folded.lists.values()).count("<full b300") > 10


def test_links_to_launches_in_rows_hold(make: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = many(make, tmp_path, 20)
    whole = html.render(found)
    monkeypatch.setattr(html, "PAGE_BYTES", len(whole.encode()) // 2)
    page = html.render(found)
    for number in range(1, 21):
        assert f'id="b300--{CELLS[0]}--{number}"' in page
    assert len(page.encode()) < len(whole.encode()) // 2 + 2000
    assert "so that this page stays below" in page
    assert "so that this page stays below" not in whole
    assert "\x00" not in page


def test_the_same_facts_are_told_once(make: SimpleNamespace, tmp_path: Path) -> None:
    page = html.render(many(make, tmp_path, 2))
    assert page.count("<caption>Comparability key, over all launches") == 1
    assert page.count("what may be compared are those of <a") == 2


def test_many_targets_get_pictures_failing_ones_first(make: SimpleNamespace, tmp_path: Path) -> None:
    for number in range(12):
        cells = CELLS if number >= 10 else CELLS[:1]
        many(make, tmp_path, 10 if number >= 10 else 1, target=f"t{number:02}", cells=cells)
    found = document(tmp_path)
    chosen = pictured(found)
    assert len(chosen) == MOST_PICTURED
    assert {"t10", "t11"} <= chosen
    page = html.render(found)
    assert page.count("this is not one of them") == 4
    assert len(page.encode()) < PAGE_BYTES
