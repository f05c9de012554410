"""What holds for every picture: fit for the page's policy, deterministic, cleaned of what records may hold."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

from report import html
from report.charts.acceptance import acceptance, points
from report.charts.concurrency import rates, throughput
from report.charts.heatmap import heat_map
from report.charts.ink import NAMES
from report.charts.phases import time_line
from report.charts.picture import shortened
from report.charts.steps import step_counts, step_histogram
from report.document import Document, assemble
from report.load import load
from repro import baselines, codec
from repro.model import Result
from repro.store import write_record

LARGEST_BYTES = 25_000
SVG = {"svg", "title", "desc", "path", "text", "g", "defs", "use"}
PICTURES = ("heat", "acceptance", "rates", "steps", "time")


def document(root: Path) -> Document:
    return assemble(load([root]), None, baselines.load(), tool_version="0.1.0")


def drawn(told: Document) -> Mapping[str, str]:
    """Each kind of picture of the first target that is told."""
    run = told.shown[0]
    compared = told.comparisons(run.run.target)
    crashed = [a for cell in run.cells for a in cell.attempts if a.anchor in told.crashes]
    attempt = max(crashed, key=lambda a: len(told.crashes[a.anchor].samples))
    return {
        "heat": heat_map(run, "k-heat"),
        "acceptance": acceptance(points(run, told.baselines, compared), "k-acceptance"),
        "rates": throughput(rates(run, told.baselines, compared), "k-rates"),
        "steps": step_histogram(step_counts(run), "k-steps"),
        "time": time_line(attempt.result, told.crashes[attempt.anchor], "k-time"),
    }


@pytest.fixture
def all_drawn(all_states: Path, evidence: SimpleNamespace) -> Mapping[str, str]:
    return drawn(document(evidence.with_crash(all_states, evidence.samples_of())))


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_has_a_text_alternative_and_nothing_that_the_policy_forbids(
    all_drawn: Mapping[str, str], name: str
) -> None:
    root = ET.fromstring(all_drawn[name])
    ids = {element.get("id"): element for element in root.iter() if element.get("id")}
    assert root.get("role") == "img"
    title, told = (ids[reference].text for reference in root.get("aria-labelledby", "").split())
    assert title
    assert told
    assert {element.tag for element in root.iter()} <= SVG | {"pattern", "rect"}
    assert not {name for element in root.iter() for name in element.attrib} & {"style", "font-family", "clip-path"}
    assert all(identifier.startswith(f"k-{name}-") for identifier in ids)
    assert len(all_drawn[name].encode()) < LARGEST_BYTES


@pytest.mark.parametrize("name", PICTURES)
def test_every_colour_is_one_of_the_style_sheet(all_drawn: Mapping[str, str], name: str) -> None:
    root = ET.fromstring(all_drawn[name])
    said = {element.get(kind) for element in root.iter() for kind in ("fill", "stroke", "color")}
    assert {value for value in said if value and not value.startswith("url(#k-")} <= {"none"}
    classes = {part for element in root.iter() for part in element.get("class", "").split()}
    assert classes <= {"chart", "log", *(f"{kind}-{ink}" for kind in "fk" for ink in NAMES)}
    assert all(element.get("class") for element in root.iter("text"))


def test_the_style_sheet_has_every_colour_in_light_and_in_dark() -> None:
    sheet = Path(html.__file__).with_name("templates") / "page.css"
    text = sheet.read_text(encoding="utf-8")
    light, dark = text.split("@media screen and (prefers-color-scheme: dark)")
    for name in NAMES:
        assert re.search(rf"--{name}: #", light), name
        assert re.search(rf"--{name}: #", dark.split("}")[0]), name
        assert f".f-{name} {{ fill: var(--{name}); }} .k-{name} {{ stroke: var(--{name}); }}" in text


def test_what_is_referred_to_is_there(all_drawn: Mapping[str, str]) -> None:
    for text in all_drawn.values():
        referred = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
        assert referred <= set(re.findall(r'\bid="([^"]+)"', text))
    assert 'fill="url(#k-time-' in all_drawn["time"], "the phase that failed is striped"


def test_ids_of_a_page_are_there_once(all_states: Path, evidence: SimpleNamespace) -> None:
    page = html.render(document(evidence.with_crash(all_states, evidence.samples_of())))
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert page.count('<svg class="chart"') > 8
    assert len(ids) == len(set(ids))


def test_the_same_drawing_gives_the_same_bytes(all_states: Path, evidence: SimpleNamespace) -> None:
    root = evidence.with_crash(all_states, evidence.samples_of())
    assert drawn(document(root)) == drawn(document(root))


def test_the_settings_of_a_user_change_nothing(tmp_path: Path) -> None:
    """A matplotlibrc is read when matplotlib is imported: in another process, with a home of its own."""
    program = (
        "from report.charts.picture import picture\n"
        "def paint(canvas):\n"
        "    axes = canvas.axes(50, 10, 100, 60)\n"
        "    axes.plot([1, 2], [3, 5])\n"
        "    axes.set_xlabel('$x^2$ \u6f22')\n"
        "print(picture(200, 100, paint, key='k', title='t', told='d'))\n"
    )
    outputs = []
    for settings in ("", "font.size: 30\nlines.linewidth: 9\nsvg.fonttype: path\ntext.parse_math: True\n"):
        home = tmp_path / f"home{len(outputs)}"
        home.mkdir()
        (home / "matplotlibrc").write_text(settings, encoding="utf-8")
        environment = os.environ | {"MPLCONFIGDIR": str(home)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        outputs.append(done.stdout)
        assert done.stderr == ""
    assert outputs[0] == outputs[1]
    assert "$x^2$" in outputs[0]


def test_settings_of_the_process_are_left_as_they_were() -> None:
    program = (
        "import sys, matplotlib\n"
        "from report.charts.picture import picture\n"
        "before = matplotlib.rcParams.copy()\n"
        "picture(50, 50, lambda canvas: canvas.sheet().text(1, 1, 'a'), key='k', title='t', told='d')\n"
        "assert matplotlib.rcParams.copy() == before\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_library_is_not_imported_before_a_picture_is_drawn() -> None:
    program = "import sys, report.cli; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_no_formula_and_no_markup_of_a_record_acts(
    hostile: Path, evidence: SimpleNamespace, make: SimpleNamespace
) -> None:
    log, offset_bytes = evidence.log_of()
    text = f"$\\frac{{1}}{{2}}$ \\sum {make.HOSTILE}"
    folder = hostile / "cpu/hostile/cells/cpu-b8t4-eager-nonvls/1"
    evidence.leave_crash(folder, log=log, offset_bytes=offset_bytes, text=text)
    told = document(hostile)
    crash = next(iter(told.crashes))
    attempt = next(a for cell in told.shown[0].cells for a in cell.attempts if a.anchor == crash)
    svg = time_line(attempt.result, told.crashes[crash], "k")
    texts = [element.text or "" for element in ET.fromstring(svg).iter("text")]
    assert any(line.startswith("$\\frac{1}{2}$ \\sum <script>alert(1)</script> | `tick`") for line in texts)
    assert "<script" not in svg
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", svg)
    assert "<script>alert" not in html.render(told)


def test_a_long_text_is_cut_to_its_place() -> None:
    assert shortened("x" * 500, 100) == "x" * 14 + "…"
    assert shortened("a\nb", 100) == "a b"


def test_numbers_beyond_any_axis_are_in_the_table_only(
    all_states: Path, evidence: SimpleNamespace, make: SimpleNamespace
) -> None:
    huge = 1.7e308
    root = evidence.with_crash(all_states, [replace(s, power_w=huge) for s in evidence.samples_of(gpus=1)])
    path = root / "b300/20261130-b300/cells/sm_103-b16t8-eager-nvls/1/result.json"
    result = codec.read(path, Result)
    checks = [
        replace(c, measurements=tuple(replace(m, value=huge if m.value else None) for m in c.measurements))
        for c in result.checks
    ]
    write_record(path, replace(result, checks=tuple(checks)))
    told = document(root)
    pictures = drawn(told)
    assert "sm_103-b16t8-eager-nvls" not in pictures["rates"]
    assert "sm_103-b16t8-eager-nvls" not in pictures["acceptance"]
    assert "GPU power" not in pictures["time"]
    assert "GPU memory" in pictures["time"]
    assert "1.7e+308" in html.render(told)
