"""What the ledger takes out of a bundle file."""

from dataclasses import replace
from pathlib import Path

import pytest

from repro import codec
from repro.bundle import archive
from repro.canonical import pretty_bytes, sha256_file
from repro.errors import BundleError, RecordError, SpecError
from repro.ledger import store
from repro.ledger.bundles import note, read_bundle
from repro.model import BundleExpectation, Finding, Manifest, Replay, Result, Subject

RECORDS = Path(__file__).parents[3] / "data" / "records"
EXPECTATION = codec.read(RECORDS / "bundle-expectation-v1.json", BundleExpectation)
REPLAY = codec.read(RECORDS / "replay-v1.json", Replay)
RESULT = codec.read(RECORDS / "result-v2.json", Result)
FINDING = codec.read(RECORDS / "finding-v2.json", Finding)
SUBJECT = codec.read(RECORDS / "bundle-manifest-v1.json", Manifest).subject
NOW = "2026-11-30T12:00:00Z"


def bundle(path: Path, *, subject: Subject = SUBJECT, replayed: bool = True, **records: object) -> Path:
    given: dict[str, object] = {
        "expectation": replace(EXPECTATION, k=2, n=3),
        "results/a/1/result": replace(RESULT, begun_at="2026-09-14T09:00:00Z"),
        "results/a/2/result": replace(RESULT, begun_at="2026-09-13T09:00:00Z"),
        **records,
    }
    files = {
        "verify.py": b"",
        **{f"{name}.json": pretty_bytes(codec.encode(record)) for name, record in given.items() if record is not None},
    }
    facts = archive.Facts(tool_version="0", subject=subject, left_out=(), redactions=())
    ready = [archive.packed(name, data) for name, data in files.items()]
    if replayed:
        seen, clean = REPLAY.runs[0], replace(REPLAY.runs[0], state="clean", outcome="completed", signature=None)
        runs = tuple(replace(run, launch=number) for number, run in enumerate((seen, *[clean] * 4), start=1))
        told = replace(REPLAY, bundle_digest=archive.digest(ready, facts), reproduced=1, launches=5, runs=runs)
        ready.append(archive.packed("replay.json", pretty_bytes(codec.encode(told))))
    issue = archive.packed("ISSUE.md", f"Bundle digest: {archive.digest(ready, facts)}\n".encode())
    path.write_bytes(archive.archive([*ready, issue], facts)[0])
    return path


def test_the_rate_is_that_of_the_runs_and_of_the_replay(tmp_path: Path) -> None:
    file = bundle(tmp_path / "b.zip")
    noted = read_bundle(file, tmp_path, now=lambda: NOW)
    assert (noted.bundle.k, noted.bundle.n) == (3, 8)
    assert (noted.bundle.path, noted.bundle.sha256, noted.bundle.added_at) == ("b.zip", sha256_file(file), NOW)
    assert noted.subject == SUBJECT
    assert noted.first_seen_at == "2026-09-13T09:00:00Z"
    assert noted.statement == EXPECTATION.statement
    alone = read_bundle(bundle(tmp_path / "c.zip", replayed=False), tmp_path, now=lambda: NOW)
    assert (alone.bundle.k, alone.bundle.n) == (2, 3)


def test_the_finding_says_what_it_is(tmp_path: Path) -> None:
    noted = read_bundle(bundle(tmp_path / "b.zip", finding=FINDING), tmp_path, now=lambda: NOW)
    assert noted.statement == FINDING.statement


def test_paths_are_relative_to_the_ledger(tmp_path: Path) -> None:
    for name in ("ledgers", "bundles"):
        (tmp_path / name).mkdir()
    added, _ = note(tmp_path / "ledgers/l.json", bundle(tmp_path / "bundles/b.zip"), issue=None, now=lambda: NOW)
    assert added.entry.bundles[0].path == "../bundles/b.zip"
    assert store.read(tmp_path / "ledgers/l.json") == added.ledger


def test_a_bundle_of_a_cell_that_works_is_no_failure(tmp_path: Path) -> None:
    file = bundle(tmp_path / "b.zip", replayed=False, expectation=replace(EXPECTATION, k=0, n=3))
    with pytest.raises(SpecError, match="shows no failure"):
        read_bundle(file, tmp_path, now=lambda: NOW)


def test_what_does_not_verify_is_refused(tmp_path: Path) -> None:
    file = bundle(tmp_path / "b.zip")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(BundleError, match=r"b\.zip: "):
        note(tmp_path / "l.json", file, issue=None, now=lambda: NOW)
    assert not (tmp_path / "l.json").exists()
    with pytest.raises(SpecError, match="cannot be read"):
        read_bundle(tmp_path / "none.zip", tmp_path, now=lambda: NOW)


def test_a_bundle_without_its_rule_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"expectation\.json: is not in the bundle"):
        read_bundle(bundle(tmp_path / "b.zip", expectation=None), tmp_path, now=lambda: NOW)
