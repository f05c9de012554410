"""A failing cell of the simulated engine, launched once more with evidence hooks armed: linked, and counted nowhere."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SPEC = Path(__file__).with_name("small.toml")
CELL = "sim-b8t4-graph-nonvls"
_PYTHON = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}

pytestmark = pytest.mark.slow


def matrix_run(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "matrix", "run", "--spec", str(SPEC), "--results", "results"]
    faults = ("--select", "*b8t4-*", "--inject", f"{CELL}=scheduler-exception:3")
    return subprocess.run(
        [*command, *faults, *options],
        cwd=folder,
        env={"HOME": str(folder), "PATH": "/usr/bin:/bin", **_PYTHON},
        text=True,
        capture_output=True,
        check=False,
    )


def read(folder: Path, name: str) -> dict[str, Any]:
    (run,) = (path.parent for path in folder.glob("results/*/*/run.json"))
    document: dict[str, Any] = json.loads((run / name).read_bytes())
    return document


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("armed")


@pytest.fixture(scope="module")
def ended(folder: Path) -> "subprocess.CompletedProcess[str]":
    return matrix_run(folder, "--armed", "--launches", "2")


def test_the_cell_is_relaunched_once_and_says_what_it_explains(folder: Path, ended: Any) -> None:
    assert ended.returncode == 1, ended.stderr
    explained = [read(folder, f"cells/{CELL}/{attempt}/result.json")["explains"] for attempt in (1, 2, 3)]
    assert explained == [None, 1, None]
    step = read(folder, f"cells/{CELL}/2/step.json")
    assert step["explains"] == 1
    assert step["argv"][-2:] == ["--crash-dump-folder", "dumps"]
    assert "SGLANG_INVARIANT_CHECK" not in read(folder, f"cells/{CELL}/1/step.json")["environment"]
    assert read(folder, f"cells/{CELL}/2/result.json")["outcome"] == "crashed"
    assert "attempt 2, with evidence hooks armed, explains attempt 1: crashed" in ended.stderr
    assert read(folder, "run.json")["armed_relaunch"] is True


def test_it_counts_nowhere(folder: Path, ended: Any) -> None:
    (row,) = (line for line in ended.stdout.splitlines() if line.startswith(CELL))
    assert " 2/2 " in row
    (run,) = (path.parent for path in folder.glob("results/*/*/run.json"))
    assert not (run / "cells" / CELL / "2" / "verdict.json").exists()


def test_cells_that_pass_are_not_relaunched(folder: Path, ended: Any) -> None:
    healthy = "sim-b8t4-eager-nonvls"
    assert [read(folder, f"cells/{healthy}/{n}/result.json")["explains"] for n in (1, 2)] == [None, None]
    (run,) = (path.parent for path in folder.glob("results/*/*/run.json"))
    assert not (run / "cells" / healthy / "3").exists()


def test_the_report_lists_it_beside_what_it_explains(folder: Path, ended: Any) -> None:
    command = [sys.executable, "-m", "report", "build", "--results", "results", "--out", "out"]
    built = subprocess.run(
        command, check=False, cwd=folder, env={"PATH": "/usr/bin:/bin", **_PYTHON}, text=True, capture_output=True
    )
    assert built.returncode == 0, built.stderr
    findings = json.loads((folder / "out" / "findings.json").read_text())["findings"]
    (crash,) = (finding for finding in findings if finding["kind"] == "cuda_illegal_memory_access")
    (link,) = (link for link in crash["evidence"] if link["attempt"] == 2)
    assert link["text"].startswith("again with evidence hooks armed: crashed")
    assert "2 of 2" in crash["statement"]


def test_not_without_being_asked_on_a_screen(tmp_path: Path) -> None:
    ended = matrix_run(tmp_path)
    assert ended.returncode == 1, ended.stderr
    assert read(tmp_path, "run.json")["armed_relaunch"] is False
    (run,) = (path.parent for path in tmp_path.glob("results/*/*/run.json"))
    assert [path.name for path in (run / "cells" / CELL).iterdir()] == ["1"]
