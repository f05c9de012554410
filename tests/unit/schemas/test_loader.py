"""The loader: what it finds, what it says, and that its two validators are of one mind."""

import contextlib
import copy
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import schemas
from repro.errors import RecordError
from repro.jsontext import parse
from repro.model import RECORDS

RECORD_FILES = Path(__file__).parents[2] / "data" / "records"
SHARED = schemas.schema("definitions")["$defs"]


def example(name: str) -> Any:
    return json.loads((RECORD_FILES / f"{name}-v{schemas.version(name)}.json").read_text(encoding="utf-8"))


def parts(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [part for item in node for part in parts(item)]
    if not isinstance(node, dict):
        return []
    return [node, *(part for item in node.values() for part in parts(item))]


def test_every_record_has_a_schema() -> None:
    assert set(RECORDS) <= set(schemas.names())
    assert "definitions" not in schemas.names()


@pytest.mark.parametrize("name", [*schemas.names(), "definitions"])
def test_schema_is_valid_and_named_after_its_file(name: str) -> None:
    schema = schemas.schema(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert str(schema["$id"]).startswith(f"urn:graphrepro:schema:{name}:")
    assert schema["title"]
    assert schema["description"]


@pytest.mark.parametrize("name", RECORDS)
def test_version_stands_in_the_id(name: str) -> None:
    assert schemas.schema(name)["$id"] == f"urn:graphrepro:schema:{name}:{schemas.version(name)}"


@pytest.mark.parametrize("name", [*RECORDS, "definitions"])
def test_objects_are_closed_and_all_their_fields_required(name: str) -> None:
    for part in parts(schemas.schema(name)):
        if part.get("type") == "object":
            assert "additionalProperties" in part
            assert part.get("required", []) == list(part.get("properties", {}))
            assert ("properties" in part) == (part["additionalProperties"] is False)


@pytest.mark.parametrize("name", [*schemas.names(), "definitions"])
def test_references_lead_somewhere(name: str) -> None:
    schema = schemas.schema(name)
    resolver = schemas.registry().resolver(base_uri=str(schema["$id"]))
    for part in parts(schema):
        if isinstance(part.get("$ref"), str):
            resolver.lookup(part["$ref"])


def test_message_names_the_place() -> None:
    plan = example("plan")
    plan["steps"] *= 4
    plan["steps"][3] = copy.deepcopy(plan["steps"][3])
    plan["steps"][3]["coordinates"]["budget"] = -1
    with pytest.raises(schemas.SchemaViolation) as caught:
        schemas.validate(plan, "plan", "plan.json")
    assert str(caught.value) == "plan.json: /steps/3/coordinates/budget: -1 is less than the minimum of 0"
    assert caught.value.pointer == "/steps/3/coordinates/budget"
    assert caught.value.problem == "-1 is less than the minimum of 0"


def test_fault_deep_in_long_lists_is_found_quickly() -> None:
    plan = example("plan")
    plan["steps"] = [copy.deepcopy(plan["steps"][0]) for _ in range(3000)]
    plan["steps"][2999]["checks"] = [copy.deepcopy(plan["steps"][0]["checks"][0]) for _ in range(60)]
    plan["steps"][2999]["checks"][59]["limit_s"] = None
    begun = time.perf_counter()
    with pytest.raises(schemas.SchemaViolation) as caught:
        schemas.validate(plan, "plan", "x")
    assert str(caught.value) == "x: /steps/2999/checks/59/limit_s: null is not of type 'number'"
    assert time.perf_counter() - begun < 1.5  # some 0.03 s; 5 s when every step is looked at


def test_pointer_is_escaped() -> None:
    document = example("environment")
    document["packages"] = {"a/b~c\n": ""}
    with pytest.raises(schemas.SchemaViolation) as caught:
        schemas.validate(document, "environment", "x")
    assert caught.value.pointer == "/packages/a~1b~0c\\x0a"


def test_message_is_one_short_line_that_keeps_its_end() -> None:
    document = example("verdict")
    document["reasons"] = "word\n" * 10_000
    with pytest.raises(schemas.SchemaViolation, match=r"^x: /reasons: .*is not of type 'array'$") as caught:
        schemas.validate(document, "verdict", "x")
    assert len(str(caught.value)) < 250


def test_json_words_in_messages() -> None:
    with pytest.raises(schemas.SchemaViolation, match=r"^x: /statement: null is not of type 'string'$"):
        schemas.validate({**example("verdict"), "statement": None}, "verdict", "x")


@pytest.mark.parametrize(
    "document",
    [
        {1: 2},
        {"record": object()},
        {"record": "\ud800"},
        {"\ud800": 1},
        float("nan"),
    ],
)
def test_what_is_not_json_is_refused(document: object) -> None:
    with pytest.raises(schemas.SchemaViolation):
        schemas.validate(document, "run", "x")


def test_deep_nesting_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(3000):
        deep = [deep]
    with pytest.raises(schemas.SchemaViolation):
        schemas.validate({**example("verdict"), "reasons": deep}, "verdict", "x")


def test_unknown_schema() -> None:
    with pytest.raises(KeyError):
        schemas.validate({}, "no-such-record", "x")


def agree(document: Any, name: str) -> bool:
    fast = schemas._judge(name).is_valid(document)
    assert schemas._speaker(name).is_valid(document) == fast
    return fast


@pytest.mark.parametrize("name", RECORDS)
def test_validators_agree_on_examples(name: str) -> None:
    assert agree(example(name), name)


def bad_documents() -> dict[str, Any]:
    found = {}
    for path in sorted((RECORD_FILES / "bad").glob("*.json")):
        with contextlib.suppress(RecordError):  # not JSON at all
            found[path.stem] = parse(path.read_bytes(), path.name)
    return found


@pytest.mark.parametrize(("fault", "document"), bad_documents().items(), ids=bad_documents())
def test_validators_agree_on_bad_documents(fault: str, document: Any) -> None:
    name = document.get("record", "verdict") if isinstance(document, dict) else "verdict"
    agree(document, name if isinstance(name, str) else "verdict")


SPOILT = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", ".", "..", "a\n", "a/b", "/a", "tree", "none", "unknown", "pass", "2026-02-30T00:00:00Z"]),
    st.just([]),
    st.just({}),
    st.text(max_size=3),
)


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [path, *(place for key, item in items for place in places(item, (*path, key)))]


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_validators_agree_on_spoilt_documents(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(RECORDS)))
    document = example(name)
    for _ in range(data.draw(st.integers(1, 2))):
        *way, last = data.draw(st.sampled_from([place for place in places(document) if place]))
        holder = document
        for key in way:
            holder = holder[key]
        if data.draw(st.booleans()):
            holder[last] = data.draw(SPOILT)
        elif isinstance(holder, dict):
            holder[f"{last}-more"] = holder.pop(last)
        else:
            del holder[last]
    agree(document, name)


def test_ten_thousand_steps_are_checked_quickly() -> None:
    plan = example("plan")
    plan["steps"] *= 10_000
    schemas.validate(plan, "plan", "x")
    begun = time.perf_counter()
    schemas.validate(plan, "plan", "x")
    # Some 0.2 s on an idle core; the Python validator takes over ten.
    assert time.perf_counter() - begun < 3
