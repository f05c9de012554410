"""Strict JSON text: the fast way says what the strict way says, and refuses what it refuses."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro import codec
from repro.canonical import canonical_bytes, pretty_bytes
from repro.errors import RecordError
from repro.jsontext import LARGEST_INTEGER, parse
from repro.model import RECORDS

EXAMPLES = Path(__file__).parents[2] / "data" / "records"
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-LARGEST_INTEGER, LARGEST_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=30,
)


def told(document: object) -> str:
    """With the types of numbers: 1, 1.0 and True are three things."""
    return repr(document)


@given(document=documents)
def test_what_was_written_is_read_back(document: object) -> None:
    assert told(parse(pretty_bytes(document), "x")) == told(document)
    assert told(parse(json.dumps(document).encode(), "x")) == told(document)
    line = canonical_bytes(document)
    assert told(parse(line, "x")) == told(json.loads(line))


@pytest.mark.parametrize("integer", [LARGEST_INTEGER + 1, -LARGEST_INTEGER - 1, 2**64 - 1, 2**64, 10**25])
@pytest.mark.parametrize("shape", ["{}", "-{}", "[\n  {}\n]\n", '{{\n  "a": {}\n}}\n', '{{"a":{}}}', "[0,{}]", "\t{}"])
def test_integers_of_more_than_64_bits_are_refused(shape: str, integer: int) -> None:
    with pytest.raises(RecordError, match="more than 64 bits"):
        parse(shape.format(abs(integer)).encode(), "x")


@pytest.mark.parametrize(
    "text",
    [
        '{\n  "a": 1,\n  "a": 2\n}\n',
        '{\n  "a": 1,\n  "a": 1\n}\n',
        '{"a":1,"\\u0061":1}',
        '{"b":{"a":1,"a":1}}',
        "[NaN]",
        "[-Infinity]",
        "[1e400]",
        '"\\ud800"',
        "\ufeff{}",
        "{} {}",
        "[1,]",
        "[" * 100_000,
        "",
        "\n",
    ],
)
def test_what_is_no_strict_json_is_refused(text: str) -> None:
    with pytest.raises(RecordError, match=r"^x: "):
        parse(text.encode(), "x")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_a_file_says_what_its_document_says(path: Path, tmp_path: Path) -> None:
    """Read from a file, records are made another way than from a document in memory."""
    document = json.loads(path.read_bytes())
    kind = RECORDS[document["record"]]
    record = codec.decode(document, kind, where="x")
    rewritten = tmp_path / path.name
    rewritten.write_bytes(pretty_bytes(document))
    for place in (path, rewritten):
        assert told(codec.read(place, kind)) == told(record)
        assert codec.read_versioned(place, kind) == (record, document["schema_version"])


def test_whole_numbers_written_as_fractions_are_integers_where_integers_are_due(tmp_path: Path) -> None:
    document = json.loads((EXAMPLES / "result-v2.json").read_bytes()) | {"attempt": 1.0}
    path = tmp_path / "result.json"
    path.write_bytes(pretty_bytes(document))
    result = codec.read(path, RECORDS["result"])
    assert told(result) == told(codec.decode(document | {"attempt": 1}, RECORDS["result"], where="x"))
