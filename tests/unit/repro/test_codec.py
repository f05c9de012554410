"""Documents to records and back; and every way in which a document can be bad."""

import dataclasses
import json
import re
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import schemas
from repro import codec
from repro.canonical import canonical_bytes
from repro.errors import NewerRecordError, RecordError
from repro.migrations import MIGRATIONS, migrate
from repro.model import (
    RECORDS,
    CheckEvidence,
    Coordinates,
    Environment,
    Fact,
    PowerEvidence,
    Result,
    TimelineEntry,
    Verdict,
)

FILES = Path(__file__).parents[2] / "data" / "records"
BAD = {
    "empty": ("verdict", "is empty"),
    "truncated": ("verdict", "is cut off or not JSON (line 5"),
    "not-utf8": ("verdict", "is not UTF-8"),
    "byte-order-mark": ("verdict", "not JSON"),
    "not-an-object": ("verdict", "is not a JSON object but an array"),
    "duplicate-key": ("verdict", "holds the key 'attempt' twice"),
    "deep-nesting": ("verdict", "nested too deeply"),
    "huge-integer": ("verdict", "integer of 5000 digits"),
    "integer-of-65-bits": ("verdict", "more than 64 bits"),
    "half-surrogate-pair": ("verdict", "half of a surrogate pair"),
    "nan": ("power-evidence", "holds NaN"),
    "infinity": ("power-evidence", "holds -Infinity"),
    "float-too-large": ("power-evidence", "holds the number 1e999"),
    "no-record": ("verdict", "/record: does not say which record"),
    "other-record": ("verdict", "/record: is a 'finding' record, and 'verdict' is needed"),
    "record-not-text": ("verdict", "/record: does not say"),
    "newer-version": ("verdict", "newer graphrepro (verdict version 3, this one reads up to 1): upgrade"),
    "version-zero": ("verdict", "/schema_version: "),
    "version-true": ("verdict", "/schema_version: "),
    "no-version": ("verdict", "/schema_version: "),
    "unknown-field": ("verdict", "'confidence' was unexpected"),
    "missing-field": ("verdict", "'reasons' is a required property"),
    "record-inside-record": ("environment", "/facts/gpu_name: "),
    "true-for-integer": ("verdict", "/attempt: true is not of type 'integer'"),
    "fraction-for-integer": ("verdict", "/attempt: 2.5 is not of type 'integer'"),
    "text-for-number": ("verdict", "/attempt: '2' is not of type 'integer'"),
    "null-for-text": ("verdict", "/statement: null is not of type 'string'"),
    "attempt-zero": ("verdict", "/attempt: 0 is less than the minimum of 1"),
    "unknown-verdict": ("verdict", "/verdict: 'flaky' is not one of"),
    "empty-statement": ("verdict", "/statement: "),
    "ok-line-with-advice": ("preflight", "/lines/0/advice: "),
    "problem-without-advice": ("preflight", "/lines/1/advice: "),
    "option-for-unit": ("paused-unit", "/unit: '--now sglang.service' is not: Name of a systemd unit"),
    "cell-with-slash": ("verdict", "/cell: '../other' is not: File-safe name"),
    "cell-with-newline": ("verdict", "/cell: "),
    "cell-of-dots": ("verdict", "/cell: "),
    "run-with-slash": ("run", "/run_id: "),
    "local-time": ("run", "/created_at: '2026-09-14T10:15:02+02:00' is not: Moment in UTC"),
    "month-13": ("run", "/created_at: "),
    "february-30": ("run", "/created_at: "),
    "digest-in-capitals": ("run", "/plan_sha256: "),
    "absolute-path": ("finding", "/evidence/0/path: '/etc/passwd' is not: Relative path"),
    "path-upwards": ("finding", "/evidence/0/path: "),
    "path-with-backslash": ("finding", "/evidence/0/path: "),
    "tree-without-budget": ("cells", "/cells/0/coordinates/shape: "),
    "budget-without-shape": ("cells", "/cells/1/coordinates/shape: "),
    "topk-without-budget": ("cells", "/cells/0/coordinates/topk: "),
    "negative-budget": ("cells", "/cells/1/coordinates/budget: -1 is less than the minimum of 0"),
    "unsupported-without-reason": ("cells", "/cells/1/reason: "),
    "planned-with-reason": ("cells", "/cells/0/reason: "),
    "unknown-fact-without-reason": ("environment", "/facts/driver/reason: "),
    "unknown-fact-with-value": ("environment", "/facts/driver/value: "),
    "known-fact-with-reason": ("environment", "/facts/gpu_count/reason: "),
    "known-fact-without-value": ("environment", "/facts/gpu_count/value: "),
    "list-for-fact": ("environment", "/facts/gpu_count/value: [8] is not of type"),
    "no-number-and-no-reason": ("baseline", "/measurements/1/reason: "),
    "number-with-reason": ("baseline", "/measurements/0/reason: "),
    "unstated-coordinate-without-reason": ("baseline", "/unknown: 'nvls' is a required property"),
    "change-though-not-comparable": ("findings", "/comparisons/1/change: "),
    "no-change-and-no-reason": ("findings", "/comparisons/0/numbers/0/reason: "),
    "text-and-ids": ("prompts", "/prompts/1/input_ids: "),
    "neither-text-nor-ids": ("prompts", "/prompts/1/input_ids: "),
    "no-samples-and-no-reason": ("power-evidence", "/reason: "),
    "port-too-large": ("step", "/port: 65536 is greater than the maximum of 65535"),
    "not-applicable-without-reason": ("step", "/checks/0/reason: "),
    "stopped-without-reason": ("check-evidence", "/stopped_because: "),
    "chunk-of-three": ("check-evidence", "/requests/0/token_times/0: "),
    "image-by-tag": ("plan", "/steps/0/image: 'lmsysorg/sglang:v0.5.23' is not: Image digest"),
    "variable-with-equals-sign": ("plan", "/steps/0/environment: "),
    "width-without-speculation": ("plan", "/steps/0/expectation/width: "),
    "negative-size": ("result", "/evidence/0/size_bytes: -1 is less than the minimum of 0"),
    "failed-check-without-reason": ("result", "/checks/1/reason: "),
    "failed-case-without-reason": ("kernel-result", "/reason: "),
    "architecture-as-capability": ("kernel-result", "/cell/architecture: '10.3' does not match"),
    "release-with-image-digest": ("kernel-result", "/subject/digest: "),
    "broken-arm-without-reason": ("kernel-run", "/arms/1/reason: "),
    "deep-in-nullable": ("result", "/diagnosis/evidence/0/line: 0 is less than the minimum of 1"),
}


