"""Where each event stands: in which launch of the server, in which phase, before or after a requested stop."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from repro.diagnose.catalogue import Marker, catalogue
from repro.diagnose.events import Event, Observed, Order, Passage
from repro.diagnose.tracebacks import chain
from repro.model import Phase

_PHASES: tuple[Phase, ...] = get_args(Phase)
ORDER = {phase: number for number, phase in enumerate(_PHASES)}
_AFTER: dict[Phase, Phase] = {
    "image_build": "container_start",
    "container_start": "launch",
    "weights_load": "launch",
    "graph_capture": "warmup",
    "warmup": "serving",
}
OF_KERNEL = frozenset({"host_oom_kill", "hardware_ecc", "gpu_lost", "gpu_exception_xid"})
"""Kinds that the kernel's log proves. It is often put behind the server's log, after the harness has stopped it."""
_BEFORE_LAUNCH = frozenset({"image_build", "container_start"})
_STARTS = _BEFORE_LAUNCH | {"launch"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """An event in its place. ``stopping``: a stop had been requested before. ``astray``: the server was in a phase in
    which its pattern does not occur."""

    event: Event
    launch: int
    phase: Phase
    stopping: bool
    astray: bool = False


Stream = tuple[int, str | None]
"""A log, and the source of lines in it."""


@dataclass(kw_only=True, slots=True)
class Launch:
    """One start of the server, as one or several streams of lines show it: ``passages`` are the markers passed."""

    passages: list[Passage] = field(default_factory=list)
    failed: bool = False
    reached: dict[Stream, Phase] = field(default_factory=dict)

    @property
    def phase(self) -> Phase:
        """The phase that it had come to before it was asked to stop, in whichever stream."""
        return max(self.reached.values(), key=lambda phase: ORDER[phase], default="launch")

    def phase_of(self, event: Event) -> Phase:
        """The phase that the event's own stream had come to."""
        return self.reached.get((event.order[0], event.source), self.phase)

    @property
    def stopped(self) -> bool:
        """True if it was asked to stop."""
        return any(passage.marker.edge == "stop" for passage in self.passages)

    def phase_shown(self, event: Event) -> bool:
        """True if a marker before the event, or in other streams where its own has none, says which phase it was in."""
        return any(
            p.marker.edge != "stop" and (p.order < event.order or p.order[0] != event.order[0])
            for p in self.beside(event)
        )

    def stopped_in(self, event: Event) -> bool:
        """True if the stream that an event stands in was asked to stop."""
        return any(passage.marker.edge == "stop" for passage in self.beside(event))

    def goes_on_after(self, event: Event) -> bool:
        """True if the server is seen at work, or is stopped in good order, after the event."""
        return any(
            p.order > event.order and (p.marker.edge in {"active", "stop"} or ORDER[p.marker.phase] > ORDER["launch"])
            for p in self.beside(event)
        )

    def beside(self, event: Event) -> list[Passage]:
        """The passages of the event's own stream, or all of them if it has none."""
        own = [p for p in self.passages if p.order[0] == event.order[0] and p.source == event.source]
        return own or self.passages


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """``engine`` is who wrote the log, None if nothing says so; ``marked`` whether any marker was passed."""

    placed: tuple[Placed, ...]
    launches: tuple[Launch, ...]
    engine: str | None
    marked: bool


def timeline(observed: Sequence[Observed]) -> Timeline:
    """The events of all logs in their places. Launches of several logs are taken for the same ones, in their order."""
    engine = _engine(passage for log in observed for passage in log.passages)
    launches: list[Launch] = []
    placed: list[Placed] = []
    streams = [stream for log in observed for stream in _streams(log)]
    for stream in sorted(streams, key=lambda stream: not stream.passages):  # without markers: as the others say
        placed += _walk(stream, launches)
    marked = any(launch.passages for launch in launches)
    placed = [_with_kernel(item, placed, launches) for item in placed]
    return Timeline(placed=tuple(placed), launches=tuple(launches) or (Launch(),), engine=engine, marked=marked)


def _engine(passages: Iterable[Passage]) -> str | None:
    votes = Counter(passage.marker.engine for passage in passages if passage.marker.engine != "any")
    begun = votes.most_common(1)
    return begun[0][0] if begun else None


def _with_kernel(item: Placed, placed: Sequence[Placed], launches: Sequence[Launch]) -> Placed:
    """What the kernel says stands before, behind or within a server's log: it belongs to the launch that failed, and to
    the phase in which that was."""
    if item.event.pattern.kind not in OF_KERNEL or item.event.pattern.phase is not None:
        return item
    number = item.launch
    if not launches[number].passages:
        number = next((n for n, launch in enumerate(launches) if launch.failed and launch.passages), number)
        number = number if launches[number].passages else len(launches) - 1
    failed = (
        other.phase
        for other in placed
        if other.launch == number
        and other.event.source == item.event.source
        and not other.stopping
        and _fails(other.event)
        and not _of_kernel(other.event)
    )
    return replace(item, launch=number, phase=next(failed, launches[number].phase_of(item.event)))


def _fails(event: Event) -> bool:
    return event.pattern.role in {"root", "symptom"} or "fatal" in event.pattern.tags


