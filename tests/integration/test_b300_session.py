"""What `nox -s matrix-b300` does, stage by stage and each as a process of its own, on a host that is made up.

Real: the command lines, the docker SDK and its socket, the attempt program, the checks, pause and restore, the report.
Made up: NVML and the GPUs (`fake_nvml`, `data/hosts/b300x8.json`); the docker daemon, whose containers are processes of
this host (`fake_containers.py`); systemd, as programs named systemctl and systemd-run around `fake_systemd.py`; and the
engine, which is the simulated one under b300's own spec: its cells, hardware, checks and limits.
"""

import importlib.util
import json
import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import matrix
from repro import codec
from repro.model import GpuHealth

TESTS = Path(__file__).parents[1]
B300 = json.loads((TESTS / "data" / "hosts" / "b300x8.json").read_text())
PAYLOAD = Path(matrix.__file__).parent / "payload"
IMAGE = B300["image"]
SYSTEMCTL = """#!{python}
import pickle, sys
sys.path.insert(0, {folder!r})
from pathlib import Path
state = Path({state!r})
systemd = pickle.loads(state.read_bytes())
if sys.argv[1:2] == ["is-active"]:
    print("active")  # nvidia-fabricmanager
    sys.exit(0)
answer = systemd.run([Path(sys.argv[0]).name, *sys.argv[1:]], 30.0)
state.write_bytes(pickle.dumps(systemd))
sys.stdout.write(answer.out)
sys.stderr.write(answer.said)
sys.exit(answer.status)
"""


def beside(name: str) -> ModuleType:
    """A module of `tests/docker`."""
    spec = importlib.util.spec_from_file_location(name, TESTS / "docker" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def with_fake_nvml() -> str:
    paths = (str(TESTS / "docker" / "fake_nvml"), os.environ.get("PYTHONPATH"))
    return os.pathsep.join(path for path in paths if path)


@dataclass
class Host:
    """Eight B300s, a docker daemon, and production that runs."""

    folder: Path
    environment: dict[str, str]
    containers: Any
    asked: list[str]

    def matrix(self, stage: str, *options: str) -> "subprocess.CompletedProcess[str]":
        return self.python("-m", "matrix", stage, "--spec", "b300.toml", *options)

    def python(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )

    @property
    def production(self) -> str:
        return str(pickle.loads((self.folder / "systemd").read_bytes()).units["sglang.service"].active)

    @property
    def timers(self) -> list[str]:
        return list(pickle.loads((self.folder / "systemd").read_bytes()).timers)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    daemon, containers = beside("fake_daemon"), beside("fake_containers").Containers()
    _programs(tmp_path)
    _draft(tmp_path / "draft")
    _spec(tmp_path)
    table = json.loads(json.dumps(B300["docker"]))
    image = table[f"GET /images/{IMAGE}/json"]
    image["Config"]["Labels"]["graphrepro.python"] = sys.executable  # what a container is made of here
    table["GET /info"]["DockerRootDir"] = "/nowhere"  # this host's own disk may be small
    with daemon.serving(tmp_path / "docker.sock", table, containers) as asked:
        environment = {
            **os.environ,
            "DOCKER_HOST": f"unix://{tmp_path}/docker.sock",
            "GRAPHREPRO_FAKE_NVML": str(TESTS / "data" / "hosts" / "b300x8.json"),
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": with_fake_nvml(),
            "PYTHONSAFEPATH": "1",
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        }
        yield Host(tmp_path, environment, containers, asked)


def _programs(folder: Path) -> None:
    systemd = beside("fake_systemd")
    double = systemd.FakeSystemd(units={"sglang.service": systemd.Unit(active="active")})
    (folder / "systemd").write_bytes(pickle.dumps(double))
    (folder / "topology").write_text(B300["commands"]["nvidia-smi topo -m"])
    fake = SYSTEMCTL.format(python=sys.executable, folder=str(TESTS / "docker"), state=str(folder / "systemd"))
    texts = {
        "systemctl": fake,
        "systemd-run": fake,
        "nvidia-smi": f"#!/bin/sh\nexec cat {folder}/topology\n",
        "pkcheck": "#!/bin/sh\n",
        "journalctl": "#!/bin/sh\n",
    }
    (folder / "bin").mkdir()
    for name, text in texts.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)


def _draft(folder: Path) -> None:
    """The smallest weights that are whole."""
    folder.mkdir()
    header = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))


