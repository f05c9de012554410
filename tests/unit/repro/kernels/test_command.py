"""`python -m repro kernels` as a user starts it, with a fake Python beside torch."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

FAKE = Path(__file__).with_name("fake_program.py")
ONE = ("--architecture", "sm_103", "--shape", "gqa-4-2-128", "--budget", "8", "9", "--shards", "2")
"""26 cases: 3 planted faults and 6 others against the reference, 4 and 2 between guard pages."""


class Command:
    """Starts it in a world of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results = folder / "results"
        self.python = folder / "python"
        self.python.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
        self.python.chmod(0o755)

    def start(self, *options: str, digest: str = "ab" * 32, **behaviour: str) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "FAKE": json.dumps(behaviour),
            "FAKE_DIGEST": digest,
            "HOME": str(self.folder),
            "PYTHONSAFEPATH": "1",
        }
        words = ("--python", str(self.python), "--results", str(self.results), *options)
        return subprocess.Popen(
            [sys.executable, "-m", "repro", "kernels", *words],
            env=environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *options: str, **behaviour: Any) -> tuple[int, str, str]:
        process = self.start(*options, **behaviour)
        out, err = process.communicate(timeout=200)
        return process.returncode, out, err

    def runs(self) -> list[Path]:
        return sorted(path.parent for path in self.results.glob("kernels/*/kernels.json"))

    def rows(self, run: Path) -> list[dict[str, Any]]:
        text = (run / "rows.jsonl").read_text() if (run / "rows.jsonl").exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def arms(self, run: Path) -> dict[str, dict[str, Any]]:
        return {arm["check"]: arm for arm in json.loads((run / "kernels.json").read_text())["arms"]}


@pytest.fixture
def kernels(tmp_path: Path, left_over: Callable[[], list[psutil.Process]]) -> Command:
    return Command(tmp_path)


def test_all_that_passes_ends_with_0_and_says_where_it_is(kernels: Command) -> None:
    status, out, err = kernels.run("--arm", "reference", "memory", *ONE)
    assert status == 0, err
    (run,) = kernels.runs()
    assert str(run) in out
    assert "next: `nox -s report`" in out
    arms = kernels.arms(run)
    assert {name: (arm["state"], arm["caught"], arm["planted"]) for name, arm in arms.items()} == {
        "kernel-reference": ("complete", 3, 3),
        "kernel-memory": ("complete", 4, 4),
    }
    assert sum(arm["cases"] for arm in arms.values()) == len(kernels.rows(run))
    assert f"memory {arms['kernel-memory']['cases']}/{arms['kernel-memory']['cases']}" in err


def test_failed_case_ends_with_1_and_is_told(kernels: Command) -> None:
    status, out, _ = kernels.run("--arm", "memory", *ONE, b9="fails")
    assert status == 1
    assert "fail: kernel-memory sm_103-b9-gqa-4-2-128-fp16-bs3: off" in out


def test_missed_fault_breaks_the_arm_and_its_failures_count_for_nothing(kernels: Command) -> None:
    status, out, _ = kernels.run("--arm", "memory", *ONE, stale_kv_indptr="fails", b9="fails")
    assert status == 7
    arm = kernels.arms(kernels.runs()[0])["kernel-memory"]
    assert (arm["state"], arm["caught"], arm["planted"]) == ("broken", 3, 4)
    assert "stale_kv_indptr" in arm["reason"]
    assert "broken" in out


def test_arm_goes_on_behind_a_death(kernels: Command) -> None:
    status, _, _ = kernels.run("--arm", "memory", *ONE, b8="dies")
    (run,) = kernels.runs()
    assert status == 1
    assert [row["state"] for row in kernels.rows(run) if not row["planted"]] == ["fail", "pass"]
    assert kernels.arms(run)["kernel-memory"]["state"] == "complete"


