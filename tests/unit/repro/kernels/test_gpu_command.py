"""A GPU that is lost costs one case and one process; a test of a GPU never passes for lack of one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from repro.kernels.record import read_rows
from repro.model.kernels import KernelResult

ROOT = Path(__file__).resolve().parents[4]
FAKE = Path(__file__).with_name("fake_program.py")


def kernels(folder: Path, *options: str, **behaviour: str) -> tuple[int, str, tuple[KernelResult, ...]]:
    """Exit status, what was printed, and rows, with a fake program in the place of the one beside torch."""
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
    python.chmod(0o755)
    command = [sys.executable, "-m", "repro", "kernels", "--python", str(python), "--results", str(folder / "results")]
    environment = {**os.environ, "FAKE": json.dumps(behaviour)}
    done = subprocess.run([*command, *options], env=environment, capture_output=True, text=True, check=False)
    rows = [row for run in (folder / "results").glob("kernels/*") for row in read_rows(run)]
    return done.returncode, done.stdout + done.stderr, tuple(rows)


def test_cases_behind_a_lost_gpu_are_asked_in_another_process(tmp_path: Path) -> None:
    status, said, rows = kernels(tmp_path, "--arm", "gpu", "--quick", **{"b9-": "loses_gpu"})
    assert status == 1, said
    assert len(rows) == 24
    lost = [row for row in rows if row.state == "fail"]
    assert [row.cell.budget for row in lost] == [9] * 6
    assert {(row.reason, row.faults[0].kind) for row in lost} == {("cuda_error", "cuda_error")}
    assert {row.cell.budget for row in rows if row.state == "pass"} == {8, 16}


def test_named_arm_without_a_gpu_ends_with_4_and_the_reason(tmp_path: Path) -> None:
    status, said, rows = kernels(tmp_path, "--arm", "gpu", "--quick", start="fails later")
    assert (status, rows) == (4, ())
    assert "kernel-gpu: not_run: " in said


@pytest.mark.parametrize(
    ("options", "status", "says"),
    [
        (("--arm", "memory", "--sanitizer"), 2, "name gpu too"),
        (("--arm", "gpu", "--sanitizer", "valgrind"), 2, "invalid choice"),
    ],
)
def test_sanitizer_that_cannot_be_asked_for_is_refused(
    tmp_path: Path, options: tuple[str, ...], status: int, says: str
) -> None:
    ended, said, _ = kernels(tmp_path, *options)
    assert ended == status
    assert says in said


@pytest.mark.parametrize(("switch", "status", "word"), [("", 0, "skipped"), ("1", 1, "GRAPHREPRO_GPU is 1")])
def test_tests_of_a_gpu_are_skipped_or_fail_without_one(switch: str, status: int, word: str) -> None:
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "GRAPHREPRO_GPU": switch}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "tests/gpu"]
    done = subprocess.run(command, cwd=ROOT, env=hidden, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout
    assert word in done.stdout
    assert "passed" not in done.stdout
