"""The catalogue: every example runs, and a damaged one is refused in one line."""

import tomllib
from importlib import resources
from typing import Any

import pytest

import schemas
from repro.diagnose.catalogue import Marker, Pattern, catalogue, parse
from repro.diagnose.kinds import KIND_SAYS
from repro.errors import RecordError

RULES = (*catalogue().patterns, *catalogue().markers)
TEXT = resources.files("repro").joinpath("signatures.toml").read_text(encoding="utf-8")


def matches(rule: Pattern | Marker, line: str) -> bool:
    plain = " ".join(line.split())
    return any(" ".join(literal.split()) in plain for literal in rule.literals) and (
        rule.expression is None or rule.expression.search(line) is not None
    )


@pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])
def test_examples(rule: Any) -> None:
    assert rule.match
    assert rule.no_match
    assert rule.source.startswith("https://")
    assert [line for line in rule.match if not matches(rule, line)] == []
    assert [line for line in rule.no_match if matches(rule, line)] == []


def test_the_catalogue_fits_its_schema() -> None:
    schemas.validate(tomllib.loads(TEXT), "signatures", "signatures.toml")


def test_kinds_are_those_that_have_words() -> None:
    assert {pattern.kind for pattern in catalogue().patterns} - {None, "oom_gpu"} <= set(KIND_SAYS)


def test_what_patterns_refer_to_is_there() -> None:
    tags = {tag for pattern in catalogue().patterns for tag in pattern.tags}
    for pattern in catalogue().patterns:
        assert {*pattern.follows, *pattern.needs, *pattern.unless} <= tags, pattern.id


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda text: text + "\n[[pattern]]\nid = 'x'\n", "has no"),
        (lambda text: text + "\nnonsense", "TOML"),
        (lambda text: text.replace("schema_version = 1", "schema_version = 2"), "version"),
        (lambda text: text.replace('role = "root"', 'role = "cause"', 1), "unknown role"),
        (lambda text: text.replace("\n[[marker]]\n", "\n[[marker]]\ncolour = 'red'\n", 1), "unknown fields colour"),
        (lambda text: text + text[text.index("\n[[marker]]\n") :], "twice"),
    ],
)
def test_a_damaged_catalogue_is_refused(damage: Any, says: str) -> None:
    with pytest.raises(RecordError, match=says) as refusal:
        parse(damage(TEXT))
    assert "\n" not in str(refusal.value)
