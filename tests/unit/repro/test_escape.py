"""Nothing of a record acts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.escape import markdown, markdown_block, markdown_code, one_line, visible

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
ACTING = "\x1b[]()m0;\x07\\`|<>&*_@#:/w.\r\n é\x9b"
TEXT = st.text(st.characters(codec=None), max_size=80) | st.text(ACTING, max_size=40)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;window title\x07rest", "rest"),
        ("\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jcleared", "cleared"),
        ("\x1b(Bcharset", "charset"),
        ("\x1bP1;2|device\x1b\\rest", "rest"),
        ("bell\x07", "bell\\x07"),
        ("over\rwrite", "over\\x0dwrite"),
        ("a\r\nb", "a\nb"),
        ("gnp\u202eexe", "gnp\\u202eexe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("half\ud800", "half\\ud800"),
        ("plain é 漢 ✓", "plain é 漢 ✓"),
    ],
)
def test_visible(text: str, expected: str) -> None:
    assert visible(text) == expected


@given(TEXT)
def test_nothing_that_acts_is_left(text: str) -> None:
    assert not CONTROL.search(visible(text))
    visible(text).encode()


@given(TEXT)
def test_one_line_is_one_line(text: str) -> None:
    assert "\n" not in one_line(text)
    assert len(one_line(text, 20)) <= 20


@pytest.mark.parametrize(
    ("text", "forbidden"),
    [
        ("<script>", "<"),
        ("a | b", " | "),
        ("`code`", "`code`"),
        ("[text](http://x)", "[text]("),
        ("@maintainer", "@m"),
        ("see #12", "#1"),
        ("see GH-12", "GH-1"),
        ("http://evil.example", "http://"),
        ("www.evil.example", "www."),
        ("**bold**", "**"),
        ("&lt;", "&lt;"),
    ],
)
def test_markdown_leaves_no_markup(text: str, forbidden: str) -> None:
    assert forbidden not in markdown(text)


@given(TEXT)
def test_markdown_cell_has_no_bare_pipe(text: str) -> None:
    assert not re.search(r"(?<!\\)\|", markdown(text))
    assert not re.search(r"(?<!\\)\|", markdown_code(text))


@given(st.text("`| ab\n", max_size=30))
def test_inline_code_cannot_be_closed_from_inside(text: str) -> None:
    code = markdown_code(text)
    if code:
        fence = re.match(r"`+", code)[0]  # type: ignore[index]
        assert not re.search(rf"(?<!`){fence}(?!`)", code[len(fence) : -len(fence)])


@given(st.lists(st.text("`~ ab\r\n", max_size=20), max_size=4))
def test_a_code_block_cannot_be_closed_from_inside(lines: list[str]) -> None:
    first, *body, last = markdown_block(lines).splitlines()
    fence = first.removesuffix("text")
    assert last == fence
    assert len(body) == len(lines)
    assert not any(fence in line for line in body)