def example(name: str) -> Any:
    return codec.read(FILES / f"{name}-v{schemas.version(name)}.json", RECORDS[name])


def document(name: str) -> Any:
    return json.loads((FILES / f"{name}-v{schemas.version(name)}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", RECORDS)
def test_example_survives_the_round_trip(name: str) -> None:
    record = example(name)
    assert isinstance(record, RECORDS[name])
    assert codec.encode(record) == document(name)
    assert codec.decode(json.loads(codec.dumps(record)), RECORDS[name], where="again") == record


def test_every_example_is_tried() -> None:
    every = {(name, n) for name in RECORDS for n in range(1, schemas.version(name) + 1)}
    assert {
        (path.stem.rpartition("-v")[0], int(path.stem.rpartition("-v")[2])) for path in FILES.glob("*.json")
    } == every
    assert {path.stem for path in (FILES / "bad").iterdir()} == set(BAD)


@pytest.mark.parametrize(("name", "found"), sorted(MIGRATIONS))
def test_example_of_an_earlier_version_is_still_read(name: str, found: int) -> None:
    path = FILES / f"{name}-v{found}.json"
    assert json.loads(path.read_text(encoding="utf-8"))["schema_version"] == found
    record = codec.read(path, RECORDS[name])
    assert codec.encode(record)["schema_version"] == schemas.version(name)


@pytest.mark.parametrize("fault", BAD)
def test_bad_document_is_one_clear_line(fault: str) -> None:
    name, said = BAD[fault]
    with pytest.raises(RecordError) as caught:
        codec.read(FILES / "bad" / f"{fault}.json", RECORDS[name], where="here/file.json")
    message = str(caught.value)
    assert message.startswith("here/file.json: ")
    assert said in message
    assert message.isprintable()
    assert len(message) < 400
    assert re.search(r"(; restore the file|; give the right file|: upgrade)", message)
    assert isinstance(caught.value, NewerRecordError) == (fault == "newer-version")


def test_path_is_named_by_default(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"none\.json: cannot be read \(No such file or directory\); check"):
        codec.read(tmp_path / "none.json", Verdict)
    with pytest.raises(RecordError, match="cannot be read"):
        codec.read(tmp_path, Verdict)


def test_decoded_types_are_those_of_the_dataclass() -> None:
    evidence = example("check-evidence")
    assert type(evidence) is CheckEvidence
    assert type(evidence.requests) is tuple
    assert evidence.requests[0].token_times == ((31.31, 1), (31.6, 4), (32.0, 6))
    assert type(evidence.requests[0].token_times[0][1]) is int
    facts = example("environment").facts
    assert type(facts["gpu_count"].value) is int
    assert facts["nvswitch"].value is False
    assert type(facts) is dict


def test_integer_is_accepted_for_a_float_and_becomes_one() -> None:
    value = codec.decode({**document("result"), "wall_s": 269}, Result, where="x").wall_s
    assert (type(value), value) == (float, 269.0)


def test_whole_float_is_accepted_for_an_integer_and_becomes_one() -> None:
    value = codec.decode({**document("verdict"), "attempt": 2.0}, Verdict, where="x").attempt
    assert (type(value), value) == (int, 2)


def test_integer_beyond_64_bits_in_the_form_of_a_float_is_refused() -> None:
    with pytest.raises(RecordError, match="more than 64 bits"):
        codec.decode({**document("verdict"), "attempt": 1e30}, Verdict, where="x")


def test_equal_records_give_equal_bytes() -> None:
    result = example("result")
    whole = dataclasses.replace(result, wall_s=269)
    assert whole == dataclasses.replace(result, wall_s=269.0)
    again = codec.encode(dataclasses.replace(result, wall_s=269.0))
    assert canonical_bytes(codec.encode(whole)) == canonical_bytes(again)


def test_read_only_mappings_are_encoded() -> None:
    environment = dataclasses.replace(example("environment"), packages=MappingProxyType({"torch": "2.13.0"}))
    assert codec.encode(environment)["packages"] == {"torch": "2.13.0"}


def test_document_is_not_changed_by_decoding() -> None:
    before = document("verdict")
    after = document("verdict")
    codec.decode(after, Verdict, where="x")
    assert before == after


def spoilt(value: Any) -> Environment:
    return Environment(facts={"a": Fact(value=value, status="verified", reason=None)}, packages={})


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (spoilt(float("nan")), "/facts/a/value: is nan, which JSON does not have"),
        (spoilt("\udce9"), "/facts/a/value: holds half of a surrogate pair"),
        (spoilt(2**64), "/facts/a/value: is an integer of more than 64 bits"),
        (spoilt([1]), "/facts/a/value: [1] is not of type"),
        (Environment(facts={}, packages={"\udce9": "1"}), "holds half of a surrogate pair"),
        (Environment(facts={"a": 3}, packages={}), "'int' object has no attribute"),  # type: ignore[dict-item]
        (PowerEvidence(reason=None, samples=()), "/reason: null is not of type 'string'"),
        (PowerEvidence(reason="none", samples=None), "the power-evidence record cannot"),  # type: ignore[arg-type]
    ],
)
def test_record_that_cannot_be_written(record: Any, said: str) -> None:
    with pytest.raises(RecordError) as caught:
        codec.encode(record)
    assert said in str(caught.value)
    assert str(caught.value).endswith("; correct the value before storing it")
    assert str(caught.value).isprintable()


