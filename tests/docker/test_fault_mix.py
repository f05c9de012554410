"""A dozen attempts that go wrong, each a run of its own, on a docker daemon that is restarted and killed meanwhile."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.mark.timeout(900)
def test_a_fault_mix_is_classified_and_leaves_the_daemon_as_it_was(engine_image: str) -> None:
    if os.getuid() != 0:
        pytest.skip("a docker daemon of its own needs root")
    script = Path(__file__).with_name("fault_mix.py")
    command = [
        sys.executable,
        str(script),
        "--attempts",
        "12",
        "--flood-mb",
        os.environ.get("GRAPHREPRO_FLOOD_MB", "200"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
