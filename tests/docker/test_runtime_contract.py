"""The contract that holds for every runtime, held against docker, and what docker's answers add to it."""

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

from matrix.promptset import payload_dir
from matrix.runtimes.docker import DockerRuntime
from matrix.runtimes.docker_container import LABEL, PAYLOAD, ContainerSettings
from matrix.runtimes.docker_daemon import Daemon
from matrix.runtimes.docker_gpus import Gpus
from matrix.runtimes.docker_images import find_image
from matrix.runtimes.local import LABEL as VARIABLE
from matrix.runtimes.protocol import AttemptOrder, Ended, Handle
from repro.errors import UnavailableError

pytestmark = pytest.mark.docker
CONTRACT = Path(__file__).parents[1] / "contract" / "test_runtimes.py"
OWNER = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from matrix.promptset import payload_dir
from matrix.runtimes.docker import DockerRuntime
from matrix.runtimes.docker_container import ContainerSettings
from matrix.runtimes.docker_daemon import connect
from matrix.runtimes.docker_gpus import Gpus
from matrix.runtimes.docker_images import find_image
from matrix.runtimes.protocol import AttemptOrder
daemon = connect(os.environ)
runtime = DockerRuntime(
    daemon=daemon,
    image=find_image(daemon, os.environ["GRAPHREPRO_OWNERS_IMAGE"]),
    settings=ContainerSettings(user=f"{os.getuid()}:{os.getgid()}"),
    gpus=Gpus((), 0),
    payload=payload_dir(),
    grace_s=20,
    jit_cache=False,
)
with runtime.start(AttemptOrder(directory=Path(sys.argv[2]), label=sys.argv[3])) as handle:
    print("started", flush=True)
    handle.wait(1000)
