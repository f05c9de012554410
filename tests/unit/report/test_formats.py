"""HTML, Markdown, console tables and JUnit: what they must hold, and what may never act in them."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest
from markdown_it import MarkdownIt

from report import console, html, junit, markdown
from report.document import Document, assemble
from report.load import load
from report.words import NOT_A_GPU, PLANTED, TERMS, VERDICTS
from repro import baselines

FORMATS = {
    "html": html.render,
    "markdown": markdown.render,
    "console": console.render,
    "junit": lambda document: junit.render(document).decode(),
}
OURS = re.compile(r"</details>|<details><summary>[A-Za-z, ]+(: \d+)?</summary>")
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def document(*roots: Path) -> Document:
    return assemble(load(roots), None, baselines.load(), tool_version="0.1.0")


class Page(HTMLParser):
    """Tags, ids and links of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [value for name, value in attrs if name in {"href", "src"} and value]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("name", FORMATS)
def test_no_control_code_of_a_record_reaches_a_reader(name: str, hostile: Path) -> None:
    assert not CONTROL.search(FORMATS[name](document(hostile)))


@pytest.mark.parametrize("name", FORMATS)
def test_two_builds_are_equal(name: str, all_states: Path, planted: Path) -> None:
    assert FORMATS[name](document(all_states, planted)) == FORMATS[name](document(planted, all_states))


@pytest.mark.parametrize("name", FORMATS)
def test_no_path_of_the_host_is_told(name: str, all_states: Path) -> None:
    (all_states / "cpu/20261130-cpu/plan.json").write_text("{", encoding="utf-8")
    assert str(all_states.parent) not in FORMATS[name](document(all_states))


@pytest.mark.parametrize("name", FORMATS)
def test_planted_faults_are_loud(name: str, planted: Path, all_states: Path) -> None:
    assert PLANTED in FORMATS[name](document(planted))
    assert PLANTED not in FORMATS[name](document(all_states))


@pytest.mark.parametrize("name", ["html", "markdown", "console"])
def test_every_row_of_a_planted_run_says_so(name: str, planted: Path, all_states: Path) -> None:
    text = FORMATS[name](document(planted))
    mark = "! planted run</span>" if name == "html" else "[planted run] "
    assert text.count(mark) == 1, "of the four cells, three had a fault of their own"
    assert mark not in FORMATS[name](document(all_states))


@pytest.mark.parametrize("name", FORMATS)
def test_a_cpu_page_is_no_evidence_about_a_gpu(name: str, all_states: Path, tmp_path: Path) -> None:
    assert NOT_A_GPU in FORMATS[name](document(all_states))
    gpu = assemble(load([all_states], "b300"), None, baselines.load(), tool_version="0.1.0")
    assert NOT_A_GPU not in FORMATS[name](gpu)


@pytest.mark.parametrize("name", FORMATS)
def test_withheld_numbers_are_nowhere(name: str, tmp_path: Path, make: SimpleNamespace) -> None:
    cell = "cpu-b8t4-eager-nonvls"
    wrong = make.Launch(cell, checks=make.checks(3.3, 98765.25, make.wrong()))
    make.write_run(tmp_path, make.run_record(), [wrong], planned={cell: 1})
    text = FORMATS[name](document(tmp_path))
    assert "98765" not in text


def test_a_page_has_only_our_script_and_no_network(hostile: Path, all_states: Path) -> None:
    for root in (hostile, all_states):
        text = html.render(document(root))
        page = Page(text)
        ours = resources.files("report").joinpath("templates/page.js").read_text(encoding="utf-8")
        assert text.count("<script") == 1
        assert f"<script>{ours}</script>" in text
        assert not page.tags & {"img", "link", "iframe", "object", "embed", "form", "base"}
        assert all(link.startswith("#") for link in page.links)
        assert not [name for name, _ in page.attributes if name.startswith("on") or name == "style"]


def test_hostile_text_is_text_on_the_page(hostile: Path) -> None:
    page = Page(html.render(document(hostile)))
    assert "<script>alert(1)</script>" in page.text
    assert "{{ 7*7 }}" in page.text


