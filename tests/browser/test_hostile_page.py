"""The page of runs whose every free text is one of the strings of `tests/data/hostile`, in headless Chromium."""

import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from report import html
from report.document import assemble
from report.load import load
from report.shelf import beside, take
from repro import baselines

FIRST = 7
"""Runs on one page; each takes the strings from another one on, so that together every text has had several."""
FRAGMENTS = (
    "<img src=x onerror=alert(1)>",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "javascript:alert(1)",
    "%",
    "%E0%A4%A",
    "%00",
    "'\"><svg onload=alert(1)>",
    "constructor",
    "__proto__",
    "a" * 5000,
    ":~:text=alert",
)
ATTRIBUTES = """() => [...new Set([...document.querySelectorAll("*")].flatMap(part =>
  part.getAttributeNames().map(name => `${part.localName} ${name}`)))]"""
ELEMENTS = "() => [...new Set([...document.querySelectorAll('*')].map(part => part.localName))]"


@pytest.fixture(scope="module")
def pages(runs: ModuleType, hostile: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """``hostile``, and ``plain``: its twin with plain words."""
    make = SimpleNamespace(**vars(runs))
    every = len(hostile.corpus())
    found = {}
    for name in ("hostile", "plain"):
        root = tmp_path_factory.mktemp(name)
        for turn in range(FIRST):
            texts = hostile.in_turns(turn * every // FIRST) if name == "hostile" else hostile.plain
            hostile.results(make, root / "results", texts, "b300" if turn == 0 else f"t{turn}")
        texts = hostile.in_turns(1) if name == "hostile" else hostile.plain
        hostile.results(make, root / "before", texts, run_id="before")
        own, _ = take(hostile.own_baselines(root / "own", texts))
        shelf = beside(baselines.load(), own)
        document = assemble(load([root / "results"]), load([root / "before"]), shelf, tool_version="0.1.0")
        found[name] = root / "page.html"
        found[name].write_text(html.render(document), encoding="utf-8")
    return found


def _calm(page: Any, path: Path) -> None:
    """Nothing has left the page or put itself into it."""
    assert page.url.partition("#")[0] == path.as_uri()
    assert page.evaluate("[window.name, window.opener, history.length]") == ["", None, page.history_before]
    assert page.title().startswith("Findings · ")
    assert page.locator("script").count() == page.locator("style").count() == 1
    assert len(page.context.pages) == 1


@pytest.fixture
def hostile_page(see: Any, pages: dict[str, Path]) -> Any:
    page = see(pages["hostile"])
    page.history_before = page.evaluate("history.length")
    return page


def test_all_strings_are_on_the_page_as_text(hostile_page: Any, hostile: ModuleType) -> None:
    text = hostile_page.locator("body").text_content()
    for said in ("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "javascript:alert(document.domain)"):
        assert said in text


def test_no_element_and_no_attribute_comes_from_a_record(see: Any, pages: dict[str, Path], hostile_page: Any) -> None:
    twin = see(pages["plain"])
    for script in (ELEMENTS, ATTRIBUTES):
        more = set(hostile_page.evaluate(script)) - set(twin.evaluate(script))
        assert more <= {"p class", "th scope", "td class", "tr id", "details open"}
    links = hostile_page.evaluate("[...document.querySelectorAll('[href]')].map(part => part.getAttribute('href'))")
    assert links
    assert [link for link in links if not link.startswith("#")] == []
    assert hostile_page.evaluate("[...document.querySelectorAll('[src], [style], [srcdoc], [action]')].length") == 0
    _calm(hostile_page, pages["hostile"])


def test_pictures_hold_texts_alone(hostile_page: Any) -> None:
    pictures = hostile_page.locator("svg.chart")
    assert pictures.count() > FIRST
    inside = set(hostile_page.evaluate("[...document.querySelectorAll('svg.chart *')].map(part => part.localName)"))
    assert inside <= {
        "circle",
        "defs",
        "desc",
        "g",
        "line",
        "path",
        "pattern",
        "polyline",
        "rect",
        "text",
        "title",
        "use",
    }
    refers = hostile_page.evaluate(
        "[...document.querySelectorAll('svg.chart *')].flatMap(part => [...part.attributes])"
        ".filter(one => /href|url\\(/i.test(one.name + one.value)).map(one => one.value)"
    )
    assert all(value.startswith(("#", "url(#")) for value in refers)


def test_sorting_filtering_and_unfolding_run_nothing(hostile_page: Any, pages: dict[str, Path]) -> None:
    hostile_page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    heads = hostile_page.evaluate(
        "(() => { const all = [...document.querySelectorAll('button.sort')]; all.forEach(one => one.click());"
        " all.forEach(one => one.click()); return all.length; })()"
    )
    assert heads > 100
    box = hostile_page.get_by_label("Filter cells").first
    for text in ("<img src=x onerror=alert(1)>", '" onmouseover="alert(1)', "(?:a+)+$", "\\", "[", "alert"):
        box.fill(text)
        hostile_page.get_by_label("Filter rows").first.fill(text)
    box.fill("")
    hostile_page.locator("section.cell").first.hover()
    _calm(hostile_page, pages["hostile"])


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_a_hostile_deep_link_leads_nowhere(see: Any, pages: dict[str, Path], fragment: str) -> None:
    path = pages["hostile"]
    page = see(path)
    page.evaluate("text => { location.hash = text }", fragment)
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    assert page.url.partition("#")[0] == path.as_uri()
    page.reload()
    assert page.locator("script").count() == 1
    button = page.locator("button.sort").first
    button.focus()
    page.keyboard.press("Enter")
    assert page.locator("[aria-sort]").count() == 1, "the page's own script still works"


def test_nothing_of_a_string_is_an_address_of_the_page(hostile_page: Any) -> None:
    names = hostile_page.evaluate("[...document.querySelectorAll('[id], [name]')].map(one => one.id || one.name)")
    assert all(json.dumps(name).strip('"') == name and not set(name) & set("<>\"'` &=") for name in names)
    assert not {"location", "constructor", "__proto__", "forms", "body", "cookie"} & set(names)
