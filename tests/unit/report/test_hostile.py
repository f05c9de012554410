"""Whatever a run says, nothing of it acts: not on the page, in Markdown, in JUnit, on a terminal."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from xml.etree import ElementTree as ET

import html5lib
import pytest
from markdown_it import MarkdownIt

from report import console, html, junit, markdown
from report.cli import main
from report.document import Document, assemble
from report.load import load
from report.shelf import beside, take
from repro import baselines, codec
from repro.model import Findings

CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200c-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\ufffe\uffff\U000e0000-\U000e007f]"
)
OURS = re.compile(r"</details>|<details><summary>[A-Za-z, ]+(: \d+)?</summary>")


def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hostile", Path(__file__).with_name("hostile.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hostile"] = module
    spec.loader.exec_module(module)
    return module


HOSTILE = builder()
TURNS = range(len(HOSTILE.corpus()))


def document(make: SimpleNamespace, root: Path, texts: object) -> Document:
    HOSTILE.results(make, root / "results", texts)
    HOSTILE.results(make, root / "before", texts, run_id="before")
    own, _ = take(HOSTILE.own_baselines(root / "own", texts))
    return assemble(
        load([root / "results"]), load([root / "before"]), beside(baselines.load(), own), tool_version="0.1.0"
    )


@pytest.fixture(scope="module")
def pages(make: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The page of runs that together have every string in every text, and what a browser's parser makes of it and of
    that of a twin with plain words."""
    root = tmp_path_factory.mktemp("pages")
    targets = [f"t{turn:02}" for turn in TURNS]
    for turn, target in zip(TURNS, targets, strict=True):
        HOSTILE.results(make, root / "hostile", HOSTILE.in_turns(turn), target)
    HOSTILE.results(make, root / "plain", HOSTILE.plain, targets[0])
    found = [
        assemble(load([root / name]), None, baselines.load(), tool_version="0.1.0") for name in ("hostile", "plain")
    ]
    text, plain = map(html.render, found)
    trees = [html5lib.parse(page, treebuilder="etree", namespaceHTMLElements=False) for page in (text, plain)]
    return SimpleNamespace(text=text, tree=trees[0], plain=trees[1])


def marks(tree: ET.Element) -> set[tuple[str, str]]:
    """(tag, attribute) of all elements, and tags without any."""
    found = set()
    for element in tree.iter():
        tag = element.tag if isinstance(element.tag, str) else "comment"
        found |= {(tag, name) for name in element.attrib} | {(tag, "")}
    return found


def test_the_page_has_no_element_and_no_attribute_of_a_record(pages: SimpleNamespace) -> None:
    known = marks(pages.plain) | {("p", "class"), ("th", "scope"), ("td", "class"), ("tr", "id"), ("details", "open")}
    assert marks(pages.tree) - known == set()
    assert not CONTROL.search(pages.text)


def test_links_of_the_page_stay_on_it(pages: SimpleNamespace) -> None:
    tree = pages.tree
    ids = [element.attrib["id"] for element in tree.iter() if "id" in element.attrib]
    assert len(ids) == len(set(ids))
    for element in tree.iter():
        for name, value in element.attrib.items():
            assert not str(name).lower().startswith("on")
            if str(name).endswith(("href", "src", "action")):
                assert value.startswith("#"), value
                assert value[1:] in ids
    assert sum(element.tag == "script" for element in tree.iter()) == 1
    assert sum(element.tag == "style" for element in tree.iter()) == 1


def test_the_texts_are_there_to_be_read(pages: SimpleNamespace) -> None:
    text = " ".join("".join(pages.tree.itertext()).split())
    for said in ("<script>alert(1)</script>", "{{ 7*7 }}", "javascript:alert(document.domain)", "=1+1 +1 -1 @SUM(A1)"):
        assert said in text


@pytest.fixture(scope="module")
def junit_shape(make: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, ...]]:
    return shape(document(make, tmp_path_factory.mktemp("twin") / "twin", HOSTILE.plain))


def shape(found: Document) -> set[tuple[str, ...]]:
    return {(element.tag, *sorted(element.attrib)) for element in ET.fromstring(junit.render(found)).iter()}


@pytest.mark.parametrize("turn", TURNS[::5])  # the page has them all; Markdown would leave most of so much out
def test_markdown_junit_and_console(
    turn: int, make: SimpleNamespace, tmp_path: Path, junit_shape: set[tuple[str, ...]]
) -> None:
    found = document(make, tmp_path, HOSTILE.in_turns(turn))
    assert found.record.findings
    text = markdown.render(found)
    assert not CONTROL.search(text)
    assert len(text.encode()) <= markdown.LIMIT_BYTES
    _check_markdown(text)
    told = console.render(found)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e]", told)
    suites = ET.fromstring(junit.render(found))
    assert shape(found) == junit_shape
    assert not any(CONTROL.search(value) for e in suites.iter() for value in (e.text or "", *e.attrib.values()))


def _check_markdown(text: str) -> None:
    """Rendered as GitHub does, autolinks included: no link, image, HTML or mention; and tables keep their columns."""
    parsed = MarkdownIt("gfm-like").parse(text)
    inline = [child for token in parsed for child in token.children or ()]
    kinds = {token.type for token in [*parsed, *inline]}
    assert not kinds & {"link_open", "image", "html_inline", "code_block"}
    assert all(OURS.fullmatch(token.content.strip()) for token in parsed if token.type == "html_block")
    plain = " ".join(token.content for token in inline if token.type == "text")
    assert not re.search(r"@[A-Za-z0-9]|https?://|www\.|(?<![\w-])#\d|\bGH-\d", plain)
    headings = [parsed[i + 1].content for i, token in enumerate(parsed) if token.type == "heading_open"]
    assert all(re.match(_HEADING, heading) for heading in headings), headings
    assert not kinds & {"s_open", "hr"}


_HEADING = re.compile(
    r"Findings$|What was found$|f-[0-9a-f]{10} · |Target |Best stable|Not part|Oracles$|Compared with$|Cells$|Cell `|"
    r"Problems: \d+ could|Words$|Left out$|Self-test launches$"
)


def test_the_command_writes_and_prints_it_all(
    make: SimpleNamespace, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    texts = HOSTILE.in_turns(0)
    HOSTILE.results(make, tmp_path / "results", texts)
    HOSTILE.own_baselines(tmp_path / "own", texts)
    command = ["build", "--results", str(tmp_path / "results"), "--out", str(tmp_path / "out")]
    assert main([*command, "--baselines", str(tmp_path / "own")]) == 0
    out, err = capsysbinary.readouterr()
    for said in (out.decode(), err.decode()):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", said)
    record = codec.read(tmp_path / "out/findings.json", Findings)
    problems = {problem.path.rpartition("/")[2]: problem.problem for problem in record.problems}
    assert "half of a surrogate pair" in problems["result.json"]
    assert any("is not the directory of an attempt" in said or "of a cell" in said for said in problems.values())