def test_the_policy_allows_our_style_and_nothing_else(all_states: Path) -> None:
    text = html.render(document(all_states))
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in text
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_every_link_has_its_target_and_every_id_is_unique(all_states: Path, planted: Path) -> None:
    page = Page(html.render(document(all_states, planted)))
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links} <= set(page.ids)


def test_cells_and_attempts_can_be_linked_to(all_states: Path) -> None:
    ids = set(Page(html.render(document(all_states))).ids)
    assert {"b300", "b300--sm_103-b16t8-graph-nvls", "b300--sm_103-b16t8-graph-nvls--2"} <= ids


def test_the_page_tells_all_there_is(all_states: Path) -> None:
    text = Page(html.render(document(all_states))).text
    flat = " ".join(text.split())
    for said in (
        "14 of 17 launches finished, 3 missing",
        "2 of 3 failed (21 % to 94 %)",
        "because architecture is cpu here and sm_103 there",
        "withheld: content wrong",
        "server's own figure",
        "an illegal memory access was encountered",
        "cuda_graph_passes_total",
        "a CPU has no CUDA graphs",
        "matrix/specs/cpu.toml",
        "needs 0.20 h more",
        "20261101-cpu",
        "4723 tok/s",
        "nvidia-smi is not installed",
    ):
        assert said in flat, said
    for word in (*VERDICTS, *TERMS):
        assert word.replace("_", " ") in flat


def test_problems_are_named_and_counted(all_states: Path) -> None:
    for n in (1, 2):
        path = all_states / f"cpu/20261130-cpu/cells/cpu-b8t4-eager-nonvls/{n}/result.json"
        path.write_text("{", encoding="utf-8")
    for name in ("html", "markdown", "console"):
        text = FORMATS[name](document(all_states))
        assert "Problems: 2" in text
        assert "cells/cpu-b8t4-eager-nonvls/2/result.json" in text


def test_markdown_leaves_nothing_that_acts(hostile: Path) -> None:
    parsed = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    tokens = parsed.parse(markdown.render(document(hostile)))
    inline = [child for token in tokens for child in token.children or ()]
    assert not {token.type for token in [*tokens, *inline]} & {"link_open", "image", "html_inline"}
    blocks = {token.content.strip() for token in tokens if token.type == "html_block"}
    assert all(OURS.fullmatch(block) for block in blocks), "only folds of our own, with fixed words"
    text = " ".join(token.content for token in inline if token.type == "text")
    assert "<script>alert(1)</script>" in text
    assert not re.search(r"@[A-Za-z]|https?://|(?<!\w)#\d", text)


def test_markdown_tables_keep_their_columns(hostile: Path, all_states: Path) -> None:
    for root in (hostile, all_states):
        width = 0
        for line in markdown.render(document(root)).splitlines():
            cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
            assert not (cells and width) or cells == width, line
            width = cells


def test_junit_states(all_states: Path) -> None:
    suites = ET.fromstring(junit.render(document(all_states)))
    gpu, cpu = suites.findall("testsuite")
    assert (cpu.get("tests"), cpu.get("failures"), cpu.get("errors"), cpu.get("skipped")) == ("10", "0", "0", "1")
    cases = {case.get("name"): case for case in gpu.findall("testcase")}
    assert cases["sm_103-b32t8-graph-nvls #1"].find("failure").get("type") == "corrupt"  # type: ignore[union-attr]
    assert cases["sm_103-c7-graph-nvls #1"].find("error") is not None
    assert cases["sm_103-b16t8-eager-nvls #2"].find("error") is not None
    assert cases["sm_103-b16t8-graph-nvls+tp1"].find("skipped") is not None
    assert list(cases["sm_103-b8t4-graph-nvls #1"]) == []


def test_junit_is_xml_whatever_the_records_hold(hostile: Path) -> None:
    text = ET.tostring(ET.fromstring(junit.render(document(hostile))), encoding="unicode")
    assert "&lt;script&gt;" in text
