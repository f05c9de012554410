"""What was found once, looked for everywhere and in every encoding."""

import base64
import html
import json
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote, quote_plus

from ahocorasick_rs import BytesAhoCorasick, Implementation

from repro.redact.domains import owner_of
from repro.redact.finds import Category, Find
from repro.redact.vocabulary import MODULES, NO_HOST, NOBODY, NOTHING

_WORDY = frozenset(
    "max mark will art bill grace hope rose page chase frank may june dean grant miles lane drew pat sky ray gene rob jack"
    " nick guy earl norm rank run dev prod staging build release train serve eagle draft target verify flash attention"
    " graph capture memory token tokens layer head batch cache radix tree chain beam greedy sample decode prefill load"
    " start stop ready time step loss grad eval infer inference gpu cpu hip rocm amd intel arm ops infra mlops ml ai"
    " hpc lab core stack frame trace stream queue event device driver fabric switch link port socket buffer block page"
    " float half double int long char byte string list dict tuple set get put post delete patch http https json yaml"
    " secret secrets password token key keys admin123 string value values bearer basic example sample demo change".split()
)
_LONGEST = 1 << 12
_LONG_NAME = 8
_NAME_EDGE = re.compile(rb"[A-Za-z0-9_]")
_HOST_EDGE = re.compile(rb"[A-Za-z0-9]")
_RUN = re.compile(rb"[A-Za-z0-9+/=_-]")


class _Known(NamedTuple):
    category: Category
    value: str
    edge: "re.Pattern[bytes] | None"
    grows: bool  # base64 of a text around it: the whole run goes


class Spread:
    """Texts that are distinctive enough to be replaced wherever they stand."""

    def __init__(self) -> None:
        self._known: dict[bytes, _Known] = {}
        self._literals: list[bytes] = []
        self._automaton: BytesAhoCorasick | None = None
        self._stale = False
        self._seen: set[tuple[Category, str]] = set()

    def learn(self, find: Find) -> None:
        """A find; it is forgotten at once if it is too common a word."""
        key = (find.category, find.value)
        if key in self._seen or len(find.value) > _LONGEST:
            return
        self._seen.add(key)
        if find.category in {"secret", "word", "prompt"}:
            self._learn_secret(find)
        elif find.category in {"uuid", "serial", "email", "mac", "ip"} and len(find.value) >= 6:
            self._add_cases(find.value, find, _HOST_EDGE)
            if find.category == "email":
                self._learn_domain(find.value.rpartition("@")[2])
        elif find.category == "host":
            self._learn_host(find)
        elif find.category == "phone" and len(find.value) >= 9:
            self._add(find.value, find, _HOST_EDGE)
        elif find.category == "name" and _is_distinctive_owner(find.value):
            self._add_cases(find.value, find, _HOST_EDGE)
        elif find.category == "user" and _is_distinctive_name(find.value):
            # A long name is looked for within words too (`anna_dev`); a short one may be a part of a kernel's name.
            self._add_cases(find.value, find, _HOST_EDGE if len(find.value) >= _LONG_NAME else _NAME_EDGE)
        elif find.category == "path" and find.value.count("/") >= 2 and 6 <= len(find.value) <= 256:
            self._add(find.value, find, _NAME_EDGE)

    def finds(self, data: bytes) -> Iterator[tuple[int, int, Category, str]]:
        """(start, end, category, value) in bytes; they may overlap."""
        if self._stale:
            self._literals = list(self._known)
            self._automaton = BytesAhoCorasick(self._literals, implementation=Implementation.ContiguousNFA)
            self._stale = False
        if self._automaton is None:
            return
        for index, start, end in self._automaton.find_matches_as_indexes(data, overlapping=True):
            known = self._known[self._literals[index]]
            if known.edge is not None and _is_inside(data, start, end, known.edge):
                continue
            if known.grows:
                yield *_run_around(data, start, end), known.category, known.value
            else:
                yield start, end, known.category, known.value

    def _learn_secret(self, find: Find) -> None:
        value = find.value
        if not _is_distinctive_secret(value, find.category):
            return
        edge = None if len(value) >= 8 and find.category == "secret" else _HOST_EDGE
        for form in _forms(value):
            self._add(form, find, edge)
        if find.category == "word":
            self._add_cases(value, find, _HOST_EDGE)
        if len(value) >= 8:
            for inner in _inner_base64(value):
                self._add(inner, find, None, grows=True)
            raw = value.encode("utf-8", "surrogatepass")
            for digits in (raw.hex(), raw.hex().upper()):
                self._add(digits, find, None)

    def _learn_host(self, find: Find) -> None:
        self._add_cases(find.value, find, _HOST_EDGE)
        self._learn_domain(find.value)
        label = find.value.partition(".")[0]
        if label != find.value and len(label) >= 4 and re.search(r"[a-zA-Z].*[\d-]|[\d-].*[a-zA-Z]", label):
            self._add_cases(label, find._replace(value=label), _HOST_EDGE)
        for name in _slurm_names(find.value):
            self._add_cases(name, find._replace(value=name), _HOST_EDGE)

    def _learn_domain(self, host: str) -> None:
        """The name of a company, of which a name of a host or an address of e-mail tells."""
        owner = owner_of(host)
        if owner is not None:
            self._add_cases(owner, Find(0, len(owner), "name", owner), _HOST_EDGE)

    def _add_cases(self, text: str, find: Find, edge: "re.Pattern[bytes]") -> None:
        if find.category == "host" and not _is_distinctive_host(text):
            return
        for form in {text, text.lower(), text.upper(), text.capitalize(), quote(text, safe="")}:
            self._add(form, find, edge)

    def _add(self, text: str, find: Find, edge: "re.Pattern[bytes] | None", *, grows: bool = False) -> None:
        literal = text.encode("utf-8", "surrogatepass")
        if literal and literal not in self._known:
            self._known[literal] = _Known(find.category, find.value, edge, grows)
            self._stale = True


