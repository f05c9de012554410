"""Python tracebacks around a line: which lines belong together, and where the exception was raised."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from repro.diagnose.prefixes import rank_of, time_of, without_lead

_HEADER = "Traceback (most recent call last)"
_LINKS = ("During handling of the above exception", "The above exception was the direct cause")
_FRAME = re.compile(r'File "([^"]{1,300})", line (\d+),? in ([\w.<>]+)')
_ENGINES = re.compile(r"/(?:sglang|vllm|tensorrt_llm|text_generation_server|flashinfer|sgl_kernel|deep_ep|flash_mla)/")
_CARRIERS = re.compile(r"^(?:raise_\w+|_(?:wrapped_)?call_impl|wrapper\w*|__call__|_fn|inner|decorate_\w+|<module>)$")
_LATEST_FIRST = "most recent call first"
_LONGEST_BLOCK = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """``engine``: it is code of an engine or of its kernel libraries."""

    file: str
    line: int
    function: str
    engine: bool


def chain(near: Sequence[str], place: int) -> list[str]:
    """The lines of the traceback that a line belongs to, chained exceptions included, in their order; the line alone
    if it belongs to none. Lines of other ranks between them are left out."""
    own = rank_of(near[place])
    first = _head(near, place, own)
    lines = [text for text in near[first:place] if _same(text, own)]
    return [*lines, near[place], *_tail(near, place, own)]


def _head(near: Sequence[str], place: int, own: str | None) -> int:
    first = _header_before(near, place, own)
    while first is not None and first > 0:
        above = next((i for i in range(first - 1, -1, -1) if _bare(near[i]) and _same(near[i], own)), None)
        if above is None or not _bare(near[above]).startswith(_LINKS):
            break
        further = _header_before(near, above, own)
        if further is None:
            break
        first = further
    return place if first is None else first


def _header_before(near: Sequence[str], place: int, own: str | None) -> int | None:
    for index in range(place, -1, -1):
        text = near[index]
        if (_HEADER in text or _LATEST_FIRST in text) and _same(text, own):
            return index
        ended = index < place and _same(text, own) and not _belongs(text)
        if ended:
            return None
    return None


def _tail(near: Sequence[str], place: int, own: str | None) -> Iterator[str]:
    for text in near[place + 1 : place + 1 + _LONGEST_BLOCK]:
        if not _same(text, own):
            continue
        if time_of(near[place]) is None and time_of(text) is not None:
            return  # another record begins
        yield text


def _same(text: str, own: str | None) -> bool:
    rank = rank_of(text)
    return rank is None or own is None or rank == own


def _bare(text: str) -> str:
    return without_lead(text).strip()


def _belongs(text: str) -> bool:
    """True if the text may stand within a traceback: a frame, its source line, an exception or a link."""
    bare = without_lead(text)
    return time_of(text) is None or bare[:1].isspace() or not bare or bare.startswith(_LINKS) or "Error" in bare


def frames(lines: Sequence[str]) -> list[Frame]:
    """The frames in lines of a traceback, the deepest last, also where the deepest is printed first."""
    found = [
        Frame(file=match[1], line=int(match[2]), function=match[3], engine=bool(_ENGINES.search(match[1])))
        for text in lines
        for match in _FRAME.finditer(text)
    ]
    if any(_LATEST_FIRST in text for text in lines):
        found.reverse()
    return found


def raised_in(near: Sequence[str], place: int) -> tuple[Frame | None, Frame | None]:
    """(the deepest frame of the engine, the one that called it) of the exception at a line; None where there is none.

    Where no frame is the engine's, the deepest of all counts. Frames that only pass exceptions on are left out.
    """
    head = _header_before(near, place, rank_of(near[place]))
    if head is None:
        return None, None
    own = rank_of(near[place])
    block = [text for text in near[head : place + 1] if _same(text, own)]
    if any(_LATEST_FIRST in text for text in near[head : head + 1]):
        block = [text for text in near[head : place + _LONGEST_BLOCK] if _same(text, own)]
    all_frames = [frame for frame in frames(block) if not _CARRIERS.match(frame.function)]
    chosen = [frame for frame in all_frames if frame.engine] or all_frames
    return (chosen[-1] if chosen else None), (chosen[-2] if len(chosen) > 1 else None)
