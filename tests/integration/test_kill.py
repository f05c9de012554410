"""kill -9 of the harness loses nothing and leaves nothing behind: three rounds here, twenty in `nox -s kill-test`."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_three_kills_lose_nothing_and_leave_nothing(tmp_path: Path) -> None:
    script = Path(__file__).with_name("kill_at_random.py")
    command = [sys.executable, str(script), "--kills", "3"]
    ended = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=250)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "none lost or changed" in ended.stdout
