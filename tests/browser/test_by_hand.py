"""The page as somebody has it in hand: out of a zip, by keyboard alone, on paper, back and forth."""

import zipfile
from pathlib import Path
from typing import Any

import pytest

ODD_FOLDER = "a <b>folder</b> & 'its' #1 100%25 ?x=y \u202egnp"
RATES = "[aria-label='Output rate over concurrency'] table"


def _filter(page: Any) -> Any:
    return page.get_by_label("Filter cells").first


def _shown_cells(page: Any) -> int:
    return page.locator("section.cell:visible").count()


@pytest.fixture
def unzipped(page_path: Path, tmp_path: Path) -> Path:
    """The page out of a zip, in a folder with a name that means something in addresses and markup."""
    with zipfile.ZipFile(tmp_path / "report.zip", "w") as archive:
        archive.write(page_path, "report/findings.html")
    with zipfile.ZipFile(tmp_path / "report.zip") as archive:
        archive.extractall(tmp_path / ODD_FOLDER)
    return tmp_path / ODD_FOLDER / "report" / "findings.html"


def test_out_of_a_zip_without_a_network(see: Any, unzipped: Path) -> None:
    page = see(unzipped, offline=True)
    table = page.locator(RATES).first
    column = table.locator("tbody tr td:nth-child(3)")
    before = column.all_inner_texts()
    table.locator("th button").nth(2).click()
    assert column.all_inner_texts() == sorted(before, key=float)
    everything = _shown_cells(page)
    _filter(page).fill("b32t8")
    assert 0 < _shown_cells(page) < everything
    link = page.locator(".answers a.mono").first
    target = link.get_attribute("href")
    link.click()
    assert page.url == unzipped.as_uri() + target
    page.locator(f"[id='{target[1:]}']").wait_for(state="visible")
    assert "<b>" not in page.title()


def test_a_link_from_elsewhere_opens_what_hides_its_place(see: Any, page_path: Path) -> None:
    page = see(page_path)
    folded = page.locator("details.attempt:not([open])").first.get_attribute("id")
    page.goto(f"{page_path.as_uri()}#{folded}")
    page.reload()
    place = page.locator(f"[id='{folded}']")
    place.locator(".body").first.wait_for(state="visible")
    assert place.evaluate("part => Math.abs(part.getBoundingClientRect().top) < innerHeight")


def test_back_leads_where_one_came_from(see: Any, page_path: Path) -> None:
    page = see(page_path)
    begun = page.url
    links = [page.locator(".answers a.mono").nth(n) for n in (0, 1)]
    targets = [link.get_attribute("href") for link in links]
    for link in links:
        link.click()
    assert page.url == begun + targets[1]
    page.go_back()
    assert page.url == begun + targets[0]
    page.locator(f"[id='{targets[0][1:]}']").wait_for(state="visible")
    page.go_back()
    assert page.url == begun
    page.go_forward()
    assert page.url == begun + targets[0]


def test_everything_is_reached_by_the_tab_key_in_the_order_of_the_page(see: Any, all_states_page: Path) -> None:
    page = see(all_states_page)
    wanted = page.evaluate(
        "[...document.querySelectorAll('a[href], button, input, summary, [tabindex=\"0\"]')]"
        ".filter(part => part.checkVisibility({ contentVisibilityAuto: true, visibilityProperty: true })).length"
    )
    assert page.evaluate("[...document.querySelectorAll('[tabindex]')].every(part => part.tabIndex === 0)")
    page.evaluate("window.order = []; document.addEventListener('focusin', event => order.push(event.target))")
    for _ in range(wanted):
        page.keyboard.press("Tab")
    order = page.evaluate(
        "[order.length, new Set(order).size, order.every((part, i) => i === 0 || "
        "(order[i - 1].compareDocumentPosition(part) & Node.DOCUMENT_POSITION_FOLLOWING) !== 0)]"
    )
    assert order == [wanted, wanted, True]


def test_focus_is_seen(see: Any, all_states_page: Path) -> None:
    page = see(all_states_page)
    for _ in range(12):
        page.keyboard.press("Tab")
        style = page.evaluate(
            "(s => [s.outlineStyle, parseFloat(s.outlineWidth)])(getComputedStyle(document.activeElement))"
        )
        assert style[0] != "none"
        assert style[1] >= 1


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_a_column_sorts_by_either_key(see: Any, all_states_page: Path, key: str) -> None:
    page = see(all_states_page)
    button = page.locator(f"{RATES} th button").nth(2)
    button.focus()
    for state in ("ascending", "descending", "ascending"):
        page.keyboard.press(key)
        assert page.locator(f"{RATES} th").nth(2).get_attribute("aria-sort") == state
    assert button.evaluate("part => part === document.activeElement")


def test_escape_empties_the_filter(see: Any, all_states_page: Path) -> None:
    page = see(all_states_page)
    everything = _shown_cells(page)
    _filter(page).focus()
    page.keyboard.type("no cell has these words")
    assert _shown_cells(page) < everything
    assert page.locator("output", has_text="0 of").count() == 1, "what is shown is counted, and read out"
    page.keyboard.press("Escape")
    assert _shown_cells(page) == everything
    assert page.locator("output", has_text="0 of").count() == 0


def test_paper_has_what_is_folded_and_what_a_filter_hides(see: Any, all_states_page: Path) -> None:
    page = see(all_states_page)
    page.get_by_label("Filter cells").first.fill("no cell has these words")
    page.emulate_media(media="print")
    folded = page.evaluate(
        "[...document.querySelectorAll('details:not([open])')].filter(part => "
        "[...part.children].slice(1).filter(inside => !inside.matches('.filter'))"
        ".some(inside => inside.getBoundingClientRect().height === 0)).length"
    )
    assert page.locator("details:not([open])").count() > 10
    assert folded == 0
    assert page.locator("section.cell:visible").count() == page.locator("section.cell").count()
    assert page.locator(".filter:visible").count() == 0
    assert page.pdf(format="A4")[:5] == b"%PDF-"
