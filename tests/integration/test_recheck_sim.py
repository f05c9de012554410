"""A failure of the simulated engine, packed, and asked about again on other versions of it, which are other scripts."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

SPEC = Path(__file__).with_name("small.toml")
CELL = "sim-b16t8-graph-nonvls"
Pack = Callable[[Path, str, Path], Path]
SCRIPTS = {
    "broken": {"probability": 1.0, "fault": "crash-capture", "seed": 1},
    "rare": {"probability": 0.2, "fault": "crash-capture", "seed": 2},
    "other": {"probability": 1.0, "fault": "oom-capture", "seed": 3},
    "fixed": None,
}


def write_script(folder: Path, name: str) -> Path:
    about = SCRIPTS[name]
    rules = []
    if about is not None:
        faults = [{"name": about["fault"]}]
        rules = [{"cells": CELL, "probability": about["probability"], "why": name, "faults": faults}]
    script = {
        "record": "simulation",
        "schema_version": 1,
        "title": name,
        "seed": about["seed"] if about else 4,
        "defaults": {
            "speed": {
                "ttft_s": 0.001,
                "step_s": 0.0005,
                "per_row_s": 0.0,
                "per_request_s": 0.0,
                "eager_factor": 1.0,
                "jitter": 0.0,
            },
            "acceptance": {"8": 3.05, "16": 3.37},
        },
        "rules": rules,
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(script))
    return path


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five launches of a cell that dies in each."""
    place = tmp_path_factory.mktemp("sim")
    for name in SCRIPTS:
        write_script(place, name)
    spec = place / "spec.toml"
    spec.write_text(SPEC.read_text().replace('script = "default"', f'script = "{place}/broken.json"'))
    command = [sys.executable, "-m", "matrix", "run", "--spec", str(spec), "--results", str(place / "results")]
    done = subprocess.run(
        [*command, "--select", CELL, "--no-references", "--launches", "5", "--no-armed-relaunch"],
        capture_output=True,
        text=True,
        check=False,
        cwd=place,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return place / "results"


@dataclass
class Owner:
    """Somebody with a ledger and a folder of bundles."""

    folder: Path
    scripts: Path
    said: list[str] = field(default_factory=list)

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "repro", *words]

    def run(self, *words: str) -> int:
        done = subprocess.run(self.command(*words), capture_output=True, text=True, check=False, cwd=self.folder)
        self.said = [done.stdout, done.stderr]
        return done.returncode

    def recheck(self, script: str, version: str, *more: str) -> tuple[int, dict[str, Any]]:
        """Exit status and the answer about the only entry."""
        engine = ("--script", str(self.scripts / f"{script}.json"), "--engine-version", version)
        status = self.run("recheck", *engine, "--json", *more)
        assert self.said[0], self.said[1]
        (answer,) = json.loads(self.said[0])["answers"]
        return status, answer

    @property
    def entry(self) -> dict[str, Any]:
        (entry,) = json.loads((self.folder / "ledger.json").read_bytes())["entries"]
        assert isinstance(entry, dict)
        return entry


@pytest.fixture
def owner(results: Path, tmp_path: Path, pack: Pack) -> Owner:
    ours = Owner(tmp_path, results.parent)
    bundle = pack(results, CELL, tmp_path)
    assert ours.run("ledger", "add", bundle.name, "--issue", "https://example.org/issues/7") == 0, ours.said
    return ours


def test_an_entry_says_what_was_seen(owner: Owner) -> None:
    entry = owner.entry
    assert (entry["status"], entry["architectures"], entry["cells"]) == ("open", ["sim"], [CELL])
    assert entry["signature"]["kind"] == "cuda_illegal_memory_access"
    (bundle,) = entry["bundles"]
    assert (bundle["k"], bundle["n"], bundle["path"]) == (5, 5, f"{CELL}.zip")
    assert owner.run("ledger", "list") == 0
    assert "https://example.org/issues/7" in owner.said[0]
    assert owner.run("ledger", "list", "--json") == 0
    assert json.loads(owner.said[0])["entries"] == [entry]