"""


def _contract() -> ModuleType:
    spec = importlib.util.spec_from_file_location("graphrepro_runtime_contract", CONTRACT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    module.OWNER = OWNER  # type: ignore[attr-defined]
    return module


contract: Any = _contract()
REPLACED = {
    "test_a_missing_interpreter_is_unavailable",  # below, with the image's interpreter
    "test_a_taken_port_is_said_and_nothing_is_started",  # below: a container has ports of its own
    "test_reaping_ends_what_has_the_label_and_nothing_else",  # below: docker counts containers
}
globals().update({n: t for n, t in vars(contract).items() if n.startswith("test_") and n not in REPLACED})


@dataclass
class DockerWorld:
    """As the contract's `World`, which finds an attempt's processes by its HOME; here they are found by their label,
    since a container's processes are the host's too."""

    runtime: DockerRuntime
    folder: Path
    home: Path
    temporary: Path
    labels: set[str] = field(default_factory=set)
    owner_dies: bool = False
    place: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    """First in every label: the local runtime's tests, should they run now too, end what has their labels."""

    def order(self, *argv: str, label: str = "place/run/cell/1", port: int | None = None) -> AttemptOrder:
        label = f"{self.place}-{label}"
        self.labels.add(label)
        inside = {sys.executable: "python3", str(payload_dir()): PAYLOAD}
        order: AttemptOrder = contract.World.order(
            self, *(inside.get(word, word) for word in argv), label=label, port=port
        )
        return order

    def script(self, text: str, **more: Any) -> AttemptOrder:
        return self.order("python3", "-c", text, **more)

    def simulated(self, **more: Any) -> AttemptOrder:
        order: AttemptOrder = contract.World.simulated(self, **more)
        return order

    def processes(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(VARIABLE) in self.labels:
                    found.append(process)
        return found

    def containers(self) -> list[str]:
        listed = self.runtime.daemon.api.containers(all=True, filters={"label": [LABEL]})
        return [c["Labels"][LABEL] for c in listed if c["Labels"][LABEL] in self.labels]

    def assert_nothing_left(self) -> None:
        assert self.processes() == []
        if self.owner_dies:  # nobody was left to remove it; it has ended, and the next start does
            assert sum(self.runtime.reap_leftovers(label) for label in self.labels) == 1
        assert self.containers() == []
        assert list(self.temporary.iterdir()) == []


def runtime_of(daemon: Daemon, image: str, **settings: Any) -> DockerRuntime:
    return DockerRuntime(
        daemon=daemon,
        image=find_image(daemon, image),
        settings=ContainerSettings(**{"user": f"{os.getuid()}:{os.getgid()}", **settings}),
        gpus=Gpus((), 0),
        payload=payload_dir(),
        grace_s=20,
        jit_cache=False,
    )


@pytest.fixture
def world(
    docker_daemon: Daemon,
    engine_image: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[DockerWorld]:
    folder, home, temporary = (tmp_path / name for name in ("run", "home", "tmp"))
    for path in (folder, home, temporary):
        path.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("GRAPHREPRO_OWNERS_IMAGE", engine_image)
    monkeypatch.setattr("tempfile.tempdir", None)
    ours = DockerWorld(runtime_of(docker_daemon, engine_image), folder, home, temporary)
    ours.owner_dies = "outlive_its_owner" in request.node.name
    yield ours
    for label in ours.labels:
        docker_daemon.remove_labelled(label)


def end_of(handle: Handle) -> Ended:
    ended: Ended = contract.end_of(handle)
    return ended


def test_an_interpreter_that_the_image_lacks_is_unavailable(world: DockerWorld) -> None:
    world.runtime.settings = replace(world.runtime.settings, python="python9")
    with world.runtime.start(world.script("")) as handle:
        ended = end_of(handle)
    assert ended.reason == "runtime_error"
    assert "--image-python" in ended.detail
    again = world.script("", label="place/run/cell/2")
    with pytest.raises(UnavailableError, match="--image-python"), world.runtime.start(again):
        pass
    world.assert_nothing_left()


def test_a_port_taken_on_the_host_is_free_in_a_container(world: DockerWorld) -> None:
    with contract.socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        order = world.script(contract.NEVER_READY, port=port)
        with world.runtime.start(order) as handle:
            contract.until_started(order)
            handle.stop()
            assert end_of(handle).status == 130
        world.runtime.settings = replace(world.runtime.settings, network="host")
        order = world.script(contract.NEVER_READY, port=port, label="place/run/cell/2")
        with world.runtime.start(order) as handle:
            assert end_of(handle).status == 3
    assert contract.events(order) == ["attempt-begun", "port-taken", "attempt-ended"]
    world.assert_nothing_left()


def test_reaping_removes_what_has_the_label_and_nothing_else(world: DockerWorld) -> None:
    ours = world.script(contract.NEVER_READY, label="one/a/1")
    longer = world.script(contract.NEVER_READY, label="oneself/a/1")
    with world.runtime.start(ours) as handle, world.runtime.start(longer) as other:
        contract.until_started(ours)
        contract.until_started(longer)
        assert world.runtime.reap_leftovers(f"{world.place}-one") == 1
        ended = end_of(handle)
        assert ended.reason == "killed"
        assert "by somebody else" in ended.detail
        assert other.wait(0) is None
        assert world.runtime.reap_leftovers(f"{world.place}-one") == 0
    world.assert_nothing_left()


def test_memory_that_runs_out_is_told_from_a_kill(docker_daemon: Daemon, engine_image: str, world: DockerWorld) -> None:
    world.runtime = runtime_of(docker_daemon, engine_image, memory_bytes=96 << 20)
    with world.runtime.start(world.script("x = bytearray(1 << 30)")) as handle:
        ended = end_of(handle)
    assert ended.reason == "oom"
    assert "limit 96 MiB" in ended.detail
    world.assert_nothing_left()


@pytest.mark.parametrize(
    ("how", "says"),
    [("kill", "docker sent signal 9"), ("stop", "docker sent signal 15"), ("process", "not through docker")],
)
def test_somebody_elses_end_of_it_is_said(world: DockerWorld, how: str, says: str) -> None:
    order = world.script(contract.NEVER_READY)
    api = world.runtime.daemon.api
    with world.runtime.start(order) as handle:
        contract.until_started(order)
        container = next(c["Id"] for c in api.containers(filters={"label": [f"{LABEL}={order.label}"]}))
        if how == "kill":
            api.kill(container)
        elif how == "stop":
            api.stop(container)
        else:  # the attempt program itself: the child of docker's init process
            init = api.inspect_container(container)["State"]["Pid"]
            psutil.Process(init).children()[0].kill()
        ended = end_of(handle)
    assert ended.reason == "killed"
    assert says in ended.detail
    world.assert_nothing_left()


def test_what_docker_knows_of_it_is_kept_beside_the_evidence(world: DockerWorld) -> None:
    order = world.simulated()
    with world.runtime.start(order) as handle:
        assert end_of(handle).reason is None
    kept = order.directory / "evidence" / "container"
    inspected = json.loads((kept / "inspect.json").read_text())
    assert inspected["Config"]["Labels"][LABEL] == order.label
    actions = [json.loads(line)["Action"] for line in (kept / "events.jsonl").read_text().splitlines()]
    assert {"create", "start", "die"} <= set(actions)


def test_it_runs_without_privileges_and_without_the_repository(world: DockerWorld) -> None:
    look = "import os\nfor line in open('/proc/self/status'): print(line, end='')\nprint(open('/proc/mounts').read())"
    order = world.script(f"{look}\nprint('done', flush=True)\n{contract.NEVER_READY}")
    with world.runtime.start(order):
        contract.until_started(order, says=b"done\n")
    said = (order.directory / "evidence" / "server.log").read_text()
    status = dict(line.split(":\t") for line in said.splitlines() if ":\t" in line)
    allowed = (1 << 19) | (1 << 23)  # CAP_SYS_PTRACE, CAP_SYS_NICE (capability.h)
    assert status["NoNewPrivs"].strip() == "1"
    assert int(status["CapBnd"], 16) == allowed
    mounts = {line.split()[1]: line.split()[3].split(",")[0] for line in said.splitlines() if line.startswith("/dev/")}
    assert mounts[PAYLOAD] == "ro"
    assert mounts["/attempt"] == "rw"
    assert "graphrepro" not in said.replace(PAYLOAD, "")


def test_evidence_belongs_to_the_user_that_the_container_runs_as(
    docker_daemon: Daemon, engine_image: str, world: DockerWorld
) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can hand a folder to another user")
    world.runtime = runtime_of(docker_daemon, engine_image, user="1234:1234")
    order = world.simulated()
    os.chown(order.directory, 1234, 1234)
    with world.runtime.start(order) as handle:
        assert end_of(handle).status == 0
    assert {path.stat().st_uid for path in (order.directory / "evidence" / "checks").parent.glob("*.jsonl")} == {1234}


def test_an_image_that_is_gone_and_gpus_that_are_not_there(world: DockerWorld) -> None:
    world.runtime.gpus = Gpus(("all",), 1)
    for attempt in (1, 2):
        with world.runtime.start(world.script("", label=f"place/run/cell/{attempt}")) as handle:
            ended = end_of(handle)
        assert ended.reason == "runtime_error"
        assert "gpu" in ended.detail.lower()
        assert "nvidia-ctk" in ended.detail or "nvidia-smi" in ended.detail
    order = world.script("", label="place/run/cell/3")
    with pytest.raises(UnavailableError, match="gpu"), world.runtime.start(order):
        pass
    world.runtime.gpus = Gpus((), 0)
    gone = replace(world.script("", label="place/run/cell/4"), image=f"sha256:{'0' * 64}")
    with pytest.raises(UnavailableError, match="not on this host"), world.runtime.start(gone):
        pass
    world.assert_nothing_left()


def test_a_leftover_of_the_same_name_makes_way_only_if_it_is_ours(world: DockerWorld) -> None:
    order = world.script(contract.NEVER_READY)
    command = [sys.executable, "-c", OWNER, str(payload_dir().parents[1]), str(order.directory), order.label]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"started\n"
        owner.send_signal(signal.SIGKILL)
    with world.runtime.start(order) as handle:
        assert handle.wait(0) is None
    world.assert_nothing_left()


def test_the_cache_is_shared_and_written_by_the_attempts_user(
    docker_daemon: Daemon, engine_image: str, world: DockerWorld
) -> None:
    from matrix.runtimes.docker_cache import cache_name

    world.runtime = runtime_of(docker_daemon, engine_image, user="4321:4321")
    world.runtime.jit_cache = True
    environment = world.runtime.environment(None)
    folder = environment["TRITON_CACHE_DIR"]
    for number in (1, 2):
        text = (
            f"import os\nprint(os.listdir({folder!r}), flush=True)\nopen({folder + '/kernel'!r}, 'w')\nprint('done')\n"
        )
        order = world.script(
            text.replace("'done'", "'done', flush=True") + contract.NEVER_READY, label=f"p/r/c/{number}"
        )
        os.chown(order.directory, 4321, 4321)
        with world.runtime.start(order):
            contract.until_started(order, says=b"done\n")
        seen = (order.directory / "evidence" / "server.log").read_text().splitlines()[0]
        assert seen == ("[]" if number == 1 else "['kernel']")
    name = cache_name(engine_image, "4321:4321")
    assert docker_daemon.api.inspect_volume(name)["Name"] == name
    docker_daemon.api.remove_volume(name)  # not remove_caches(): this daemon may hold a user's own
