"""`pack`, `verify`, `show` and `replay` on the command line: what is printed, and the exit status."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import schemas
from repro.bundle.inside.verify import Archive
from repro.cli import main

BAD = "sim-b16t8-graph-nvls"


@pytest.fixture
def bundle(failing: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "b.zip"
    assert main(["pack", BAD, "--results", str(failing.root), "--out", str(path), "--no-replay"]) == 0
    capfd.readouterr()
    return path


def test_pack_says_what_it_made(failing: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "b.zip"
    options = ["--results", str(failing.root), "--out", str(path), "--no-replay", "--for", "triton"]
    assert main(["pack", BAD, *options]) == 0
    said = capfd.readouterr()
    data = path.read_bytes()
    digest = Archive(data).manifest()["digest"]
    assert f"packed   {path}: {len(data):,} bytes" in said.out
    assert f"digest   {digest}" in said.out
    assert "replayed no: --no-replay" in said.out
    assert "looking for what must not leave" in said.err
    assert "next: read ISSUE.md" in said.err
    assert b"Triton" in Archive(data).content("ISSUE.md")


def test_pack_does_not_overwrite(failing: Any, bundle: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = bundle.read_bytes()
    command = ["pack", BAD, "--results", str(failing.root), "--out", str(bundle), "--no-replay"]
    assert main(command) == 2
    assert "is there already; give another name with --out, or --replace" in capfd.readouterr().err
    bundle.write_bytes(b"old")
    assert main([*command, "--replace"]) == 0
    assert bundle.read_bytes() == before
    assert main(["pack", BAD, "--results", str(failing.root), "--out", str(bundle.parent), "--no-replay"]) == 2


def test_pack_refuses_in_one_line(failing: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "x.zip"), "--no-replay"]
    assert main(["pack", "sim-b16t8-grph-nvls", "--results", str(failing.root), *out]) == 2
    assert "near it: sim-b16t8-graph-nvls" in capfd.readouterr().err
    assert main(["pack", BAD, "--results", str(tmp_path / "nothing"), *out]) == 2
    log = failing.root / "sim" / "20260914T081502Z-sim" / "cells" / BAD / "1" / "evidence" / "server.log"
    log.write_text("changed")
    assert main(["pack", BAD, "--results", str(failing.root), *out]) == 5
    said = capfd.readouterr().err.splitlines()
    assert said[-1].startswith("repro: sim/20260914T081502Z-sim/")
    assert "changed after the attempt" in said[-1]
    assert not (tmp_path / "x.zip").exists()


def test_pack_shows_redactions_to_the_owner_only(
    disk: Any, death: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made = disk()
    made.attempt(BAD, 1, {"evidence/server.log": b"mail to alice@example.com about PROJECT-ORCHID\n" + death})
    words = tmp_path / "words"
    words.write_text("# ours\nPROJECT-ORCHID\n")
    path = tmp_path / "b.zip"
    options = ["--results", str(made.root), "--out", str(path), "--no-replay", "--redact-word", str(words)]
    assert main(["pack", BAD, *options, "--show-redactions"]) == 0
    said = capfd.readouterr().out
    assert "alice@example.com -> email-1" in said
    assert "PROJECT-ORCHID -> word-1" in said
    archive = Archive(path.read_bytes())
    assert not any(
        b"alice@example" in archive.content(name) or b"ORCHID" in archive.content(name) for name in archive.entries
    )


def test_verify(bundle: Path, capfd: pytest.CaptureFixture[str]) -> None:
    digest = Archive(bundle.read_bytes()).manifest()["digest"]
    assert main(["verify", str(bundle)]) == 0
    assert f"all as the manifest says; digest {digest}" in capfd.readouterr().out
    assert main(["verify", str(bundle), "--digest", digest, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    schemas.validate(document, "bundle-verification", "")
    assert (document["ok"], document["digest"], document["problems"]) == (True, digest, [])
    bundle.write_bytes(bundle.read_bytes() + b"x")
    assert main(["verify", str(bundle)]) == 6
    assert capfd.readouterr().err == f"repro: {bundle}: has a comment or bytes behind its end\n"
    assert main(["verify", str(bundle), "--json"]) == 6
    document = json.loads(capfd.readouterr().out)
    schemas.validate(document, "bundle-verification", "")
    assert document["problems"] == ["has a comment or bytes behind its end"]


@pytest.mark.parametrize("command", ["verify", "show", "replay"])
def test_files_that_cannot_be_opened(command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([command, str(tmp_path / "missing.zip")]) == 2
    assert capfd.readouterr().err.count("\n") == 1
    (tmp_path / "text.zip").write_text("no archive at all, only a text")
    assert main([command, str(tmp_path / "text.zip")]) == 6
    assert "is no zip archive" in capfd.readouterr().err
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert main([command, str(fifo)]) in {2, 6}


def test_show(bundle: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(bundle)]) == 0
    page = capfd.readouterr().out
    for said in (
        f"cells     {BAD}",
        "failure   cuda_illegal_memory_access",
        "engine    simulated 1 (simulated)",
        "seen      2 of 3 launches",
        "replayed  not yet: it was packed without a replay",
        "python -m repro replay b.zip",
        "how it is known",
        "not known: ",
    ):
        assert said in page
    assert all(line == line.rstrip() for line in page.splitlines())
    assert main(["show", str(bundle), "--json"]) == 0
    schemas.validate(json.loads(capfd.readouterr().out), "bundle-manifest", "")


def test_show_is_harmless(bundle_of: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A bundle from anybody may hold anything; nothing of it acts on the terminal."""
    rules = {
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
        "n": 1,
        "statement": "\x1b]0;title\x07\x1b[2Jred \u202egnp.exe",
    }
    path = tmp_path / "b.zip"
    path.write_bytes(bundle_of({"expectation.json": json.dumps(rules).encode()}))
    assert main(["show", str(path)]) == 0
    page = capfd.readouterr().out
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "red " in page


def test_record_that_is_none_in_a_bundle_that_verifies(
    bundle_of: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "b.zip"
    path.write_bytes(bundle_of({"environment.json": b'{"record": "fingerprint"}'}))
    for command in (["show"], ["verify"], ["ledger", "add"]):
        assert main([*command, str(path)]) == 6
        assert "environment.json" in capfd.readouterr().err.splitlines()[-1]
