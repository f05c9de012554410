"""Lines that are JSON stay JSON: what is replaced lies within one string, and begins and ends at whole escapes."""

import json
import re
from collections.abc import Callable, Iterable, Iterator

from repro.redact.finds import Find

_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
_IS_KEY = re.compile(r'"\s*:')
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_SHORTEST = 6


def is_record(text: str) -> bool:
    """True for a line that is an object or a list of JSON."""
    if text.lstrip()[:1] not in {"{", "["} or text.rstrip()[-1:] not in {"}", "]"}:
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def is_bare_number(text: str, start: int, end: int) -> bool:
    """True for a number in a line of JSON that stands in no string: in its place there must be a string."""
    return (
        _NUMBER.fullmatch(text, start, end) is not None
        and text[:start].rstrip()[-1:] in {":", ",", "["}
        and text[end:].lstrip()[:1] in {",", "}", "]"}
        and is_record(text)
        and not any(found.start() < start < found.end() for found in _LITERAL.finditer(text))
    )


def in_strings(text: str, finds: Iterable[Find], inside: Callable[[str], Iterable[Find]]) -> Iterator[Find]:
    """The finds of a line of JSON as far as they lie in its values, and what ``inside`` finds in each of its strings."""
    literals = [(found.start(1), found.end(1)) for found in _LITERAL.finditer(text)]
    values = [(start, end) for start, end in literals if not _IS_KEY.match(text, end)]
    for find in finds:
        yield from _clipped(text, find, literals, values)
    for start, end in literals:
        if end - start >= _SHORTEST:
            for find in inside(text[start:end]):
                yield _whole_escapes(text, find._replace(start=find.start + start, end=find.end + start), start, end)


def _clipped(text: str, find: Find, literals: list[tuple[int, int]], values: list[tuple[int, int]]) -> Iterator[Find]:
    for start, end in values:
        if start <= find.start < end:
            last = min(find.end, end)
            value = find.value if last == find.end else text[find.start : last]
            yield _whole_escapes(text, find._replace(end=last, value=value), start, end)
            return
    if not any(start - 1 <= find.end and find.start <= end + 1 for start, end in literals) and _NUMBER.fullmatch(
        text, find.start, find.end
    ):
        yield find


def _whole_escapes(text: str, find: Find, first: int, last: int) -> Find:
    start, end = find.start, find.end
    if _splits(text, start, first):
        start -= 1
    if _splits(text, end, first):
        end = min(end + (5 if text[end : end + 1] == "u" else 1), last)
    return find._replace(start=start, end=end)


def _splits(text: str, at: int, first: int) -> bool:
    """True if the character at a place belongs to a backslash before it."""
    slashes = 0
    while at - slashes > first and text[at - slashes - 1] == "\\":
        slashes += 1
    return slashes % 2 == 1
