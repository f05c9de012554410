"""Which pseudonym stands for which text: the same one over a whole bundle, numbered by first appearance."""

import re
from collections import defaultdict

import re2

from repro.redact.finds import Category, Find
from repro.redact.vocabulary import WITHHELD

_STANDING = re2.compile(rb"(?:secret|word|prompt|email|uuid|serial|path|mac|ip|phone|host|user|name)-\d+")
_COMMON_LABELS = frozenset(
    "www api app git mail smtp ftp ns1 ns2 dns proxy gateway registry docs static cdn login auth db vpn".split()
)


class Pseudonyms:
    """Names are learned in the order in which they appear and numbered when the first one is asked for."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[Category, str], None] = {}
        self._numbers: dict[tuple[Category, str], int] = {}
        self._by_label: dict[str, int] = {}
        self._next: dict[Category, int] = defaultdict(lambda: 1)
        self._taken: dict[str, set[int]] = defaultdict(set)

    def reserve(self, text: bytes) -> None:
        """Numbers of pseudonyms that stand in a text already are not given to others."""
        for found in _STANDING.finditer(text):
            category, _, number = found.group(0).decode("ascii").rpartition("-")
            if len(number) <= 9:
                self._taken[category].add(int(number))

    def learn(self, category: Category, value: str) -> None:
        """A text that a pseudonym will stand for."""
        key = identity(category, value)
        if key not in self._numbers:
            self._waiting.setdefault(key)

    def name(self, find: Find) -> str:
        """What is put in the place of a find."""
        if find.category == "variable":
            return WITHHELD
        self.learn(find.category, find.value)
        for key in self._waiting:
            self._numbers[key] = self._number(*key)
        self._waiting.clear()
        number = self._numbers[identity(find.category, find.value)]
        return f"/path-{number}" if _is_rooted(find) else f"{find.category}-{number}"

    def _number(self, category: Category, value: str) -> int:
        label = value.partition(".")[0]
        if category == "host" and (number := self._by_label.get(label)) is not None and label not in _COMMON_LABELS:
            return number
        number = self._next[category]
        while number in self._taken[category]:
            number += 1
        self._next[category] = number + 1
        if category == "host":
            self._by_label[label] = number
        return number


def identity(category: Category, value: str) -> tuple[Category, str]:
    """What makes two texts the same one."""
    if category in {"host", "user", "mac", "uuid", "email", "word", "name"}:
        value = value.lower().rstrip(".")
    if category == "path":
        value = re.sub(r"[\\/]+", "/", value).rstrip("/")
    return category, value


def _is_rooted(find: Find) -> bool:
    return find.category == "path" and find.value.startswith("/")
