"""Two engines for one suite: the simulated server, and the real one on this CPU. Each is started once."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

import matrix
from matrix.arguments import EngineChoice
from matrix.cell import make_cell
from matrix.spec import load_spec

REPOSITORY = Path(matrix.__file__).parents[1]
PAYLOAD = Path(matrix.__file__).parent / "payload"
sys.path.insert(0, str(PAYLOAD))  # as running the folder does

TREE = ("--speculative-algorithm", "DDTREE", "--speculative-num-draft-tokens", "17", "--speculative-eagle-topk", "8")
READY_S = 240


@dataclass(kw_only=True)
class RunningEngine:
    """A server with DDTREE at budget 16, top-k 8. `fault` plants one until the next call."""

    name: str
    port: int
    log: Path
    fault_file: Path
    prompts: list[list[int]]

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def json(self, method: str, path: str, body: Any = None) -> Any:
        status, content = self.ask(method, path, body)
        assert status == 200, content[:500]
        return json.loads(content)

    def generate(self, prompt: list[int], count: int = 24, **more: Any) -> Any:
        sampling = {"temperature": 0, "max_new_tokens": count, "ignore_eos": True}
        return self.json("POST", "/generate", {"input_ids": prompt, "sampling_params": sampling, **more})

    def stream(self, prompt: list[int], count: int = 24, **more: Any) -> list[Any]:
        """The documents of a streamed reply."""
        sampling = {"temperature": 0, "max_new_tokens": count, "ignore_eos": True}
        body = {"input_ids": prompt, "sampling_params": sampling, "stream": True, **more}
        status, content = self.ask("POST", "/generate", body)
        assert status == 200
        return self.events(content)

    @staticmethod
    def events(content: bytes) -> list[Any]:
        """The documents of a stream of server-sent events, which must end with [DONE]."""
        data = [line[6:] for line in content.decode().split("\n") if line.startswith("data: ")]
        assert data[-1] == "[DONE]"
        return [json.loads(item) for item in data[:-1]]

    def fault(self, text: str) -> None:
        """Renames a file over the old one, so that a half-written name is never read."""
        fresh = self.fault_file.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self.fault_file)


@pytest.fixture(scope="module", params=["simulated", pytest.param("real", marks=pytest.mark.engine)])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    folder = tmp_path_factory.mktemp(request.param)
    port, fault_file = free_port(), folder / "fault"
    fault_file.write_text("")
    argv, environment = (simulated if request.param == "simulated" else real)(port)
    environment["GRAPHREPRO_FAULT_FILE"] = str(fault_file)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, env=environment, stdout=log, stderr=log, cwd=folder, start_new_session=True)
    try:
        wait_until_ready(process, port, folder / "log")
        yield RunningEngine(
            name=request.param, port=port, log=folder / "log", fault_file=fault_file, prompts=held_out_prompts()
        )
        process.terminate()
        assert process.wait(60) == 0, "SIGTERM to the launcher is an orderly end"
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if _group_lives(process.pid):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def engine(running: RunningEngine) -> Iterator[RunningEngine]:
    """The engine without faults and with an empty cache."""
    running.fault("")
    running.ask("POST", "/flush_cache")
    yield running
    running.fault("")


def simulated(port: int) -> tuple[list[str], dict[str, str]]:
    return [sys.executable, str(PAYLOAD), "simulated", "--port", str(port), *TREE], {"PATH": os.defpath}


def real(port: int) -> tuple[list[str], dict[str, str]]:
    """The unmodified SGLang server with the plugin, from the environment that `nox -s engine-cpu` makes."""
    named = os.environ.get("GRAPHREPRO_ENGINE_ENV")
    python = Path(named or REPOSITORY / ".nox" / "engine-cpu") / "bin" / "python"
    if not python.exists():
        if named:
            pytest.fail(f"GRAPHREPRO_ENGINE_ENV is {named}, but there is no {python}")
        pytest.skip("no engine environment: nox -s engine-cpu makes it")
    spec = load_spec("cpu")
    cell = make_cell("b16t8", graph="eager", nvls="nonvls", defaults=spec.cell_defaults)
    launch = EngineChoice().resolve(spec, cell)
    values = {"{python}": str(python), "{payload}": str(PAYLOAD), "{port}": str(port)}

    def filled(text: str) -> str:
        for placeholder, value in values.items():
            text = text.replace(placeholder, value)
        return text

    environment = {"PATH": os.defpath, "HOME": os.environ.get("HOME", "/"), **launch.environment}
    return [filled(word) for word in launch.argv], {name: filled(value) for name, value in environment.items()}


def held_out_prompts() -> list[list[int]]:
    document = json.loads((PAYLOAD / "cpu" / "model" / "prompts.json").read_text())
    return [prompt["input_ids"] for prompt in document["prompts"][:6]]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    limit = time.monotonic() + READY_S
    while time.monotonic() < limit and process.poll() is None:
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.05)
    pytest.fail(f"never ready, exit status {process.poll()}:\n{log.read_text(errors='replace')[-3000:]}")


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
