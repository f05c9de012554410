"""`python -m matrix preflight`, as a process: here, and with an NVML and a docker daemon that answer from files."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from repro import codec
from repro.model import GpuHealth, Preflight

TESTS = Path(__file__).parents[1]
B300 = json.loads((TESTS / "data" / "hosts" / "b300x8.json").read_text())


def matrix(*arguments: str, folder: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "matrix", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONSAFEPATH": "1", **environment, **_before_ours(environment)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _before_ours(environment: dict[str, str]) -> dict[str, str]:
    """The import path of this process stays, behind what the test puts before it."""
    paths = (environment.get("PYTHONPATH"), os.environ.get("PYTHONPATH"))
    return {"PYTHONPATH": os.pathsep.join(path for path in paths if path)} if any(paths) else {}


def lines(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    found = codec.decode(json.loads(done.stdout), Preflight, where="stdout")
    return {line.check: line for line in found.lines}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment in which an 8 x B300 host answers."""
    spec = importlib.util.spec_from_file_location("fake_daemon", TESTS / "docker" / "fake_daemon.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    programs = tmp_path / "bin"
    programs.mkdir()
    for line, text in B300["commands"].items():
        (tmp_path / f"{line.split()[0]}.txt").write_text(text)
        program = programs / line.split()[0]
        program.write_text(f"#!/bin/sh\nexec cat {tmp_path}/{program.name}.txt\n")
        program.chmod(0o755)
    with module.serving(tmp_path / "docker.sock", B300["docker"]):
        yield {
            "DOCKER_HOST": f"unix://{tmp_path}/docker.sock",
            "GRAPHREPRO_FAKE_NVML": str(TESTS / "data" / "hosts" / "b300x8.json"),
            "PYTHONPATH": str(TESTS / "docker" / "fake_nvml"),
            "PATH": f"{programs}:{os.environ['PATH']}",
        }


def test_a_host_without_gpus_is_told_what_is_missing(tmp_path: Path) -> None:
    absent = {"PYTHONPATH": str(TESTS / "docker" / "fake_nvml"), "GRAPHREPRO_FAKE_NVML": str(tmp_path / "nvml.json")}
    (tmp_path / "nvml.json").write_text(json.dumps({"nvml": {"init_error": "NVML Shared Library Not Found"}}))
    done = matrix("preflight", "--spec", "b300", folder=tmp_path, **absent)
    assert done.returncode == 4
    told = [line for line in done.stdout.splitlines() if line.startswith("problem")]
    assert any(re.search(r"gpus +no GPU: NVML: NVML Shared Library Not Found; b300 needs 8 of sm_103", t) for t in told)
    assert any("/models/Kimi-K2.6 is not there" in line for line in told)
    assert all(" -> " in line for line in told)
    assert done.stdout.splitlines()[0].startswith("ok      oracle")


def test_the_simulated_engine_needs_nothing(tmp_path: Path) -> None:
    done = matrix("preflight", "--spec", "sim", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line.state for line in lines(done).values()} == {"ok"}


def test_a_b300_host_lacks_only_what_is_not_there(tmp_path: Path, host: dict[str, str]) -> None:
    given = ("--runtime", "docker", "--image", B300["image"], "--json")
    done = matrix("preflight", "--spec", "b300", *given, folder=tmp_path, **host)
    found = lines(done)
    for check in ("oracle", "docker", "gpu-runtime", "image", "gpus", "driver", "gpu-memory", "clocks", "gpu-health"):
        assert found[check].state == "ok", found[check]
    assert found["topology"].detail == "NV18 between all GPUs"
    assert found["fabric"].state == "ok"
    assert found["multicast"].state == "unknown"
    assert found["weights"].state == "problem"
    assert done.returncode == 4


def test_a_run_on_gpus_keeps_their_health(tmp_path: Path, host: dict[str, str]) -> None:
    """The simulated engine on a host with eight GPUs."""
    text = (TESTS.parent / "matrix" / "specs" / "sim.toml").read_text()
    (tmp_path / "gpus.toml").write_text(text.replace("gpu_count = 0", "gpu_count = 8"))
    done = matrix(
        *("run", "--spec", "gpus.toml", "--select", "sim-b8t4-eager-nvls", "--no-references"), folder=tmp_path, **host
    )
    assert done.returncode in {0, 7}, done.stderr
    (path,) = tmp_path.glob("results/*/*/cells/*/1/evidence/gpu-health.json")
    health = codec.read(path, GpuHealth)
    assert (len(health.before), len(health.after), health.suspect) == (8, 8, ())
