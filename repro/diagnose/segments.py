"""The lines of a block as a person reads them: cut at carriage returns, and wrapped ones whole."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from repro.diagnose.cleaning import printable, squeezed
from repro.diagnose.prefixes import without_lead
from repro.diagnose.sources import Block

_ENDS = re.compile(rb"[\n\r]")
_DATED = re.compile(
    r"[\[(]?(?:\d{4}-\d\d-\d\d[T ]|\d\d/\d\d/\d{4}-|\d\d:\d\d:\d\d|\w{3} \w{3} [ \d]\d )"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d|[IWEF]\d{4} \d\d:"
)
_NUMBER = re.compile(r"\d{1,4}: ")
_NEAR = 60
_FULL_LINES = 3
_NARROWEST = 40
_MOST_JOINED = 24
_FEW_LONGER = 4
_Width = frozenset[int]
"""The pieces that a full terminal line ends, so that the next piece goes on with them."""
_LONGEST_CHARACTERS = 1 << 14


class Segments:
    """The pieces of a cleaned block. A piece that is longer than 16 KiB is cut for reading, but not for counting."""

    def __init__(self, cleaned: bytes, block: Block, *, collected: bool = False) -> None:
        """``block`` holds the same lines as the log has them; ``collected``: a collector put something before them."""
        broken = b"\r" in cleaned
        self._raw = _ENDS.split(cleaned) if broken else cleaned.split(b"\n")
        self._block = block
        self._collected = collected
        self._texts: dict[int, str] = {}
        self._broken: dict[int, _Width | None] = {}
        self._unnamed: dict[int, bool] = {}
        self._anew: dict[int, bool] = {}
        self._ends = list(accumulate(len(squeezed(piece)) for piece in self._raw))
        newlines = (1 if end == b"\n" else 0 for end in _ENDS.findall(cleaned))
        self._lines: Sequence[int] = [0, *accumulate(newlines)] if broken else range(len(self._raw))

    def __len__(self) -> int:
        return len(self._raw)

    def at(self, squeezed_offset: int) -> int:
        """The piece that holds a byte of the squeezed block."""
        return min(bisect_right(self._ends, squeezed_offset), len(self._raw) - 1)

    def line(self, index: int) -> int:
        """How many lines of the file end before the piece."""
        return self._lines[index]

    def text(self, index: int) -> str:
        """The piece as text; bytes that are no UTF-8 become replacement characters."""
        if not 0 <= index < len(self._raw):
            return ""
        if index not in self._texts:
            self._texts[index] = self._raw[index][:_LONGEST_CHARACTERS].decode("utf-8", "replace")
        return self._texts[index]

    def begin(self, index: int) -> int:
        """The piece with which the line begins that a piece is part of."""
        broken = self._width(index)
        return index if broken is None else self._unwrapped(index, broken).first

    def around(self, index: int, before: int, after: int, belongs: Callable[[int], bool]) -> tuple[list[str], int]:
        """The texts near a piece, wrapped lines joined, and the place of the piece's line in them. Those of lines that
        do not belong there are left out."""
        first, end = max(index - before, 0), min(index + after + 1, len(self._raw))
        broken = self._width(index) or frozenset()
        texts: list[str] = []
        place, open_line = 0, False
        for number in range(first, end):
            if number != index and not belongs(self.line(number)):
                continue
            text = self.text(number)
            if open_line:
                texts[-1] += text
            else:
                texts.append(text)
            if number == index:
                place = len(texts) - 1
            open_line = number in broken
        return texts, place

    def readings(self, index: int, last: int) -> list["Reading"]:
        """How the line at a piece may be meant: as it stands, unwrapped, or joined with what follows up to ``last``."""
        found = [Reading(first=index, text=self.text(index))]
        broken = self._width(index)
        if broken is not None:
            found.insert(0, self._unwrapped(index, broken))
        if last > index and not any(self._begins_anew(number) for number in range(index + 1, last + 1)):
            pieces = [self.text(number) for number in range(index, min(last + 2, index + _MOST_JOINED))]
            found += [Reading(first=index, text="".join(pieces)), Reading(first=index, text=_spaced(pieces))]
        return found

    def _begins_anew(self, index: int) -> bool:
        """True if the piece continues none: by its text, or by what a collector put before it and not before all."""
        if index not in self._anew:
            named = self._collected and self._is_named(index) and self._some_unnamed(index // _NEAR)
            self._anew[index] = named or _begins_anew(self.text(index))
        return self._anew[index]

    def _some_unnamed(self, part: int) -> bool:
        """True if lines near have nothing of a collector before them, so that they were wrapped after collection."""
        if part not in self._unnamed:
            near = range(max((part - 1) * _NEAR, 0), min((part + 2) * _NEAR, len(self._raw)))
            unnamed = sum(self._begins_line(n) and bool(self._raw[n]) and not self._is_named(n) for n in near)
            self._unnamed[part] = unnamed >= _FULL_LINES
        return self._unnamed[part]

    def _is_named(self, index: int) -> bool:
        """True if a collector put something before the line that begins with the piece."""
        number = self.line(index)
        if not self._begins_line(index) or number >= len(self._block.lines):
            return False
        shown = printable(self._block.lines[number])
        return not shown.startswith(self._raw[index]) or (not self._raw[index] and bool(shown.strip()))

    def _begins_line(self, index: int) -> bool:
        return index == 0 or self.line(index - 1) != self.line(index)

    def _width(self, index: int) -> "_Width | None":
        """How the lines near a piece are wrapped; None if they are not."""
        part = index // _NEAR
        if part not in self._broken:
            near = range(max((part - 1) * _NEAR, 0), min((part + 2) * _NEAR, len(self._raw)))
            lengths = [len(self.text(number)) for number in near]
            found = [self._wrapping(near, shown) or frozenset() for shown in (lengths, *self._lengths_shown(near))]
            self._broken[part] = max(found, key=len) or None
        return self._broken[part]

    def _wrapping(self, near: range, lengths: list[int]) -> "_Width | None":
        """The pieces that end full lines, if enough lines have just one length and go on in the next, and hardly any
        is longer."""
        going_on = [
            (n, length)
            for n, length in zip(near, lengths, strict=True)
            if length >= _NARROWEST
            and n + 1 < len(self._raw)
            and self._begins_line(n + 1)  # not a bar of progress that the next one overwrote
            and not self._begins_anew(n + 1)
        ]
        common = Counter(length for _, length in going_on).most_common(1)
        if not common or common[0][1] < _FULL_LINES:
            return None
        width, count = common[0]
        longer = sum(length > width for length in lengths)
        return frozenset(n for n, length in going_on if length == width) if longer * _FEW_LONGER <= count else None

    def _lengths_shown(self, near: range) -> list[list[int]]:
        """The lengths of the lines with what a collector put before them; and with colours and controls, if whoever
        wrapped the lines took those for text, counted in bytes or in characters."""
        shown = self._block.lines
        lines = [shown[self.line(n)] if self.line(n) < len(shown) else b"" for n in near]
        ends = [line.rstrip(b"\r").rsplit(b"\r", 1)[-1] for line in lines]
        plain = [len(printable(line).decode("utf-8", "replace")) for line in ends]
        return [plain, [len(line) for line in ends], [len(line.decode("utf-8", "replace")) for line in ends]]

    def _unwrapped(self, index: int, broken: "_Width") -> "Reading":
        first = last = index
        while first > 0 and index - first < _MOST_JOINED and first - 1 in broken:
            first -= 1
        while last in broken and last - index < _MOST_JOINED:
            last += 1
        return Reading(first=first, text="".join(self.text(number) for number in range(first, last + 1)))


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A line as it may be meant; ``first`` is the piece with which it begins."""

    first: int
    text: str

    @cached_property
    def plain(self) -> str:
        return " ".join(self.text.split())


def _begins_anew(text: str) -> bool:
    """True if the text begins as lines of logs do, so that it continues none."""
    if _DATED.match(text):
        return True
    return without_lead(text) != text and not _NUMBER.match(text)  # a number and a colon may be the end of anything


def _spaced(pieces: list[str]) -> str:
    return " ".join(piece.strip() for piece in pieces)
