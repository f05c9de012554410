"""`repro/signatures.toml` -> patterns and markers: what lines of logs mean, as data."""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache, cached_property
from importlib import resources
from typing import Any, Literal, TypeVar, get_args

import re2

from repro.errors import RecordError
from repro.model import Phase

PatternRole = Literal["root", "symptom", "follow_on", "benign", "hint", "context"]
Edge = Literal["begin", "end", "active", "stop"]

_FILE = "signatures.toml"
_PHASES = frozenset(get_args(Phase))
_ROLES = frozenset(get_args(PatternRole))
_EDGES = frozenset(get_args(Edge))
_SHORTEST_LITERAL = 6
_REMEDY = f"correct {_FILE}"


def compiled(expression: str) -> Any:
    """An expression that is searched in linear time, whatever the line: logs are hostile input."""
    options = re2.Options()
    options.log_errors = False
    options.encoding = re2.Options.Encoding.UTF8
    return re2.compile(expression, options)


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A public report of the same failure: where it is, the date of what is said about it, and what that is. ``regex``
    narrows it to lines near the failure, ``engine`` to logs of one engine."""

    where: str
    dated: str
    says: str
    engine: str | None = None
    regex: str | None = None


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """What a line means that has one of the ``literals`` and matches ``regex``. `docs/diagnosis.md` explains the
    fields. ``kind`` may be missing for the roles context, benign, hint and follow_on. The first pattern of the file
    that matches a line has it; a benign one and a hint come before all others."""

    id: str
    role: PatternRole
    literals: tuple[str, ...]
    match: tuple[str, ...]
    no_match: tuple[str, ...]
    source: str
    kind: str | None = None
    phases: tuple[Phase, ...] = ()
    phase: Phase | None = None
    follows: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    subsystem: str | None = None
    regex: str | None = None
    weak: bool = False
    needs: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    next_step: str | None = None
    ask_for: str | None = None
    known: tuple[Known, ...] = ()

    @cached_property
    def expression(self) -> Any:
        return compiled(self.regex) if self.regex is not None else None


@dataclass(frozen=True, kw_only=True)
class Marker:
    """A line in which an engine says that a phase begins, ends or goes on, or that it was asked to stop."""

    id: str
    engine: str
    phase: Phase
    edge: Edge
    literals: tuple[str, ...]
    match: tuple[str, ...]
    no_match: tuple[str, ...]
    source: str
    regex: str | None = None

    @cached_property
    def expression(self) -> Any:
        return compiled(self.regex) if self.regex is not None else None


Rule = Pattern | Marker
R = TypeVar("R", Pattern, Marker, Known)
"""What an entry is read as."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Catalogue:
    patterns: tuple[Pattern, ...]
    markers: tuple[Marker, ...]


@cache
def catalogue() -> Catalogue:
    """The catalogue that comes with this version. Raises RecordError if it is damaged."""
    return parse(resources.files("repro").joinpath(_FILE).read_text(encoding="utf-8"))


def parse(text: str) -> Catalogue:
    """The catalogue in a TOML text. Raises RecordError for what is missing, unknown or given twice."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecordError(f"{_FILE}: is not TOML ({error}); {_REMEDY}") from None
    unknown = set(document) - {"record", "schema_version", "pattern", "marker"}
    if unknown or document.get("record") != "signatures" or document.get("schema_version") != 1:
        raise RecordError(f"{_FILE}: is no catalogue of version 1, or has more than one; {_REMEDY}")
    patterns = tuple(_pattern(entry) for entry in document.get("pattern", ()))
    markers = tuple(_read(Marker, entry) for entry in document.get("marker", ()))
    seen: set[str] = set()
    rules: list[Rule] = [*patterns, *markers]
    for rule in rules:
        _check(rule, seen)
    return Catalogue(patterns=patterns, markers=markers)


def _pattern(entry: Mapping[str, Any]) -> Pattern:
    known = tuple(_read(Known, item) for item in entry.get("known", ()))
    return _read(Pattern, {**entry, "known": known})


def _read(kind: type[R], entry: Mapping[str, Any]) -> R:
    where = f"{_FILE}: {entry.get('id', entry.get('where', '?'))}"
    names = {field.name for field in fields(kind)}
    required = {field.name for field in fields(kind) if field.default is MISSING}
    if unknown := set(entry) - names:
        raise RecordError(f"{where}: unknown fields {', '.join(sorted(unknown))}; {_REMEDY}")
    if missing := required - set(entry):
        raise RecordError(f"{where}: has no {', '.join(sorted(missing))}; {_REMEDY}")
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in entry.items()}
    return kind(**values)


def _check(rule: Rule, seen: set[str]) -> None:
    where = f"{_FILE}: {rule.id}"
    if rule.id in seen:
        raise RecordError(f"{where}: is there twice; {_REMEDY}")
    seen.add(rule.id)
    short = [text for text in rule.literals if len("".join(text.split()).encode()) < _SHORTEST_LITERAL]
    if short or not rule.literals:
        raise RecordError(f"{where}: literals of {_SHORTEST_LITERAL} characters or more are needed; {_REMEDY}")
    if isinstance(rule, Marker):
        if rule.phase not in _PHASES or rule.edge not in _EDGES:
            raise RecordError(f"{where}: unknown phase or edge; {_REMEDY}")
        return
    if rule.role not in _ROLES or not {*rule.phases, rule.phase or "none"} <= _PHASES:
        raise RecordError(f"{where}: unknown role or phase; {_REMEDY}")
    if rule.role in {"root", "symptom"} and (rule.kind is None or rule.next_step is None):
        raise RecordError(f"{where}: a {rule.role} needs kind and next_step; {_REMEDY}")
