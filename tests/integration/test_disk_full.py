"""A disk that fills up: one clear message, exit status 4, what was finished is kept, and the run resumes after making
room. The results lie on a tmpfs of two megabytes."""

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from repro import store

ONE = ("--select", "*-b8t4-eager*")
SIZE_BYTES = 2 << 20

pytestmark = pytest.mark.slow


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A mounted tmpfs; skipped where mounting is not permitted."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "graphrepro-test", str(place)]
    try:
        mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as problem:
        pytest.skip(f"no mount command: {problem}")
    if mounted.returncode != 0:
        pytest.skip(f"mounting a tmpfs is not permitted here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path, leave_bytes: int) -> Path:
    """A file that takes all room but so many bytes."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        left = shutil.disk_usage(disk).free - leave_bytes
        file.write(b"\0" * max(left, 0))
    return ballast


def results_below(disk: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in disk.glob("*/*/cells/*/*/result.json")}


def assert_one_clear_message(run: subprocess.CompletedProcess[str]) -> None:
    assert run.returncode == 4, run.stderr
    assert "Traceback" not in run.stderr
    told = [line for line in run.stderr.splitlines() if line.startswith("matrix: ")]
    assert len(told) == 1
    assert "no space left" in told[0]
    assert "free space and run the same again" in told[0]


def assert_readable(results: Path, finished: int) -> None:
    """All that is there is valid, down to the digests of the evidence."""
    directories, problems = store.scan(results, None)
    assert problems == ()
    found = 0
    for directory in directories:
        kept, bad = directory.results()
        assert bad == ()
        found += len(kept)
        for result in kept:
            assert store.verify_evidence(result, directory.attempt(result.cell, result.attempt)) == ()
    assert found == finished


def test_full_from_the_beginning(harness: Any, small_disk: Path) -> None:
    ballast = fill(small_disk, 0)
    assert_one_clear_message(harness.run(*ONE, results=small_disk))
    harness.assert_nothing_left()
    ballast.unlink()
    run = harness.run(*ONE, results=small_disk)
    assert run.returncode == 0, run.stderr
    assert_readable(small_disk, 3)


def test_filling_up_in_the_middle(harness: Any, small_disk: Path, until: Callable[..., None]) -> None:
    """First with room for a part of the second attempt, then all room goes while an attempt runs."""
    process = harness.start(*ONE, results=small_disk)
    until(lambda: results_below(small_disk), "no result")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    before = results_below(small_disk)
    ballast = fill(small_disk, 90_000)
    assert_one_clear_message(harness.run(*ONE, results=small_disk))
    assert results_below(small_disk) == before
    ballast.unlink()

    process = harness.start(*ONE, results=small_disk)
    (run_json,) = small_disk.glob("*/*/run.json")
    timeline = run_json.parent / "cells/sim-b8t4-eager-nonvls/1/evidence/timeline.jsonl"
    until(lambda: timeline.exists() and "check-begun" in timeline.read_text(), "no check")
    ballast = fill(small_disk, 0)
    out, err = process.communicate(timeout=120)
    assert_one_clear_message(subprocess.CompletedProcess(process.args, process.returncode, out, err))
    harness.assert_nothing_left()
    assert results_below(small_disk) == before
    assert_readable(small_disk, 1)

    ballast.unlink()
    run = harness.run(*ONE, results=small_disk)
    assert run.returncode == 0, run.stderr
    assert "3 launches, 1 done before" in run.stderr
    after = results_below(small_disk)
    assert {path: after[path] for path in before} == before
    assert_readable(small_disk, 3)


def test_a_server_that_floods_its_log_is_no_evidence_about_the_engine(harness: Any, small_disk: Path) -> None:
    """Its log fills the disk: what the attempt then did is put down to the disk, not to the engine."""
    flood = ("--select", "*-b8t4-graph*", "--inject", "*-b8t4-graph*=log-flood:8")
    run = harness.run(*flood, results=small_disk)
    assert_one_clear_message(run)
    harness.assert_nothing_left()
    assert_readable(small_disk, 1)