def _spec(folder: Path) -> None:
    text = (PAYLOAD.parent / "specs" / "b300.toml").read_text()
    for old, new in (
        ('name = "sglang"', 'name = "simulated"'),
        ('version = "0.5.15.post1"', 'version = "1"'),
        ('source = "pr29907"', f'source = "simulated"\nscript = "{folder}/script.json"'),
        ('draft_path = "/models/Kimi-K2.6-DFlash"\n', f'draft_path = "{folder}/draft"\n'),
        ("count = 20\n", "count = 4\n"),
        ("max_new_tokens = 256", "max_new_tokens = 32"),
        ("concurrency = [1, 32, 128]", "concurrency = [1, 4]"),
    ):
        assert text.count(old) == 1 or old.startswith("draft"), old
        text = text.replace(old, new, 1)
    (folder / "b300.toml").write_text(text)
    script = json.loads((PAYLOAD / "simulated" / "scripts" / "default.json").read_text())
    rule = {"cells": "*-b16t8-graph-*", "why": "as in the archive", "faults": [{"name": "crash-capture"}]}
    (folder / "script.json").write_text(json.dumps({**script, "rules": [rule]}))


DOCKER = ("--runtime", "docker", "--image", IMAGE, "--pause-unit", "sglang")
CELLS = ("--select", "*-b8t4-graph-nvls", "--select", "*-b16t8-graph-nvls")


def test_the_whole_session(host: Host) -> None:
    state = ("--pause-state", str(host.folder / "state"), "--yes")
    prepared = host.matrix("prepare", *DOCKER, *CELLS, *state)
    assert (prepared.returncode, prepared.stdout.strip()) == (0, IMAGE), prepared.stderr

    checked = host.matrix("preflight", *DOCKER, *CELLS, *state)
    assert checked.returncode == 0, checked.stdout
    assert "sglang.service is active; this user may stop and start it" in checked.stdout
    assert host.production == "active"

    # The daemon here is a stand-in, which runs attempts only: it has no sandbox for the answers to coding tasks.
    ran = host.matrix("run", *DOCKER, *CELLS, *state, "--sandbox-image", "none")
    assert ran.returncode == 1, ran.stderr
    assert "stopping sglang.service" in ran.stderr
    assert "PRODUCTION sglang.service READY after" in ran.stderr
    assert (host.production, host.timers) == ("active", [])

    (run,) = (path.parent for path in host.folder.glob("results/b300/*/run.json"))
    verdicts = {path.parent.parent.name: json.loads(path.read_text()) for path in run.glob("cells/*/1/verdict.json")}
    assert {cell: verdict["verdict"] for cell, verdict in verdicts.items()} == {
        "sm_103-ar-eager-nonvls": "pass",
        "sm_103-b8t4-eager-nvls": "pass",
        "sm_103-b8t4-graph-nvls": "pass",
        "sm_103-b16t8-eager-nvls": "pass",
        "sm_103-b16t8-graph-nvls": "fail",
    }
    health = [codec.read(path, GpuHealth) for path in run.glob("cells/*/*/evidence/gpu-health.json")]
    assert {(len(one.before), len(one.after), one.suspect) for one in health} == {(8, 8, ())}
    assert len(host.containers.removed) == len(health)
    assert host.containers.all == {}
    for container in host.containers.removed:
        asked = container.config["HostConfig"]["DeviceRequests"]
        assert [(one["Count"], one["Capabilities"]) for one in asked] == [(-1, [["gpu", "compute", "utility"]])]

    built = host.python("-m", "report", "build", "--results", "results", "--target", "b300")
    assert built.returncode == 0, built.stderr
    assert "sm_103-b16t8-graph-nvls" in (host.folder / "results" / "report" / "findings.md").read_text()


def test_a_problem_is_told_before_anything_is_stopped(host: Host) -> None:
    (host.folder / "draft" / "model.safetensors").unlink()
    checked = host.matrix("preflight", *DOCKER, *CELLS)
    assert checked.returncode == 4
    (told,) = [line for line in checked.stdout.splitlines() if line.startswith("problem")]
    assert "no *.safetensors in it -> download the weights" in told
    assert host.production == "active"


def test_without_any_of_it_every_lack_has_its_line(tmp_path: Path) -> None:
    """The shipped spec, on a host without GPU, docker and weights."""
    (tmp_path / "nvml.json").write_text(json.dumps({"nvml": {"init_error": "NVML Shared Library Not Found"}}))
    environment = {
        **os.environ,
        "DOCKER_HOST": f"unix://{tmp_path}/none.sock",
        "GRAPHREPRO_FAKE_NVML": str(tmp_path / "nvml.json"),
        "PYTHONPATH": with_fake_nvml(),
        "PYTHONSAFEPATH": "1",
    }
    checked = Host(tmp_path, environment, None, []).python(
        "-m", "matrix", "preflight", "--spec", "b300", "--runtime", "docker"
    )
    assert checked.returncode == 4, checked.stderr
    lacks = [line.split()[1] for line in checked.stdout.splitlines() if line.startswith("problem")]
    assert {"docker", "gpus", "weights", "draft-weights"} <= set(lacks)
    assert len(lacks) == len(set(lacks))
    assert all(" -> " in line for line in checked.stdout.splitlines() if line.startswith("problem"))
