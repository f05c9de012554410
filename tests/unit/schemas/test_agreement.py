"""Dataclasses and schemas say the same: walked side by side, and by documents made from the schemas."""

import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import schemas
from repro import codec
from repro.model import RECORDS, Scalar

LEAVES = {str: {"string"}, int: {"integer"}, float: {"number"}, bool: {"boolean"}}
JSON_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def resolved(node: Any, resolver: Any) -> tuple[Any, Any]:
    """The schema that a reference leads to, and the resolver for what is in it."""
    while "$ref" in node:
        found = resolver.lookup(node["$ref"])
        node, resolver = found.contents, found.resolver
    return node, resolver


def without_null(node: Any, resolver: Any) -> tuple[Any, Any, bool]:
    """The schema for what is not null, and whether null is allowed."""
    node, resolver = resolved(node, resolver)
    if "anyOf" in node:
        others = [item for item in node["anyOf"] if item != {"type": "null"}]
        assert len(others) == 1 == len(node["anyOf"]) - 1
        node, resolver = resolved(others[0], resolver)
        return ({**node, "type": [node["type"]]} if isinstance(node.get("type"), str) else node), resolver, True
    if "enum" in node:
        return {**node, "enum": [item for item in node["enum"] if item is not None]}, resolver, None in node["enum"]
    kinds = node["type"] if isinstance(node["type"], list) else [node["type"]]
    return {**node, "type": [kind for kind in kinds if kind != "null"]}, resolver, "null" in kinds


def compare(hint: Any, node: Any, resolver: Any, place: str) -> None:
    node, resolver, nullable = without_null(node, resolver)
    if hint == Scalar:
        assert nullable, place
        assert node["type"] == ["string", "number", "boolean"], place
        return
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    assert nullable == (type(None) in options), f"{place}: null"
    (hint,) = (option for option in options if option is not type(None))
    arguments = get_args(hint)
    if is_dataclass(hint):
        compare_object(hint, node, resolver, place, {})
    elif get_origin(hint) is Literal:
        assert sorted(node["enum"]) == sorted(arguments), place
    elif get_origin(hint) is tuple:
        assert node["type"] == ["array"], place
        if arguments[-1] is Ellipsis:
            compare(arguments[0], node["items"], resolver, f"{place}[]")
        else:
            assert node["items"] is False, place
            assert node["minItems"] == node["maxItems"] == len(arguments) == len(node["prefixItems"]), place
            for index, argument in enumerate(arguments):
                compare(argument, node["prefixItems"][index], resolver, f"{place}[{index}]")
    elif get_origin(hint) is Mapping:
        assert node["type"] == ["object"], place
        assert arguments[0] is str, place
        compare(arguments[1], node["additionalProperties"], resolver, f"{place}{{}}")
    else:
        assert set(node["type"]) == LEAVES[hint], place


def compare_object(kind: Any, node: Any, resolver: Any, place: str, extra: dict[str, Any]) -> None:
    hints = get_type_hints(kind)
    names = [*extra, *(field.name for field in fields(kind))]
    assert list(node["properties"]) == names, place
    assert node["required"] == names, place
    assert node["additionalProperties"] is False, place
    for name, constant in extra.items():
        assert node["properties"][name] == {"const": constant}, place
    for field in fields(kind):
        compare(hints[field.name], node["properties"][field.name], resolver, f"{place}.{field.name}")


@pytest.mark.parametrize("name", RECORDS)
def test_dataclass_and_schema_have_the_same_fields(name: str) -> None:
    schema = schemas.schema(name)
    resolver = schemas.registry().resolver(base_uri=str(schema["$id"]))
    compare_object(RECORDS[name], schema, resolver, name, {"record": name, "schema_version": schemas.version(name)})


