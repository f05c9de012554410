"""JSON Schemas of everything that graphrepro stores or prints, and the loader that checks documents against them.

Each ``<name>.json`` in this folder is one schema (draft 2020-12); ``definitions.json`` holds the parts they share.
``jsonschema_rs`` decides whether a document is valid, because a run is ten thousand documents; ``jsonschema`` is asked
only for the words when one is not.
"""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import jsonschema_rs

if TYPE_CHECKING:  # what finds the words is imported where a document is refused: it is a sixth of a command's start
    from jsonschema import ValidationError
    from referencing import Registry

__all__ = ["SchemaViolation", "names", "registry", "schema", "validate", "version"]

_SHARED = "definitions"
_LONGEST_PROBLEM = 200
_LONG_LIST = 50
_JSON_WORDS = {"None": "null", "True": "true", "False": "false"}


class SchemaViolation(ValueError):  # noqa: N818 - what the document did, not what this program did
    """A document that its schema refuses. ``pointer`` is the JSON pointer to the place ("" is the whole document),
    ``problem`` one line that says what is wrong there."""

    def __init__(self, where: str, pointer: str, problem: str) -> None:
        self.pointer = pointer
        self.problem = problem
        super().__init__(": ".join(part for part in (where, pointer, problem) if part))


@cache
def names() -> tuple[str, ...]:
    """Names of the schemas, sorted; the shared definitions are not one of them."""
    return tuple(name for name in sorted(_contents()) if name != _SHARED)


def schema(name: str) -> Mapping[str, object]:
    """The schema of that name (``definitions`` gives the shared parts). Raises KeyError if there is none."""
    return _contents()[name]


def version(name: str) -> int:
    """The ``schema_version`` that the schema describes. Raises KeyError if it is not a record's schema."""
    constant: int = _contents()[name]["properties"]["schema_version"]["const"]
    return constant


@cache
def registry() -> "Registry[Any]":
    """All schemas by their ``$id``, for `jsonschema`."""
    from referencing import Registry, Resource

    return Registry().with_resources((item["$id"], Resource.from_contents(item)) for item in _contents().values())


def validate(document: object, name: str, where: str) -> None:
    """Return if ``document`` (as `json` reads it) fits the schema ``name``.

    Raises `SchemaViolation`, whose message starts with ``where``, and KeyError if there is no such schema.
    """
    try:
        _judge(name).validate(document)
    except jsonschema_rs.ValidationError as refusal:
        pointer, problem = _worded(document, name, refusal)
        raise SchemaViolation(where, pointer, problem) from None
    except UnicodeEncodeError:
        raise SchemaViolation(where, "", "holds half of a surrogate pair, which is not text") from None
    except (ValueError, RecursionError) as error:
        raise SchemaViolation(where, "", f"is not JSON ({_one_line(str(error))})") from None


@cache
def _contents() -> Mapping[str, dict[str, Any]]:
    files = (entry for entry in resources.files(__name__).iterdir() if entry.name.endswith(".json"))
    return {entry.name.removesuffix(".json"): json.loads(entry.read_text(encoding="utf-8")) for entry in files}


@cache
def _judge(name: str) -> jsonschema_rs.Draft202012Validator:
    shared = jsonschema_rs.Registry([(item["$id"], item) for item in _contents().values()])
    return jsonschema_rs.Draft202012Validator(
        _contents()[name], registry=shared, offline=True, formats={"date-time": _is_moment}, validate_formats=True
    )


def _is_moment(value: object) -> bool:
    """The calendar's part of a moment (no 30 February), which a pattern cannot say. One rule for both validators."""
    try:
        return not isinstance(value, str) or bool(datetime.fromisoformat(value))
    except ValueError:
        return False


def _pattern(_: object, pattern: str, instance: object, part: Mapping[str, Any]) -> "Iterator[ValidationError]":
    """Python's ``$`` also matches before a final newline; in JSON Schema, as in the other validator, it does not.
    And a title tells a reader more than a regular expression does."""
    from jsonschema import ValidationError

    if isinstance(instance, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), instance):
        if "title" not in part:
            yield ValidationError(f"{instance!r} does not match {pattern!r}")
            return
        meaning = f" ({part['description'].rstrip('.')})" if "description" in part else ""
        yield ValidationError(f"{instance!r} is not: {part['title']}{meaning}")


@cache
def _speaker(name: str) -> Any:
    from jsonschema import Draft202012Validator, FormatChecker
    from jsonschema.validators import extend

    formats = FormatChecker(formats=())
    formats.checks("date-time")(_is_moment)
    wording = extend(Draft202012Validator, {"pattern": _pattern})  # type: ignore[no-untyped-call]
    return wording(_contents()[name], registry=registry(), format_checker=formats)


def _worded(document: object, name: str, refusal: jsonschema_rs.ValidationError) -> tuple[str, str]:
    from jsonschema.exceptions import best_match

    narrow, kept = _narrowed(document, refusal.instance_path)
    try:
        error = best_match(_speaker(name).iter_errors(narrow))
    except RecursionError:
        error = None
    if error is None:
        return _pointer(refusal.instance_path), _one_line(refusal.message)
    path = list(error.absolute_path)
    for depth in kept:
        if path[:depth] == refusal.instance_path[:depth] and len(path) > depth:
            path[depth] = refusal.instance_path[depth]
    first, space, rest = error.message.partition(" ")
    return _pointer(path), _one_line(_JSON_WORDS.get(first, first) + space + rest)


def _narrowed(document: Any, path: list[str | int]) -> tuple[Any, list[int]]:
    """The document with long lists on the way to the fault cut down to the item that is on the way, and the depths of
    those lists. The validator that finds the words takes a millisecond for a step, and a plan may have thousands."""
    if not path:
        return document, []
    first, *rest = path
    inner, depths = _narrowed(document[first], rest)
    kept = [depth + 1 for depth in depths]
    if isinstance(first, str):
        return {**document, first: inner}, kept
    if len(document) > _LONG_LIST:
        return [inner], [0, *kept]
    return [*document[:first], inner, *document[first + 1 :]], kept


def _pointer(path: Any) -> str:
    """JSON pointer (RFC 6901)."""
    return _one_line("".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path))


def _one_line(text: str) -> str:
    """Printable and short; the end is kept, since there the validators say what they expected."""
    printable = "".join(mark if mark.isprintable() else f"\\x{ord(mark):02x}" for mark in text)
    if len(printable) <= _LONGEST_PROBLEM:
        return printable
    return f"{printable[: _LONGEST_PROBLEM // 2]}…{printable[-_LONGEST_PROBLEM // 2 :]}"
