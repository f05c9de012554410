"""The page of a run in which everything happens, as it looks: pictures in `tests/golden/pictures/`, with a tolerance.

`GRAPHREPRO_UPDATE_GOLDEN=1 pytest tests/browser/test_golden_pictures.py` writes those anew that no longer look the
same; look at each before you commit it. The fonts are the ones that matplotlib brings, whatever the machine has.
"""

import base64
import io
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib
import pytest
from PIL import Image

GOLDEN = Path(__file__).parents[1] / "golden" / "pictures"
LARGEST_BYTES = 100_000
FACES = (("Text", "DejaVuSans", 400), ("Text", "DejaVuSans-Bold", 700))
FACES += (("Mono", "DejaVuSansMono", 400), ("Mono", "DejaVuSansMono-Bold", 700))
UNFOLD = "part => { for (let up = part; up; up = up.parentElement) if (up.localName === 'details') up.open = true; }"
DESK, PHONE, PAPER = (1280, 900), (390, 844), (718, 1000)


def picture(kind: str) -> str:
    return f"svg[aria-labelledby^='picture--b300--{kind}-title']"


SHOTS: dict[str, tuple[str | None, tuple[int, int], str, str]] = {
    "first-light": (None, DESK, "light", "screen"),
    "first-dark": (None, DESK, "dark", "screen"),
    "first-phone": (None, PHONE, "light", "screen"),
    "first-print": (None, PAPER, "dark", "print"),
    "failures-light": (picture("heat"), DESK, "light", "screen"),
    "failures-dark": (picture("heat"), DESK, "dark", "screen"),
    "acceptance": (picture("acceptance"), DESK, "light", "screen"),
    "steps": (picture("steps"), DESK, "light", "screen"),
    "rates": (picture("rates"), DESK, "light", "screen"),
    "time-line": (picture("sm_103-b16t8-graph-nvls--1"), DESK, "light", "screen"),
}
"""Name -> what of the page (None: its first screen), the window, the reader's scheme, and the medium."""


@pytest.fixture(scope="module")
def style() -> str:
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    faces = [
        f"@font-face {{ font-family: {family}; font-weight: {weight}; "
        f"src: url(data:font/ttf;base64,{base64.b64encode((folder / f'{name}.ttf').read_bytes()).decode()}); }}"
        for family, name, weight in FACES
    ]
    return "\n".join([*faces, ":root { --mono: Mono; } body { font-family: Text; }"])


def shoot(browser: Any, path: Path, style: str, name: str) -> Image.Image:
    part, (width, height), scheme, medium = SHOTS[name]
    # The policy of the page keeps a style out that is put in.
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(path.as_uri())
    page.emulate_media(media=medium, color_scheme=scheme)
    page.add_style_tag(content=style)
    page.evaluate("document.fonts.ready")
    if part is None:
        taken = page.screenshot()
    else:
        page.locator(part).evaluate(UNFOLD)
        taken = page.locator(part).screenshot()
    context.close()
    return Image.open(io.BytesIO(taken)).convert("RGB")


@pytest.mark.parametrize("name", SHOTS)
def test_it_looks_as_it_did(
    browser: Any, page_path: Path, style: str, likeness: ModuleType, tmp_path: Path, name: str
) -> None:
    actual = shoot(browser, page_path, style, name)
    golden = GOLDEN / f"{name}.png"
    updating = os.environ.get("GRAPHREPRO_UPDATE_GOLDEN") == "1"
    if updating and not golden.exists():
        _keep(actual, golden)
    found = likeness.likeness(Image.open(golden), actual)
    if found.faults and updating:
        _keep(actual, golden)
        return
    actual.save(tmp_path / f"{name}-actual.png")
    found.marked.save(tmp_path / f"{name}-difference.png")
    assert found.faults == [], f"{name}: look at the actual picture and the difference in {tmp_path}"


def test_the_pictures_kept_are_those_compared_and_small() -> None:
    assert {path.name: path.stat().st_size <= LARGEST_BYTES for path in GOLDEN.iterdir()} == {
        f"{name}.png": True for name in SHOTS
    }


@pytest.mark.parametrize(
    ("spoiled", "name"),
    [
        (f"{picture('heat')} {{ opacity: 0; }}", "failures-light"),
        (f"{picture('rates')} polyline, {picture('rates')} path {{ display: none; }}", "rates"),
        ("body { font-size: 15px; }", "first-light"),
        (".run { margin-top: 24px; }", "first-dark"),
        (".answers { display: block; }", "first-light"),
        (":root { --fail: #1a6b35; --fail-bg: #e6f4ea; }", "failures-light"),
    ],
)
def test_a_page_that_is_spoiled_does_not_look_the_same(
    browser: Any, page_path: Path, style: str, likeness: ModuleType, spoiled: str, name: str
) -> None:
    actual = shoot(browser, page_path, f"{style}\n{spoiled}", name)
    assert likeness.likeness(Image.open(GOLDEN / f"{name}.png"), actual).faults


def _keep(picture: Image.Image, path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    picture.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
