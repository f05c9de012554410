"""kill -9 of the harness loses nothing and leaves nothing behind: three rounds here, twenty in `nox -s kill-test`."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from matrix.promptset import payload_dir

DIES_AT_ONCE = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from attempt import guardian
from attempt.evidence import Evidence, Timeline
from attempt.log_limit import LogLimit
from attempt.step import Step, Stop
evidence = Evidence(Path("evidence"))
Path("scratch").mkdir()
step = Step(
    argv=(sys.executable, "-c", "import time; time.sleep(1000)"), environment={}, host="127.0.0.1", port=1, checks=(),
    prompts=(), limits={}, marks={},
    stop=Stop(dump_s=1.0, dump_signal=None, int_s=1.0, term_s=1.0, kill_s=10.0),
)
guardian.start(step, LogLimit(evidence.log), Timeline(Path("evidence/timeline.jsonl")), Path("scratch"))
os.kill(os.getpid(), signal.SIGKILL)
"""
"""An attempt program that is killed before its guardian has said that the server is started."""


@pytest.mark.slow
def test_three_kills_lose_nothing_and_leave_nothing(tmp_path: Path) -> None:
    script = Path(__file__).with_name("kill_at_random.py")
    command = [sys.executable, str(script), "--kills", "3"]
    ended = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=250)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "none lost or changed" in ended.stdout


def test_a_guardian_whose_attempt_died_before_its_first_word_ends_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # by which the guardian and its server are found
    command = [sys.executable, "-c", DIES_AT_ONCE, str(payload_dir())]
    assert subprocess.run(command, check=False, cwd=tmp_path, timeout=60).returncode == -signal.SIGKILL

    def left() -> list[psutil.Process]:
        found = psutil.process_iter()
        return [process for process in found if _home(process) == str(tmp_path)]

    until(lambda: not left(), "the guardian, or the server, lives on")
    assert not (tmp_path / "scratch").exists()


def _home(process: psutil.Process) -> str | None:
    try:
        return process.environ().get("HOME")
    except psutil.Error:
        return None
