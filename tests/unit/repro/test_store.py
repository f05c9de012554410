"""The run directory: whole files, nothing dropped, no way out of it."""

import dataclasses
import errno
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import schemas
from repro import atomic, codec, store
from repro.canonical import pretty_bytes
from repro.errors import RecordError, SpecError, UnavailableError
from repro.model import RECORDS, EvidenceFile, Result, Run

FILES = Path(__file__).parents[2] / "data" / "records"
CELL = "sm_103-b16t8-graph-nvls"


def example(name: str) -> Any:
    return codec.read(FILES / f"{name}-v{schemas.version(name)}.json", RECORDS[name])


def make(root: Path, run_id: str = "20260914T081502Z-b300", target: str = "b300") -> store.RunDirectory:
    run: Run = dataclasses.replace(example("run"), run_id=run_id, target=target)
    return store.create(root, run, dataclasses.replace(example("plan"), target=target))


def finish(run: store.RunDirectory, number: int, cell: str = CELL, **changes: Any) -> Path:
    says = run.run()
    facts = {"run_id": says.run_id, "target": says.target, "cell": cell, "attempt": number, **changes}
    directory = run.attempt(cell, number)
    directory.mkdir(parents=True)
    store.write_record(directory / "result.json", dataclasses.replace(example("result"), **facts))
    return directory


# --- whole files ------------------------------------------------------------------------------------------------------


def test_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    store.write_atomic(path, b"one")
    store.write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask()


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    path = tmp_path / "a.json"
    store.write_atomic(path, b"old")

    def full(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(UnavailableError, match=r"no space left .* kept: free space and run the same again$"):
        store.write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_really_full_device_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def to_full(_: Path, data: bytes) -> None:
        with Path("/dev/full").open("wb") as stream:
            stream.write(data)

    monkeypatch.setattr(atomic, "write_new", to_full)
    with pytest.raises(UnavailableError, match="no space left"):
        store.write_atomic(tmp_path / "a.json", b"new")


def test_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"cannot be written \(No such file or directory\); check"):
        store.write_atomic(tmp_path / "none" / "a.json", b"x")


def test_link_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"kept")
    (tmp_path / "a.json").symlink_to("outside")
    store.write_atomic(tmp_path / "a.json", b"new")
    assert (tmp_path / "outside").read_bytes() == b"kept"
    assert not (tmp_path / "a.json").is_symlink()


def test_interrupt_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.write_atomic(tmp_path / "a.json", b"new")
    assert list(tmp_path.iterdir()) == []


def test_kill_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"0" * 300_000)
    program = (
        "import sys; from pathlib import Path; from repro.store import write_atomic\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    for digit in b'12': write_atomic(Path(sys.argv[1]), bytes([digit]) * 300_000)\n"
    )
    for delay_s in (0.01, 0.02, 0.03):
        with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(delay_s)
            child.send_signal(signal.SIGKILL)
        data = path.read_bytes()
        assert len(data) == 300_000
        assert len(set(data)) == 1


def test_bad_record_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(RecordError):
        store.write_record(tmp_path / "run.json", dataclasses.replace(example("run"), run_id="../x"))
    assert list(tmp_path.iterdir()) == []


# --- a run ------------------------------------------------------------------------------------------------------------


def test_new_run_is_there_whole(tmp_path: Path) -> None:
    run = make(tmp_path / "results")
    assert run.path == tmp_path / "results" / "b300" / "20260914T081502Z-b300"
    assert run.run() == example("run")
    assert run.plan() == example("plan")
    assert run.results() == ((), ())
    assert [path.name for path in run.path.parent.iterdir()] == [run.path.name]


def test_run_id_is_taken_once(tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(UnavailableError, match="exists already"):
        make(tmp_path)


def test_run_that_cannot_be_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Path, __: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "write_new", full)
    with pytest.raises(UnavailableError, match="no space left"):
        make(tmp_path)
    assert list((tmp_path / "b300").iterdir()) == []


