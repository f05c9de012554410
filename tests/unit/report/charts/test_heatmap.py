"""The heat map."""

from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

from report.charts.heatmap import heat_map
from report.load import LoadedRun, load


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter("text")]


def newest(root: Path) -> LoadedRun:
    return load([root]).newest()[0]


def test_every_place_tells_its_verdict_and_its_interval(all_states: Path) -> None:
    told = texts(heat_map(newest(all_states), "k"))
    assert told[:8] == ["graph", "nonvls", "graph", "nvls", "eager", "nonvls", "eager", "nvls"]
    assert {"ar", "c7", "b8t4", "b12t4", "b16t8", "b16t8+tp1", "b32t8"} <= set(told)
    assert "2 of 3 (21 to 94 %)" in told
    assert {"✗ fail", "✓ pass", "≠ corrupt", "? inconclusive", "○ not run", "· over budget"} <= set(told)


def test_shades_say_the_share_and_dashes_that_nothing_decided(all_states: Path) -> None:
    root = ET.fromstring(heat_map(newest(all_states), "k"))
    shades = [path for path in root.iter("path") if path.get("class") in {"f-fail", "f-corrupt"}]
    assert sorted(path.get("opacity") for path in shades if path.get("class") == "f-fail") == [
        "0.23",  # half, in the legend
        "0.3",  # 2 of 3
        "0.45",  # two cells in one path
        "0.45",  # all, in the legend
    ]
    assert [path.get("opacity") for path in shades if path.get("class") == "f-corrupt"] == ["0.45"]
    dashed = [path.get("d", "").count("M") for path in root.iter("path") if path.get("stroke-dasharray")]
    assert dashed == [6, 1], "six places without a decided launch, and the legend"
    thick = [p for p in root.iter("path") if p.get("class") == "k-corrupt" and p.get("stroke-width") == "2"]
    assert [path.get("d", "").count("M") for path in thick] == [1, 1]


def test_the_title_names_target_and_architecture(all_states: Path) -> None:
    root = ET.fromstring(heat_map(newest(all_states), "k"))
    assert root[0].text == "Failed launches of b300 (sm_103), by arm, graph and NVLS"
    assert "sm_103-b16t8-graph-nvls: 2 of 3 failed, fail" in (root[1].text or "")


def test_cells_that_share_a_place_are_counted_and_the_worst_is_drawn(tmp_path: Path, make: SimpleNamespace) -> None:
    cells = ["cpu-b8t4-eager-nonvls", "sim-b8t4-eager-nonvls", "cpu-ar-eager-nonvls"]
    launches = [make.Launch(cells[0]), make.Launch(cells[1], outcome="hung", checks=()), make.Launch(cells[2])]
    make.write_run(tmp_path, make.run_record(), launches, planned=dict.fromkeys(cells, 1))
    assert "✗ fail (+1 more)" in texts(heat_map(newest(tmp_path), "k"))


@pytest.mark.parametrize("count", [1, 41])
def test_there_is_none_for_one_cell_or_too_many(tmp_path: Path, make: SimpleNamespace, count: int) -> None:
    cells = [f"cpu-b{budget}t4-eager-nonvls" for budget in range(8, 8 + count)]
    make.write_run(tmp_path, make.run_record(), [make.Launch(cell) for cell in cells], planned=dict.fromkeys(cells, 1))
    assert heat_map(newest(tmp_path), "k") == ""


def test_a_large_matrix_has_smaller_squares_and_stays_small(tmp_path: Path, make: SimpleNamespace) -> None:
    modes = [(graph, nvls) for graph in ("graph", "eager", "verify-eager") for nvls in ("nvls", "nonvls")]
    cells = [f"cpu-b{budget}t4-{graph}-{nvls}" for budget in range(8, 48) for graph, nvls in modes]
    make.write_run(tmp_path, make.run_record(), [make.Launch(cell) for cell in cells], planned=dict.fromkeys(cells, 1))
    svg = heat_map(newest(tmp_path), "k")
    assert texts(svg).count("✓ 0 of 1") == 240
    assert len(svg.encode()) < 60_000
    assert "and 200 more. The same as a table follows." in svg
