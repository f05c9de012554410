"""Output rate over concurrency."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

from report.charts.concurrency import Rate, rates, throughput
from report.document import Document, assemble
from report.load import load
from repro import baselines


def document(root: Path) -> Document:
    return assemble(load([root]), None, baselines.load(), tool_version="0.1.0")


def found(told: Document) -> tuple[Rate, ...]:
    run = told.shown[0]
    return rates(run, told.baselines, told.comparisons(run.run.target))


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter("text")]


def marks(root: ET.Element) -> list[str]:
    """The class of each mark: its own, or that of its group."""
    return [mark.get("class") or group.get("class", "") for group in root.iter() for mark in group if mark.tag == "use"]


def rate(name: str, concurrency: int, value: float, standing: str | None = None) -> Rate:
    low, high = (None, None) if standing else (0.9 * value, 1.1 * value)
    return Rate(name=name, concurrency=concurrency, value=value, low=low, high=high, n=3, standing=standing)


def test_ours_come_with_intervals_and_baselines_with_their_standing(all_states: Path) -> None:
    all_rates = found(document(all_states))
    ours = next(r for r in all_rates if r.name == "sm_103-b8t4-graph-nvls" and r.concurrency == 1)
    assert (ours.value, ours.n, ours.standing) == (301.0, 2, None)
    assert ours.low == pytest.approx(301 - 12.7062 * 2, abs=0.01)
    theirs = {r.concurrency: r for r in all_rates if r.name == "nvls_b8t4"}
    assert {at: r.value for at, r in theirs.items()} == {1: 303.0, 128: 4723.0}
    assert theirs[128].label == "nvls_b8t4 (baseline: unverified)"


def test_a_baseline_that_must_not_be_compared_says_so(tmp_path: Path, make: SimpleNamespace) -> None:
    cell = "sm_103-b8t4-graph-nvls"
    launch = make.Launch(cell, facts={"gpu_count": make.fact(2)})
    make.write_run(tmp_path, make.run_record("b300", "two"), [launch], planned={cell: 1})
    labels = {r.label for r in found(document(tmp_path))}
    assert "nvls_b8t4 (baseline: not comparable)" in labels
    assert "autoregressive (baseline: no cell here has its coordinates)" in labels
    assert "nvls_b8t4 (baseline: not comparable)" in texts(throughput(found(document(tmp_path)), "k"))


def test_names_concurrencies_and_axis_are_told(all_states: Path) -> None:
    told = texts(throughput(found(document(all_states)), "k"))
    assert {"1", "8", "128", "requests in flight (concurrency)", "tok/s, logarithmic", "5000"} <= set(told)
    assert {"sm_103-b8t4-graph-nvls", "nvls_b8t4 (baseline: unverified)"} <= set(told)


def test_rates_of_one_size_have_an_axis_from_zero() -> None:
    told = texts(throughput([rate("a", 1, 100.0), rate("a", 8, 300.0)], "k"))
    assert "tok/s" in told
    assert "0" in told


def test_what_a_baseline_states_is_dashed_and_hollow() -> None:
    both = [
        rate("a", 1, 100.0),
        rate("a", 8, 300.0),
        rate("b", 1, 90.0, "unverified"),
        rate("b", 8, 250.0, "unverified"),
    ]
    root = ET.fromstring(throughput(both, "k"))
    lines = {
        p.get("class"): p.get("stroke-dasharray") for p in root.iter("path") if p.get("stroke-width") in {"1.8", "1.2"}
    }
    assert lines["k-c0"] is None
    assert lines["k-c1"]
    assert "f-c0 k-c0" in marks(root)
    assert "f-paper k-c1" in marks(root)


def test_intervals_are_drawn_where_there_are_some() -> None:
    def ends(found: list[Rate]) -> int:
        return marks(ET.fromstring(throughput(found, "k"))).count("f-c0 k-c0")

    known = [rate("a", 1, 100.0), rate("a", 8, 300.0)]
    single = [replace(one, low=None, high=None, n=1) for one in known]
    assert ends(known) - ends(single) == 4


def test_the_fastest_are_drawn_one_without_speculation_and_three_baselines() -> None:
    many = [rate(f"cell{n}", at, 100.0 + n) for n in range(12) for at in (1, 8)]
    many += [replace(rate(f"plain{n}", at, 10.0 + n), plain=True) for n in range(3) for at in (1, 8)]
    theirs = [rate(f"base{n}", 1, 90.0, "unverified") for n in range(5)]
    named = [text for text in texts(throughput([*many, *theirs], "k")) if text.startswith(("cell", "plain", "base"))]
    ours = ["cell11", "cell10", "cell9", "cell8", "plain2"]
    assert named == [*ours, *(f"base{n} (baseline: unverified)" for n in range(3))]


def test_one_concurrency_is_no_picture() -> None:
    assert throughput([rate("a", 1, 100.0), rate("b", 1, 90.0)], "k") == ""
