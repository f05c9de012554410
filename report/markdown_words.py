"""Small pieces of Markdown in which nothing of a record acts: words, code, rows and tables."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from report.shortened import Part
from report.words import sign, spoken
from repro.escape import markdown, markdown_code, one_line

_LONGEST = 500


@lru_cache(maxsize=4096)  # the same words stand by every launch
def said(text: str, longest: int = _LONGEST) -> str:
    """Text of a paragraph or a table cell."""
    return markdown(one_line(text, longest))


def code(text: str, longest: int = 4 * _LONGEST) -> str:
    return markdown_code(one_line(text, longest))


def word(state: str) -> str:
    """A state with its sign."""
    return f"{sign(state)} {spoken(state)}".strip()


def flag(planted: bool) -> str:
    return "PLANTED" if planted else ""


def row(cells: Sequence[str]) -> str:
    """Without padding, which would be most of a wide table."""
    return f"| {' | '.join(cells)} |"


def block(headings: Sequence[str], lines: Iterable[Sequence[str]], kind: str | None, turn: str = "") -> Part:
    """A table; each of its rows may be left out."""
    head = f"{row(headings)}\n|{'---|' * len(headings)}"
    return Part(text=head, below=tuple(Part(text=row(line), kind=kind, turn=turn) for line in lines), tight=True)


def rows(lines: Iterable[str], kind: str, turn: str = "") -> Part:
    """Lines of a list."""
    return Part(text="", below=tuple(Part(text=line, kind=kind, turn=turn) for line in lines), tight=True)
