"""The flag table: which launch flag which SGLang release has, read from its wheels (see :mod:`update_flags`).

SGLang parses with argparse's prefix matching on, so an unknown flag that begins several known ones fails as
*ambiguous*, and one that begins exactly one known flag is silently taken for it.
"""

import difflib
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Literal, TypeAlias, TypedDict

import schemas
from repro.errors import SpecError

Takes: TypeAlias = Literal["nothing", "value", "values", "optional"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    version: str
    wheel_sha256: str
    torch: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class FlagSpan:
    """A flag as it is in the releases ``first`` … ``last`` (places in the release order, both included).

    ``choices`` is None where they are not literal in the source or where plugins may add to them.
    """

    first: int
    last: int
    takes: Takes
    choices: tuple[str, ...] | None
    alias_of: str | None
    deprecated: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class FlagTable:
    """``flags`` maps a flag with its dashes to its spans, in release order."""

    releases: tuple[Release, ...]
    flags: Mapping[str, tuple[FlagSpan, ...]]
    _found: dict[str, Mapping[str, FlagSpan]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def load(cls) -> "FlagTable":
        """The table that comes with graphrepro."""
        return _load()

    @property
    def versions(self) -> tuple[str, ...]:
        return tuple(release.version for release in self.releases)

    def newest(self) -> str:
        return self.releases[-1].version

    def knows(self, version: str) -> bool:
        return version in self.versions

    def has(self, version: str, flag: str) -> bool:
        """Raises SpecError for an unknown version; ``flag`` may be given with or without its dashes."""
        return self._span(version, flag) is not None

    def takes(self, version: str, flag: str) -> Takes:
        """What follows the flag. Raises SpecError for an unknown version or flag."""
        span = self._span(version, flag)
        if span is None:
            raise SpecError(f"SGLang {version} has no flag {dashed(flag)}")
        return span.takes

    def takes_value(self, version: str, flag: str) -> bool:
        return self.takes(version, flag) != "nothing"

    def name_of(self, version: str, flag: str) -> str:
        """The flag's own name where ``flag`` is an alias, else ``flag``; both without dashes."""
        span = self._span(version, flag)
        return (flag if span is None or span.alias_of is None else span.alias_of).removeprefix("--")

    def flags_of(self, version: str) -> frozenset[str]:
        """All flags and aliases of a release, with their dashes."""
        return frozenset(self._spans(version))

    def check_argv(
        self,
        version: str,
        options: Sequence[str],
        *,
        added: Mapping[str, bool] | None = None,
        removed: Sequence[str] = (),
    ) -> tuple[str, ...]:
        """What argparse of that release would reject or misread in these options, one sentence each; empty if nothing.

        ``added`` are flags of a private build (name -> takes a value), ``removed`` those that it lacks.
        """
        extra = {dashed(name): takes for name, takes in (added or {}).items()}
        spans, gone = self._spans(version), {dashed(name) for name in removed}
        problems: list[str] = []
        for flag, values in _groups(options):
            if flag is None:
                problems.append(f"{values[0]!r} is no flag and follows none")
            elif flag in gone or (flag not in spans and flag not in extra):
                problems.append(self._unknown(version, flag, (spans.keys() | extra.keys()) - gone))
            elif flag in extra:
                problems += _count_problem(flag, "value" if extra[flag] else "nothing", values)
            else:
                problems += _value_problems(version, flag, spans[flag], values)
        return tuple(problems)

    def _unknown(self, version: str, flag: str, known: Set[str]) -> str:
        longer = sorted(name for name in known if name.startswith(flag))
        text = f"SGLang {version} has no flag {flag}"
        if len(longer) > 1:
            return f"{text}; argparse would call it ambiguous: {', '.join(longer)}"
        if longer:
            return f"{text}; argparse would silently take it for {longer[0]}"
        if flag in self.flags:
            first, last = self.flags[flag][0].first, self.flags[flag][-1].last
            return f"{text}: it was there from {self.releases[first].version} to {self.releases[last].version}"
        near = difflib.get_close_matches(flag, sorted(known), n=1, cutoff=0.8)
        return f"{text}: did you mean {near[0]}?" if near else text

    def _place(self, version: str) -> int:
        try:
            return self.versions.index(version)
        except ValueError:
            raise SpecError(
                f"unknown SGLang release {version!r}: did you mean {self._nearest(version)!r}? known: "
                f"{', '.join(self.versions)}; a private build names its base release in an engine overlay"
            ) from None

    def _nearest(self, version: str) -> str:
        near = difflib.get_close_matches(version, self.versions, n=1, cutoff=0.0)
        return near[0] if near else self.newest()

    def _span(self, version: str, flag: str) -> FlagSpan | None:
        return self._spans(version).get(dashed(flag))

    def _spans(self, version: str) -> Mapping[str, FlagSpan]:
        """The flags of a release; looked up for each flag of each cell of a plan, so found once."""
        if version not in self._found:
            place = self._place(version)
            self._found[version] = {
                name: span for name, spans in self.flags.items() for span in spans if span.first <= place <= span.last
            }
        return self._found[version]


def dashed(flag: str) -> str:
    """The flag with its two dashes; a short one such as `-h` as it is."""
    return flag if flag.startswith("-") else f"--{flag}"


def _groups(options: Sequence[str]) -> list[tuple[str | None, list[str]]]:
    """Flags with the values that follow them; `--a=b` counts as `--a b`."""
    groups: list[tuple[str | None, list[str]]] = []
    for word in options:
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            groups.append((flag, [value] if equals else []))
        elif groups:
            groups[-1][1].append(word)
        else:
            groups.append((None, [word]))
    return groups


def _value_problems(version: str, flag: str, span: FlagSpan, values: Sequence[str]) -> list[str]:
    problems = _count_problem(flag, span.takes, values)
    if span.choices is not None:
        for value in values:
            if value not in span.choices and "{" not in value:
                problems.append(f"{flag} {value}: SGLang {version} knows only {', '.join(span.choices)}")
    return problems


def _count_problem(flag: str, takes: Takes, values: Sequence[str]) -> list[str]:
    if takes == "nothing" and values:
        return [f"{flag} takes no value, but {values[0]!r} follows it"]
    if takes in ("value", "values") and not values:
        return [f"{flag} needs a value"]
    if takes in ("value", "optional") and len(values) > 1:
        return [f"{flag} takes one value, but {len(values)} follow it"]
    return []


class _SpanDocument(TypedDict, total=False):
    first: str
    last: str
    takes: Takes
    choices: list[str]
    alias_of: str
    deprecated: bool


class _TableDocument(TypedDict):
    releases: list[dict[str, str | None]]
    flags: dict[str, list[_SpanDocument]]


@cache
def _load() -> FlagTable:
    text = (resources.files("matrix.engines") / "flags.json").read_text(encoding="utf-8")
    return read_table(json.loads(text), "matrix/engines/flags.json")


def read_table(document: _TableDocument, where: str) -> FlagTable:
    """The table of a `flag-table` document; raises schemas.SchemaViolation if it is none."""
    schemas.validate(document, "flag-table", where)
    releases = tuple(
        Release(version=str(entry["version"]), wheel_sha256=str(entry["wheel_sha256"]), torch=entry["torch"])
        for entry in document["releases"]
    )
    order = {release.version: place for place, release in enumerate(releases)}
    return FlagTable(
        releases=releases,
        flags={name: tuple(_span(span, order) for span in spans) for name, spans in document["flags"].items()},
    )


def _span(document: _SpanDocument, order: Mapping[str, int]) -> FlagSpan:
    choices = document.get("choices")
    return FlagSpan(
        first=order[document["first"]],
        last=order[document["last"]],
        takes=document["takes"],
        choices=None if choices is None else tuple(choices),
        alias_of=document.get("alias_of"),
        deprecated=document.get("deprecated", False),
    )
