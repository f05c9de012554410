"""The time line of a launch that did not end well, and what is read from its evidence."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

from report import html
from report.charts.phases import gpu_rows, time_line
from report.crashes import MOST, Crash, read_crashes
from report.document import Document, assemble
from report.load import load
from repro.model import PowerSample, Result

Made = Callable[..., Path]
TELLING = "[2026-11-30 10:01:31 TP3] torch.AcceleratorError: CUDA error: an illegal memory access"


def document(root: Path) -> Document:
    return assemble(load([root]), None, (), tool_version="0.1.0")


def crash_of(root: Path) -> Crash:
    (crash,) = document(root).crashes.values()
    return crash


def result_of(root: Path) -> Result:
    return load([root]).newest()[0].cells[0].attempts[0].result


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter("text")]


@pytest.mark.parametrize("zone_h", [0, 8, -3])
def test_lines_have_the_time_of_the_launch_whatever_the_zone_of_the_log(
    crashed: Made, evidence: SimpleNamespace, zone_h: int
) -> None:
    log, offset_bytes = evidence.log_of(zone_h)
    lines = crash_of(crashed(log=log, offset_bytes=offset_bytes)).lines
    assert [line.at_s for line in lines] == [91.0, 93.0]
    assert (lines[0].text, lines[0].line) == (TELLING, 33)
    assert lines[1].text.endswith("SIGQUIT received. signum=None")
    assert lines[1].line is None


def test_a_line_without_a_time_has_that_of_the_line_before_it(crashed: Made, evidence: SimpleNamespace) -> None:
    log, offset_bytes = evidence.log_of(text="    torch.AcceleratorError: CUDA error")
    crash = crash_of(crashed(log=log, offset_bytes=offset_bytes, text="    torch.AcceleratorError: CUDA error"))
    assert crash.lines[0].at_s == 90.0


@pytest.mark.parametrize("log", [None, b"", b"no times at all\nnone here either\n"])
def test_without_times_no_moment_is_made_up(crashed: Made, log: bytes | None) -> None:
    root = crashed(log=log)
    crash = crash_of(root)
    assert {line.at_s for line in crash.lines} == {None}
    assert "no time" in texts(time_line(result_of(root), crash, "k"))


def test_a_time_outside_of_the_launch_is_none_of_its(crashed: Made, evidence: SimpleNamespace) -> None:
    log, offset_bytes = evidence.log_of()
    late = log.replace(b"10:01:3", b"11:01:3")
    assert [line.at_s for line in crash_of(crashed(log=late, offset_bytes=offset_bytes)).lines] == [None, None]


@pytest.mark.parametrize("offset_bytes", [0, 10**6, 2**63 - 1])
def test_a_place_that_the_log_does_not_have_has_no_moment(
    crashed: Made, evidence: SimpleNamespace, offset_bytes: int
) -> None:
    log, _ = evidence.log_of()
    first = crash_of(crashed(log=log, offset_bytes=offset_bytes)).lines[0]
    assert first.at_s == (1.0 if offset_bytes == 0 else None)


def test_samples_after_the_end_are_not_drawn(crashed: Made, evidence: SimpleNamespace) -> None:
    root = crashed(samples=[*evidence.samples_of(gpus=1), replace(evidence.samples_of()[0], at_s=1e6)])
    svg = time_line(result_of(root), crash_of(root), "k")
    numbers = [
        float(x) for path in ET.fromstring(svg).iter("path") for x in re.findall(r"[ML]([\d.]+) ", path.get("d", ""))
    ]
    assert max(numbers) <= 640


def test_phases_lines_power_and_memory_share_an_axis(crashed: Made, evidence: SimpleNamespace) -> None:
    log, offset_bytes = evidence.log_of()
    root = crashed(log=log, offset_bytes=offset_bytes, samples=evidence.samples_of())
    svg = time_line(result_of(root), crash_of(root), "k")
    told = texts(svg)
    assert {"launch", "weights load", "graph capture", "serving", "34.0 s", "36.5 s ✗ failed"} <= set(told)
    assert {"GPU power", "W", "GPU memory", "GiB", "mean of 8 GPUs, and", "lowest to highest"} <= set(told)
    assert {"✗ crashed, 95.0 s", "1, 2", "91.0 s", "93.0 s", TELLING, "seconds since the launch began"} <= set(told)
    classes = {element.get("class") for element in ET.fromstring(svg).iter()}
    assert {"k-c1", "f-c1", "k-c0", "f-c0"} <= classes, "a mean and a band for both"
    said = ET.fromstring(svg)[1].text or ""
    assert "serving failed, 36.5 s; log line at 91.0 s" in said
    assert "GPU power 180 to 800 W" in said


def test_the_line_of_the_crash_stands_where_power_falls(crashed: Made, evidence: SimpleNamespace) -> None:
    log, offset_bytes = evidence.log_of()
    root = crashed(log=log, offset_bytes=offset_bytes, samples=evidence.samples_of(gpus=1))
    drawn = ET.fromstring(time_line(result_of(root), crash_of(root), "k"))
    dotted = next(p for p in drawn.iter("path") if p.get("class") == "k-ink" and p.get("stroke-dasharray"))
    power = next(p for p in drawn.iter("path") if p.get("class") == "k-c1")
    at = float(re.findall(r"M([\d.]+)", dotted.get("d", ""))[0])
    reached = [float(x) for x in re.findall(r"[ML]([\d.]+) ", power.get("d", ""))]
    second = (640 - 118 - 140) / 95
    assert at == pytest.approx(118 + 91 * second, abs=0.1)
    assert reached[0] == pytest.approx(118 + 55 * second, abs=0.1)
    assert reached[-1] == pytest.approx(118 + 93 * second, abs=0.1)
    assert "f-c1" not in {element.get("class") for element in drawn.iter()}, "one GPU has no band"


def test_a_gap_in_the_samples_is_a_gap_in_the_line(crashed: Made, evidence: SimpleNamespace) -> None:
    samples = [s for s in evidence.samples_of(gpus=1) if not 62 < s.at_s < 80]
    root = crashed(samples=samples)
    drawn = ET.fromstring(time_line(result_of(root), crash_of(root), "k"))
    power = next(p for p in drawn.iter("path") if p.get("class") == "k-c1")
    assert power.get("d", "").count("M") == 2


def test_a_long_launch_is_drawn_in_few_points(crashed: Made, evidence: SimpleNamespace) -> None:
    root = crashed()
    many = tuple(
        PowerSample(at_s=at / 100, gpu=gpu, power_w=500.0 + at % 90, temperature_c=None, sm_clock_mhz=None,
                    memory_used_mib=1e5 + gpu)
        for at in range(9000) for gpu in range(8)
    )  # fmt: skip
    svg = time_line(result_of(root), replace(crash_of(root), samples=many), "k")
    assert len(svg) < 25_000


def test_each_gpu_has_a_row(evidence: SimpleNamespace) -> None:
    rows = gpu_rows(Crash(lines=(), samples=evidence.samples_of(), no_samples=""))
    assert len(rows) == 8
    assert rows[3] == ("3", "39", "93.0", "760", "760", "180", "234.7", "234.7", "2")


@pytest.mark.parametrize(
    ("left", "said"),
    [
        ({}, "no file evidence/power.json lies in its directory"),
        ({"samples": (), "reason": "NVML is not available"}, "NVML is not available"),
    ],
)
def test_without_samples_the_page_says_why(crashed: Made, left: dict[str, object], said: str) -> None:
    root = crashed(**left)
    assert "GPU power" not in texts(time_line(result_of(root), crash_of(root), "k"))
    assert f"No GPU power or memory over time: {said}." in html.render(document(root))


def test_evidence_that_does_not_validate_is_a_problem(crashed: Made) -> None:
    root = crashed()
    folder = next(root.glob("b300/crash/cells/*/1"))
    (folder / "evidence/power.json").write_text('{"record": "power-evidence", "schema_version": 1}', encoding="utf-8")
    told = document(root)
    (problem,) = told.record.problems
    assert problem.path == "b300/crash/cells/sm_103-b16t8-graph-nvls/1/evidence/power.json"
    assert "reason" in problem.problem
    assert str(root) not in html.render(told)
    assert crash_of(root).no_samples == "evidence/power.json cannot be used"


def test_links_are_not_followed(crashed: Made, evidence: SimpleNamespace, tmp_path: Path) -> None:
    log, offset_bytes = evidence.log_of()
    root = crashed(log=log, offset_bytes=offset_bytes, samples=evidence.samples_of())
    folder = next(root.glob("b300/crash/cells/*/1"))
    (folder / "evidence").rename(tmp_path / "elsewhere")
    (folder / "evidence").symlink_to(tmp_path / "elsewhere")
    crash = crash_of(root)
    assert crash.samples == ()
    assert [line.at_s for line in crash.lines] == [None]


def test_the_first_launch_of_each_kind_in_a_cell_is_drawn_and_no_more_than_stated(
    tmp_path: Path, make: SimpleNamespace
) -> None:
    cells = [f"sm_103-b{budget}t4-graph-nvls" for budget in range(8, 8 + MOST + 3)]
    crash = make.illegal_access()
    hung = replace(crash, kind="hang", signature=replace(crash.signature, kind="hang"))
    launches = [make.Launch(c, n, outcome="crashed", checks=(), diagnosis=crash) for c in cells for n in (1, 2)]
    launches.append(make.Launch(cells[-1], 3, outcome="hung", checks=(), diagnosis=hung))
    make.write_run(tmp_path, make.run_record("b300", "many"), launches, planned=dict.fromkeys(cells, 3))
    told, problems = read_crashes(load([tmp_path]).newest())
    assert problems == ()
    assert [anchor.removeprefix("b300--sm_103-") for anchor in told] == [
        "b8t4-graph-nvls--1",
        f"b{7 + MOST + 3}t4-graph-nvls--3",
        *(f"b{budget}t4-graph-nvls--1" for budget in range(9, 8 + MOST - 1)),
    ]
    page = html.render(document(tmp_path))
    assert page.count('<svg class="chart"') == MOST + 1, "and the heat map"
    assert f"at most {MOST} on this page" in page


def test_what_ended_well_has_none(all_states: Path) -> None:
    told = document(all_states)
    drawn = {a.anchor for run in told.shown for c in run.cells for a in c.attempts if a.result.outcome == "completed"}
    assert not drawn & set(told.crashes)
