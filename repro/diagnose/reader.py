"""Log file -> what it holds, in one pass and in constant memory."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from repro.diagnose.catalogue import Marker, Pattern
from repro.diagnose.cleaning import clean, printable, squeezed
from repro.diagnose.envelopes import Envelope, find_envelopes, source_in
from repro.diagnose.events import Event, Observed, Passage
from repro.diagnose.gauges import GAUGE, GaugeReader
from repro.diagnose.matcher import SUSPICIOUS, Hit, Matcher, matcher
from repro.diagnose.prefixes import clock_of, process_of, rank_of, time_of, without_lead
from repro.diagnose.segments import Reading, Segments
from repro.diagnose.sources import Block, Log, blocks
from repro.diagnose.tally import Tally
from repro.model import LogLine

if TYPE_CHECKING:
    from ahocorasick_rs import BytesAhoCorasick

_LONGEST_TEXT = 500
_NEAR_BEFORE, _NEAR_AFTER = 80, 30
_NEAR_BEFORE_REVERSED, _NEAR_AFTER_REVERSED = 30, 80
_HEADER_WITHIN = 60
_LONGEST_NEAR = 400
_MOST_WRAPPED = 24
_COMMON = 256
_FIRST_BLOCKS = 2
_SAMPLED = 64
_CLOCK_WITHIN = 200
_FRAME = '  File "'
_TRACEBACK = "Traceback (most recent call last)"


def read_log(log: Log, *, index: int = 0) -> Observed:
    """What the log holds. A missing file is an empty log. ``index`` is the log's place among several."""
    return _LogReader(log, index).read()


class _LogReader:
    def __init__(self, log: Log, index: int) -> None:
        self._log = log
        self._index = index
        self._matcher: Matcher = matcher()
        self._envelopes: tuple[Envelope, ...] = ()
        self._newest_first = False
        self._tally = Tally()
        self._gauges = GaugeReader()
        self._piece = 0
        self._blocks = 0
        self._seen: Counter[int] = Counter()
        self._common = self._matcher.common
        self._uncommon: BytesAhoCorasick | None = None

    def read(self) -> Observed:
        size = 0
        for block in blocks(self._log):
            if not size:
                self._look_at_head(block.data)
            size += block.own_bytes
            self._take(block)
        events, passages = self._tally.kept()
        return Observed(
            name=self._log.said,
            index=self._index,
            events=events,
            passages=passages,
            counts=self._tally.counts,
            gauges=self._gauges.gauges,
            size_bytes=size,
            newest_first=self._newest_first,
        )

    def _look_at_head(self, data: bytes) -> None:
        head = data[: 1 << 18]
        self._envelopes = find_envelopes(clean(head, ()))
        self._newest_first = _is_newest_first(clean(head, ()), clean(head, self._envelopes), self._envelopes)

    def _take(self, block: Block) -> None:
        cleaned = clean(block.data, self._envelopes)
        whole = block.own_bytes == len(block.data)
        hits = self._hits(squeezed(cleaned), every=whole)
        if hits:
            segments = Segments(cleaned, block, collected=bool(self._envelopes))
            own_lines = block.data.count(b"\n", 0, block.own_bytes)
            for first, group in _by_piece(hits, segments):
                if whole or segments.line(first) < own_lines or not own_lines:
                    self._consider(first, group, segments, block)
        self._piece += len(cleaned)  # there are never more pieces than bytes

    def _hits(self, text: bytes, *, every: bool) -> list[Hit]:
        """The literals in a block; of those that are everywhere only in some blocks, and in those with others."""
        self._blocks += 1
        if self._blocks > _FIRST_BLOCKS and not every and self._blocks % _SAMPLED:
            if self._uncommon is None:
                self._uncommon = self._matcher.without(self._common)
            if not self._uncommon.find_matches_as_indexes(text):
                return []
        hits, counts = self._matcher.scan(text)
        self._seen.update(counts)
        common = self._common | {literal for literal in counts if self._seen[literal] > _COMMON}
        if common != self._common:
            self._common, self._uncommon = common, None
        return hits

    def _consider(self, first: int, hits: list[Hit], segments: Segments, block: Block) -> None:
        last = max(segments.at(hit.end - 1) for hit in hits)
        readings = segments.readings(first, last)
        found: dict[str, tuple[Pattern | Marker, Reading, dict[str, str]]] = {}
        for hit in hits:
            for rule in self._matcher.rules(hit.literal):
                if rule.id not in found and (match := self._matcher.matched(rule, hit.literal, readings)):
                    found[rule.id] = (rule, match[0], dict(match[1]))
        patterns = [match for match in found.values() if isinstance(match[0], Pattern)]
        chosen = self._chosen([rule for rule, _, _ in patterns if isinstance(rule, Pattern)])
        for rule, reading, groups in found.values():
            if isinstance(rule, Marker):
                self._tally.add_passage(self._passage(rule, reading, segments, block))
            elif rule.id in chosen:
                self._add(rule, reading, groups, segments, block)

    def _chosen(self, patterns: list[Pattern]) -> set[str]:
        """The patterns that have the line: all that give context, and the first of the others."""
        deciding = sorted((p for p in patterns if p.role != "context"), key=self._matcher.place)
        quiet = any(pattern.role in {"benign", "hint"} for pattern in deciding)
        context = {p.id for p in patterns if p.role == "context" and p is not SUSPICIOUS}
        if deciding:
            return context if quiet else context | {deciding[0].id}
        return context or {pattern.id for pattern in patterns}

    def _add(
        self, pattern: Pattern, reading: Reading, groups: dict[str, str], segments: Segments, block: Block
    ) -> None:
        rank, moment = self._origin(reading, segments, block)
        number = segments.line(reading.first)
        source = self._source(block, number)
        room = self._tally.room(pattern, rank, source)
        if room == "none" and pattern is not GAUGE:
            return
        event = Event(
            pattern=pattern,
            line=LogLine(
                file=self._log.said,
                line=block.first_line + number,
                offset_bytes=block.offset_bytes + block.starts[number],
                text=_telling(reading.text, pattern),
            ),
            text=reading.text,
            source=source,
            rank=groups.get("rank") or rank,
            process=process_of(reading.text),
            at_s=moment,
            groups=groups,
            order=self._order(reading.first),
            near=(),
            place=0,
        )
        if pattern is GAUGE:
            self._gauges.add(event)
            return
        if room == "near":
            event = self._with_near(event, reading, segments, block)
        self._tally.add_event(event, rank)

    def _with_near(self, event: Event, reading: Reading, segments: Segments, block: Block) -> Event:
        before, after = _NEAR_BEFORE, _NEAR_AFTER
        if self._newest_first:
            before, after = _NEAR_BEFORE_REVERSED, _NEAR_AFTER_REVERSED
        texts, place = segments.around(
            reading.first, before, after, lambda line: not self._envelopes or self._source(block, line) == event.source
        )
        if self._newest_first:
            texts.reverse()
            place = len(texts) - 1 - place
        return replace(event, near=tuple(text[:_LONGEST_NEAR] for text in texts), place=place)

    def _passage(self, marker: Marker, reading: Reading, segments: Segments, block: Block) -> Passage:
        rank, moment = self._origin(reading, segments, block)
        return Passage(
            marker=marker,
            text=reading.text[:_LONGEST_TEXT],
            source=self._source(block, segments.line(reading.first)),
            rank=rank,
            at_s=moment,
            order=self._order(reading.first),
        )

    def _source(self, block: Block, number: int) -> str | None:
        if not self._envelopes:
            return None
        names = block.names
        line = number
        while line >= 0 and line not in names:  # a wrapped line has its name at its beginning
            name = source_in(self._shown(block, line), self._envelopes)
            if name is not None or number - line >= _MOST_WRAPPED:
                names[line] = name
                break
            line -= 1
        names[number] = names.get(line)
        return names[number]

    def _shown(self, block: Block, number: int) -> bytes:
        """The line with what its collector put before it."""
        return printable(block.lines[number][:_LONGEST_NEAR])

    def _order(self, piece: int) -> tuple[int, int, int]:
        place = self._piece + piece
        return (self._index, -place if self._newest_first else place, 0)

    def _origin(self, reading: Reading, segments: Segments, block: Block) -> tuple[str | None, float | None]:
        """(rank, time) of a line: its own, or those of the line that heads its traceback."""
        rank, moment = rank_of(reading.text), time_of(reading.text)
        if moment is not None:
            return rank, moment
        step = 1 if self._newest_first else -1
        for distance in range(1, _HEADER_WITHIN):
            text = segments.text(reading.first + step * distance)
            if (said := time_of(text)) is not None:
                heads = _TRACEBACK in text or without_lead(text).lstrip().startswith(("Scheduler hit", "Exception"))
                return rank or (rank_of(text) if heads else None), said
        shown = self._shown(block, segments.line(reading.first)) if self._envelopes else b""
        return rank, time_of(shown.decode("utf-8", "replace"))