def test_infinity_in_a_float_field_is_refused() -> None:
    power = example("power-evidence")
    for value in (float("inf"), 10**400):
        sample = dataclasses.replace(power.samples[0], power_w=value)
        with pytest.raises(RecordError, match="/samples/0/power_w"):
            codec.encode(dataclasses.replace(power, samples=(sample,)))


def test_nan_in_a_document_in_memory_is_refused() -> None:
    bad = document("power-evidence")
    bad["samples"][0]["power_w"] = float("nan")
    with pytest.raises(RecordError):
        codec.decode(bad, PowerEvidence, where="x")


def test_parts_of_records_are_no_documents() -> None:
    with pytest.raises(TypeError, match="Coordinates is no kind of record"):
        codec.encode(example("result").coordinates)
    with pytest.raises(TypeError, match="Coordinates"):
        codec.decode({}, Coordinates, where="x")


# --- JSON lines -------------------------------------------------------------------------------------------------------


def line(at_s: float) -> bytes:
    return canonical_bytes({**document("timeline-entry"), "at_s": at_s}) + b"\n"


def test_lines_are_read_in_order(tmp_path: Path) -> None:
    path = tmp_path / "timeline.jsonl"
    path.write_bytes(line(1.0) + line(2.0))
    entries, cut = codec.read_lines(path, TimelineEntry)
    assert [entry.at_s for entry in entries] == [1.0, 2.0]
    assert cut is None


