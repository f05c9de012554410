"""All literals of the catalogue in one automaton, and the rules whose literals a piece of a log has."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from ahocorasick_rs import BytesAhoCorasick, Implementation

from repro.diagnose.catalogue import Catalogue, Marker, Pattern, Rule, catalogue
from repro.diagnose.cleaning import squeezed
from repro.diagnose.gauges import GAUGE
from repro.diagnose.segments import Reading

SUSPICIOUS = Pattern(
    id="suspicious",
    role="context",
    literals=(
        "Traceback (most recent call last)",
        "Error:",
        "ERROR",
        "Error ",
        "error:",
        "Exception",
        "exception",
        "FATAL",
        "Fatal",
        "fatal",
        "panic",
        "PANIC",
        "core dumped",
        "Aborted",
        "Killed",
        "terminate called",
        "failed",
        "Failed",
        "FAILED",
    ),
    match=(),
    no_match=(),
    source="the words with which programs announce failures",
)
"""Lines that a person would look at; they count only where nothing else is known."""

_EACH_END = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A literal of rules, at a place of the squeezed block."""

    literal: int
    start: int
    end: int


class Matcher:
    def __init__(self, contents: Catalogue) -> None:
        owners: dict[bytes, list[Rule]] = defaultdict(list)
        spoken: dict[bytes, list[str]] = defaultdict(list)
        rules: list[Rule] = [*contents.patterns, *contents.markers, SUSPICIOUS, GAUGE]
        for rule in rules:
            for literal in rule.literals:
                key = squeezed(literal.encode())
                owners[key].append(rule)
                spoken[key].append(literal)
        self._literals = list(owners)
        self._rules = list(owners.values())
        self._spoken = [tuple(dict.fromkeys(" ".join(text.split()) for text in spoken[key])) for key in self._literals]
        self._places = {pattern.id: place for place, pattern in enumerate(contents.patterns)}
        self._automaton = _automaton(self._literals)
        common = (literal for literal, rules in enumerate(self._rules) if any(_is_common(rule) for rule in rules))
        self.common = frozenset(common)

    def scan(self, text: bytes) -> tuple[list[Hit], Counter[int]]:
        """The literals in a squeezed block in order, and how often each is there; of one that is there often, the first
        and the last few."""
        places: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for literal, start, end in self._automaton.find_matches_as_indexes(text, overlapping=True):
            places[literal].append((start, end))
        kept = (
            Hit(literal=literal, start=start, end=end)
            for literal, spans in places.items()
            for start, end in (spans if len(spans) <= 2 * _EACH_END else spans[:_EACH_END] + spans[-_EACH_END:])
        )
        counts = Counter({literal: len(spans) for literal, spans in places.items()})
        return sorted(kept, key=lambda hit: hit.start), counts

    def without(self, literals: frozenset[int]) -> BytesAhoCorasick:
        """An automaton for all literals but those."""
        return _automaton([text for number, text in enumerate(self._literals) if number not in literals])

    def rules(self, literal: int) -> Iterable[Rule]:
        return self._rules[literal]

    def place(self, pattern: Pattern) -> int:
        """The pattern's place in the catalogue."""
        return self._places.get(pattern.id, len(self._places))

    def matched(
        self, rule: Rule, literal: int, readings: Iterable[Reading]
    ) -> tuple[Reading, Mapping[str, str]] | None:
        """The first reading of a line that the rule matches, and the rule's named groups there."""
        for reading in readings:
            if not any(text.strip() in reading.plain for text in self._spoken[literal]):
                continue
            if rule.expression is None:
                return reading, {}
            found = rule.expression.search(reading.text)
            if found:
                return reading, {name: value for name, value in found.groupdict().items() if value}
        return None


def _is_common(rule: Rule) -> bool:
    """True for what servers print all the time: a few of those lines say enough."""
    return rule is GAUGE or (isinstance(rule, Marker) and rule.edge == "active")


def _automaton(literals: Sequence[bytes]) -> BytesAhoCorasick:
    return BytesAhoCorasick(literals, implementation=Implementation.DFA)


@cache
def matcher() -> Matcher:
    """The matcher for the catalogue that comes with this version."""
    return Matcher(catalogue())