@pytest.mark.parametrize("field", ["run_id", "target"])
@pytest.mark.parametrize("value", ["..", "../x", "/tmp/x", ".hidden", "a b", "", "a\n"])
def test_run_with_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, field: str, value: str) -> None:
    with pytest.raises(RecordError):
        store.create(tmp_path / "r", dataclasses.replace(example("run"), **{field: value}), example("plan"))
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("cell", ["..", ".", "", "a/b", "/a", "a\n", "a\0", ".hidden", "x" * 201])
def test_cell_id_that_leads_elsewhere_is_refused(tmp_path: Path, cell: str) -> None:
    with pytest.raises(RecordError, match="is no attempt"):
        make(tmp_path).attempt(cell, 1)


@pytest.mark.parametrize("number", [0, -1, 10**6])
def test_attempt_number_is_checked(tmp_path: Path, number: int) -> None:
    with pytest.raises(RecordError, match="is no attempt"):
        make(tmp_path).attempt(CELL, number)


def test_results_come_by_cell_and_number(tmp_path: Path) -> None:
    run = make(tmp_path)
    for cell, number in (("b", 2), ("a", 10), ("b", 1), ("a", 9)):
        finish(run, number, cell)
    run.attempt("c", 1).mkdir(parents=True)  # killed before it had a result
    (run.attempt("c", 1) / ".result.json.00.tmp").write_bytes(b"{")
    results, problems = run.results()
    assert [(result.cell, result.attempt) for result in results] == [("a", 9), ("a", 10), ("b", 1), ("b", 2)]
    assert problems == ()
    assert run.attempts() == ((("a", 9), ("a", 10), ("b", 1), ("b", 2), ("c", 1)), ())


def test_bad_result_is_a_problem_and_the_others_are_read(tmp_path: Path) -> None:
    run = make(tmp_path)
    finish(run, 1)
    finish(run, 2).joinpath("result.json").write_bytes(b'{"record": "result", ')
    newer = finish(run, 3) / "result.json"
    newer.write_text(newer.read_text().replace('"schema_version": 2', '"schema_version": 3'))
    results, problems = run.results()
    assert [result.attempt for result in results] == [1]
    place = f"b300/20260914T081502Z-b300/cells/{CELL}"
    assert [problem.path for problem in problems] == [f"{place}/2/result.json", f"{place}/3/result.json"]
    assert problems[0].problem.startswith("is cut off or not JSON (line 1, column 22: ")
    assert problems[1].problem == "written by a newer graphrepro (result version 3, this one reads up to 2): upgrade"


@pytest.mark.parametrize("changes", [{"cell": "other"}, {"attempt": 7}, {"run_id": "other"}, {"target": "other"}])
def test_result_in_the_wrong_place_is_a_problem(tmp_path: Path, changes: dict[str, Any]) -> None:
    run = make(tmp_path)
    directory = run.attempt(CELL, 1)
    directory.mkdir(parents=True)
    says = {"cell": CELL, "attempt": 1, "run_id": run.run().run_id, "target": "b300", **changes}
    store.write_record(directory / "result.json", dataclasses.replace(example("result"), **says))
    results, problems = run.results()
    assert results == ()
    assert [problem.problem.split(":")[0] for problem in problems] == ["belongs to another place"]


def test_what_is_no_attempt_is_a_problem(tmp_path: Path) -> None:
    run = make(tmp_path)
    finish(run, 1)
    cells = run.path / "cells"
    for name in ("a b", "cell/01", "cell/x", "cell/0"):
        (cells / name).mkdir(parents=True)
    (cells / "file").write_bytes(b"")
    (cells / os.fsdecode(b"\xe9")).mkdir()
    (cells / "linked").symlink_to(cells / CELL)
    results, problems = run.results()
    assert len(results) == 1
    names = [problem.path.removeprefix("b300/20260914T081502Z-b300/cells/") for problem in problems]
    assert sorted(names) == ["\\xe9", "a b", "cell/0", "cell/01", "cell/x", "file", "linked"]
    for problem in problems:
        pretty_bytes(dataclasses.asdict(problem))  # can be stored in findings.json


