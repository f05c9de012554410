"""Hosts that answer from `tests/data/hosts`, to be spoilt one thing at a time."""

import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from matrix.host.commands import Answer
from matrix.preflight.checks import preflight
from matrix.preflight.nvml import NvmlGpus
from matrix.preflight.question import DaemonUnknownError, Image, Question, Sources
from matrix.spec import load_spec
from repro.model import PreflightLine

TESTS = Path(__file__).parents[3]
GIB = 1 << 30


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


NVML = load(TESTS / "docker" / "fake_nvml" / "pynvml.py", "fake_pynvml")
DAEMON = load(TESTS / "docker" / "fake_daemon.py", "fake_daemon")


@dataclass
class Told:
    """`Commands` that answers from a table; what is not in it is not installed."""

    table: dict[str, str]
    failing: dict[str, str] = field(default_factory=dict)

    def path(self, program: str) -> str | None:
        return f"/usr/bin/{program}" if any(line.startswith(program) for line in self.table) else None

    def run(self, argv: Sequence[str], timeout_s: float) -> Answer:
        line = " ".join(argv)
        if line in self.failing:
            return Answer(status=1, out="", said=self.failing[line])
        if line not in self.table:
            return Answer(status=None, out="", said=f"{argv[0]} is not installed")
        return Answer(status=0, out=self.table[line], said="")


class Answering:
    """`Daemon` from a table, without a socket."""

    def __init__(self, table: Mapping[str, Any] | None) -> None:
        self.table = table

    def info(self) -> Mapping[str, object]:
        if self.table is None:
            raise DaemonUnknownError("docker: no daemon answers")
        found: Mapping[str, object] = self.table["GET /info"]
        return found

    def image(self, reference: str) -> Image | None:
        found = (self.table or {}).get(f"GET /images/{reference}/json")
        return None if found is None else Image(size_bytes=found["Size"], cuda="13.0.1")


class FakeHost:
    """One host. ``data`` may be changed before it is asked."""

    def __init__(self, name: str, folder: Path) -> None:
        self.data: dict[str, Any] = json.loads((TESTS / "data" / "hosts" / f"{name}.json").read_text())
        self.commands = Told(self.data["commands"])
        self.free = 4000 * GIB
        self.limits: dict[str, int | None] = {"memlock": None, "nofile": 1_048_576}
        self.may: bool | None = True
        self.groups: dict[int, str] = {}
        self.port: str | None = None
        self.cdi = folder / "cdi"
        self.cdi.mkdir()
        self.question = Question(
            spec=load_spec("b300" if name.startswith("b300") else "rtxpro6000"),
            runtime="docker",
            image=self.data["image"],
            engine_env=None,
            model=str(make_weights(folder / "Kimi-K2.6")),
            draft_model=str(make_weights(folder / "Kimi-K2.6-DFlash")),
            results=folder / "results",
            launches=36,
            port=30000,
            own_network=True,
            pause_unit=None,
            pause_scope="system",
        )

    @property
    def gpus(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.data["nvml"]["gpus"]
        return found

    def ask(self, **question: Any) -> dict[str, PreflightLine]:
        NVML.load(self.data["nvml"])
        sources = Sources(
            gpus=NvmlGpus(NVML),
            daemon=Answering(self.data["docker"]),
            commands=self.commands,
            free_bytes=lambda _: self.free,
            shm=Path("/dev/shm"),
            cdi=(self.cdi,),
            limits=lambda: self.limits,
            port_problem=lambda _: self.port,
            multicast=lambda _: self.data["multicast"],
            may_manage_units=lambda: self.may,
            cgroup_of=self.groups.get,
        )
        return {line.check: line for line in preflight(replace(self.question, **question), sources).lines}


def make_weights(folder: Path, shards: int = 3) -> Path:
    """Weights in the form of safetensors, a few bytes each."""
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    mapping = {}
    for number in range(1, shards + 1):
        name = f"model-{number:05d}-of-{shards:05d}.safetensors"
        header = json.dumps(
            {"__metadata__": {}, f"layer.{number}": {"dtype": "F16", "shape": [4], "data_offsets": [0, 8]}}
        )
        (folder / name).write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(8))
        mapping[f"layer.{number}"] = name
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 8 * shards}, "weight_map": mapping})
    )
    return folder


@pytest.fixture
def b300(tmp_path: Path) -> FakeHost:
    return FakeHost("b300x8", tmp_path)


@pytest.fixture
def rtx(tmp_path: Path) -> FakeHost:
    return FakeHost("rtxpro6000x8", tmp_path)


@pytest.fixture
def nvml() -> ModuleType:
    return NVML


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return make_weights(tmp_path / "weights")


@pytest.fixture
def daemon_socket(tmp_path: Path, b300: FakeHost) -> Iterator[str]:
    """DOCKER_HOST of a daemon that answers as that of the B300 host."""
    path = tmp_path / "d.sock"
    with DAEMON.serving(path, b300.data["docker"]):
        yield f"unix://{path}"
