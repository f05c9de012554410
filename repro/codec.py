"""JSON to records and back. Every document is checked against its schema on the way in and on the way out.

Documents carry ``record`` and ``schema_version``; records inside records do not. Whatever is wrong with a document ends
in one `RecordError` of one line: where, the JSON pointer, what is wrong, what to do.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_origin

import msgspec
from cattrs import Converter

import schemas
from repro.canonical import pretty_bytes
from repro.errors import NewerRecordError, RecordError
from repro.jsontext import LARGEST_INTEGER, REMEDY, parse
from repro.migrations import migrate
from repro.model import RECORDS, Scalar

T = TypeVar("T")

_NAMES = {kind: name for name, kind in RECORDS.items()}


def encode(record: object) -> dict[str, Any]:
    """The document of a record: its kind and schema version first, then its fields in order.

    Raises `RecordError` if the record's schema refuses it, TypeError if the object is not one of ``model.RECORDS``.
    """
    name = record_name(type(record))
    where = f"the {name} record cannot be written"
    remedy = "correct the value before storing it"
    try:
        body = _CONVERTER.unstructure(record)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        problem = next(_unsayable(record, ""), str(error))
        raise RecordError(f"{where}: {problem}; {remedy}") from None
    document = {"record": name, "schema_version": schemas.version(name), **body}
    _validate(document, name, where, remedy)
    return document


def decode(document: object, kind: type[T], *, where: str) -> T:
    """The record that a document of the given kind says, brought up to the present schema version first.

    ``where`` names the source in messages. Raises `NewerRecordError` if a newer graphrepro wrote it, `RecordError` for
    anything else that is wrong with it.
    """
    return _decoded(document, kind, where, _CONVERTER.structure)[0]


def _decoded(
    document: object, kind: type[T], where: str, structure: Callable[[dict[str, Any], type[T]], T]
) -> tuple[T, int]:
    """The record, and the schema version that the document was written in."""
    name = record_name(kind)
    if not isinstance(document, Mapping):
        raise RecordError(f"{where}: is not a JSON object but {_json_type(document)}; {REMEDY}")
    if document.get("record") != name:
        found = document.get("record")
        said = f"is a {found[:40]!r} record" if isinstance(found, str) else "does not say which record it is"
        raise RecordError(f"{where}: /record: {said}, and {name!r} is needed; give the right file")
    body = _present(document, name, where)
    _validate(body, name, where, REMEDY)
    del body["record"], body["schema_version"]
    try:
        return structure(body, kind), document["schema_version"]
    except Exception as error:  # noqa: BLE001 - the schema has accepted it: whatever cattrs raises is about the document
        raise RecordError(f"{where}: does not fit the {name} record ({error}); {REMEDY}") from None


def read(path: Path, kind: type[T], *, where: str | None = None) -> T:
    """The record in a file; ``where`` names the file in messages, its path by default. Raises as `decode` does."""
    return read_versioned(path, kind, where=where)[0]


def read_versioned(path: Path | str, kind: type[T], *, where: str | None = None) -> tuple[T, int]:
    """As `read`, and the schema version that the file was written in."""
    said = str(path) if where is None else where
    return _decoded(parse(_bytes(path, said), said), kind, said, _structured)


def read_lines(path: Path, kind: type[T], *, where: str | None = None) -> tuple[tuple[T, ...], str | None]:
    """The records in a file of JSON lines, and what is wrong with its last line if a kill cut it (else None).

    A line that ends and is bad raises as `decode` does, with the file and the line number.
    """
    said = str(path) if where is None else where
    *lines, rest = _bytes(path, said).split(b"\n")
    numbered = [(f"{said}:{number}", line) for number, line in enumerate(lines, start=1)]
    records = [_decoded(parse(line, place), kind, place, _structured)[0] for place, line in numbered]
    if not rest:
        return tuple(records), None
    place = f"{said}:{len(lines) + 1}"
    try:
        document = parse(rest, place)
    except RecordError:
        return tuple(records), f"{place}: the last line is cut off after {len(rest)} bytes"
    return (*records, decode(document, kind, where=place)), None


def dumps(record: object) -> str:
    """The record's document as indented JSON with a final newline, as files and `--json` have it. Raises as encode."""
    return pretty_bytes(encode(record)).decode("utf-8")


def record_name(kind: type) -> str:
    """The name of a kind of record. Raises TypeError if it is not one of ``model.RECORDS``."""
    try:
        return _NAMES[kind]
    except KeyError:
        raise TypeError(f"{kind.__name__} is no kind of record in repro.model.RECORDS") from None


