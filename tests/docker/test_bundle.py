"""A failure that was seen in a container: packed, moved, and reproduced by its own script in a container."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import docker
import pytest

pytestmark = pytest.mark.docker

CELL = "sim-b16t8-graph-nonvls"


def command(*words: str, folder: Path, status: int) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(600)
def test_a_crash_in_a_container_is_reproduced_by_the_script_in_its_bundle(
    engine_image: str, docker_api: docker.APIClient, tmp_path: Path
) -> None:
    run = ("matrix", "run", "--spec", "sim", "--runtime", "docker", "--image", engine_image, "--no-references")
    planted = ("--select", CELL, "--inject", f"{CELL}=crash-capture", "--no-armed-relaunch")
    command(*run, *planted, folder=tmp_path, status=1)
    before = {container["Id"] for container in docker_api.containers(all=True)}
    told = command("repro", "pack", CELL, "--out", "b.zip", "--launches", "1", folder=tmp_path, status=0)
    assert "reproduced 1 of 1" in told
    elsewhere = tmp_path / "elsewhere"
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        archive.extractall(elsewhere)
        order = archive.read("repro.sh").decode()
    assert engine_image in order
    assert str(tmp_path) not in order
    done = subprocess.run(
        ["sh", str(elsewhere / "repro.sh"), "--launches", "1"],
        cwd="/",
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "reproduced 1 of 1"), done.stdout + done.stderr
    assert {container["Id"] for container in docker_api.containers(all=True)} == before
