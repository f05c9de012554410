"""A text of parts that is never longer than a limit: what goes when it is too long, and how that is told. Pure.

Parts form a tree, so that a heading stands only over something, and no detail without what it is a detail of. Each part
that may be left out has a kind. Kinds are taken in the order given, the most important first, and within a kind the
targets take turns, until nothing more fits.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

_NOTE_BYTES = 90


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Part:
    """``kind`` None: it stands if anything below it does (a heading, the head of a table). ``foot`` follows what is
    below; ``tight`` parts below are lines of one block, such as rows. ``turn`` names whose turn it is: a target."""

    text: str
    kind: str | None = None
    below: tuple["Part", ...] = ()
    foot: str = ""
    tight: bool = False
    turn: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """``first_bytes``: how much of it is taken before anything of the kinds after it; None: as much as there is."""

    name: str
    words: str
    first_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """``told`` of ``total`` parts of a kind stand in the text."""

    words: str
    told: int
    total: int


@dataclass(slots=True)
class _Taken:
    """What stands so far, and the bytes that are left."""

    room: int
    parents: dict[int, Part]
    chosen: set[int] = field(default_factory=set)

    def take(self, part: Part) -> int | None:
        """The bytes that it took with the headings that it needs; None if it does not fit, or what it belongs to is
        left out."""
        needed = [part]
        above = self.parents.get(id(part))
        while above is not None and id(above) not in self.chosen:
            if above.kind is not None:
                return None
            needed.append(above)
            above = self.parents.get(id(above))
        size = sum(_size(one) for one in needed)
        if size > self.room:
            return None
        self.room -= size
        self.chosen |= {id(one) for one in needed}
        return size


def shorten(parts: Sequence[Part], kinds: Sequence[Kind], limit_bytes: int) -> tuple[str, tuple[LeftOut, ...]]:
    """The text of what fits into ``limit_bytes``, and what does not, by kind."""
    by_kind: dict[str, list[Part]] = {kind.name: [] for kind in kinds}
    for part in _every(parts):
        if part.kind is not None:
            by_kind[part.kind].append(part)
    parents = dict(_parents(parts))
    whole = _joined(parts, _standing(by_kind.values(), parents))
    if len(whole.encode()) <= limit_bytes:
        return whole, ()
    taken = _Taken(room=limit_bytes, parents=parents)
    for first in (True, False):
        for kind in kinds:
            if not first or kind.first_bytes is not None:
                _fill(taken, by_kind[kind.name], kind.first_bytes if first else None)
    left = tuple(
        LeftOut(words=kind.words, told=told, total=len(found))
        for kind in kinds
        if (found := by_kind[kind.name]) and (told := sum(id(part) in taken.chosen for part in found)) < len(found)
    )
    return _joined(parts, taken.chosen), left


def _standing(found: Iterable[Sequence[Part]], parents: Mapping[int, Part]) -> set[int]:
    """All parts, but headings without anything below them."""
    chosen: set[int] = set()
    for part in (part for parts in found for part in parts):
        above: Part | None = part
        while above is not None and id(above) not in chosen:
            chosen.add(id(above))
            above = parents.get(id(above))
    return chosen


def _joined(parts: Sequence[Part], chosen: set[int]) -> str:
    return "\n\n".join(_text(part, chosen) for part in parts if id(part) in chosen)


def _fill(taken: _Taken, parts: Sequence[Part], most_bytes: int | None) -> None:
    used = 0
    for part in _in_turns([part for part in parts if id(part) not in taken.chosen]):
        if most_bytes is not None and used >= most_bytes:
            return
        used += taken.take(part) or 0


def _in_turns(parts: Iterable[Part]) -> Iterator[Part]:
    by_turn: dict[str, list[Part]] = {}
    for part in parts:
        by_turn.setdefault(part.turn, []).append(part)
    for round_ in zip_longest(*by_turn.values()):
        yield from (part for part in round_ if part is not None)


def _text(part: Part, chosen: set[int]) -> str:
    kept = [one for one in part.below if id(one) in chosen]
    missing = sum(_holds(one) for one in part.below) - len(kept)
    note = f"*{missing} more {'are' if missing > 1 else 'is'} left out here.*" if missing and part.kind is None else ""
    body = ("\n" if part.tight else "\n\n").join(_text(one, chosen) for one in kept)
    joined = part.text + ("\n" if part.tight and part.text else "\n\n" if part.text and body else "") + body
    return "\n\n".join(filter(None, (joined.rstrip("\n"), note, part.foot)))


def _holds(part: Part) -> bool:
    """Whether it is more than a heading over nothing."""
    return part.kind is not None or any(map(_holds, part.below))


def _size(part: Part) -> int:
    note = _NOTE_BYTES if part.kind is None else 0
    return len(part.text.encode()) + len(part.foot.encode()) + 4 + note


def _every(parts: Sequence[Part]) -> Iterator[Part]:
    for part in parts:
        yield part
        yield from _every(part.below)


def _parents(parts: Sequence[Part]) -> Iterator[tuple[int, Part]]:
    for part in parts:
        for below in part.below:
            yield id(below), part
        yield from _parents(part.below)
