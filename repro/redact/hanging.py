"""Secrets whose name stands in a line above them: in YAML, TOML, lists of names and values, continued commands, prompts."""

import re
from collections.abc import Iterator

import re2

from repro.redact.keys import guarded, is_secret, key_class, says_nothing
from repro.redact.spans import Span

_KEY_WORD = r"(?i:passw(?:or)?d|passphrase|passcode|passwort|secret|token|key|credentials?|\bpin|\bpwd)"
_VALUE_LINE = re2.compile(rb"(?m)^[^\S\n]*[\"']?[Vv]alue[\"']?\s*[:=]")
_HANGING_END = re2.compile(
    (r"(?:[A-Za-z0-9\"']:|" + _KEY_WORD + r")[ \t]*(?:[|>][+-]?\d?[+-]?|\\)?[ \t]*\r?\n[ \t]+[^ \t\n]").encode()
)
_PROMPT_END = re2.compile((_KEY_WORD + r"(?: (?:for|of) [^\n:]{1,60})?\s?:[ \t]*\r?\n[^ \t\n]").encode())
_QUOTES = re2.compile(rb"[=:][ \t]*(?:\"\"\"|''')")
_NAMED_VALUE = re.compile(
    rb"[^\S\n]*[-{,]?\s*[\"']?(?:name|key|Name|Key)[\"']?\s*[:=]\s*[\"']?(?P<name>[A-Za-z][\w.-]{2,80})[\"']?,?[ \t]*\r?\n"
    rb"[^\S\n]*[\"']?(?:value|Value)[\"']?\s*[:=][ \t]*(?P<quote>[\"']?)(?P<value>[^\n]+)",
)
_HANGING = re.compile(
    rb"[^\S\n]*(?:- )?[\"']?(?P<name>[A-Za-z][\w.-]{2,80})[\"']?[ \t]*:?[ \t]*(?:[|>][+-]?\d?)?[ \t]*\r?\n(?P<value>[^\S\n]+\S[^\n:]*)(?=\n|$)"
)
_SCALAR = re.compile(
    rb"(?P<indent>[^\S\n]*)(?:- )?[\"']?(?P<name>[A-Za-z][\w.-]{2,80})[\"']?[ \t]*[:=][ \t]*[|>][+-]?\d?[+-]?[ \t]*\r?\n"
)
_CONTINUED = re.compile(
    rb"[^\n]*?(?<![\w-])(?P<name>--?[A-Za-z][\w-]{2,60})[ =][ \t]*\\[ \t]*\r?\n[^\S\n]*(?P<quote>[\"']?)(?P<value>[^\n\\]+)"
)
_ASKED = re.compile(rb"[^\n]*?(?P<value_of>:)[ \t]*\r?\n(?P<value>[^\s:]{4,128})[ \t]*\r?(?=\n|$)")
_MULTILINE = re.compile(rb"[^\n]*?(?P<name>[A-Za-z][\w.-]{2,80})[\"']?[ \t]*[=:][ \t]*(?P<mark>\"\"\"|''')")
_FIELDS = re2.compile(rb"(?:name=\"[\w.-]+\"\r?\n\r?\n|variable \"[\w.-]+\" *\{)")
_FIELD = re.compile(rb"name=\"(?P<name>[\w.-]{2,80})\"\r?\n\r?\n(?P<value>[^\n]+)")
_DECLARED = re.compile(
    rb"variable \"(?P<name>[\w.-]{2,80})\" *\{(?:[^{}\n]*\n){1,6}?\s*default\s*=\s*(?P<value>[^\n]+)"
)
_COLUMNS = re2.compile(
    rb"(?m)^[ \t|]*(?:[A-Za-z_]+[ \t|,]+){0,8}(?:[Pp]assword|PASSWORD|[Pp]asswd|[Ss]ecret|SECRET|[Tt]oken|TOKEN|[Aa]pi_?[Kk]ey|serial|SERIAL|Serial)(?:[ \t|,]+[A-Za-z_]+){0,8}[ \t|]*\r?\n"
)
_CELL = re.compile(rb"[^\s|,]+")
_MOST_ROWS = 256
_LONGEST_ROW = 1 << 10
_MOST_LINES = 64


