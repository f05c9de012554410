"""What every runtime is held to: an attempt can be started, watched, stopped and killed, leaves nothing behind whatever
happens, and sees nothing of its owner that it need not see.

A runtime joins by a name in ``RUNTIMES``.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from matrix.promptset import payload_dir
from matrix.runtimes.local import LABEL, LocalRuntime
from matrix.runtimes.protocol import AttemptOrder, Ended, Handle, Runtime
from repro import store
from repro.errors import UnavailableError
from repro.model import PhaseLimit, Step, StopLadder

LONGEST_S = 60.0
RUNTIMES: dict[str, Callable[[], Runtime]] = {
    "local": lambda: LocalRuntime(python=Path(sys.executable), payload=payload_dir(), grace_s=20),
}
NEVER_READY = "import time\nwhile True: time.sleep(100)"
STUBBORN = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
for generation in range(2):
    if os.fork() == 0:
        os.setsid()
print("ready", flush=True)
while True: time.sleep(100)
"""
"""A server in four processes, three of them out of its session, that only SIGKILL ends."""
OWNER = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from matrix.promptset import payload_dir
from matrix.runtimes.local import LocalRuntime
from matrix.runtimes.protocol import AttemptOrder
runtime = LocalRuntime(python=Path(sys.executable), payload=payload_dir(), grace_s=20)
with runtime.start(AttemptOrder(directory=Path(sys.argv[2]), label=sys.argv[3])) as handle:
    print("started", flush=True)
    handle.wait(1000)
