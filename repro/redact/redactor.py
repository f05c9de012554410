"""Redaction over a whole bundle: learn from all of it, then replace in all of it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from repro.model import Redaction
from repro.redact.blocks import blocks
from repro.redact.documents import Walk
from repro.redact.finders import found_in, line_spans
from repro.redact.finds import ORDER, Category, Find, merged
from repro.redact.jsonlines import is_bare_number
from repro.redact.policy import Policy
from repro.redact.prompts import prompts
from repro.redact.pseudonyms import Pseudonyms
from repro.redact.spread import Spread
from repro.redact.views import undone

_CODEC = ("utf-8", "surrogateescape")


_LONGEST_VIEW = 1 << 16
_OVERLAP = 1 << 13
"""A long line is looked at in pieces, so that memory stays small; what is looked for is shorter than the overlap."""


class Shown(NamedTuple):
    """A replacement, for the owner's eyes only: where it was made first, what stood there, what stands there now."""

    where: str
    before: str
    after: str
    times: int


class Redactor:
    """Everything that enters a bundle goes through one redactor, so that a name has one pseudonym in all files.

    First ``learn_text`` and ``learn_document`` for everything, in the order of the paths in the bundle; then ``text``
    and ``document``. Pseudonyms are numbered in the order of learning. What was not learned before is learned when it
    comes, so that earlier files do not profit from it. ``where`` is a path within the bundle.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self._names = Pseudonyms()
        self._spread = Spread()
        self._learned: set[str] = set()
        self._counts: dict[Category, int] = defaultdict(int)
        self._files: dict[Category, set[str]] = defaultdict(set)
        self._given: dict[Category, set[str]] = defaultdict(set)
        self._shown: dict[tuple[str, str], tuple[str, int]] = {}
        for category, values in self._known():
            for value in values:
                self._take([Find(0, len(value), category, value)])

    def _known(self) -> Iterable[tuple[Category, tuple[str, ...]]]:
        policy = self.policy
        yield "host", policy.hosts
        yield "user", policy.users
        yield "path", policy.folders
        yield "word", policy.words
        yield "prompt", policy.prompts if policy.hide_prompts else ()

    def learn_text(self, text: str | bytes, where: str) -> None:
        """What a log or another text holds that must not be shown."""
        data = _bytes(text)
        self._names.reserve(data)
        for _, _, finds in self._lines(data):
            self._take(finds)
        self._learned.add(where)

    def learn_document(self, document: Any, where: str) -> None:
        """The same of a document of JSON."""
        Walk(self._learn_string, self.policy).value(document)
        self._learned.add(where)

    def text(self, text: str, where: str) -> str:
        """The text without what must not be shown, with as many lines as before."""
        return self.data(_bytes(text), where).decode(*_CODEC)

    def data(self, data: bytes, where: str) -> bytes:
        """The same for the bytes of a log, whatever their encoding."""
        if where not in self._learned:
            self.learn_text(data, where)
        known = defaultdict(list)
        for start, end, category, value in self._spread.finds(data):
            known[data.rfind(b"\n", 0, start) + 1].append((start, end, category, value))
        pieces: list[bytes] = []
        at = 0
        lines = {start: (end, finds) for start, end, finds in self._lines(data)}
        for start in sorted({*lines, *known}):
            if start in lines:
                end, finds = lines[start]
            else:
                found = data.find(b"\n", start)
                end, finds = found if found >= 0 else len(data), []
            line = data[start:end]
            placed = [
                *finds,
                *_in_characters(line, [(a - start, b - start, c, v) for a, b, c, v in known.get(start, ())]),
            ]
            if placed or start in lines:
                pieces += [data[at:start], self._replaced(line.decode(*_CODEC), placed, where).encode(*_CODEC)]
                at = end
        pieces.append(data[at:])
        return b"".join(pieces)

    def document(self, document: Any, where: str) -> Any:
        """The document with the same keys and types, its strings without what must not be shown."""
        if where not in self._learned:
            self.learn_document(document, where)

        def replace(text: str, finds: list[Find] | None, rules: bool) -> str:
            known = _in_characters(_bytes(text), list(self._spread.finds(_bytes(text))))
            return self._replaced(text, [*(finds or ()), *(self._ruled(text) if rules else ()), *known], where)

        return Walk(replace, self.policy).value(document)

    def report(self) -> tuple[Redaction, ...]:
        """How much of each class was replaced so far; the record that the manifest holds."""
        return tuple(
            Redaction(
                category=category,
                count=self._counts[category],
                files=len(self._files[category]),
                pseudonyms=len(self._given[category]),
            )
            for category in sorted(ORDER)
            if self._counts[category]
        )

    def shown(self) -> list[Shown]:
        """Every replacement once, sorted by what stands there now."""
        return sorted(
            (Shown(where, before, after, count) for (before, after), (where, count) in self._shown.items()),
            key=lambda one: (one.after.rpartition("-")[0], len(one.after), one.after, one.before),
        )

    def still_known(self, data: bytes) -> bool:
        """True if anything that was learned stands in these bytes."""
        return next(self._spread.finds(data), None) is not None

    def _ruled(self, text: str) -> list[Find]:
        finds = found_in(text)
        if self.policy.hide_prompts:
            finds.extend(prompts(text))
        return finds

    def _learn_string(self, text: str, finds: list[Find] | None, rules: bool) -> str:
        self._names.reserve(_bytes(text))
        self._take([*(finds or ()), *(self._ruled(text) if rules else ())])
        return text

    def _take(self, finds: list[Find]) -> None:
        for find in merged(finds):
            self._names.learn(find.category, find.value)
        for find in finds:  # the parts of what was merged are looked for by themselves
            self._spread.learn(find)

    def _lines(self, data: bytes) -> Iterable[tuple[int, int, list[Find]]]:
        """(start, end, finds) of the lines in which something may be found."""
        spans: dict[int, list[tuple[int, int, Category, str]]] = defaultdict(list)
        for span in blocks(data):
            start = data.rfind(b"\n", 0, span.start) + 1
            spans[start].append((span.start - start, span.end - start, "secret", span.value))
        for start, end in line_spans(data, every=self.policy.hide_prompts, more=spans):
            line = data[start:end]
            finds = self._ruled(line.decode(*_CODEC))
            finds.extend(_in_characters(line, spans.get(start, [])))
            yield start, end, finds

    def _replaced(self, text: str, finds: list[Find], where: str) -> str:
        for begin in range(0, len(text), _LONGEST_VIEW - _OVERLAP):
            for view in undone(text[begin : begin + _LONGEST_VIEW]):
                data = _bytes(view.text)
                for find in _in_characters(data, list(self._spread.finds(data))):
                    start, end = view.original(find.start, find.end)
                    finds.append(find._replace(start=start + begin, end=end + begin))
        pieces: list[str] = []
        at = 0
        for find in merged(finds):
            after = self._names.name(find)
            before = text[find.start : find.end]
            if before.startswith("/") and not after.startswith("/"):
                after = f"/{after}"
            if before[-1:].isdigit() and is_bare_number(text, find.start, find.end):
                after = f'"{after}"'
            pieces += [text[at : find.start], after]
            at = find.end
            if before != after:
                self._note(find.category, before, after, where)
        pieces.append(text[at:])
        return "".join(pieces)

    def _note(self, category: Category, before: str, after: str, where: str) -> None:
        self._counts[category] += 1
        self._files[category].add(where)
        self._given[category].add(after)
        first, count = self._shown.get((before, after), (where, 0))
        self._shown[before, after] = (first, count + 1)


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")


def _in_characters(data: bytes, spans: "list[tuple[int, int, Category, str]]") -> list[Find]:
    """Finds in bytes of UTF-8 as finds in its characters."""
    if data.isascii():
        return [Find(*span) for span in spans]
    return [
        Find(len(data[:start].decode(*_CODEC)), len(data[:end].decode(*_CODEC)), category, value)
        for start, end, category, value in spans
    ]


def redacted_together(files: Mapping[str, bytes], policy: Policy | None = None) -> tuple[dict[str, bytes], Redactor]:
    """Several texts by one redactor, learned in the order of their paths."""
    redactor = Redactor(policy)
    for where in sorted(files):
        redactor.learn_text(files[where], where)
    return {where: redactor.data(files[where], where) for where in sorted(files)}, redactor
