"""A file that another load generator wrote -> a baseline. Nothing is guessed: what the file does not state is null,
with a reason, and fields that nothing is taken from are named."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from report.fieldmap import COORDINATES, Entry, FieldMap, recognised, shipped_names
from repro.environment import KEY_FIELDS
from repro.errors import RecordError
from repro.escape import one_line
from repro.intervals import mean_interval
from repro.jsontext import REMEDY, parse
from repro.model import Baseline, BaselineNumber, BaselineSource, Fact, Scalar

NOT_STATED = "not stated in the imported file"
_MOST_UNREAD = 200

Lines = Literal["repeats", "launches"]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    """An object of the file, and its place in messages."""

    place: str
    fields: Mapping[str, Any]

    def find(self, field: str) -> Any:
        """The value at a dotted path; None if there is none."""
        value: Any = self.fields
        for part in field.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value

    def refuse(self, field: str, problem: str) -> RecordError:
        pointer = "/" + field.replace(".", "/")
        return RecordError(f"{self.place}: {pointer}: {one_line(problem)}; correct the file, or map another field")


def import_file(
    path: Path, name: str, fields: FieldMap | None, *, lines: Lines, archived: Baseline | None, now: str
) -> Baseline:
    """The baseline ``name`` from a file of JSON or JSON lines.

    ``fields`` None: the shipped map that recognises the file. ``lines`` says what several lines at the same conditions
    are: repeats within one launch (then their mean is one number), or fresh launches. What the file does not state is
    taken from the ``archived`` record of that name, if there is one. Raises RecordError with the line and the JSON
    pointer for what is wrong.
    """
    raw = _bytes(path)
    found = _lines(raw, path.name)
    known = fields if fields is not None else recognised(found[0].fields)
    if known is None:
        raise RecordError(
            f"{path.name}: no shipped map ({', '.join(shipped_names())}) recognises it; say with --map FILE what its "
            f"fields mean: {', '.join(one_line(key, 40) for key in list(found[0].fields)[:8])}"
        )
    numbers = _numbers(found, known, lines, path.name)
    coordinates = _coordinates(found, known)
    source = BaselineSource(
        title=f"{known.title} output", reference=path.name, dated=None, sha256=sha256(raw).hexdigest(), imported_at=now
    )
    baseline = Baseline(
        name=name,
        source=source,
        target=None if coordinates["target"] is None else str(coordinates["target"]),
        budget=_whole(coordinates["budget"], "budget"),
        topk=_whole(coordinates["topk"], "topk"),
        shape=coordinates["shape"],  # type: ignore[arg-type]  # the schema refuses what is no shape
        graph=coordinates["graph"],  # type: ignore[arg-type]
        nvls=coordinates["nvls"],  # type: ignore[arg-type]
        outcome=None,
        stated=(f"{len(found)} line{'s' if len(found) > 1 else ''}, read as {lines}",),
        measurements=numbers,
        failures=None,
        facts=_facts(found, known),
        unknown=_unknown(coordinates, lines),
        unread=_unread(found, known),
    )
    return baseline if archived is None else _completed(baseline, archived)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from None


def _lines(raw: bytes, name: str) -> list[_Line]:
    """The objects of the file: one, an array of them, or one a line. NaN and Infinity, which Python writes, are kept as
    words: they are refused only where a number is wanted."""
    rows = [(number, row) for number, row in enumerate(raw.split(b"\n"), start=1) if row.strip()]
    several = len(rows) > 1 and rows[0][1].strip().endswith(b"}") and rows[0][1].lstrip().startswith(b"{")
    if several:
        documents = [(f"{name}:{number}", _parsed(row, f"{name}:{number}")) for number, row in rows]
    else:
        whole = _parsed(raw, name)
        items = whole if isinstance(whole, list) else [whole]
        documents = [(f"{name}: item {i}" if isinstance(whole, list) else name, item) for i, item in enumerate(items)]
    for place, document in documents:
        if not isinstance(document, dict):
            raise RecordError(f"{place}: is not a JSON object; give the output file of a load generator")
    if not documents:
        raise RecordError(f"{name}: holds no result; give the output file of a load generator")
    return [_Line(place=place, fields=document) for place, document in documents if isinstance(document, dict)]


def _parsed(raw: bytes, place: str) -> object:
    try:
        return parse(raw, place, constant=str)
    except RecordError as error:
        said = str(error).removesuffix(REMEDY)
        raise RecordError(f"{said}give the output file of a load generator, or correct it") from None


def _numbers(found: Sequence[_Line], fields: FieldMap, lines: Lines, name: str) -> tuple[BaselineNumber, ...]:
    groups: dict[tuple[tuple[str, int], ...], list[_Line]] = {}
    for line in found:
        groups.setdefault(_conditions(line, fields), []).append(line)
    numbers = [
        _number(number, entry, dict(at), group, lines)
        for at, group in sorted(groups.items())
        for number, entry in fields.numbers.items()
    ]
    if all(number.value is None for number in numbers):
        wanted = ", ".join(sorted({entry.field or "" for entry in fields.numbers.values()}))
        raise RecordError(f"{name}: has none of the numbers that the map names ({wanted}); give another --map")
    return tuple(numbers)


def _conditions(line: _Line, fields: FieldMap) -> tuple[tuple[str, int], ...]:
    at: list[tuple[str, int]] = []
    for name, field in sorted(fields.at.items()):
        value = line.find(field)
        if value is None:
            continue
        if type(value) is not int or value < 1:
            raise line.refuse(field, f"is {value!r:.60}, and a whole number from 1 is needed")
        at.append((name, value))
    return tuple(at)


def _number(name: str, entry: Entry, at: dict[str, int], group: Sequence[_Line], lines: Lines) -> BaselineNumber:
    read = [value for line in group if (value := _value(line, entry)) is not None]
    launches = tuple(read) if lines == "launches" else ()
    low = high = None
    if launches:
        _, low, high = mean_interval(launches)
    elif len(read) > 1:
        low, high = min(read), max(read)
    return BaselineNumber(
        name=name,
        at=at,
        value=fmean(read) if read else None,
        low=low,
        high=high,
        unit=entry.unit or "count",
        n=len(launches) or None,
        values=launches,
        basis="stated",
        reason=None if read else NOT_STATED,
    )


def _value(line: _Line, entry: Entry) -> float | None:
    if entry.field is None:
        return None
    value = line.find(entry.field)
    if value is None or value in entry.ignore:
        return None
    if type(value) not in {int, float}:
        raise line.refuse(entry.field, f"is {value!r:.60}, and a number is needed")
    if value <= 0:
        raise line.refuse(entry.field, f"is {value}, and {entry.unit} of something that was measured are more than 0")
    return float(value) * entry.scale


def _stated(found: Sequence[_Line], entry: Entry) -> Scalar:
    """What all lines say of something that is one for the whole file. Raises RecordError if they contradict."""
    if entry.field is None:
        return entry.value
    known: Scalar = None
    for line in found:
        value = line.find(entry.field)
        if value is None or value in entry.ignore or value == "":
            continue
        if not isinstance(value, (str, int, float, bool)):
            raise line.refuse(entry.field, "is not one plain value")
        key = str(value).lower() if isinstance(value, bool) else str(value)
        if entry.words and key not in entry.words:
            raise line.refuse(entry.field, f"is {key!r:.60}, and the map has words for: {', '.join(entry.words)}")
        value = entry.words[key] if entry.words else value
        if known is not None and value != known:
            raise line.refuse(entry.field, f"is {value!r:.60}, and an earlier line says {known!r:.60}")
        known = value
    return known


def _coordinates(found: Sequence[_Line], fields: FieldMap) -> dict[str, Scalar]:
    return {
        name: _stated(found, fields.coordinates[name]) if name in fields.coordinates else None for name in COORDINATES
    }


def _whole(value: Scalar, name: str) -> int | None:
    if value is None or (type(value) is int and value >= 0):
        return value
    raise RecordError(f"the map's coordinate {name} is {value!r:.60}, and a whole number is needed; correct the map")


def _facts(found: Sequence[_Line], fields: FieldMap) -> dict[str, Fact]:
    facts = {field: Fact(value=None, status="unknown", reason=NOT_STATED) for field in KEY_FIELDS}
    for name, names in fields.own_words.items():
        said = [f"{field} {value}" for field in names if (value := found[0].find(field)) is not None]
        if said:
            reason = "stated in words that cannot be compared with ours: " + one_line(", ".join(said), 200)
            facts[name] = Fact(value=None, status="unknown", reason=reason)
    for name, entry in fields.facts.items():
        value = _stated(found, entry)
        if value is not None:
            facts[name] = Fact(value=value, status="declared", reason=None)
    return facts


def _unknown(coordinates: Mapping[str, Scalar], lines: Lines) -> dict[str, str]:
    unknown = {name: NOT_STATED for name, value in coordinates.items() if value is None} | {"outcome": NOT_STATED}
    if coordinates["shape"] in {"none", "chain"}:
        unknown.pop("topk", None)
    if lines == "repeats":
        unknown["output_rate_launches"] = "the file does not say how many launches its lines are over"
    return unknown


def _unread(found: Sequence[_Line], fields: FieldMap) -> tuple[str, ...]:
    """Fields that nothing is taken from, nested ones by their dotted paths."""
    read = fields.fields()
    names = {name for line in found for name in _paths(line.fields) if name not in read}
    kept = sorted(one_line(name, 100) for name in names)
    if len(kept) > _MOST_UNREAD:
        kept = [*kept[:_MOST_UNREAD], f"and {len(kept) - _MOST_UNREAD} more"]
    return tuple(name for name in kept if name)


def _paths(document: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """Dotted paths, one level into nested objects: what is deeper is named by its parent."""
    for key, value in document.items():
        if isinstance(value, dict) and not before:
            yield from _paths(value, f"{key}.")
        else:
            yield before + key


def _completed(baseline: Baseline, archived: Baseline) -> Baseline:
    """The imported record with what only the archived one of its name states. Raises RecordError if they contradict."""
    taken: dict[str, Any] = {}
    for name in COORDINATES:
        ours, theirs = getattr(baseline, name), getattr(archived, name)
        if ours is None:
            taken[name] = theirs
        elif theirs is not None and ours != theirs:
            raise RecordError(
                f"{baseline.source.reference}: says {name} {ours}, and the archived {archived.name} is {theirs}: it is "
                f"not that result; give another --as"
            )
    measured = {(number.name, tuple(sorted(number.at.items()))) for number in baseline.measurements}
    kept = [n for n in archived.measurements if (n.name, tuple(sorted(n.at.items()))) not in measured]
    facts = {**archived.facts, **{name: fact for name, fact in baseline.facts.items() if fact.value is not None}}
    facts |= {name: fact for name, fact in baseline.facts.items() if name not in archived.facts}
    filled = replace(
        baseline,
        **taken,
        outcome=archived.outcome,
        stated=(*baseline.stated, *archived.stated, *_differences(baseline, archived)),
        measurements=(*baseline.measurements, *kept),
        facts=facts,
    )
    # What both leave open. Doubts of the account about a figure of its own go with the figure.
    stated = {number.name for number in baseline.measurements if number.value is not None}
    doubts = {name: why for name, why in archived.unknown.items() if not any(name.startswith(n) for n in stated)}
    both = {**baseline.unknown, **doubts}
    return replace(filled, unknown={name: why for name, why in both.items() if getattr(filled, name, None) is None})


def _differences(baseline: Baseline, archived: Baseline) -> Iterable[str]:
    """Where the file and the account both give a figure: both are kept in words."""
    theirs = {(number.name, tuple(sorted(number.at.items()))): number for number in archived.measurements}
    for number in baseline.measurements:
        other = theirs.get((number.name, tuple(sorted(number.at.items()))))
        if other is not None and other.value is not None and number.value is not None:
            yield f"the account says {other.value:g} {other.unit} where the file says {number.value:g} {number.unit}"
