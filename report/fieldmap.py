"""What a foreign file's fields mean: a small map, read from TOML. Shipped maps are in `report/maps/`."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from repro.errors import SpecError
from repro.escape import one_line
from repro.model import Scalar

COORDINATES = ("target", "budget", "topk", "shape", "graph", "nvls")
_TABLES = ("at", "numbers", "coordinates", "facts", "own_words")
_KEYS = {"title", "marks", "extends", *_TABLES}
_ENTRY_KEYS = {"field", "value", "unit", "scale", "words", "ignore"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """Where one thing is from: a ``field`` (dots go into nested objects), or a fixed ``value``.

    A number is multiplied by ``scale`` to be in ``unit``. ``words`` says what a value is called here, and values in
    ``ignore`` say nothing.
    """

    field: str | None
    value: Scalar
    unit: str | None
    scale: float
    words: Mapping[str, Scalar]
    ignore: tuple[Scalar, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldMap:
    """``marks``: fields that tell such a file from others. ``own_words``: a fact, and the fields that state it in words
    that cannot be compared with ours."""

    title: str
    marks: tuple[str, ...]
    at: Mapping[str, str]
    numbers: Mapping[str, Entry]
    coordinates: Mapping[str, Entry]
    facts: Mapping[str, Entry]
    own_words: Mapping[str, tuple[str, ...]]

    def fields(self) -> frozenset[str]:
        """Every field that something is taken from."""
        entries = (*self.numbers.values(), *self.coordinates.values(), *self.facts.values())
        named = [entry.field for entry in entries if entry.field is not None]
        return frozenset([*named, *self.at.values(), *(name for names in self.own_words.values() for name in names)])


def shipped_names() -> tuple[str, ...]:
    """Names of the maps that come with graphrepro."""
    files = (file.name for file in resources.files("report.maps").iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml")))


def shipped(name: str) -> FieldMap:
    """A shipped map. Raises SpecError if there is none of that name."""
    if name not in shipped_names():
        raise SpecError(f"no map is called {one_line(name)!r}; there are: {', '.join(shipped_names())}")
    text = (resources.files("report.maps") / f"{name}.toml").read_text(encoding="utf-8")
    return _map(tomllib.loads(text), f"{name}.toml")


def read_map(given: str) -> FieldMap:
    """The map of that shipped name, or in that file. Raises SpecError for one that is wrong, with the place in it."""
    if given in shipped_names():
        return shipped(given)
    path = Path(given)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        known = ", ".join(shipped_names())
        raise SpecError(f"--map {path}: {error.strerror}; give a file, or one of: {known}") from None
    except UnicodeDecodeError:
        raise SpecError(f"--map {path}: is not UTF-8; write it as TOML") from None
    try:
        return _map(tomllib.loads(text), str(path))
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"--map {path}: is not TOML ({one_line(str(error))}); correct it") from None


def recognised(line: Mapping[str, Any]) -> FieldMap | None:
    """The shipped map whose marks the line of a file has; None if there is none."""
    maps = (shipped(name) for name in shipped_names())
    return next((found for found in maps if found.marks and all(mark in line for mark in found.marks)), None)


def _map(document: Mapping[str, Any], where: str) -> FieldMap:
    for key in document:
        if key not in _KEYS:
            raise SpecError(
                f"{where}: /{one_line(key)}: is no part of a map; the parts are: {', '.join(sorted(_KEYS))}"
            )
    for table in _TABLES:
        if not isinstance(document.get(table, {}), dict):
            raise SpecError(f"{where}: /{table}: is not a table; write [{table}]")
    base = shipped(_text(document["extends"], where, "/extends")) if "extends" in document else None
    own = {table: document.get(table, {}) for table in _TABLES}
    at = {name: _text(field, where, f"/at/{name}") for name, field in own["at"].items()}
    words = {name: _texts(fields, where, f"/own_words/{name}") for name, fields in own["own_words"].items()}
    numbers, coordinates, facts = (
        {name: _entry(entry, where, f"/{table}/{name}") for name, entry in own[table].items()}
        for table in ("numbers", "coordinates", "facts")
    )
    _check(where, numbers, coordinates)
    return FieldMap(
        title=_text(document.get("title", base.title if base else where), where, "/title"),
        marks=_texts(document.get("marks", []), where, "/marks"),
        at={**(base.at if base else {}), **at},
        numbers={**(base.numbers if base else {}), **numbers},
        coordinates={**(base.coordinates if base else {}), **coordinates},
        facts={**(base.facts if base else {}), **facts},
        own_words={**(base.own_words if base else {}), **words},
    )


def _check(where: str, numbers: Mapping[str, Entry], coordinates: Mapping[str, Entry]) -> None:
    for name, entry in numbers.items():
        if entry.unit is None or entry.field is None:
            raise SpecError(f'{where}: /numbers/{one_line(name)}: needs a field and a unit, such as unit = "tok/s"')
    for name in coordinates:
        if name not in COORDINATES:
            raise SpecError(
                f"{where}: /coordinates/{one_line(name)}: is no coordinate; they are: {', '.join(COORDINATES)}"
            )


def _entry(given: Any, where: str, pointer: str) -> Entry:
    """An entry as a table; a plain value is short for `{ value = ... }`."""
    table = given if isinstance(given, dict) else {"value": given}
    pointer = one_line(pointer)
    unknown = sorted(set(table) - _ENTRY_KEYS)
    if unknown:
        raise SpecError(f"{where}: {pointer}/{one_line(unknown[0])}: is not one of {', '.join(sorted(_ENTRY_KEYS))}")
    if ("field" in table) == ("value" in table):
        raise SpecError(f"{where}: {pointer}: needs either a field or a value")
    scale = table.get("scale", 1.0)
    if type(scale) not in {int, float} or not 0 < scale < float("inf"):
        raise SpecError(f"{where}: {pointer}/scale: is not a positive number")
    if not isinstance(table.get("words", {}), dict) or not isinstance(table.get("ignore", []), list):
        raise SpecError(f"{where}: {pointer}: words is a table and ignore is a list")
    value = table.get("value")
    if not isinstance(value, (str, int, float, bool, type(None))):
        raise SpecError(f"{where}: {pointer}/value: is not one plain value")
    return Entry(
        field=_text(table["field"], where, f"{pointer}/field") if "field" in table else None,
        value=value,
        unit=_text(table["unit"], where, f"{pointer}/unit") if "unit" in table else None,
        scale=float(scale),
        words=table.get("words", {}),
        ignore=tuple(table.get("ignore", [])),
    )


def _text(given: Any, where: str, pointer: str) -> str:
    if not isinstance(given, str) or not given:
        raise SpecError(f"{where}: {one_line(pointer)}: is not a text")
    return given


def _texts(given: Any, where: str, pointer: str) -> tuple[str, ...]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise SpecError(f"{where}: {one_line(pointer)}: is not a list of texts")
    return tuple(_text(item, where, pointer) for item in given)