def test_no_line_at_all(tmp_path: Path) -> None:
    path = tmp_path / "timeline.jsonl"
    path.write_bytes(b"")
    assert codec.read_lines(path, TimelineEntry) == ((), None)


def test_last_line_without_its_end_counts_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "timeline.jsonl"
    path.write_bytes(line(1.0) + line(2.0).rstrip())
    entries, cut = codec.read_lines(path, TimelineEntry)
    assert len(entries) == 2
    assert cut is None


@pytest.mark.parametrize("rest", [line(2.0)[:1], line(2.0)[:-2], b"\0" * 100, '{"detail":"é'.encode()[:-1]])
def test_cut_last_line_is_told(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "timeline.jsonl"
    path.write_bytes(line(1.0) + rest)
    entries, cut = codec.read_lines(path, TimelineEntry, where="evidence/timeline.jsonl")
    assert len(entries) == 1
    assert cut == f"evidence/timeline.jsonl:2: the last line is cut off after {len(rest)} bytes"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (line(1.0)[:40] + b"\n" + line(2.0), "t:1: is cut off"),
        (line(1.0) + b"\n" + line(2.0), "t:2: is empty"),
        (line(1.0) + line(2.0)[:-2] + b"\n", "t:2: is cut off"),
        (line(1.0) + line(-2.0), "t:2: /at_s: -2.0 is less than the minimum of 0"),
        (line(1.0) + line(-2.0).rstrip(), "t:2: /at_s: -2.0 is less"),
        (b"[]\n", "t:1: is not a JSON object"),
    ],
)
def test_any_other_bad_line_is_an_error(tmp_path: Path, text: bytes, said: str) -> None:
    path = tmp_path / "timeline.jsonl"
    path.write_bytes(text)
    with pytest.raises(RecordError, match=f"^{re.escape(said)}"):
        codec.read_lines(path, TimelineEntry, where="t")


# --- versions ---------------------------------------------------------------------------------------------------------


def test_migration_goes_step_by_step() -> None:
    steps = {
        ("verdict", 1): lambda old: {**old, "one": True},
        ("verdict", 2): lambda old: {**old, "two": old["one"]},
    }
    new = migrate({"schema_version": 1}, "verdict", to=3, migrations=steps)
    assert new == {"schema_version": 3, "one": True, "two": True}
    assert migrate({"schema_version": 3}, "verdict", to=3, migrations=steps) == {"schema_version": 3}


def test_old_document_is_migrated_before_it_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    def renamed(old: dict[str, Any]) -> dict[str, Any]:
        reason = old.pop("reason")
        return {**old, "reasons": [reason]}

    monkeypatch.setitem(MIGRATIONS, ("verdict", 1), renamed)  # type: ignore[arg-type]
    old = document("verdict")
    monkeypatch.setattr(schemas, "version", lambda _: 2)
    monkeypatch.setattr(schemas, "validate", lambda *_: None)
    old["reason"] = old.pop("reasons")[0]
    assert codec.decode(old, Verdict, where="x").reasons == ("crashed",)


@pytest.mark.parametrize("steps", [{}, {("verdict", 1): lambda old: {**old, "reasons": [old["no such"]]}}])
def test_old_document_that_cannot_be_migrated(monkeypatch: pytest.MonkeyPatch, steps: Any) -> None:
    for key, step in steps.items():
        monkeypatch.setitem(MIGRATIONS, key, step)  # type: ignore[arg-type]
    old = document("verdict")
    monkeypatch.setattr(schemas, "version", lambda _: 2)
    with pytest.raises(RecordError, match=r"^x: cannot be brought from verdict version 1 to version 2; "):
        codec.decode(old, Verdict, where="x")
