"""What is read from a log before anything is judged."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from repro.diagnose.catalogue import Marker, Pattern
from repro.model import LogLine

Order = tuple[int, int, int]
"""Where something stands: log, piece, column. In a log with the newest line first, pieces count backwards."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """A line that a pattern matched. ``at_s`` is its time, or that of the last line before it that has one. ``near`` is
    what stands around it, in the order of time, and ``place`` the line's own place there. ``source`` is the name that a
    collector gave to where the line comes from."""

    pattern: Pattern
    line: LogLine
    text: str
    source: str | None
    rank: str | None
    process: str | None
    at_s: float | None
    groups: Mapping[str, str]
    order: Order
    near: tuple[str, ...]
    place: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """A line in which an engine says where it is."""

    marker: Marker
    text: str
    source: str | None
    rank: str | None
    at_s: float | None
    order: Order


@dataclass(kw_only=True, slots=True)
class Gauges:
    """What a server says of itself while it works: acceptance lengths, and decode steps with and without graphs."""

    accept_lengths: list[float] = field(default_factory=list)
    accept_line: Event | None = None
    with_graph: int = 0
    without_graph: int = 0
    eager_line: Event | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """What one log holds. ``counts``: how often each pattern was seen, by its id; ``events`` keeps the first and the
    last of them."""

    name: str
    index: int
    events: tuple[Event, ...]
    passages: tuple[Passage, ...]
    counts: Mapping[str, int]
    gauges: Gauges
    size_bytes: int
    newest_first: bool
