"""Records of a bundle that verifies, and are none: refused before anything is shown, run or noted."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from repro.bundle.inside.verify import Archive, digest_of
from repro.bundle.records import REPLAYED, record_problem

RULES: dict[str, Any] = {
    "record": "bundle-expectation",
    "schema_version": 1,
    "kind": "x",
    "signature": {"kind": "x", "phase": "none", "subsystem": None},
    "outcomes": ["crashed"],
    "phases": [],
    "patterns": [],
    "differing_prompts": None,
    "acceptance_at_most": None,
    "undecided": None,
    "k": 1,
    "n": 2,
    "statement": "it dies",
}
RECORDS = Path(__file__).parents[3] / "data" / "records"
BundleOf = Callable[[Mapping[str, bytes]], bytes]


def problem(bundle_of: BundleOf, name: str, data: object) -> str | None:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return record_problem(Archive(bundle_of({name: raw})))


def test_a_bundle_whose_records_are_ones(bundle_of: BundleOf) -> None:
    assert problem(bundle_of, "expectation.json", RULES) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"k": 3}, "seen in 3 of 2 launches"),
        ({"k": -1}, "/k"),
        ({"patterns": [{"pattern": "(", "says": "x"}]}, "no regular expression"),
        ({"patterns": [{"pattern": "a{99999999999}", "says": "x"}]}, "no regular expression"),
        ({"patterns": [{"pattern": "(" * 5000 + ")" * 5000, "says": "x"}]}, "no regular expression"),
        ({"outcomes": []}, "/outcomes"),
        ({"schema_version": 99}, "newer graphrepro"),
    ],
)
def test_rules_that_cannot_be_applied(bundle_of: BundleOf, changes: dict[str, Any], said: str) -> None:
    assert said in str(problem(bundle_of, "expectation.json", RULES | changes))


@pytest.mark.parametrize(
    "name", ["step.json", "needs.json", "oracle.json", "environment.json", "finding.json", "results/c/1/result.json"]
)
@pytest.mark.parametrize("data", [b"[]", b"{", b"\xff", b'{"a": NaN}', b"[" * 100_000, b'{"record": "step"}'])
def test_what_is_no_record(bundle_of: BundleOf, name: str, data: bytes) -> None:
    found = problem(bundle_of, name, data)
    assert found is not None
    assert name in found
    assert "\n" not in found


def test_what_a_replay_reads_has_to_be_there(bundle_of: BundleOf) -> None:
    archive = Archive(bundle_of({"expectation.json": json.dumps(RULES).encode()}))
    assert "step.json: is not in the bundle" in str(record_problem(archive, REPLAYED))


@pytest.mark.parametrize(
    ("changes", "said"), [({}, None), ({"reproduced": 99, "launches": 99}, "says 99 of 99 launches")]
)
def test_numbers_of_a_replay_are_those_of_its_launches(
    bundle_of: BundleOf, changes: dict[str, Any], said: str | None
) -> None:
    record = json.loads((RECORDS / "replay-v1.json").read_bytes())
    digest = digest_of(Archive(bundle_of({"replay.json": b"{}"})).manifest(), without=("replay.json",))
    found = problem(bundle_of, "replay.json", {**record, **changes, "bundle_digest": digest})
    assert found is None if said is None else said in str(found)
