"""Bytes and digests of documents."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.canonical import canonical_bytes, pretty_bytes, sha256_file, sha256_of

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
DOCUMENTS = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)


def test_canonical_form() -> None:
    assert canonical_bytes({"b": [1, 2.5, None], "a": {"é": True}}) == '{"a":{"é":true},"b":[1,2.5,null]}'.encode()


def test_pretty_form_keeps_the_order() -> None:
    assert pretty_bytes({"b": [1], "a": {}}) == b'{\n  "b": [\n    1\n  ],\n  "a": {}\n}\n'


@given(DOCUMENTS)
def test_both_forms_say_the_same(document: Any) -> None:
    assert json.loads(canonical_bytes(document)) == json.loads(pretty_bytes(document)) == document


@given(st.dictionaries(st.text(), LEAVES, min_size=2))
def test_order_of_keys_does_not_matter(document: dict[str, Any]) -> None:
    backwards = dict(reversed(document.items()))
    assert canonical_bytes(backwards) == canonical_bytes(document)
    assert sha256_of(backwards) == sha256_of(document) == hashlib.sha256(canonical_bytes(document)).hexdigest()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), "\ud800"])
def test_what_json_cannot_say_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        canonical_bytes({"a": [value]})
    with pytest.raises(ValueError):
        pretty_bytes({"a": [value]})


def test_digest_of_a_file(tmp_path: Path) -> None:
    data = bytes(range(256)) * 10_000
    (tmp_path / "file").write_bytes(data)
    assert sha256_file(tmp_path / "file") == hashlib.sha256(data).hexdigest()