def hanging(data: bytes) -> Iterator[Span]:
    """The values, line by line."""
    for found in _VALUE_LINE.finditer(data):
        yield from _below(data, _NAMED_VALUE, data.rfind(b"\n", 0, max(found.start() - 1, 0)) + 1)
    for found in _HANGING_END.finditer(data):
        at = data.rfind(b"\n", 0, found.start()) + 1
        yield from _scalar(data, at) if (_SCALAR.match(data, at)) else _below(data, _HANGING, at)
        yield from _below(data, _CONTINUED, at)
    for found in _PROMPT_END.finditer(data):
        asked = _ASKED.match(data, data.rfind(b"\n", 0, found.start()) + 1)
        if asked and guarded(asked["value"].decode("utf-8", "replace")):
            yield Span(*asked.span("value"), asked["value"].decode("utf-8", "replace"))
    for found in _FIELDS.finditer(data):
        yield from _below(data, _FIELD, found.start())
        yield from _below(data, _DECLARED, found.start())
    table_end = 0
    for found in _COLUMNS.finditer(data):
        if found.start() >= table_end:
            table_end = _rows_end(data, found.start(), found.end())
            yield from _column(data, found.start(), found.end(), table_end)
    for found in _QUOTES.finditer(data):
        yield from _multiline(data, data.rfind(b"\n", 0, found.start()) + 1)


def _counts(name: bytes, value: str) -> bool:
    kind = key_class(name.lstrip(b"-").decode("ascii", "replace"))
    return kind in {"password", "secret", "header"} and is_secret(value, kind)


def _below(data: bytes, form: "re.Pattern[bytes]", at: int) -> Iterator[Span]:
    """A value that stands in the line below its name, which begins at ``at``."""
    found = form.match(data, at)
    if found:
        value = found["value"].strip().rstrip(b",").strip().strip(b"\"'")
        text = value.decode("utf-8", "replace")
        if value and _counts(found["name"], text):
            start = found.start("value") + found["value"].index(value)
            yield Span(start, start + len(value), text)


def _scalar(data: bytes, at: int) -> Iterator[Span]:
    """All lines of a block of YAML: those that stand further to the right than its name."""
    found = _SCALAR.match(data, at)
    if found and _counts(found["name"], "unknown-1"):
        yield from _lines(data, found.end(), len(found["indent"]), None)


def _rows_end(data: bytes, start: int, end: int) -> int:
    """Where the rows of a table end, which have as many cells as its head."""
    width, at = len(_CELL.findall(data[start:end])), end
    for _ in range(_MOST_ROWS):
        line_end = data.find(b"\n", at)
        line = data[at : line_end if line_end >= 0 else len(data)]
        if len(line) > _LONGEST_ROW or len(_CELL.findall(line)) != width:
            break
        if line_end < 0:
            return len(data)
        at = line_end + 1
    return at


def _column(data: bytes, start: int, end: int, last: int) -> Iterator[Span]:
    """The values below the name of a column that holds secrets."""
    head = _CELL.findall(data[start:end])
    places = [place for place, name in enumerate(head) if _counts(name, "unknown-1")]
    if not places or len(head) < 2:
        return
    cells = list(_CELL.finditer(data, end, last))
    for first in range(0, len(cells), len(head)):
        for cell in (cells[first + place] for place in places):
            text = cell[0].decode("utf-8", "replace")
            if guarded(text):
                yield Span(cell.start(), cell.end(), text)


def _multiline(data: bytes, at: int) -> Iterator[Span]:
    found = _MULTILINE.match(data, at)
    if found and _counts(found["name"], "unknown-1"):
        yield from _lines(data, found.end(), -1, found["mark"])


def _lines(data: bytes, at: int, indent: int, ending: bytes | None) -> Iterator[Span]:
    for _ in range(_MOST_LINES):
        line_end = data.find(b"\n", at)
        end = line_end if line_end >= 0 else len(data)
        line = data[at:end]
        if ending is None and line.strip() and len(line) - len(line.lstrip()) <= indent:
            return
        closing = line.find(ending) if ending is not None else -1
        value = (line[:closing] if closing >= 0 else line).strip()
        text = value.decode("utf-8", "replace")
        if not says_nothing(text):
            start = at + line.index(value)
            yield Span(start, start + len(value), text)
        if closing >= 0 or line_end < 0:
            return
        at = end + 1
