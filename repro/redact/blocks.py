"""Secrets over several lines: keys in PEM blocks, and tokens that a terminal has wrapped."""

import re
from collections.abc import Iterator

import re2

from repro.redact.hanging import hanging
from repro.redact.spans import Span

_BEGIN = re.compile(rb"-----BEGIN ([A-Z0-9 ]{3,60})-----")
_BODY = re.compile(rb"(?P<run>[A-Za-z0-9+/=]{4,})(?:\\[nr])*[\"',\\\s]*$")
_HEADER = re.compile(rb"(?:Proc-Type|DEK-Info|Comment|Version|Hash):")
_MOST_LINES = 400
_ESCAPES = re.compile(rb"\x1b\[[0-9;]*m")
_PREFIX = re.compile(
    rb"(?:\[[^\]\n]{0,80}\]\s*|\([^)\n]{0,60}\)\s*|[\w.-]{1,40}\s*\|\s*|\d{4}-\d\d-\d\d[T ][\d:.,Z+-]+\s+|\s+|(?:INFO|ERROR|WARNING|DEBUG)\b:?\s*|\d+:\s+)*"
)
_OPEN = re2.compile(
    rb"(?m)(?:^|[^A-Za-z0-9])((?:hf_|sk-|gh[pousr]_|github_pat_|glpat-|nvapi-|xox[a-z]-|AKIA|AIza|eyJ|npm_|pypi-|dckr_pat_|hvs\.)[A-Za-z0-9-]*)\\?\r?$"
)
_CONTINUED = re.compile(rb"[A-Za-z0-9_.-]{4,}")


def blocks(data: bytes) -> Iterator[Span]:
    """The pieces, line by line, of secrets that go over several lines."""
    for found in _BEGIN.finditer(data):
        yield from _pem(data, found)
    for found in _OPEN.finditer(data):
        yield from _wrapped(data, found.start(1), found.end(1))
    yield from hanging(data)


def _pem(data: bytes, header: re.Match[bytes]) -> Iterator[Span]:
    ending = b"-----END " + header[1] + b"-----"
    pieces: list[tuple[int, int]] = []
    at = data.find(b"\n", header.end())
    if at < 0 or ending in data[header.end() : at]:
        return
    for _ in range(_MOST_LINES):
        begin, at = at + 1, data.find(b"\n", at + 1)
        end = at if at >= 0 else len(data)
        line = data[begin:end]
        if begin >= len(data) or b"-----END" in line or _BEGIN.search(line):
            break
        run = _BODY.search(line)
        if run and not re.fullmatch(rb"[a-z]+|[A-Z][a-z]+", run["run"]):
            pieces.append((begin + run.start("run"), begin + run.end("run")))
        elif line.strip() and not _HEADER.search(line) and not _only_prefix(line):
            break
        if at < 0:
            break
    value = "".join(data[begin:end].decode("ascii") for begin, end in pieces)
    yield from (Span(begin, end, value) for begin, end in pieces)


def _only_prefix(line: bytes) -> bool:
    found = _PREFIX.match(line)
    return found is not None and found.end() >= len(line.rstrip())


def _wrapped(data: bytes, start: int, end: int) -> Iterator[Span]:
    part = data[start:end]
    line_end = data.find(b"\n", end)
    if line_end < 0:
        return
    next_end = data.find(b"\n", line_end + 1)
    line = data[line_end + 1 : next_end if next_end >= 0 else len(data)]
    prefix = _PREFIX.match(line)
    skipped = prefix.end() if prefix else 0
    rest = _CONTINUED.match(line, skipped)
    if not rest or len(part) + len(rest[0]) < 20 or not _looks_cut(rest[0]) or b"." in rest[0]:
        return
    value = (part + rest[0]).decode("ascii")
    yield Span(start, end, value)
    yield Span(line_end + 1 + rest.start(), line_end + 1 + rest.end(), value)


def _looks_cut(text: bytes) -> bool:
    kinds = [bool(re.search(kind, text)) for kind in (rb"[a-z]", rb"[A-Z]", rb"\d")]
    return sum(kinds) >= 2 and not re.fullmatch(
        rb"[A-Z]?[a-z]+[\d.]*|\d+[a-z]?|(?:[A-Z]?[a-z]{2,}[_-]?)+\d*|[\d:.-]+\w", text
    )
