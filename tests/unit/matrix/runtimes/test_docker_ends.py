"""How an attempt in a container ends, on a daemon that says what it is told to; and the outcomes that come of it."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker.errors
import pytest
import requests

from matrix.arguments import EngineChoice
from matrix.collect import AttemptContext, collect
from matrix.engines.overlay import load_overlay
from matrix.evidence import read_evidence
from matrix.plan import PlanOptions, make_plan
from matrix.runtimes import docker_handle
from matrix.runtimes.docker_daemon import Daemon
from matrix.runtimes.docker_handle import ContainerHandle, Started
from matrix.runtimes.protocol import Ended, EndReason
from matrix.spec import load_spec
from repro.model import Result


class FakeApi:
    """A daemon with one container. ``deaf`` names the calls that do not end it; ``away`` makes it unreachable."""

    def __init__(self, deaf: tuple[str, ...] = ()) -> None:
        self.deaf = deaf
        self.asked: list[str] = []
        self.over = threading.Event()
        self.state = {"Running": True, "ExitCode": 0, "OOMKilled": False, "Error": ""}
        self.told: list[dict[str, Any]] = [{"Action": "start"}]
        self.away = False
        self.removed = False

    def end(self, code: int, **state: Any) -> None:
        self.state |= {"Running": False, "ExitCode": code, **state}
        self.over.set()

    def _demand(self) -> None:
        if self.away:
            raise requests.exceptions.ConnectionError("refused")

    def ping(self) -> bool:
        self._demand()
        return True

    def wait(self, container: str, timeout: float | None) -> dict[str, int]:
        self.over.wait(20)
        self._demand()
        return {"StatusCode": int(self.state["ExitCode"])}

    def inspect_container(self, container: str) -> dict[str, Any]:
        self._demand()
        if self.removed:
            raise docker.errors.NotFound("no such container")
        return {"State": self.state}

    def _ask(self, what: str, code: int) -> None:
        self.asked.append(what)
        if what not in self.deaf:
            self.end(code)

    def kill(self, container: str, name: str) -> None:
        self._ask(name, {"SIGTERM": 130, "SIGKILL": 137}[name])

    def stop(self, container: str, timeout: int) -> None:
        self._ask("stop", 137)

    def events(self, **_: Any) -> Iterator[dict[str, Any]]:
        self._demand()
        return iter(self.told)

    def logs(self, container: str, tail: int) -> bytes:
        return b"first\nlast words\n"

    def remove_container(self, container: str, **_: Any) -> None:
        self.asked.append("remove")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_handle, "KILL_S", 0.05)
    monkeypatch.setattr(docker_handle, "ALIVE_LOOKS", 2)


def handle_of(api: FakeApi, directory: Path, *, limit_s: float | None = None, return_s: float = 0.3) -> ContainerHandle:
    started = Started(
        id="c",
        name="graphrepro-c",
        directory=directory,
        since=time.time(),
        hang_up=lambda: None,
        limit_s=limit_s,
        memory_bytes=64 << 20,
    )
    daemon = Daemon(api, return_s=return_s)  # type: ignore[arg-type]
    return ContainerHandle(daemon, started, grace_s=0.05)


def ended_of(handle: ContainerHandle) -> Ended:
    ended = handle.wait(20)
    assert ended is not None
    handle.finish()
    return ended


def test_an_end_of_its_own_has_no_reason(tmp_path: Path) -> None:
    api = FakeApi()
    api.end(0)
    assert ended_of(handle_of(api, tmp_path)) == Ended(status=0, detail="last words")
    assert api.asked == ["remove"]
    assert (tmp_path / "attempt.log").read_bytes() == b"first\nlast words\n"


@pytest.mark.parametrize(
    ("code", "state", "events", "reason", "says"),
    [
        (0, {"OOMKilled": True}, ["start"], "oom", "limit 64 MiB"),
        (137, {}, ["start", "oom"], "oom", "want of memory"),
        (137, {}, ["start"], "killed", "not through docker"),
        (130, {}, ["start", "kill:15"], "killed", "docker sent signal 15"),
        (143, {}, ["start", "kill:15", "kill:9"], "killed", "15, then 9"),
        (127, {}, ["start"], "runtime_error", "--image-python"),
        (1, {"Error": "cannot\nstart"}, ["start"], "runtime_error", "cannot start"),
        (3, {}, ["start"], None, "last words"),
    ],
)
def test_why_it_ended(
    tmp_path: Path, code: int, state: dict[str, Any], events: list[str], reason: EndReason | None, says: str
) -> None:
    api = FakeApi()
    api.told = [
        {"Action": action.partition(":")[0], "Actor": {"Attributes": {"signal": action.partition(":")[2]}}}
        for action in events
    ]
    api.end(code, **state)
    ended = ended_of(handle_of(api, tmp_path))
    assert ended.reason == reason
    assert says in ended.detail


def test_the_attempt_programs_own_count_of_kills_is_believed(tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "oom_kills.txt").write_text("1\n")
    api = FakeApi()
    api.end(0)
    assert ended_of(handle_of(api, tmp_path)).reason == "oom"


def test_what_we_asked_for_is_no_reason(tmp_path: Path) -> None:
    handle = handle_of(FakeApi(), tmp_path)
    handle.stop()
    assert ended_of(handle) == Ended(status=130, detail="last words")
    killed = handle_of(FakeApi(), tmp_path)
    killed.kill()
    assert ended_of(killed) == Ended(status=-9, detail="last words")


def test_a_daemon_that_forgot_our_start_was_restarted(tmp_path: Path) -> None:
    api = FakeApi()
    api.told = []
    api.end(137)
    ended = ended_of(handle_of(api, tmp_path))
    assert ended.reason == "runtime_error"
    assert "daemon went away" in ended.detail


def test_a_daemon_that_comes_back_is_waited_for(tmp_path: Path) -> None:
    api = FakeApi()
    handle = handle_of(api, tmp_path, return_s=20)
    api.away = True
    api.over.set()  # the connection breaks
    assert handle.wait(0.3) is None
    api.end(137)
    api.away = False
    assert ended_of(handle).reason == "runtime_error"


def test_a_daemon_that_never_comes_back_is_lost_contact(tmp_path: Path) -> None:
    api = FakeApi()
    handle = handle_of(api, tmp_path)
    api.away = True
    api.over.set()
    ended = ended_of(handle)
    assert (ended.status, ended.reason) == (None, "lost")
    assert "did not come back" in ended.detail


def test_a_container_that_somebody_removed_was_killed(tmp_path: Path) -> None:
    api = FakeApi()
    api.removed = True
    api.end(137)
    ended = ended_of(handle_of(api, tmp_path))
    assert (ended.status, ended.reason) == (-9, "killed")
    assert "removed" in ended.detail


@pytest.mark.parametrize(
    ("deaf", "asked"),
    [
        ((), ["SIGTERM"]),
        (("SIGTERM",), ["SIGTERM", "stop"]),
        (("SIGTERM", "stop"), ["SIGTERM", "stop", "SIGKILL"]),
    ],
)
def test_past_its_limits_it_is_ended_rung_by_rung(tmp_path: Path, deaf: tuple[str, ...], asked: list[str]) -> None:
    api = FakeApi(deaf)
    handle = handle_of(api, tmp_path, limit_s=0.0)
    while handle.wait(0) is None:
        pass
    assert api.asked == asked
    assert not handle.abandoned
    handle.finish()
    rungs = (tmp_path / "evidence" / "container" / "ladder.log").read_text().splitlines()
    assert "past all its own limits" in rungs[0]
    assert len(rungs) == 1 + len(asked)


def test_what_cannot_be_ended_is_given_up_and_not_removed(tmp_path: Path) -> None:
    api = FakeApi(("SIGTERM", "stop", "SIGKILL"))
    handle = handle_of(api, tmp_path, limit_s=0.0)
    ended = handle.wait(0)
    while ended is None:
        ended = handle.wait(0)
    handle.finish()
    assert handle.abandoned
    assert ended.reason == "abandoned"
    assert "given up" in ended.detail
    assert "remove" not in api.asked
    api.end(137)


def result_of(directory: Path, ended: Ended, *events: dict[str, Any]) -> Result:
    folder = directory / "evidence"
    folder.mkdir(exist_ok=True)
    blank = dict.fromkeys(("phase", "check", "status", "detail"))
    lines = [
        {
            "record": "timeline-entry",
            "schema_version": 2,
            "at_s": float(n),
            "at": "2026-01-01T00:00:00Z",
            **blank,
            **event,
        }
        for n, event in enumerate(events)
    ]
    if lines:
        (folder / "timeline.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    spec = load_spec("sim")
    plan = make_plan(spec, PlanOptions(select=("*b8t4-graph-nvls",)), EngineChoice())
    step = next(step for step in plan.steps if step.role == "cell")
    context = AttemptContext(
        run_id="run",
        target="sim",
        step=step,
        attempt=1,
        overlay=load_overlay("simulated"),
        gpu_count=0,
        declared={},
        reference=None,
    )
    return collect(context, read_evidence(directory), ended)


BEGUN = ({"event": "attempt-begun"}, {"event": "server-started"}, {"event": "phase-begun", "phase": "launch"})
DIED = ({"event": "server-exited", "phase": "launch", "status": -9}, {"event": "attempt-ended"})
INTERRUPTED = ({"event": "interrupted", "detail": "the owner is gone"}, {"event": "attempt-ended"})


@pytest.mark.parametrize(
    ("reason", "events", "outcome"),
    [
        ("runtime_error", (), "runtime_error"),
        ("runtime_error", (*BEGUN, *INTERRUPTED), "runtime_error"),
        ("runtime_error", (*BEGUN, *DIED), "killed"),  # it had come to its end before
        ("lost", BEGUN, "lost"),
        ("killed", BEGUN, "killed"),
        ("oom", BEGUN, "oom"),
        ("oom", (*BEGUN, *DIED), "oom"),
        ("abandoned", BEGUN, "hung"),
    ],
)
def test_outcomes_of_reasons(
    tmp_path: Path, reason: EndReason, events: tuple[dict[str, Any], ...], outcome: str
) -> None:
    result = result_of(tmp_path, Ended(status=None, detail="as docker says", reason=reason), *events)
    assert result.outcome == outcome
    if result.outcome == "oom" and result.diagnosis is not None:
        assert result.diagnosis.kind == "host_oom_kill"
        assert "as docker says" in result.outcome_detail
