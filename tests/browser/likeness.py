"""Whether two pictures of a page are the same to a reader: other antialiasing is, a missing or shifted part is not.

A pixel differs clearly when, slightly blurred, its colour lies beyond all colours of the other picture within two
pixels of the same place. So edges may be drawn another way and lie a pixel or two apart, but no stroke may come or go.
"""

from dataclasses import dataclass

from PIL import Image, ImageChops, ImageFilter

TOLERANCE = 40
"""Of 255, beyond the darkest and brightest colours near the same place."""
MOST_OF_PICTURE = 0.003
MOST_OF_TILE = 0.06
"""Shares of pixels that may differ clearly: of all, and of any square of `TILE` pixels."""
TILE = 64
SLACK_PX = 3
SLACK_SHARE = 0.01
"""By how much the sides of the two may differ: the larger of both."""


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """``sizes``: width and height of both; ``share`` and ``worst``: of all pixels and of the worst square; ``marked``:
    the actual picture made pale, with what differs in red."""

    sizes: tuple[tuple[int, int], tuple[int, int]]
    share: float
    worst: float
    marked: Image.Image

    @property
    def faults(self) -> list[str]:
        """Why they are not the same to a reader; empty if they are."""
        found = []
        expected, actual = self.sizes
        if any(abs(a - b) > max(SLACK_PX, SLACK_SHARE * a) for a, b in zip(expected, actual, strict=True)):
            found.append(f"it is {actual[0]} x {actual[1]} pixels and was {expected[0]} x {expected[1]}")
        if self.share > MOST_OF_PICTURE:
            found.append(f"{self.share:.2%} of its pixels differ clearly, and {MOST_OF_PICTURE:.2%} may")
        if self.worst > MOST_OF_TILE:
            found.append(f"{self.worst:.0%} of a square of {TILE} pixels differ clearly, and {MOST_OF_TILE:.0%} may")
        return found


def likeness(expected: Image.Image, actual: Image.Image) -> Likeness:
    """Beyond the sides that both have, nothing is compared but the size."""
    width, height = (min(one, other) for one, other in zip(expected.size, actual.size, strict=True))
    both = [one.convert("RGB").crop((0, 0, width, height)) for one in (expected, actual)]
    first, second = (one.filter(ImageFilter.BoxBlur(1)) for one in both)
    differs = ImageChops.lighter(_beyond(first, second), _beyond(second, first))
    squares = differs.resize((max(1, width // TILE), max(1, height // TILE)), Image.Resampling.BOX)
    pale = Image.blend(both[1], Image.new("RGB", (width, height), "white"), 0.6)
    return Likeness(
        sizes=(expected.size, actual.size),
        share=differs.histogram()[255] / (width * height),
        worst=squares.getextrema()[1] / 255,
        marked=Image.composite(Image.new("RGB", (width, height), "red"), pale, differs),
    )


def _beyond(one: Image.Image, other: Image.Image) -> Image.Image:
    """White where a colour of ``one`` lies beyond those of ``other`` near the same place, else black."""
    above = ImageChops.subtract(one, other.filter(ImageFilter.MaxFilter(5)))
    below = ImageChops.subtract(other.filter(ImageFilter.MinFilter(5)), one)
    red, green, blue = ImageChops.lighter(above, below).split()
    most = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    return most.point([255 if value > TOLERANCE else 0 for value in range(256)])