def _forms(value: str) -> set[str]:
    as_json, as_ascii = json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1]
    percent = quote(value, safe="")
    return {
        value,
        as_json,
        as_ascii,
        json.dumps(as_json)[1:-1],
        as_json.replace("/", "\\/"),
        repr(value)[1:-1],
        percent,
        quote(value),
        quote_plus(value),
        re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), percent),
        html.escape(value),
        quote(percent, safe=""),
    }


def _inner_base64(value: str) -> Iterator[str]:
    """The characters that base64 of any text around the value has, for each of the three places it can begin at."""
    raw = value.encode("utf-8", "surrogatepass")
    for skipped in range(3):
        encoded = base64.b64encode(b"\0" * skipped + raw)
        begin = (0, 2, 3)[skipped]
        end = (skipped + len(raw)) * 8 // 6
        inner = encoded[begin:end].decode()
        if len(inner) >= 10:
            yield inner
            yield inner.replace("+", "-").replace("/", "_")


def _is_inside(data: bytes, start: int, end: int, edge: "re.Pattern[bytes]") -> bool:
    """True if the match is a part of a longer word."""
    before, after = data[start - 1 : start] if start else b"", data[end : end + 1]
    if (
        before
        and edge.match(before)
        and edge.match(data[start : start + 1])
        # A letter that ends an escape is no part of the word: \nalice, %2Falice, \x1b[0malice.
        and not re.search(
            rb"(?:\\[nrtbf]|%[0-9A-Fa-f]{2}|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\x1b\[[0-9;]*m)\Z",
            data[max(start - 12, 0) : start],
        )
    ):
        return True
    return bool(after and edge.match(after) and edge.match(data[end - 1 : end]))


def _run_around(data: bytes, start: int, end: int) -> tuple[int, int]:
    while start and _RUN.match(data, start - 1, start):
        start -= 1
    while end < len(data) and _RUN.match(data, end, end + 1):
        end += 1
    return start, end


def _is_distinctive_secret(value: str, category: Category) -> bool:
    bare = value.strip()
    if category == "word":
        return len(bare) >= 3
    if category == "prompt":
        return len(bare) >= 12
    if len(bare) < 5 or bare.lower() in NOTHING | _WORDY | NOBODY:
        return False
    if bare.isdigit():
        return len(bare) >= 8
    if re.fullmatch(r"[a-z]+|[A-Z]+|[A-Z][a-z]+|[\d.]+|0x[0-9a-f]+|/[a-z/]+", bare):
        return len(bare) >= 9 and not re.fullmatch(r"[\d.]+|0x[0-9a-f]+", bare)
    return True


def _is_distinctive_name(name: str) -> bool:
    return (len(name) >= 4 or any(c.isdigit() for c in name)) and name.lower() not in _WORDY | NOBODY | NO_HOST


def _is_distinctive_owner(name: str) -> bool:
    if name.lower() in NO_HOST | _WORDY | NOBODY | MODULES or len(name) < 4:
        return False
    return bool(re.search(r"[\d._-]", name)) or len(name) >= 8 or (len(name) >= 6 and not name.islower())


def _is_distinctive_host(name: str) -> bool:
    if name.lower() in NO_HOST | _WORDY | NOBODY or len(name) < 3:
        return False
    return bool(re.search(r"[\d.-]", name)) or len(name) >= 6


def _slurm_names(name: str) -> Iterator[str]:
    """Names that a list such as `gpu[001-004,7]` stands for; at most a few hundred."""
    found = re.fullmatch(r"([\w.-]+)\[([\d,-]+)\]([\w.-]*)", name)
    if not found:
        return
    for part in found[2].split(",")[:64]:
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            for number in range(int(first), min(int(last or first), int(first) + 255) + 1):
                yield f"{found[1]}{number:0{len(first)}d}{found[3]}"