@pytest.mark.parametrize("level", ["result.json", "attempt", "cells"])
def test_links_among_results_are_not_followed(tmp_path: Path, level: str) -> None:
    run = make(tmp_path)
    attempt = finish(run, 1)
    path = {"result.json": attempt / "result.json", "attempt": attempt, "cells": run.path / "cells"}[level]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    results, problems = run.results()
    assert results == ()
    assert len(problems) == 1


def test_pipe_in_place_of_a_result_does_not_block(tmp_path: Path) -> None:
    run = make(tmp_path)
    path = finish(run, 1) / "result.json"
    path.unlink()
    os.mkfifo(path)
    assert [problem.problem.split(",")[0] for problem in run.results()[1]] == ["is not a regular file"]


def test_linked_run_record_is_refused(tmp_path: Path) -> None:
    run = make(tmp_path)
    (run.path / "plan.json").rename(tmp_path / "plan.json")
    (run.path / "plan.json").symlink_to(tmp_path / "plan.json")
    with pytest.raises(RecordError, match=r"^b300/20260914T081502Z-b300/plan\.json: is not a regular file"):
        run.plan()


# --- all runs ---------------------------------------------------------------------------------------------------------


def ids(found: tuple[tuple[store.RunDirectory, ...], Any]) -> list[str]:
    return [run.path.name for run in found[0]]


def test_runs_are_found_from_every_level(tmp_path: Path) -> None:
    for run_id, target in (("r2", "b300"), ("r3", "cpu"), ("r1", "b300")):
        make(tmp_path, run_id, target)
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "findings.json").write_bytes(b"{}")
    assert ids(store.scan(tmp_path, None)) == ["r1", "r2", "r3"]
    assert ids(store.scan(tmp_path, "b300")) == ["r1", "r2"]
    assert ids(store.scan(tmp_path / "b300", None)) == ["r1", "r2"]
    assert ids(store.scan(tmp_path / "b300" / "r2", None)) == ["r2"]
    assert ids(store.scan(tmp_path / "b300" / "r2", "cpu")) == []
    for found in (store.scan(tmp_path, None), store.scan(tmp_path / "b300", None)):
        assert found[1] == ()


def test_runs_are_found_from_the_present_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make(tmp_path)
    (run.path / "run.json").write_bytes(b"")
    monkeypatch.chdir(run.path)
    _, (problem,) = store.scan(Path(), None)
    assert problem.path == "b300/20260914T081502Z-b300/run.json"
    assert problem.problem.startswith("is empty; ")


def test_empty_and_missing_results(tmp_path: Path) -> None:
    assert store.scan(tmp_path, None) == ((), ())
    with pytest.raises(SpecError, match="is not a directory; give a results directory"):
        store.scan(tmp_path / "none", None)


def test_run_that_came_from_elsewhere_is_read_where_the_user_points(tmp_path: Path) -> None:
    run = make(tmp_path / "results")
    finish(run, 1)
    shutil.copytree(run.path, tmp_path / "received")
    (found,), problems = store.scan(tmp_path / "received", None)
    assert problems == ()
    assert len(found.results()[0]) == 1


def test_copy_of_a_run_is_not_counted_twice(tmp_path: Path) -> None:
    run = make(tmp_path)
    shutil.copytree(run.path, run.path.with_name("copy"))
    shutil.copytree(run.path.parent, tmp_path / "b300-copy")
    runs, problems = store.scan(tmp_path, None)
    assert [found.path for found in runs] == [run.path]
    assert [problem.path for problem in problems] == [
        "b300-copy/20260914T081502Z-b300/run.json",
        "b300-copy/copy/run.json",
        "b300/copy/run.json",
    ]
    assert all(problem.problem.startswith("belongs to another place: ") for problem in problems)


