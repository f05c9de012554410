"""The findings page as a person uses it, in headless Chromium."""

from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest

SCHEMES = ("light", "dark")


def _column(page: Any, table: str, column: int) -> list[str]:
    script = (
        "([table, column]) => [...document.querySelector(table).tBodies[0].rows].map(r => r.cells[column].innerText)"
    )
    return list(page.evaluate(script, [table, column]))


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_never_scrolls_sideways(see: Any, all_states_page: Path, hostile_page: Path, width: int) -> None:
    for path in (all_states_page, hostile_page):
        page = see(path, viewport={"width": width, "height": 844})
        page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_column_sorts_both_ways_by_keyboard(see: Any, all_states_page: Path) -> None:
    page = see(all_states_page)
    table = "[aria-label='Output rate over concurrency'] table"
    before = _column(page, table, 2)
    button = page.locator(f"{table} th button").nth(2)
    button.focus()
    page.keyboard.press("Enter")
    up = _column(page, table, 2)
    page.keyboard.press("Enter")
    down = _column(page, table, 2)
    assert [float(text) for text in up] == sorted(float(text) for text in before)
    assert [float(text) for text in down] == sorted((float(text) for text in before), reverse=True)
    assert page.locator(f"{table} th").nth(2).get_attribute("aria-sort") == "descending"


def test_a_filter_hides_the_other_cells_and_a_link_shows_them_again(see: Any, all_states_page: Path) -> None:
    page = see(all_states_page)
    cells = page.locator("section.cell")
    first = cells.first.get_attribute("id")
    page.get_by_label("Filter cells").first.fill("no cell has these words")
    assert not cells.first.is_visible()
    page.evaluate("id => { location.hash = id }", first)
    cells.first.wait_for(state="visible")


def test_every_link_leads_to_a_place_that_is_shown(see: Any, all_states_page: Path) -> None:
    page = see(all_states_page)
    wrong = page.evaluate(
        "[...document.querySelectorAll('a[href]')].map(a => a.getAttribute('href'))"
        ".filter(href => !href.startsWith('#') || !document.getElementById(decodeURIComponent(href.slice(1))))"
    )
    assert wrong == []
    attempt = page.locator("details.attempt").last
    page.evaluate("id => { location.hash = id }", attempt.get_attribute("id"))
    attempt.locator(".body").wait_for(state="visible")


def test_dark_mode_is_dark(see: Any, all_states_page: Path) -> None:
    shade = {}
    for scheme in SCHEMES:
        page = see(all_states_page, color_scheme=scheme)
        shade[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert shade["light"] == "rgb(255, 255, 255)"
    assert max(int(part) for part in shade["dark"][4:-1].split(",")) < 60


@pytest.mark.parametrize("unfolded", [False, True])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing_serious(see: Any, page_path: Path, hostile_page: Path, scheme: str, unfolded: bool) -> None:
    source = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
    for path in (page_path, hostile_page):
        # The policy of the page keeps axe out as it does any other script.
        page = see(path, color_scheme=scheme, bypass_csp=True)
        page.evaluate(source)
        if unfolded:
            page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        found = page.evaluate("axe.run().then(result => result.violations)")
        serious = [
            (item["id"], node["html"][:200])
            for item in found
            if item["impact"] in {"serious", "critical"}
            for node in item["nodes"][:2]
        ]
        assert serious == []


ALLOWED = {
    *(
        "a",
        "article",
        "body",
        "button",
        "caption",
        "circle",
        "code",
        "dd",
        "details",
        "div",
        "dl",
        "dt",
        "footer",
        "g",
        "h1",
        "h2",
    ),
    *("h3", "h4", "head", "header", "html", "input", "label", "li", "line", "main", "meta", "nav", "ol", "output", "p"),
    *("path", "polyline", "pre", "rect", "script", "section", "small", "span", "strong", "style", "summary", "svg"),
    *("defs", "desc", "pattern", "use"),
    *("table", "tbody", "td", "text", "th", "thead", "title", "tr", "ul"),
}


def test_hostile_text_makes_no_element_and_runs_no_script(see: Any, hostile_page: Path) -> None:
    page = see(hostile_page)
    tags = set(page.evaluate("[...new Set([...document.querySelectorAll('*')].map(e => e.localName))]"))
    assert tags <= ALLOWED
    assert page.locator("script").count() == 1
    assert "<script>alert(1)</script>" in page.locator("body").text_content()
    inline = "[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames()).filter(n => n.startsWith('on'))"
    assert page.evaluate(inline) == []


def test_the_policy_stops_a_script_that_is_put_in(browser: Any, hostile_page: Path) -> None:
    page = browser.new_page()
    page.goto(hostile_page.as_uri())
    page.evaluate("const s = document.createElement('script'); s.text = 'window.ran = 1'; document.body.append(s)")
    assert page.evaluate("window.ran") is None
    page.close()