def _bytes(path: Path | str, where: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - ten thousand of them: Path costs as much as reading
            return file.read()
    except OSError as error:
        raise RecordError(f"{where}: cannot be read ({error.strerror}); check the path and its permissions") from None


def _json_type(value: object) -> str:
    names: dict[type, str] = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def _present(document: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    """A copy of the document, at the present version."""
    reads = schemas.version(name)
    found = document.get("schema_version")
    if type(found) is not int or found < 1:
        raise RecordError(f"{where}: /schema_version: is not a version number (1 to {reads}); {REMEDY}")
    if found > reads:
        raise NewerRecordError(
            f"{where}: written by a newer graphrepro ({name} version {found}, this one reads up to {reads}): upgrade"
        )
    try:
        return migrate(document, name, to=reads)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise RecordError(
            f"{where}: cannot be brought from {name} version {found} to version {reads}; {REMEDY}"
        ) from None


def _validate(document: Mapping[str, Any], name: str, where: str, remedy: str) -> None:
    try:
        schemas.validate(document, name, where)
    except schemas.SchemaViolation as violation:
        raise RecordError(f"{violation}; {remedy}") from None


def _integer_out(value: int) -> int:
    if type(value) is int and abs(value) > LARGEST_INTEGER:
        raise ValueError("is an integer of more than 64 bits")
    return value


def _float_out(value: float) -> float:
    """Schemas cannot refuse NaN, and the fast validator takes it for null. Equal records give equal bytes: 3 is 3.0."""
    number = float(value) if type(value) in (int, float) else value
    if isinstance(number, float) and not math.isfinite(number):
        raise ValueError(f"is {number}, which JSON does not have: an unknown number is null")
    return number


def _text_out(value: str) -> str:
    """Python takes half of a surrogate pair (a file name that is not UTF-8) for text; UTF-8 does not."""
    if type(value) is str and not value.isascii():
        value.encode("utf-8")
    return value


def _scalar_out(value: Scalar) -> Scalar:
    if isinstance(value, str):
        return _text_out(value)
    if isinstance(value, float):
        return _float_out(value)
    return value if value is None else _integer_out(value)


def _structured(body: dict[str, Any], kind: type[T]) -> T:
    """The record of a document that its schema has accepted, and that was text: nothing in it is NaN."""
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError:  # such as 1.0 for an integer, which JSON Schema takes
        return _CONVERTER.structure(body, kind)


def _is_literal(kind: Any) -> bool:
    origin: Any = get_origin(kind)
    return origin is Literal


def _unsayable(value: object, pointer: str) -> Iterator[str]:
    """JSON pointer and problem of each value in a record that JSON cannot say; slow, for the message alone."""
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _unsayable(str(key), f"{pointer}/{key!a}")
            yield from _unsayable(item, f"{pointer}/{key}")
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from _unsayable(item, f"{pointer}/{index}")
    else:
        try:
            _scalar_out(value)  # type: ignore[arg-type]
        except UnicodeEncodeError:
            yield f"{pointer}: holds half of a surrogate pair, which is not text"
        except (ValueError, TypeError) as error:
            yield f"{pointer}: {error}"


def _converter() -> Converter:
    """A converter for documents that their schema has accepted: it converts, and leaves the checking to the schema."""
    converter = Converter(
        forbid_extra_keys=True,
        detailed_validation=False,
        unstruct_collection_overrides={tuple: list},
    )
    # JSON Schema, like JSON, takes 1.0 for an integer and 1 for a number.
    converter.register_structure_hook(int, lambda value, _: _integer_out(int(value)))
    converter.register_structure_hook(float, lambda value, _: _float_out(float(value)))
    converter.register_structure_hook(str, lambda value, _: value)
    converter.register_structure_hook(bool, lambda value, _: value)
    converter.register_structure_hook_func(_is_literal, lambda value, _: value)
    converter.register_structure_hook_func(lambda kind: kind == Scalar, lambda value, _: _scalar_out(value))
    converter.register_unstructure_hook(int, _integer_out)
    converter.register_unstructure_hook(float, _float_out)
    converter.register_unstructure_hook(str, _text_out)
    converter.register_unstructure_hook_func(lambda kind: kind == Scalar, _scalar_out)
    # The words of command lines are most of a plan, and need no look at the type of each.
    converter.register_unstructure_hook_func(
        lambda kind: kind == tuple[str, ...], lambda value: [_text_out(item) for item in value]
    )
    return converter


_CONVERTER = _converter()