def test_fixed_then_a_regression(owner: Owner) -> None:
    status, answer = owner.recheck("fixed", "2")
    assert (status, answer["status"]) == (0, "closed"), answer
    assert (
        "not seen in 4 launches: below 53 % at 95 % confidence; n was chosen from the old rate" in answer["statement"]
    )
    assert owner.entry["engine_versions_good"] == ["2"]
    assert owner.run("recheck", "--script", str(owner.scripts / "broken.json"), "--engine-version", "3") == 0
    assert "nothing is open" in owner.said[1]
    status, answer = owner.recheck("broken", "3", "--all", "--launches", "2")
    assert (status, answer["status_before"], answer["status"]) == (1, "closed", "reopened")
    assert "still there: 2 of 2" in answer["statement"]
    assert "a regression after a fix" in answer["statement"]
    assert owner.entry["engine_versions_bad"] == ["1", "3"]


def test_still_there_at_a_fifth_of_the_rate(owner: Owner) -> None:
    status, answer = owner.recheck("rare", "2", "--launches", "20")
    (check,) = answer["checks"]
    assert (status, check["answer"], answer["status"]) == (1, "still_there", "open")
    assert 1 <= check["reproduced"] <= 10
    assert check["launches"] == 20


def test_another_failure_instead(owner: Owner) -> None:
    status, answer = owner.recheck("other", "2")
    (check,) = answer["checks"]
    assert (status, check["answer"], answer["status"]) == (1, "another_failure", "open")
    assert check["other"]["kind"] == "oom_gpu_graph_capture"
    assert "not in the ledger" in check["statement"]
    assert owner.entry["engine_versions_good"] == []


def test_what_cannot_run_is_undecided(owner: Owner) -> None:
    bundle = owner.folder / f"{CELL}.zip"
    whole = bundle.read_bytes()
    bundle.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    status, answer = owner.recheck("fixed", "2")
    assert (status, answer["status"]) == (7, "open")
    assert "is not the file that was added to the ledger" in answer["statement"]
    assert owner.run("ledger", "add", bundle.name) == 6
    bundle.write_bytes(whole)
    assert owner.run("recheck", "--image", "none@sha256:" + "0" * 64, "--engine-version", "2") == 7
    assert "could not run" in owner.said[0]


def test_too_few_launches_leave_it_open(owner: Owner) -> None:
    status, answer = owner.recheck("fixed", "2", "--launches", "1")
    assert (status, answer["status"]) == (7, "open")
    assert answer["missing"] == ["sim: 1 clean launches of the 4 needed with 2"]
    status, answer = owner.recheck("fixed", "2")
    assert (status, answer["status"]) == (0, "closed")
    assert "not seen in 4 launches, 1 of them before" in answer["statement"]


def test_an_interruption_loses_the_question_in_flight_alone(owner: Owner) -> None:
    before = owner.entry
    command = owner.command("recheck", "--script", str(owner.scripts / "fixed.json"), "--engine-version", "2")
    process = subprocess.Popen(
        [*command, "--launches", "200"], cwd=owner.folder, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    while "launch 2" not in (line := process.stderr.readline()):
        assert line, "it ended by itself"
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert owner.entry == before


def test_a_run_says_that_the_failure_is_known(owner: Owner, results: Path) -> None:
    spec = results.parent / "spec.toml"
    command = [sys.executable, "-m", "matrix", "run", "--spec", str(spec), "--results", str(owner.folder / "again")]
    options = ["--select", CELL, "--no-references", "--no-armed-relaunch", "--launches", "1"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, cwd=owner.folder)
    entry = owner.entry["id"]
    assert done.returncode == 1, "known failures are failures"
    assert f"[known: {entry} https://example.org/issues/7]" in done.stdout or f"[maybe known: {entry}" in done.stdout
    assert owner.run("ledger", "close", entry) == 0
    report = [sys.executable, "-m", "report", "build", "--results", str(owner.folder / "again"), "--out", "report"]
    told = subprocess.run(report, capture_output=True, text=True, check=False, cwd=owner.folder)
    assert f"seen again: {entry} https://example.org/issues/7" in told.stdout, told.stderr
    assert owner.run("ledger", "reopen", entry) == 0
    assert owner.entry["status"] == "reopened"


def test_bad_arguments(owner: Owner) -> None:
    assert owner.run("recheck", "--ledger", "none.json") == 2
    assert "there is no such ledger" in owner.said[1]
    assert owner.run("recheck", "--entry", "l-0") == 2
    assert owner.run("ledger", "add", "none.zip") == 2
    assert owner.run("ledger", "add", f"{CELL}.zip", "--issue", "javascript:alert(1)") == 2
    (owner.folder / "ledger.json").write_text("{}")
    assert owner.run("recheck") == 5
