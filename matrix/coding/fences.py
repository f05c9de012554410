"""Blocks of code in Markdown, as models write it: fenced, in lists and quotations, or cut off in the middle."""

import re
from dataclasses import dataclass

_OPEN = re.compile(
    r"^(?P<before>[ \t]*(?:>[ \t]?|(?:[-*+]|\d{1,3}[.)])[ \t]+)*[ \t]*)(?P<mark>`{3,}|~{3,})(?P<info>.*)$"
)
_ONE_LINE = re.compile(r"^\s*(?P<mark>`{3,})(?:python|py)?[ \t]*(?P<code>[^`].*?)(?P=mark)\s*$", re.IGNORECASE)
LONGEST_LINE = 2000
"""Characters of a line that may still be a fence."""
_QUOTED = re.compile(r"^[ \t]*>[ \t]?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """``closed`` is False if the text ended before the block did."""

    text: str
    closed: bool


def blocks(text: str) -> tuple[Block, ...]:
    """The fenced blocks of a text whose lines end in LF, in order.

    As in CommonMark a fence is closed by one of its own kind that is as long or longer. A fence with a language inside
    an open block of the same kind begins another block: models forget to close, or put a block into a block.
    """
    found: list[Block] = []
    open_mark, before, lines = "", "", list[str]()
    for line in text.split("\n"):
        fence = _OPEN.match(line) if len(line) <= LONGEST_LINE else None
        info = fence["info"].strip() if fence else ""
        if fence and "`" in info:
            one = _ONE_LINE.match(line)
            if one and not open_mark:
                found.append(Block(text=one["code"], closed=True))
            fence = None
        if fence and not open_mark:
            open_mark, before, lines = fence["mark"], fence["before"], []
        elif fence and _closes(fence["mark"], open_mark):
            found.append(Block(text=_plain(lines, before), closed=True))
            open_mark, before, lines = (fence["mark"], fence["before"], []) if info else ("", "", [])
        elif open_mark:
            lines.append(line)
    if open_mark:
        found.append(Block(text=_plain(lines, before), closed=False))
    return tuple(found)


def _closes(mark: str, opened: str) -> bool:
    return mark[0] == opened[0] and len(mark) >= len(opened)


def _plain(lines: list[str], before: str) -> str:
    """Without what stood before the fence: marks of a quotation, and the indentation of a list."""
    for _ in range(before.count(">")):
        lines = [_QUOTED.sub("", line, count=1) for line in lines]
    width = len(before.rpartition(">")[2].expandtabs())
    return "\n".join(_dedented(line, width) for line in lines)


def _dedented(line: str, width: int) -> str:
    indented = len(line) - len(line.lstrip(" "))
    return line[min(width, indented) :]