def test_arm_that_cannot_start_is_said_and_others_go_on(kernels: Command) -> None:
    status, out, _ = kernels.run("--arm", "memory", *ONE, start="fails later")
    assert status == 4
    arm = kernels.arms(kernels.runs()[0])["kernel-memory"]
    assert arm["state"] == "not_run"
    assert "no Triton interpreter" in arm["reason"]
    assert "no Triton interpreter" in out


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (("--arm", "magic"), 2, "invalid choice: 'magic'"),
        (("--budget", "0"), 2, "'0' is no number from 1"),
        (("--shape", "gqa-7-2-64"), 2, "7 query heads cannot share 2"),
        (("--architecture", "10.3"), 2, "is no architecture; give one such as sm_103"),
        (("--quick", "--full"), 2, "not allowed with"),
        (("--sglang", "no/wheel.whl"), 2, "no/wheel.whl: is not there"),
        (("--python", "no/python"), 4, "no Python to run the kernel with; make it with `nox -s engine-cpu`"),
    ],
)
def test_bad_arguments_are_one_clear_line(kernels: Command, options: tuple[str, ...], status: int, said: str) -> None:
    found, _, err = kernels.run(*options)
    assert (found, said in err, err.count("\n")) == (status, True, 1), err
    assert kernels.runs() == []


def test_environment_without_the_kernel_is_unavailable(kernels: Command) -> None:
    status, _, err = kernels.run(*ONE, start="fails")
    assert status == 4
    assert "no kernel here; make it with `nox -s engine-cpu`" in err


def test_json_is_the_record(kernels: Command) -> None:
    status, out, _ = kernels.run("--arm", "memory", "--json", *ONE)
    assert status == 0
    assert json.loads(out) == json.loads((kernels.runs()[0] / "kernels.json").read_text())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_same_command_goes_on_where_it_was_ended(
    kernels: Command, number: signal.Signals, left_over: Callable[[], list[psutil.Process]]
) -> None:
    options = ("--arm", "memory", *ONE)
    process = kernels.start(*options, sm_103="slowly")
    end = time.monotonic() + 60
    while not (kernels.runs() and len(kernels.rows(kernels.runs()[0])) >= 2):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    while left_over():  # without its parent a program is told to end by the kernel, which takes a moment
        assert time.monotonic() < end
        time.sleep(0.02)
    if number != signal.SIGKILL:
        assert process.returncode == 130
        assert "the same command goes on" in err
    (run,) = kernels.runs()
    before = kernels.rows(run)
    assert 2 <= len(before) < 6
    status, _, err = kernels.run(*options)
    assert status == 0, err
    assert f"goes on behind {len(before)} results" in err
    assert kernels.runs() == [run]
    after = kernels.rows(run)
    assert after[: len(before)] == before
    assert len({(row["cell"]["id"], row["planted"]) for row in after}) == len(after) == 6


def test_finished_run_is_not_gone_on_with(kernels: Command) -> None:
    kernels.run("--arm", "memory", *ONE)
    _, _, err = kernels.run("--arm", "memory", *ONE)
    assert len(kernels.runs()) == 2
    assert f"({kernels.runs()[0].name} is finished)" in err


def test_other_code_is_another_run(kernels: Command) -> None:
    kernels.run("--arm", "memory", *ONE)
    (run,) = kernels.runs()
    document = json.loads((run / "kernels.json").read_text())
    document["arms"][0] |= {"state": "unfinished", "reason": "cases are left"}
    (run / "kernels.json").write_text(json.dumps(document))
    _, _, err = kernels.run("--arm", "memory", *ONE, digest="cd" * 32)
    assert len(kernels.runs()) == 2
    assert f"({run.name} asked other code)" in err


def test_last_row_that_a_kill_cut_is_asked_again(kernels: Command) -> None:
    kernels.run("--arm", "memory", *ONE)
    (run,) = kernels.runs()
    document = json.loads((run / "kernels.json").read_text())
    document["arms"][0] |= {"state": "unfinished", "reason": "cases are left"}
    (run / "kernels.json").write_text(json.dumps(document))
    text = (run / "rows.jsonl").read_text()
    (run / "rows.jsonl").write_text(text[:-40])
    status, _, err = kernels.run("--arm", "memory", *ONE)
    assert status == 0, err
    assert "goes on behind 5 results" in err
    assert len(kernels.rows(run)) == 6