def _of_kernel(event: Event) -> bool:
    return event.pattern.kind in OF_KERNEL


def _walk(stream: "_Stream", launches: list[Launch]) -> list[Placed]:
    engine = _engine(stream.passages)
    items: list[tuple[Order, int, Event | Passage]] = [(event.order, 0, event) for event in stream.events]
    items += [(p.order, 1, p) for p in stream.passages if p.marker.engine in {"any", engine}]
    walker = _Walker(launches, stream.name, own=bool(stream.passages) or stream.name[1] is not None)
    return [placed for _, _, item in sorted(items, key=lambda item: item[:2]) if (placed := walker.step(item))]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stream:
    """The lines of one source in one log."""

    name: Stream
    events: tuple[Event, ...]
    passages: tuple[Passage, ...]


def _streams(log: Observed) -> list[_Stream]:
    names = dict.fromkeys([*(p.source for p in log.passages), *(e.source for e in log.events)])
    return [
        _Stream(
            name=(log.index, name),
            events=tuple(event for event in log.events if event.source == name),
            passages=tuple(passage for passage in log.passages if passage.source == name),
        )
        for name in names
    ]


class _Walker:
    def __init__(self, launches: list[Launch], stream: Stream, *, own: bool) -> None:
        self._stream = stream
        self._launches = launches
        self._own = own
        self._number = 0
        self._begun = False
        self._stopping = False
        self._phase: Phase = "launch"
        self._failed = self._beyond = False

    @property
    def _launch(self) -> Launch:
        while len(self._launches) <= self._number:
            self._launches.append(Launch())
        return self._launches[self._number]

    def step(self, item: Event | Passage) -> Placed | None:
        if isinstance(item, Passage):
            self._pass(item.marker, item)
            return None
        if not self._own and self._launches:  # a log without markers of its own: as far as the others came
            self._phase = self._launches[0].phase
        stopping = self._stopping and not _of_kernel(item)  # the kernel's log is written down afterwards
        marked = self._launch.reached.get(self._stream, self._phase) if self._stopping else self._phase
        phase = event_phase(item, marked)
        astray = bool(item.pattern.phases) and marked not in item.pattern.phases
        if stopping and item.pattern.phase is None and item.pattern.kind != "external_kill":
            phase = "shutdown"
        if _fails(item) and not stopping:
            self._failed = not _of_kernel(item) or self._failed
            self._launch.failed = True
        return Placed(event=item, launch=self._number, phase=phase, stopping=stopping, astray=astray)

    def _pass(self, marker: Marker, passage: Passage) -> None:
        again = self._failed or self._stopping
        if marker.edge == "begin" and self._starts_again(marker, again):
            self._number += 1
            self._stopping = self._failed = self._beyond = False
            self._phase = "launch"
        launch = self._launch
        launch.passages.append(passage)
        if marker.edge == "stop":
            self._stopping = True
            return
        self._phase = self._next(marker)
        self._begun = self._begun or marker.edge in {"begin", "end"}
        if not self._stopping:
            launch.reached[self._stream] = self._phase
        self._beyond = self._beyond or ORDER[self._phase] > ORDER["launch"]

    def _starts_again(self, marker: Marker, again: bool) -> bool:
        if marker.phase in _STARTS:
            return again or self._beyond
        return again and ORDER[marker.phase] < ORDER[self._phase] and self._phase != "shutdown"

    def _next(self, marker: Marker) -> Phase:
        if marker.edge == "active":
            return self._phase if self._begun else marker.phase
        if marker.edge == "end":
            return _AFTER.get(marker.phase, self._phase) if marker.phase == self._phase else self._phase
        if self._phase == "serving" and marker.phase not in {"serving", "shutdown"} and not self._failed:
            return self._phase
        if marker.phase in _STARTS and ORDER[marker.phase] < ORDER[self._phase] and self._phase not in _STARTS:
            return self._phase
        return marker.phase


def event_phase(event: Event, marked: Phase) -> Phase:
    """The phase of an event: the one it proves, the one its traceback proves, or the one that the markers say."""
    if event.pattern.phase is not None:
        return event.pattern.phase
    proven = proven_by_traceback(event)
    if proven is not None and not (proven == "serving" and marked == "warmup"):
        return proven
    allowed = event.pattern.phases
    if not allowed or marked in allowed:
        return marked
    earlier = [phase for phase in allowed if ORDER[phase] <= ORDER[marked]]
    return max(earlier, key=lambda phase: ORDER[phase]) if earlier else min(allowed, key=lambda phase: ORDER[phase])


def proven_by_traceback(event: Event) -> Phase | None:
    """The phase that the traceback around an event proves; None if it proves none."""
    if not event.near:
        return None
    lines = chain(event.near, event.place)
    said = {
        pattern.phase
        for pattern in catalogue().patterns
        if pattern.role == "context" and pattern.phase is not None
        for text in lines
        if any(literal in text for literal in pattern.literals)
        and (pattern.expression is None or pattern.expression.search(text))
    }
    specific = sorted((phase for phase in said if phase != "serving"), key=lambda phase: -ORDER[phase])
    return specific[0] if specific else ("serving" if said else None)
