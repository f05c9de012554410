"""The kernel checks on the findings page, in headless Chromium."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import axe_playwright_python
import pytest

from report import html

MAKERS = Path(__file__).parents[1] / "unit" / "report" / "kernels" / "conftest.py"
MAP = "svg[aria-labelledby^='picture--kernels-title']"
OUTSIDE = """picture => { const [, , width, height] = picture.getAttribute("viewBox").split(" ").map(Number);
  return [...picture.querySelectorAll("text")].filter(text => { const box = text.getBBox();
    return box.x < -1 || box.y < -1 || box.x + box.width > width + 1 || box.y + box.height > height + 1;
  }).map(text => text.textContent); }"""
OVERLAPPING = """picture => { const texts = [...picture.querySelectorAll("text")].map(text => [text, text.getBBox()]);
  return texts.flatMap(([one, a], i) => texts.slice(i + 1).filter(([, b]) =>
    Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x) > 1 &&
    Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y) > 3
  ).map(([other]) => [one.textContent, other.textContent])); }"""


@pytest.fixture(scope="module")
def kernels_page(runs: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every state of the kernel checks, beside a server's run."""
    spec = importlib.util.spec_from_file_location("kernels_fixtures", MAKERS)
    assert spec is not None
    assert spec.loader is not None
    makers = importlib.util.module_from_spec(spec)
    sys.modules["kernels_fixtures"] = makers
    spec.loader.exec_module(makers)
    folder = tmp_path_factory.mktemp("kernels")
    results = makers.every_kernel_state(makers.servers(SimpleNamespace(**vars(runs)), folder / "results"))
    path = folder / "page.html"
    path.write_text(html.render(makers.document(results)), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_never_scrolls_sideways(see: Any, kernels_page: Path, width: int) -> None:
    page = see(kernels_page, viewport={"width": width, "height": 844})
    page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(see: Any, kernels_page: Path, scheme: str) -> None:
    page = see(kernels_page, color_scheme=scheme, bypass_csp=True)
    page.evaluate(Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run().then(result => result.violations)")
    assert [(one["id"], one["help"]) for one in found if one["impact"] in ("serious", "critical")] == []


def test_no_text_of_the_picture_is_cut_or_lies_on_another(see: Any, kernels_page: Path) -> None:
    picture = see(kernels_page).locator(MAP)
    assert picture.count() == 1
    assert picture.evaluate(OUTSIDE) == []
    assert picture.evaluate(OVERLAPPING) == []


def test_a_finding_leads_to_what_is_known_of_its_budget(see: Any, kernels_page: Path) -> None:
    page = see(kernels_page)
    link = page.locator("#findings a[href='#kernels--sm_103--b16']").first
    link.click()
    place = page.locator("#kernels--sm_103--b16")
    place.wait_for(state="visible")
    assert "17 query rows (budget 16) and 9 (budget 8) run the same compiled code" in place.inner_text()
