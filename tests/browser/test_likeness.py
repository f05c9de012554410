"""The comparison of pictures: what it forgives, and what it must not."""

from types import ModuleType

import pytest
from PIL import Image, ImageDraw, ImageFilter, ImageFont

SIZE = (640, 400)


def drawn(
    down: int = 0, right: int = 0, *, chart: bool = True, missing_line: int = -1, paper: str = "white"
) -> Image.Image:
    """A page in small: lines of text and a chart with curves and squares."""
    page = Image.new("RGB", SIZE, paper)
    pen = ImageDraw.Draw(page)
    font = ImageFont.load_default(14)
    for line in range(6):
        if line != missing_line:
            pen.text(
                (20 + right, 16 + 22 * line + down), "b16t8: 2 of 3 launches failed (21 % to 94 %)", "#1b1f24", font
            )
    if chart:
        for column in range(5):
            box = (20 + 60 * column + right, 180 + down, 64 + 60 * column + right, 220 + down)
            pen.rectangle(box, "#fbe9ea" if column % 2 else "#e6f4ea", "#a31621")
        points = [(20 + 40 * step + right, 360 - step * step + down) for step in range(12)]
        pen.line(points, "#0069a8", 2)
    return page


def antialiased(page: Image.Image) -> Image.Image:
    """As another renderer may draw it: half a pixel aside, softer."""
    half = (1, 0, 0.5, 0, 1, 0.5)
    moved = page.transform(page.size, Image.Transform.AFFINE, half, Image.Resampling.BILINEAR, fillcolor="white")
    return moved.filter(ImageFilter.GaussianBlur(0.4))


def test_the_same_picture_is_the_same(likeness: ModuleType) -> None:
    found = likeness.likeness(drawn(), drawn())
    assert (found.share, found.worst, found.faults) == (0, 0, [])


@pytest.mark.parametrize("change", [antialiased, lambda page: page.quantize(64).convert("RGB")])
def test_other_antialiasing_and_fewer_colours_are_forgiven(likeness: ModuleType, change) -> None:  # type: ignore[no-untyped-def]
    assert likeness.likeness(drawn(), change(drawn())).faults == []


def test_one_pixel_aside_is_forgiven(likeness: ModuleType) -> None:
    assert likeness.likeness(drawn(), drawn(1, 1)).faults == []


@pytest.mark.parametrize(
    "other",
    [
        drawn(chart=False),
        drawn(missing_line=3),
        drawn(5, 0),
        drawn(0, 5),
        drawn(22, 0),
        drawn(paper="#14171b"),
        Image.new("RGB", SIZE, "white"),
    ],
    ids=["no chart", "a line less", "down", "right", "a line further down", "dark", "nothing"],
)
def test_what_is_missing_or_has_moved_is_found(likeness: ModuleType, other: Image.Image) -> None:
    for one, two in ((drawn(), other), (other, drawn())):
        found = likeness.likeness(one, two)
        assert found.faults
        assert found.marked.size == SIZE
        assert (255, 0, 0) in {colour for _, colour in found.marked.getcolors(1 << 24)}


@pytest.mark.parametrize(("height", "same"), [(402, True), (420, False), (380, False)])
def test_a_side_may_differ_by_a_few_pixels(likeness: ModuleType, height: int, same: bool) -> None:
    other = drawn().crop((0, 0, SIZE[0], height))
    if height > SIZE[1]:
        other.paste("white", (0, SIZE[1], SIZE[0], height))
    faults = likeness.likeness(drawn(), other).faults
    assert (faults == []) is same
    assert same or faults == [f"it is 640 x {height} pixels and was 640 x 400"]
