"""`python -m repro kernels --quick` on SGLang's real kernel: every arm, and what a user sees of it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from repro import codec
from repro.kernels.arms import ARMS
from repro.kernels.record import read_rows
from repro.model.kernels import KernelResult, KernelRun

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1500)]


def command(results: Path, *options: str) -> list[str]:
    engine = os.environ.get("GRAPHREPRO_ENGINE_ENV")
    if engine is None:
        pytest.skip("needs the engine's environment: nox -s engine-cpu tests")
    where = ("--engine-env", engine, "--results", str(results))
    return [sys.executable, "-m", "repro", "kernels", *where, *options]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[KernelRun, tuple[KernelResult, ...], str]:
    results = tmp_path_factory.mktemp("kernels")
    done = subprocess.run(command(results, "--quick"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = results.glob("kernels/*/kernels.json")
    return codec.read(path, KernelRun), read_rows(path.parent), done.stdout


def test_every_arm_catches_what_was_planted_for_it(
    finished: tuple[KernelRun, tuple[KernelResult, ...], str],
) -> None:
    run, _, said = finished
    ran = [arm for arm in run.arms if arm.state != "not_run"]
    assert [(arm.state, arm.caught) for arm in ran] == [("complete", arm.planted) for arm in ran], said
    assert all(arm.planted for arm in ran)
    # Without wheels and without a GPU these have nothing to ask.
    assert {arm.check for arm in run.arms} - {arm.check for arm in ran} <= {"kernel-buffers", "kernel-gpu"}


def test_reference_and_memory_pass_at_each_budget_on_both_architectures(
    finished: tuple[KernelRun, tuple[KernelResult, ...], str],
) -> None:
    _, rows, _ = finished
    for check in ("kernel-reference", "kernel-memory"):
        found = [row for row in rows if row.check == check and row.planted is None and row.cell.dtype != "bf16"]
        assert {row.state for row in found} == {"pass"}
        assert {(row.cell.architecture, row.cell.budget) for row in found} == {
            (architecture, budget) for architecture in ("sm_103", "sm_120") for budget in (8, 9, 16)
        }
        assert {row.cell.tile for row in found} == {"64x64", "64x128"}
        assert {row.evidence_class for row in found} == {"interpreted"}


def test_emulated_replays_pass_and_a_frozen_grid_has_no_effect_where_one_tile_holds_all_rows(
    finished: tuple[KernelRun, tuple[KernelResult, ...], str],
) -> None:
    _, rows, _ = finished
    emulated = [row for row in rows if row.check == "kernel-emulated"]
    well = {(row.cell.architecture, row.cell.budget) for row in emulated if row.planted is None and row.state == "pass"}
    assert well == {(architecture, budget) for architecture in ("sm_103", "sm_120") for budget in (8, 9, 16)}
    assert {(row.evidence_class, row.cell.mode) for row in emulated} == {("emulated", None)}
    frozen = [row for row in emulated if row.planted == "grid_of_budget_8"]
    assert {row.cell.budget for row in frozen} == {16, 32}
    assert all(row.detail.startswith("no effect, as expected") for row in frozen)
    kinds = {row.planted: row.faults[0].kind for row in emulated if row.faults}
    assert kinds == {
        "mask_sized_for_budget_8": "out_of_bounds",
        "stale_mask_indptr": "wrong_values",
        "stale_mask": "wrong_values",
        "stale_out_cache_loc": "wrong_values",
        "host_sync": "host_sync",
    }


def test_reproducer_of_a_cell_says_what_the_arm_says(
    finished: tuple[KernelRun, tuple[KernelResult, ...], str], tmp_path: Path
) -> None:
    _, rows, _ = finished
    row = next(row for row in rows if row.check == "kernel-reference" and row.cell.dtype == "fp16" and not row.planted)
    made = [sys.executable, "-m", "repro", "kernels", "--reproducer", str(tmp_path), "--cell", row.cell.id]
    subprocess.run(made, check=True, capture_output=True)
    python = str(Path(os.environ["GRAPHREPRO_ENGINE_ENV"]).absolute() / "bin" / "python")
    for plant, status in (((), 0), (("--plant", "causal_mask"), 1)):
        alone = [python, "-I", "-B", "verify_attention_repro.py", "--rounds", "1", *plant]
        done = subprocess.run(alone, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stdout + done.stderr
        assert f"budget {row.cell.budget}, " in done.stdout


def test_rows_say_which_code_was_asked(finished: tuple[KernelRun, tuple[KernelResult, ...], str]) -> None:
    _, rows, _ = finished
    pinned = {row.subject for row in rows if row.check in ("kernel-reference", "kernel-memory")}
    (subject,) = pinned
    assert (subject.origin, subject.sglang) == ("pinned", "0.5.23")
    assert subject.triton
    assert subject.source_path == "sglang/kernels/ops/attention/extend_attention.py"


def test_console_says_what_the_evidence_is_worth(finished: tuple[KernelRun, tuple[KernelResult, ...], str]) -> None:
    _, _, said = finished
    assert "interpreted: says what the kernel computes and touches, as written" in said
    assert "the interpreter keeps bf16 as bit patterns" in said
    assert all(arm.check in said for arm in ARMS.values())


def living(home: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("HOME") == str(home):
                found.append(process)
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_command(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        command(tmp_path, "--arm", "memory", "--quick"),
        env={**os.environ, "HOME": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + 600

    def rows() -> list[Any]:
        return [json.loads(line) for path in tmp_path.glob("kernels/*/rows.jsonl") for line in path.open()]

    while not rows():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.1)
    process.send_signal(number)
    process.wait()
    while living(tmp_path):  # the kernel of the system ends what has lost its parent, which takes a moment
        assert time.monotonic() < end, [process.cmdline() for process in living(tmp_path)]
        time.sleep(0.05)