"""


@dataclass
class World:
    """A HOME of the test's own marks every process that an attempt leads to, whether it is labelled or not."""

    runtime: Runtime
    folder: Path
    home: Path
    temporary: Path

    def order(self, *argv: str, label: str = "place/run/cell/1", port: int | None = None) -> AttemptOrder:
        """An attempt of a server that is this command, with no checks."""
        directory = self.folder / label.replace("/", "_")
        directory.mkdir()
        step = Step(
            run_id="run",
            target="sim",
            cell="cell",
            attempt=1,
            argv=argv,
            environment={LABEL: label, "OF_THE_STEP": "yes"},
            host="127.0.0.1",
            port=port or free_port(),
            checks=(),
            prompts=(),
            tasks=(),
            chat={},
            texts=(),
            limits=tuple(
                PhaseLimit(phase=phase, limit_s=1000.0)
                for phase in ("launch", "weights_load", "graph_capture", "warmup", "shutdown")
            ),
            marks=(),
            stop=StopLadder(dump_s=10.0, dump_signal=None, int_s=0.5, term_s=0.5, kill_s=10.0),
            planted=None,
            explains=None,
        )
        store.write_record(directory / "step.json", step)
        return AttemptOrder(directory=directory, label=label)

    def script(self, text: str, **more: object) -> AttemptOrder:
        return self.order(sys.executable, "-c", text, **more)  # type: ignore[arg-type]

    def simulated(self, **more: object) -> AttemptOrder:
        """The simulated engine: an attempt that comes to its end by itself."""
        port = free_port()
        argv = (sys.executable, str(payload_dir()), "simulated", "--port", str(port), "--cell", "cell")
        return self.order(*argv, port=port, **more)  # type: ignore[arg-type]

    def processes(self) -> list[psutil.Process]:
        """Everything that attempts of this test lead to and that lives."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if (
                    process.pid != os.getpid()
                    and process.status() != psutil.STATUS_ZOMBIE
                    and process.environ().get("HOME") == str(self.home)
                ):
                    found.append(process)
        return found

    def assert_nothing_left(self) -> None:
        assert self.processes() == []
        assert list(self.temporary.iterdir()) == []


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def until(holds: Callable[[], object], otherwise: str) -> None:
    end = time.monotonic() + LONGEST_S
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(otherwise)
        time.sleep(0.01)


def events(order: AttemptOrder) -> list[str]:
    timeline = order.directory / "evidence" / "timeline.jsonl"
    if not timeline.exists():
        return []
    return [json.loads(line)["event"] for line in timeline.read_bytes().splitlines(keepends=True) if line[-1:] == b"\n"]


def until_started(order: AttemptOrder, says: bytes = b"") -> None:
    """The server runs, and has said this."""
    until(lambda: "server-started" in events(order), "the server was not started")
    until(lambda: says in (order.directory / "evidence" / "server.log").read_bytes(), f"the server never said {says!r}")


def end_of(handle: Handle) -> Ended:
    ended = handle.wait(LONGEST_S)
    assert ended is not None
    return ended


@pytest.fixture(params=sorted(RUNTIMES))
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    folder, home, temporary = (tmp_path / name for name in ("run", "home", "tmp"))
    for path in (folder, home, temporary):
        path.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    ours = World(RUNTIMES[request.param](), folder, home, temporary)
    yield ours
    for process in ours.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def test_an_attempt_comes_to_its_end(world: World) -> None:
    order = world.simulated()
    with world.runtime.start(order) as handle:
        assert end_of(handle).status == 0
        assert end_of(handle).status == 0, "asked again, it says the same"
    assert events(order)[-1] == "attempt-ended"
    world.assert_nothing_left()


def test_a_running_attempt_has_no_end_yet(world: World) -> None:
    order = world.script(NEVER_READY)
    with world.runtime.start(order) as handle:
        assert handle.wait(0) is None
        until_started(order)
        assert handle.wait(0.05) is None


def test_stop_ends_it_in_order(world: World) -> None:
    order = world.script(NEVER_READY)
    with world.runtime.start(order) as handle:
        until_started(order)
        handle.stop()
        assert end_of(handle).status == 130
        handle.stop()  # too late, and no error
    assert {"interrupted", "server-exited"} <= set(events(order))
    assert events(order)[-1] == "attempt-ended"
    world.assert_nothing_left()


def test_stop_reaches_even_a_server_that_scatters_and_ignores_signals(world: World) -> None:
    order = world.script(STUBBORN)
    with world.runtime.start(order) as handle:
        until_started(order, says=b"ready\nready\nready\nready\n")
        assert len(world.processes()) >= 4
        handle.stop()
        assert end_of(handle).status == 130
    world.assert_nothing_left()


def test_kill_ends_everything_now(world: World) -> None:
    order = world.script(STUBBORN)
    with world.runtime.start(order) as handle:
        until_started(order, says=b"ready\nready\nready\nready\n")
        handle.kill()
        assert end_of(handle).status == -signal.SIGKILL
        assert world.processes() == []
        handle.kill()  # nothing is left to kill, and no error
    assert "attempt-ended" not in events(order)
    world.assert_nothing_left()


@pytest.mark.parametrize("text", [NEVER_READY, STUBBORN], ids=["obedient", "stubborn"])
def test_leaving_the_context_leaves_nothing(world: World, text: str) -> None:
    order = world.script(text)
    with world.runtime.start(order):
        until_started(order)
    world.assert_nothing_left()


def test_leaving_it_at_once_leaves_nothing(world: World) -> None:
    with world.runtime.start(world.script(NEVER_READY)):
        pass
    world.assert_nothing_left()


def test_an_error_inside_leaves_nothing_and_comes_through(world: World) -> None:
    order = world.script(NEVER_READY)

    def fail_inside() -> None:
        with world.runtime.start(order):
            until_started(order)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    world.assert_nothing_left()


def test_every_process_carries_the_label(world: World) -> None:
    order = world.script(STUBBORN)
    with world.runtime.start(order):
        until_started(order, says=b"ready\nready\nready\nready\n")
        labels = {process.environ().get(LABEL) for process in world.processes()}
        assert labels == {order.label}


def test_the_server_sees_nothing_of_its_owners_environment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {
        "FAKE_TOKEN": "s3cret",
        "HF_TOKEN": "s3cret",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
        "HTTPS_PROXY": "http://user:s3cret@proxy",
        "SGLANG_ENABLE_SOMETHING": "1",
        "CUDA_VISIBLE_DEVICES": "7",
        "PYTHONPATH": "/of/the/owner",
        "LD_PRELOAD": "",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    order = world.script("import json, os\nprint(json.dumps(dict(os.environ)), flush=True)\n" + NEVER_READY)
    with world.runtime.start(order):
        until_started(order, says=b"}\n")
        log = (order.directory / "evidence" / "server.log").read_text()
        attempts = [process.environ() for process in world.processes()]
    seen = json.loads(log.splitlines()[0])
    assert seen["OF_THE_STEP"] == "yes"
    assert not secrets.keys() & seen.keys()
    allowed = {"PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CUDA_HOME", LABEL, "OF_THE_STEP"}
    assert seen.keys() <= allowed | {"LC_CTYPE"}  # which Python itself sets in the C locale
    for environment in attempts:
        assert not secrets.keys() & environment.keys()
    assert "s3cret" not in (order.directory / "step.json").read_text() + log


def test_a_taken_port_is_said_and_nothing_is_started(world: World) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        order = world.script(NEVER_READY, port=listener.getsockname()[1])
        with world.runtime.start(order) as handle:
            assert end_of(handle).status == 3
    assert events(order) == ["attempt-begun", "port-taken", "attempt-ended"]
    world.assert_nothing_left()


def test_a_server_that_cannot_be_started_is_said(world: World) -> None:
    order = world.order("/no/such/program")
    with world.runtime.start(order) as handle:
        assert end_of(handle).status == 3
    assert "not-started" in events(order)
    world.assert_nothing_left()


def test_what_stands_against_an_attempt_is_in_its_detail(world: World) -> None:
    order = world.script(NEVER_READY)
    (order.directory / "step.json").write_text("{}")
    with world.runtime.start(order) as handle:
        ended = end_of(handle)
    assert ended.status == 3
    assert "not a 'step'" in ended.detail
    world.assert_nothing_left()


def test_a_missing_interpreter_is_unavailable(world: World) -> None:
    if not isinstance(world.runtime, LocalRuntime):
        pytest.skip("only a local runtime is told an interpreter on this host")
    runtime = LocalRuntime(python=Path("/no/such/python"), payload=payload_dir(), grace_s=20)
    with pytest.raises(UnavailableError, match="cannot start"), runtime.start(world.script(NEVER_READY)):
        pass
    world.assert_nothing_left()


def test_reaping_ends_what_has_the_label_and_nothing_else(world: World) -> None:
    ours, longer = world.script(NEVER_READY, label="one/a/1"), world.script(NEVER_READY, label="oneself/a/1")
    with world.runtime.start(ours) as handle, world.runtime.start(longer) as other:
        until_started(ours)
        until_started(longer)
        assert world.runtime.reap_leftovers("one") >= 2
        assert end_of(handle).status == -signal.SIGKILL
        assert other.wait(0) is None
        assert world.runtime.reap_leftovers("one") == 0
    world.assert_nothing_left()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_an_attempt_does_not_outlive_its_owner(world: World, number: signal.Signals) -> None:
    if world.runtime.on_owner_death != "reap":
        pytest.skip("attempts of this runtime go on, and are taken over")
    order = world.script(STUBBORN)
    here = str(payload_dir().parents[1])
    command = [sys.executable, "-c", OWNER, here, str(order.directory), order.label]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ}) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"started\n"
        until_started(order, says=b"ready\nready\nready\nready\n")
        owner.send_signal(number)
    until(lambda: not world.processes(), "something outlives the owner")
    assert "interrupted" in events(order)
    world.assert_nothing_left()
