"""Run directories -> the model of what was run."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from report.findings import find
from report.load import Loaded, LoadedCell, load
from repro.errors import SpecError


def cell(loaded: Loaded, name: str) -> LoadedCell:
    return next(found for run in loaded.newest() for found in run.cells if found.id == name)


def test_newest_run_of_each_target_is_shown_and_older_ones_are_kept(all_states: Path) -> None:
    loaded = load([all_states])
    assert [run.run.run_id for run in loaded.newest()] == ["20261130-b300", "20261130-cpu"]
    assert [run.run_id for run in loaded.older()] == ["20261101-cpu"]
    assert loaded.problems == ()


@pytest.mark.parametrize(
    ("name", "verdict", "k", "n", "missing"),
    [
        ("sm_103-b8t4-graph-nvls", "pass", 0, 2, 1),
        ("sm_103-b16t8-graph-nvls", "fail", 2, 3, 0),
        ("sm_103-b32t8-graph-nvls", "corrupt", 1, 1, 0),
        ("sm_103-b16t8-eager-nvls", "pass", 0, 1, 1),
        ("sm_103-b8t4-graph-nonvls", "inconclusive", 0, 0, 0),
        ("sm_103-b16t8-graph-nvls+tp1", "not_run", 0, 0, 1),
    ],
)
def test_cells(all_states: Path, name: str, verdict: str, k: int, n: int, missing: int) -> None:
    found = cell(load([all_states]), name)
    assert (found.summary.verdict, found.summary.k, found.summary.n, found.missing) == (verdict, k, n, missing)


def test_an_unfinished_run_says_how_many_launches_are_missing(all_states: Path) -> None:
    (run, _) = load([all_states]).newest()
    reported = run.reported()
    assert (reported.state, reported.planned, reported.finished, run.missing) == ("unfinished", 17, 14, 3)


def test_one_target(all_states: Path) -> None:
    assert {run.run.target for run in load([all_states], "cpu").runs} == {"cpu"}


def test_the_order_of_directories_makes_no_difference(all_states: Path, planted: Path) -> None:
    assert load([all_states, planted]) == load([planted, all_states])


def test_a_run_in_two_directories_is_shown_once_and_named(tmp_path: Path, make: SimpleNamespace) -> None:
    for root in ("one", "two"):
        make.write_run(tmp_path / root, make.run_record(), [], planned={"cpu-ar-eager-nonvls": 1})
    loaded = load([tmp_path / "one", tmp_path / "two"])
    assert len(loaded.runs) == 1
    assert "two of the given" in loaded.problems[0].problem


def test_a_broken_result_is_a_problem_and_the_rest_is_shown(all_states: Path) -> None:
    path = all_states / "b300/20261130-b300/cells/sm_103-b32t8-graph-nvls/1/result.json"
    path.write_text("{", encoding="utf-8")
    loaded = load([all_states])
    assert [problem.path for problem in loaded.problems] == [str(path.relative_to(all_states))]
    assert str(all_states) not in loaded.problems[0].problem
    assert cell(loaded, "sm_103-b32t8-graph-nvls").summary.verdict == "not_run"


def test_a_newer_record_says_upgrade(all_states: Path) -> None:
    path = all_states / "cpu/20261130-cpu/cells/cpu-b8t4-eager-nonvls/2/result.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(document | {"schema_version": 99}), encoding="utf-8")
    (problem,) = load([all_states]).problems
    assert "upgrade" in problem.problem


def test_without_a_plan_the_results_are_still_shown(all_states: Path) -> None:
    (all_states / "cpu/20261130-cpu/plan.json").unlink()
    loaded = load([all_states])
    run = loaded.newest()[1]
    assert run.plan is None
    assert len(run.cells) == 3
    assert run.reported().state == "unfinished"
    assert loaded.problems[0].path == "cpu/20261130-cpu/plan.json"


def test_a_stored_verdict_is_not_trusted(all_states: Path) -> None:
    path = all_states / "b300/20261130-b300/cells/sm_103-b32t8-graph-nvls/1/verdict.json"
    path.write_text('{"verdict": "pass"}', encoding="utf-8")
    assert cell(load([all_states]), "sm_103-b32t8-graph-nvls").summary.verdict == "corrupt"


def test_what_is_void_too_often_is_not_waited_for(tmp_path: Path, make: SimpleNamespace) -> None:
    name = "cpu-b8t4-eager-nonvls"
    launches = [make.Launch(name, n, "lost", "contact lost", checks=()) for n in (1, 2, 3)]
    make.write_run(tmp_path, make.run_record(), launches, planned={name: 1})
    found = cell(load([tmp_path]), name)
    assert (found.summary.verdict, found.missing) == ("void", 0)


def test_planted_and_not_a_gpu(planted: Path, all_states: Path) -> None:
    (sim,) = load([planted]).newest()
    gpu, cpu = load([all_states]).newest()
    assert (sim.planted, gpu.planted) == (True, False)
    assert (sim.about_gpus, cpu.about_gpus, gpu.about_gpus) == (False, False, True)


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="not a directory"):
        load([tmp_path / "nowhere"])


@pytest.mark.parametrize("place", ["cells", "cells/cpu-b8t4-eager-nonvls", "."])
def test_a_directory_that_cannot_be_read_is_a_problem(
    all_states: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    run = all_states / "cpu/20261130-cpu"
    shut = run / place if place != "." else all_states / "cpu"
    scandir = os.scandir

    def refuse(path: Path) -> object:
        if Path(path) == shut:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    loaded = load([all_states])
    said = {problem.problem for problem in loaded.problems}
    assert said == {"cannot be read (Permission denied); make it readable"}
    assert loaded.problems[0].path.endswith(shut.name)
    assert "b300" in {run.run.target for run in loaded.runs}


def test_a_plan_edited_after_the_run_began_is_a_problem_and_the_results_are_shown(all_states: Path) -> None:
    path = all_states / "cpu/20261130-cpu/plan.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["steps"][0]["launches"] = 1
    path.write_text(json.dumps(document), encoding="utf-8")
    loaded = load([all_states])
    (problem,) = loaded.problems
    assert (problem.path, problem.problem) == (
        "cpu/20261130-cpu/plan.json",
        "does not match the digest in run.json: it was edited after the run began",
    )
    assert loaded.newest()[1].finished == 9


def test_a_plan_written_in_another_layout_is_the_same_plan(all_states: Path) -> None:
    path = all_states / "cpu/20261130-cpu/plan.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")), sort_keys=True), encoding="utf-8")
    assert load([all_states]).problems == ()


def test_a_result_with_other_coordinates_than_its_cell_is_a_problem_and_not_counted(all_states: Path) -> None:
    path = all_states / "cpu/20261130-cpu/cells/cpu-b8t4-eager-nonvls/2/result.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["coordinates"]["budget"] = 16
    path.write_text(json.dumps(document), encoding="utf-8")
    loaded = load([all_states])
    (problem,) = loaded.problems
    assert problem.path == str(path.relative_to(all_states))
    assert "not counted" in problem.problem
    found = cell(loaded, "cpu-b8t4-eager-nonvls")
    assert (found.summary.n, found.missing) == (2, 1)


def test_results_of_an_earlier_version_are_counted_and_told(tmp_path: Path, make: SimpleNamespace) -> None:
    cell = "cpu-b8t4-eager-nonvls"
    run = make.write_run(tmp_path, make.run_record(), [make.Launch(cell, n) for n in (1, 2)], planned={cell: 2})
    path = run / "cells" / cell / "1" / "result.json"
    document = json.loads(path.read_text())
    del document["rescoring"]
    path.write_text(json.dumps({**document, "schema_version": 1}))
    (loaded,) = load([tmp_path]).runs
    assert loaded.earlier == ((1, 1),)
    (finding,) = [finding for finding in find([loaded]) if finding.kind == "records_migrated"]
    assert finding.statement.startswith("1 result was written by an earlier graphrepro (1 of version 1)")


def test_runs_since_a_day(all_states: Path) -> None:
    results = load([all_states])
    assert [run.run.run_id for run in results.since(datetime(2026, 11, 2, tzinfo=UTC)).runs] == [
        "20261130-b300",
        "20261130-cpu",
    ]
    assert results.since(datetime(2026, 11, 1, tzinfo=UTC)).runs == results.runs


@pytest.mark.skipif(sys.platform != "linux", reason="other processes are made on Linux alone")
def test_older_runs_read_by_other_processes_are_the_same(tmp_path: Path, make: SimpleNamespace) -> None:
    cell = "cpu-b8t4-eager-nonvls"
    for n in range(6):
        launches = [make.Launch(cell, 1), make.Launch(cell, 2, "lost", "contact lost", checks=())]
        run = make.write_run(
            tmp_path, make.run_record("cpu", f"r{n}", f"2026-11-0{n + 1}T09:00:00Z"), launches, planned={cell: 2 + n}
        )
        if n % 2:
            (run / "cells" / cell / "1" / "result.json").write_text("{")
    here = load([tmp_path])
    script = (
        "import sys; from pathlib import Path; from report import load; load.cores = lambda: int(sys.argv[2]);"
        "found = load.load([Path(sys.argv[1])]); print(found.reported(), found.problems)"
    )
    for processes in ("1", "3"):
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path), processes], capture_output=True, text=True, check=True
        )
        assert done.stdout == f"{here.reported()} {here.problems}\n"
    assert [run.run_id for run in here.older()] == ["r4", "r3", "r2", "r1", "r0"]
    assert [(run.planned, run.finished, run.state) for run in here.older()][:2] == [
        (6, 1, "unfinished"),
        (5, 0, "unfinished"),
    ]
    assert len(here.problems) == 3


def test_a_copy_of_an_older_run_is_named_with_what_is_wrong_in_it(tmp_path: Path, make: SimpleNamespace) -> None:
    cell = "cpu-b8t4-eager-nonvls"
    for root in ("one", "two"):
        for n in (1, 2):
            record = make.run_record("cpu", f"r{n}", f"2026-11-0{n}T09:00:00Z")
            make.write_run(tmp_path / root, record, [make.Launch(cell)], planned={cell: 1})
    (tmp_path / "two/cpu/r1/cells" / cell / "1/result.json").write_text("{")
    loaded = load([tmp_path / "one", tmp_path / "two"])
    assert [run.run_id for run in loaded.reported()] == ["r2", "r1"]
    assert [problem.path for problem in loaded.problems] == ["cpu/r1", f"cpu/r1/cells/{cell}/1/result.json", "cpu/r2"]