def test_unusable_runs_are_problems(tmp_path: Path) -> None:
    make(tmp_path, "good")
    (make(tmp_path, "no-run-json").path / "run.json").unlink()
    (make(tmp_path, "cut").path / "run.json").write_bytes(b'{"rec')
    (tmp_path / "b300" / "latest").symlink_to("good")
    (tmp_path / "b300" / ".half.00.tmp").mkdir()
    runs, problems = store.scan(tmp_path, "b300")
    assert [run.path.name for run in runs] == ["good"]
    assert [problem.path for problem in problems] == ["b300/cut/run.json", "b300/latest", "b300/no-run-json/run.json"]


# --- evidence ---------------------------------------------------------------------------------------------------------


def listed(attempt: Path, name: str, data: bytes) -> EvidenceFile:
    path = attempt / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return EvidenceFile(path=name, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def evidence_of(attempt: Path, *items: EvidenceFile) -> tuple[tuple[str, str], ...]:
    result: Result = dataclasses.replace(example("result"), evidence=items)
    problems = store.verify_evidence(result, attempt)
    place = f"b300/20260914T081502Z-b300/cells/{CELL}/1/"
    assert all(problem.path.startswith(place) for problem in problems)
    return tuple((problem.path.removeprefix(place), problem.problem) for problem in problems)


def test_evidence_is_verified(tmp_path: Path) -> None:
    attempt = finish(make(tmp_path), 1)
    good = listed(attempt, "evidence/server.log", b"log")
    longer = listed(attempt, "evidence/longer", b"log")
    (attempt / longer.path).write_bytes(b"longer")
    other = listed(attempt, "evidence/checks/other.json", b"{1}")
    (attempt / other.path).write_bytes(b"{2}")
    missing = dataclasses.replace(good, path="evidence/missing")
    found = evidence_of(attempt, good, longer, other, missing)
    assert [path for path, _ in found] == ["evidence/longer", "evidence/checks/other.json", "evidence/missing"]
    assert "changed after the attempt" in found[0][1]
    assert "changed after the attempt" in found[1][1]
    assert found[2][1] == "is missing"


def test_evidence_is_not_sought_elsewhere(tmp_path: Path) -> None:
    attempt = finish(make(tmp_path), 1)
    secret = listed(tmp_path, "secret", b"secret")
    (attempt / "evidence").mkdir()
    (attempt / "evidence" / "link").symlink_to(tmp_path / "secret")
    (attempt / "linked").symlink_to(tmp_path)
    for path, said in (
        ("evidence/link", "symbolic link"),
        ("linked/secret", "symbolic link"),
        ("../../../../../secret", "leads out"),
        (str(tmp_path / "secret"), "leads out"),
        ("evidence//link", "leads out"),
        ("evidence", "is missing"),
    ):
        ((_, problem),) = evidence_of(attempt, dataclasses.replace(secret, path=path))
        assert said in problem


# --- lock -------------------------------------------------------------------------------------------------------------


def test_run_is_locked_for_one_process(tmp_path: Path) -> None:
    run = make(tmp_path)
    program = "import sys; from pathlib import Path; from repro.store import lock\nwith lock(Path(sys.argv[1])): pass"
    arguments = [sys.executable, "-c", program, str(run.path)]
    with store.lock(run.path):
        with (
            pytest.raises(UnavailableError, match=r"^run 2026\S+ is in use by another graphrepro process"),
            store.lock(run.path),
        ):
            pass
        other = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert "UnavailableError" in other.stderr
    assert subprocess.run(arguments, check=False).returncode == 0
    assert ids(store.scan(tmp_path, None)) == [run.path.name]
    assert run.results() == ((), ())


def test_lock_is_released_when_the_work_fails(tmp_path: Path) -> None:
    run = make(tmp_path)
    with pytest.raises(ZeroDivisionError), store.lock(run.path):
        raise ZeroDivisionError
    with store.lock(run.path):
        pass


def test_run_that_is_gone_cannot_be_locked(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="is not there"), store.lock(tmp_path / "run"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_disk_without_locks_is_named(tmp_path: Path) -> None:
    run = make(tmp_path)
    (run.path / ".lock").mkdir()  # cannot be opened as a file, by root neither
    with pytest.raises(UnavailableError, match="cannot be locked"), store.lock(run.path):
        pass
