"""The pictures of the findings page in headless Chromium: in light and dark mode, on paper, on a phone."""

import re
from pathlib import Path
from typing import Any

import pytest

PICTURES = "svg.chart"
KINDS = ("heat", "acceptance", "steps", "rates", "sm_103-b16t8-graph-nvls--1")
TEXT_CONTRAST, MARK_CONTRAST = 4.5, 3.0
"""WCAG 2.2, 1.4.3 and 1.4.11."""


def _open_all(page: Any) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")


def _picture(page: Any, kind: str) -> Any:
    return page.locator(f"svg[aria-labelledby^='picture--b300--{kind}-title']")


def _luminance(colour: str) -> float:
    red, green, blue = (int(part) / 255 for part in re.findall(r"\d+", colour)[:3])
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (red, green, blue)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    bright, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


COLOURS = """([selector, property]) => [...new Set([...document.querySelectorAll(selector)]
  .map(part => getComputedStyle(part)[property]).filter(colour => colour.startsWith("rgb(")))]"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_and_marks_stand_out_from_the_paper(see: Any, page_path: Path, scheme: str) -> None:
    page = see(page_path, color_scheme=scheme)
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    texts = page.evaluate(COLOURS, [f"{PICTURES} text", "fill"])
    assert len(texts) >= 3
    assert {colour: _contrast(colour, paper) >= TEXT_CONTRAST for colour in texts} == dict.fromkeys(texts, True)
    series = [f"{PICTURES} [class*='k-c'], {PICTURES} .k-fail, {PICTURES} .k-soft", "stroke"]
    marks = page.evaluate(COLOURS, series)
    assert len(marks) >= 8
    assert {colour: _contrast(colour, paper) >= MARK_CONTRAST for colour in marks} == dict.fromkeys(marks, True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_the_darkest_square(see: Any, page_path: Path, scheme: str) -> None:
    page = see(page_path, color_scheme=scheme)
    for name in ("fail", "corrupt"):
        shade = page.evaluate(
            """([name]) => { const square = document.querySelector(`svg.chart path.f-${name}[opacity='0.45']`);
              const rgb = (part, property) => getComputedStyle(part)[property].match(/\\d+/g).map(Number);
              const [fill, paper] = [rgb(square, "fill"), rgb(document.body, "backgroundColor")];
              const ink = rgb(document.querySelector("svg.chart text.f-ink"), "fill");
              const mixed = fill.map((part, i) => Math.round(0.45 * part + 0.55 * paper[i]));
              return [`rgb(${mixed})`, `rgb(${ink})`]; }""",
            [name],
        )
        assert _contrast(*shade) >= TEXT_CONTRAST, (name, shade)


def test_a_picture_changes_its_colours_with_the_page(see: Any, page_path: Path) -> None:
    seen = {
        scheme: see(page_path, color_scheme=scheme).evaluate(COLOURS, [f"{PICTURES} text", "fill"])
        for scheme in ("light", "dark")
    }
    assert not set(seen["light"]) & set(seen["dark"])


def test_paper_is_light_whatever_the_screen(see: Any, page_path: Path) -> None:
    page = see(page_path, color_scheme="dark", viewport={"width": 718, "height": 1000})
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    _open_all(page)
    for picture in page.locator(PICTURES).all():
        box = picture.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 718, "nothing is cut at the edge of the paper"


OUTSIDE = """picture => { const [, , width, height] = picture.getAttribute("viewBox").split(" ").map(Number);
  return [...picture.querySelectorAll("text")].filter(text => { const box = text.getBBox();
    return box.x < -1 || box.y < -1 || box.x + box.width > width + 1 || box.y + box.height > height + 1;
  }).map(text => text.textContent); }"""
OVERLAPPING = """picture => { const texts = [...picture.querySelectorAll("text")].map(text => [text, text.getBBox()]);
  return texts.flatMap(([one, a], i) => texts.slice(i + 1).filter(([, b]) =>
    Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x) > 1 &&
    Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y) > 3
  ).map(([other]) => [one.textContent, other.textContent])); }"""


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_cut_or_lies_on_another(see: Any, page_path: Path, kind: str) -> None:
    page = see(page_path)
    _open_all(page)
    picture = _picture(page, kind)
    assert picture.count() == 1
    assert picture.evaluate(OUTSIDE) == []
    assert picture.evaluate(OVERLAPPING) == []


@pytest.mark.parametrize("kind", KINDS)
def test_on_a_phone_texts_stay_readable_and_the_picture_scrolls(see: Any, page_path: Path, kind: str) -> None:
    page = see(page_path, viewport={"width": 390, "height": 844})
    _open_all(page)
    picture = _picture(page, kind)
    size = picture.evaluate(
        "p => 11 * p.getBoundingClientRect().width / Number(p.getAttribute('viewBox').split(' ')[2])"
    )
    assert size >= 9
    assert picture.evaluate("p => p.parentElement.scrollWidth > p.parentElement.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_pictures_are_named_for_those_who_do_not_see_them(see: Any, page_path: Path) -> None:
    page = see(page_path)
    name = "Failed launches of b300 (sm_103), by arm, graph and NVLS"
    found = page.get_by_role("img", name=re.compile(re.escape(name)))
    assert found.count() == 1


def test_the_stripes_of_a_failed_phase_are_painted(see: Any, page_path: Path) -> None:
    page = see(page_path)
    fills = page.evaluate(
        "[...document.querySelectorAll('svg.chart [fill^=\"url\"]')].map(part => "
        "Boolean(document.getElementById(part.getAttribute('fill').slice(5, -1))))"
    )
    assert fills
    assert all(fills)