class Maker:
    """Documents that a schema accepts."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def make(self, node: Any, resolver: Any) -> Any:
        node, resolver = resolved(node, resolver)
        if "const" in node:
            return node["const"]
        if "enum" in node:
            return self.draw(st.sampled_from(node["enum"]))
        if "anyOf" in node:
            return self.make(self.draw(st.sampled_from(node["anyOf"])), resolver)
        kinds = node["type"] if isinstance(node["type"], list) else [node["type"]]
        return getattr(self, self.draw(st.sampled_from(kinds)))(node, resolver)

    def null(self, _: Any, __: Any) -> None:
        return None

    def boolean(self, _: Any, __: Any) -> bool:
        return self.draw(st.booleans())

    def integer(self, node: Any, _: Any) -> int:
        low, high = node.get("minimum", -(2**63) + 1), node.get("maximum", 2**63 - 1)
        return self.draw(st.integers(low, min(high, low + 9)) | st.integers(low, high))

    def number(self, node: Any, _: Any) -> float:
        low, high = node.get("minimum"), node.get("maximum")
        floats = st.floats(low, high, allow_nan=False, allow_infinity=False)
        return self.draw(floats | st.integers(-5 if low is None else low, min(5, 5 if high is None else high)))

    def string(self, node: Any, _: Any) -> str:
        if "pattern" not in node:
            return self.draw(st.text(min_size=node.get("minLength", 0), max_size=5))
        if "64" in node["pattern"]:
            return self.draw(
                st.sampled_from(["sha256:" * ("sha256:" in node["pattern"]) + digit * 64 for digit in "09af"])
            )
        pattern = node["pattern"].removeprefix("^").removesuffix("$")
        texts = st.from_regex(pattern, fullmatch=True)
        return self.draw(texts.filter(schemas._is_moment) if "format" in node else texts)

    def array(self, node: Any, resolver: Any) -> list[Any]:
        if "prefixItems" in node:
            return [self.make(item, resolver) for item in node["prefixItems"]]
        size = self.draw(st.integers(node.get("minItems", 0), 2))
        return [self.make(node["items"], resolver) for _ in range(size)]

    def object(self, node: Any, resolver: Any) -> dict[str, Any]:
        if "properties" not in node:
            names = {"type": "string", **node.get("propertyNames", {})}
            keys = {self.make(names, resolver) for _ in range(self.draw(st.integers(0, 2)))}
            return {key: self.make(node["additionalProperties"], resolver) for key in sorted(keys)}
        made = {name: self.make(item, resolver) for name, item in node["properties"].items()}
        for rule in [node, *node.get("allOf", [])]:
            if "if" in rule:
                holds = Draft202012Validator(rule["if"]).is_valid(made)
                self.bend(made, rule.get("then" if holds else "else", {}), node, resolver)
        return made

    def bend(self, made: dict[str, Any], wanted: Any, node: Any, resolver: Any) -> None:
        """Make the fields again that a consequence speaks of, until they fit it."""
        for name, item in wanted.get("properties", {}).items():
            for key in item.get("required", []):
                made[name][key] = "not stated"
            while not Draft202012Validator(item).is_valid(made[name]):
                made[name] = self.make(node["properties"][name], resolver)


@st.composite
def documents(draw: st.DrawFn, name: str) -> dict[str, Any]:
    schema = schemas.schema(name)
    made: dict[str, Any] = Maker(draw).make(schema, schemas.registry().resolver(base_uri=str(schema["$id"])))
    return made


def same(left: Any, right: Any) -> bool:
    """Equal, and of the same types: 1 and True are not, 1 and 1.0 are (JSON has one kind of number)."""
    if isinstance(left, Mapping):
        return isinstance(right, Mapping) and list(left) == list(right) and all(same(left[k], right[k]) for k in left)
    if isinstance(left, (list, tuple)):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
    if numbers and not isinstance(left, bool) and not isinstance(right, bool):
        return math.isclose(left, right, rel_tol=0) or float(left) == float(right)
    return type(left) is type(right) and left == right


@pytest.mark.parametrize("name", RECORDS)
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_what_a_schema_accepts_is_decoded_and_encoded_unchanged(name: str, data: st.DataObject) -> None:
    document = data.draw(documents(name))
    record = codec.decode(document, RECORDS[name], where="made")
    again = codec.encode(record)
    assert same(again, document)
    assert codec.decode(again, RECORDS[name], where="made again") == record
