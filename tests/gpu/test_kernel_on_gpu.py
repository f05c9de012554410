"""The GPU arm where there is a GPU."""

import subprocess
import sys
from pathlib import Path

import pytest

from repro import codec
from repro.kernels.record import read_rows
from repro.model.kernels import KernelResult, KernelRun

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(1200)]


def run(python: str, results: Path, *options: str) -> tuple[KernelRun, tuple[KernelResult, ...]]:
    command = [sys.executable, "-m", "repro", "kernels", "--arm", "gpu", "--python", python]
    done = subprocess.run([*command, "--results", str(results), *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = results.glob("kernels/*/kernels.json")
    return codec.read(path, KernelRun), read_rows(path.parent)


def test_kernel_is_right_in_every_mode_and_every_planted_fault_is_caught(gpu_python: str, tmp_path: Path) -> None:
    found, rows = run(gpu_python, tmp_path, "--quick")
    (arm,) = found.arms
    assert (arm.state, arm.caught) == ("complete", arm.planted)
    assert arm.planted
    asked = [row for row in rows if row.planted is None]
    assert len(asked) == 18
    assert {(row.state, row.evidence_class) for row in asked} == {("pass", "gpu")}
    architectures = {row.cell.architecture for row in rows}
    assert len(architectures) == 1
    assert None not in architectures


def test_eager_and_graph_dtypes_are_other_compiled_code(gpu_python: str, tmp_path: Path) -> None:
    _, rows = run(gpu_python, tmp_path, "--quick", "--budget", "8", "16")
    code = {row.cell.mode: row.compiled.cubin_sha256 for row in rows if row.compiled and row.planted is None}
    assert len({code["eager"], code["eager-graph-dtypes"]}) == 2
    assert len({sha for mode, sha in code.items() if mode != "eager"}) == 1


def test_memcheck_catches_a_short_mask_and_finds_nothing_else(gpu_python: str, tmp_path: Path) -> None:
    _, rows = run(gpu_python, tmp_path, "--quick", "--budget", "9", "--sanitizer", "memcheck")
    under = [row for row in rows if row.cell.id.endswith("-memcheck")]
    assert [row.planted for row in under if row.planted] == ["mask_sized_for_budget_8"]
    assert {row.state for row in under} == {"pass"}
