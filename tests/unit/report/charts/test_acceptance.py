"""Acceptance over budget, and accepted tokens by verify step."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

from report.charts.acceptance import Point, acceptance, points
from report.charts.steps import Steps, columns, step_counts, step_histogram
from report.document import Document, assemble
from report.load import load
from repro import baselines


def document(root: Path) -> Document:
    return assemble(load([root]), None, baselines.load(), tool_version="0.1.0")


def found(told: Document) -> tuple[Point, ...]:
    run = told.shown[0]
    return points(run, told.baselines, told.comparisons(run.run.target))


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter("text")]


def test_cells_have_the_interval_over_their_launches(all_states: Path) -> None:
    by_name = {point.name: point for point in found(document(all_states))}
    two = by_name["sm_103-b8t4-graph-nvls"]
    assert (two.value, two.n, two.series) == (pytest.approx(4.495), 2, "tree, graph")
    assert two.low == pytest.approx(4.495 - 12.7062 * 0.015, abs=1e-3)
    one = by_name["sm_103-b16t8-eager-nvls"]
    assert (one.value, one.low, one.n, one.series) == (5.7, None, 1, "tree, eager")
    assert "sm_103-b32t8-graph-nvls" not in by_name, "its output is wrong"


def test_baselines_are_as_stated_also_where_that_is_a_range(all_states: Path) -> None:
    by_name = {point.name: point for point in found(document(all_states)) if point.stated}
    ranged = by_name["b16t8_eager"]
    assert (ranged.value, ranged.low, ranged.high) == (None, 5.3, 6.4)
    told = texts(acceptance(found(document(all_states)), "k"))
    assert "b16t8_eager (baseline: unverified), which states a range" in told


def test_series_budgets_and_floor_are_told(all_states: Path) -> None:
    svg = acceptance(found(document(all_states)), "k")
    assert {"8", "16", "32", "tree, graph", "tree, eager", "budget (drafted tokens a step)"} <= set(texts(svg))
    assert "tokens a verify step; dashed line: floor, no draft is accepted" in texts(svg)
    said = ET.fromstring(svg)[1].text or ""
    assert "sm_103-b16t8-eager-nvls: 5.7" in said
    assert "b16t8_eager: 5.3 to 6.4" in said


def test_one_budget_is_no_picture(all_states: Path) -> None:
    told = [point for point in found(document(all_states)) if point.budget == 8]
    assert acceptance(told, "k") == ""


def test_counts_are_summed_over_launches_that_may_be_compared(tmp_path: Path, make: SimpleNamespace) -> None:
    cell = "cpu-b8t4-eager-nonvls"

    def launch(number: int, histogram: list[int] | None, **other: object) -> object:
        checks = [replace(c, histogram=histogram) if c.check == "acceptance" else c for c in make.checks(3.0)]
        return make.Launch(cell, number, checks=(*checks[:1], other.get("lossless", checks[1]), *checks[2:]))

    launches = [launch(1, [1, 2]), launch(2, [0, 5, 2]), launch(3, None), launch(4, [100, 0], lossless=make.wrong())]
    make.write_run(tmp_path, make.run_record(), launches, planned={cell: 4})
    (steps,) = step_counts(document(tmp_path).shown[0])
    assert (steps.counts, steps.launches, steps.total) == ((1, 7, 2), 2, 10)
    assert steps.accepted == pytest.approx(1.1)
    assert steps.share(1) == 0.7
    assert steps.share(5) == 0.0


def of(cell: str, budget: int, *counts: int) -> Steps:
    return Steps(cell=cell, budget=budget, counts=counts, launches=1)


def test_a_row_of_bars_for_each_cell() -> None:
    svg = step_histogram([of("a", 8, 50, 25, 25), of("b", 16, 0, 0, 10, 90)], "k")
    root = ET.fromstring(svg)
    told = texts(svg)
    assert {"a", "b", "mean 0.75; none in 50 %", "mean 2.9; none in 0 %"} <= set(told)
    assert "share of verify steps (highest bar: 90 %); ▲ mean" in told
    assert [text for text in told if text.isdigit()] == ["0", "1", "2", "3"]
    assert sum(path.get("class") == "f-c0" for path in root.iter("path")) == 2
    assert list(columns([of("a", 8, 1, 2, 0, 0)])) == [0, 1]


def test_of_many_cells_each_budget_is_drawn() -> None:
    many = [of(f"x{n}", 8, 1000 + n, 1) for n in range(20)] + [of("y", 16, 3, 1)]
    names = [text for text in texts(step_histogram(many, "k")) if text[0] in "xy"]
    assert names == [*(f"x{n}" for n in range(9, 20)), "y"]


def test_none_is_no_picture() -> None:
    assert step_histogram([], "k") == ""
