"""What of the many lines that match is kept: the first and the last of each kind, so that memory stays constant."""

from collections import Counter, deque
from typing import Literal

from repro.diagnose.catalogue import Pattern
from repro.diagnose.events import Event, Passage

_EACH_END = 4
_WITH_NEAR = 2
_MOST_NEAR = 600
_MOST_KEYS = 4096
_MOST_PASSAGES = 40_000


class Tally:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._first: dict[tuple[str, str | None, str | None], list[Event]] = {}
        self._last: dict[tuple[str, str | None, str | None], deque[Event]] = {}
        self._near = 0
        self._passages: list[Passage] = []

    def room(self, pattern: Pattern, rank: str | None, source: str | None) -> Literal["near", "line", "none"]:
        """What there is room for: the event with what stands around it, the event, or only its number."""
        key = (pattern.id, rank, source)
        if key not in self._first and len(self._first) >= _MOST_KEYS:
            self.counts[pattern.id] += 1
            return "none"
        if len(self._first.get(key, ())) < _WITH_NEAR and self._near < _MOST_NEAR:
            return "near"
        if pattern.role == "context" or not _near_matters(pattern):
            return "line"
        return "near" if self._near < _MOST_NEAR // 2 else "line"

    def add_event(self, event: Event, rank: str | None) -> None:
        key = (event.pattern.id, rank, event.source)
        self.counts[event.pattern.id] += 1
        first = self._first.setdefault(key, [])
        if len(first) < _EACH_END:
            self._near += bool(event.near)
            first.append(event)
        else:
            self._last.setdefault(key, deque(maxlen=_EACH_END)).append(event)

    def add_passage(self, passage: Passage) -> None:
        """Kept, unless the two before it say the same: of a run of equal passages the first and the last are."""
        kept = self._passages
        same = [_meaning(passage) == _meaning(other) for other in kept[-2:]]
        if len(same) == 2 and all(same):
            kept[-1] = passage
        elif len(kept) < _MOST_PASSAGES:
            kept.append(passage)

    def kept(self) -> tuple[tuple[Event, ...], tuple[Passage, ...]]:
        """Events and passages in the order of time."""
        events = [event for group in (*self._first.values(), *self._last.values()) for event in group]
        return tuple(sorted(events, key=_order)), tuple(sorted(self._passages, key=_order))


def _order(item: Event | Passage) -> tuple[int, int, int]:
    return item.order


def _meaning(passage: Passage) -> tuple[str | None, str, str, str]:
    return passage.source, passage.marker.engine, passage.marker.phase, passage.marker.edge


def _near_matters(pattern: Pattern) -> bool:
    return pattern.role in {"root", "symptom"} or pattern.id == "suspicious"
