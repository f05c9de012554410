"""`python -m report build`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from report.cli import main
from repro import codec
from repro.model import Findings

FILES = {"findings.html", "findings.md", "findings.json", "junit.xml"}


def build(*arguments: object) -> int:
    return main(["build", *(str(argument) for argument in arguments)])


def test_files_tables_and_advice(all_states: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build("--results", all_states, "--out", tmp_path / "out") == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    said = capsys.readouterr()
    assert "sm_103-b16t8-graph-nvls" in said.out
    assert "findings.html" in said.err
    assert "python -m matrix run" in said.err


def test_json_is_the_record(all_states: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build("--results", all_states, "--out", tmp_path / "out", "--json") == 0
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "out/findings.json").read_text(encoding="utf-8")
    record = codec.decode(json.loads(printed), Findings, where="stdout")
    assert len(record.runs) == 3
    assert record.comparisons


def test_defaults(all_states: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(all_states.parent)
    assert build() == 0
    assert {path.name for path in (all_states / "report").iterdir()} == FILES
    first = {path.name: path.read_bytes() for path in (all_states / "report").iterdir()}
    assert build() == 0
    assert {path.name: path.read_bytes() for path in (all_states / "report").iterdir()} == first


def test_one_target(all_states: Path, tmp_path: Path) -> None:
    assert build("--results", all_states, "--out", tmp_path / "out", "--target", "cpu") == 0
    record = codec.read(tmp_path / "out/findings.json", Findings)
    assert {run.target for run in record.runs} == {"cpu"}


def test_several_results_directories(all_states: Path, planted: Path, tmp_path: Path) -> None:
    assert build("--results", all_states, planted, "--out", tmp_path / "out") == 0
    record = codec.read(tmp_path / "out/findings.json", Findings)
    assert {run.target for run in record.runs} == {"b300", "cpu", "sim"}


def test_a_run_from_another_machine_is_explained_alone(all_states: Path, tmp_path: Path) -> None:
    (all_states / "cpu/20261130-cpu").rename(tmp_path / "received")
    assert build("--results", tmp_path / "received", "--out", tmp_path / "out") == 0


def test_against(all_states: Path, tmp_path: Path, make: SimpleNamespace) -> None:
    cell = "cpu-b8t4-eager-nonvls"
    make.write_run(tmp_path / "other", make.run_record(run_id="before"), [make.Launch(cell)], planned={cell: 1})
    assert build("--results", all_states, "--against", tmp_path / "other", "--out", tmp_path / "out") == 0
    record = codec.read(tmp_path / "out/findings.json", Findings)
    (item,) = [item for item in record.comparisons if item.baseline == "run-before" and item.cell == cell]
    assert (item.comparable, item.change) == ("comparable", "undecided")
    assert any("n is too small" in reason for reason in item.reasons)
    assert [problem.path for problem in record.problems] == ["(other side) b300"]


def test_no_results_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert build() == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "python -m matrix run --spec cpu" in said.err
    assert not (tmp_path / "results").exists()


def test_no_run_of_the_target(all_states: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build("--results", all_states, "--target", "rtxpro6000") == 3
    assert "--target b300 | cpu" in capsys.readouterr().err


def test_nothing_readable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "results/cpu/r1"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{", encoding="utf-8")
    assert build("--results", tmp_path / "results", "--out", tmp_path / "out") == 5
    assert "cpu/r1/run.json" in capsys.readouterr().err


def test_broken_records_beside_good_ones_are_no_failure(
    all_states: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = all_states / "cpu/20261130-cpu/cells/cpu-b8t4-eager-nonvls/1/result.json"
    path.write_text("{", encoding="utf-8")
    assert build("--results", all_states, "--out", tmp_path / "out") == 0
    assert "1 record(s) could not be used" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--results", "nowhere"], ["--against", "nowhere"], ["--no-such-option"]])
def test_bad_arguments(
    all_states: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.chdir(all_states.parent)
    assert build(*arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_out_that_is_a_file(all_states: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("", encoding="utf-8")
    assert build("--results", all_states, "--out", tmp_path / "out") == 2


def test_as_a_module(all_states: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "report", "build", "--results", str(all_states), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_terminal_without_utf_8(all_states: Path, tmp_path: Path, encoding: str, more: list[str]) -> None:
    command = [sys.executable, "-m", "report", "build", "--results", str(all_states), "--out", str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C"}
    done = subprocess.run([*command, *more], capture_output=True, cwd=tmp_path, check=False, env=environment)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    if more:
        assert done.stdout == (tmp_path / "out/findings.json").read_bytes()


def test_a_full_disk_behind_stdout_is_one_line(all_states: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "report", "build", "--results", str(all_states), "--out", str(tmp_path / "out")]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 4
    assert done.stderr == "report: No space left on device: make room or correct it, and try again\n"


def test_a_reader_that_leaves_is_no_failure(all_states: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "report", "build", "--results", str(all_states), "--out", str(tmp_path / "out")]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES


def test_since(all_states: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--results", all_states, "--out", tmp_path / "out")
    assert build(*given, "--since", "2026-11-15") == 0
    assert "1 run(s) that began before 2026-11-15T00:00:00+00:00 are left out" in capsys.readouterr().err
    assert build(*given, "--since", "2026-12-01T00:00:00Z") == 3
    assert "the newest is of 2026-11-30T09:00:00Z" in capsys.readouterr().err
    assert build(*given, "--since", "yesterday") == 2
    assert "'yesterday' is no date" in capsys.readouterr().err
