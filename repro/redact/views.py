"""A line as it would read with its escapes undone, each character knowing where it came from."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape

ESCAPED = re.compile(
    r"\x1b\[[0-9;:?<=>]*[ -/]*[@-~]"  # colours
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[()][0-9A-B]|\x1b[=>78]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\xad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]"
    r"|\\u\{?[0-9a-fA-F]{4}\}?"
    r"|\\U[0-9a-fA-F]{8}"
    r"|\\x[0-9a-fA-F]{2}"
    r"|\\[0-3][0-7]{2}"
    r"|\\[nrtabfv0\"'`/\\&=$@:.]"
    r"|%u[0-9a-fA-F]{4}"
    r"|%[0-9a-fA-F]{2}"
    r"|&(?:amp|lt|gt|quot|apos|sol|equals|colon|commat|period|lowbar|#[0-9]{1,6}|#[xX][0-9a-fA-F]{1,5});"
    r"|(?<=[A-Za-z0-9])=(?:3D|2E|2F|40|3A|5F|2D)(?=[A-Za-z0-9])"  # quoted-printable
)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "a": " ", "b": "", "f": " ", "v": " ", "0": ""}
_DEEPEST = 4


@dataclass(frozen=True, slots=True)
class View:
    """``text`` as it reads; its character i came from ``starts[i]`` to ``ends[i]`` of the original."""

    text: str
    starts: list[int]
    ends: list[int]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Where characters ``start`` to ``end`` of the view are in the original."""
        return self.starts[start], self.ends[end - 1]


def undone(text: str) -> Iterator[View]:
    """The views of a text: without its escapes, without those that then appear, and so on; none if it has none."""
    if not ESCAPED.search(text):
        return
    view = View(text, list(range(len(text))), list(range(1, len(text) + 1)))
    for _ in range(_DEEPEST):
        spaced = _spaced(view)
        after = _once(spaced)
        if after is not None:
            view = after
        elif spaced is not view:
            view = spaced
        else:
            return
        yield view


def _spaced(view: View) -> View:
    """A NUL ends each argument of a command, as a blank does; in UTF-16 it is half of each character, and nothing."""
    if 0 < view.text.count("\0") * 4 < len(view.text):
        return View(view.text.replace("\0", " "), view.starts, view.ends)
    return view


def _once(view: View) -> View | None:
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    for found in ESCAPED.finditer(view.text):
        begin, end = found.span()
        pieces.append(view.text[at:begin])
        starts.extend(view.starts[at:begin])
        ends.extend(view.ends[at:begin])
        meaning = _meaning(found[0])
        pieces.append(meaning)
        starts.extend([view.starts[begin]] * len(meaning))
        ends.extend([view.ends[end - 1]] * len(meaning))
        at = end
    if not at:
        return None
    pieces.append(view.text[at:])
    starts.extend(view.starts[at:])
    ends.extend(view.ends[at:])
    text = "".join(pieces)
    return None if text == view.text else View(text, starts, ends)


def _meaning(escape: str) -> str:
    first, second = escape[0], escape[1:2]
    if first == "%" and second == "u":
        return _character(escape[2:], 16)
    if first in {"%", "="}:
        return _character(escape[1:], 16)
    if first == "&":
        return unescape(escape)
    if first != "\\":
        return ""
    if second in "uUx":
        return _character(escape[2:].strip("{}"), 16)
    if second.isdigit() and len(escape) == 4:
        return _character(escape[1:], 8)
    return _LETTERS.get(second, second)


def _character(digits: str, base: int) -> str:
    code = int(digits, base)
    return chr(code) if code < 0x110000 else ""