def _by_piece(hits: Iterable[Hit], segments: Segments) -> Iterator[tuple[int, list[Hit]]]:
    groups: dict[int, list[Hit]] = {}
    for hit in hits:
        groups.setdefault(segments.begin(segments.at(hit.start)), []).append(hit)
    yield from sorted(groups.items())


def _telling(text: str, pattern: Pattern) -> str:
    """The line, or the part of a long one that the pattern is about."""
    text = text.strip()
    if len(text) <= _LONGEST_TEXT:
        return text
    place = min((text.find(literal) for literal in pattern.literals if literal in text), default=0)
    begin = max(min(place - _LONGEST_TEXT // 4, len(text) - _LONGEST_TEXT), 0)
    return text[begin : begin + _LONGEST_TEXT]


def _last_written(line: bytes) -> str:
    """The beginning of what a terminal shows of the line: behind the bars of progress that it overwrote."""
    return line.rstrip(b"\r").rpartition(b"\r")[2][:_CLOCK_WITHIN].decode("utf-8", "replace")


def _is_newest_first(shown: bytes, cleaned: bytes, envelopes: Sequence[Envelope]) -> bool:
    """True if the clocks of the lines run backwards, or tracebacks stand on their heads."""
    ups = downs = 0
    before: dict[str | None, float] = {}
    lines = [_last_written(line) for line in cleaned.split(b"\n")]
    for raw, text in zip(shown.split(b"\n"), lines, strict=False):
        moment = clock_of(raw[:_CLOCK_WITHIN].decode("utf-8", "replace"))  # the collector's clock comes first
        moment = moment if moment is not None else clock_of(text)
        if moment is None:
            continue
        source = source_in(raw, envelopes)
        previous = before.get(source, moment)
        ups += moment > previous
        downs += moment < previous
        before[source] = moment
    for above, text, below in zip(lines, lines[1:], lines[2:], strict=False):
        if _TRACEBACK in text:
            ups += 3 * (_FRAME in below)
            downs += 3 * (_FRAME in above and _FRAME not in below)
    return downs >= 2 and downs > 2 * ups
