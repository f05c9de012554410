"""What a sandbox asks the daemon for, and how it understands what comes out."""

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import docker.errors
import pytest

from matrix.coding.container import Limits, SandboxImage, image_volumes, lost_limits, sandbox_options
from matrix.coding.docker_sandbox import DockerSandbox
from matrix.coding.sandbox import SandboxError
from matrix.coding.tasks import Case
from matrix.runtimes.docker_daemon import Daemon

IMAGE = SandboxImage(id="sha256:1", name="engine", python="/env/bin/python", volumes=("/data",))
CASES = [Case(value="f()", expected="a secret value")]


def options() -> dict[str, Any]:
    return sandbox_options(IMAGE, Limits(), label="place/run/cell/1/coding/t", program="print()", api_version="1.41")


def test_the_container_may_do_nothing() -> None:
    told, host = options(), options()["host_config"]
    assert told["user"] == "65534:65534"
    assert told["network_disabled"]
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["CapDrop"]) == ("none", True, ["ALL"])
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Memory"] == host["MemorySwap"] == Limits().memory_bytes
    assert (host["PidsLimit"], host["NanoCpus"], host["IpcMode"]) == (Limits().processes, 10**9, "none")
    assert "noexec" in host["Tmpfs"]["/tmp"]
    assert f"size={Limits().tmp_bytes}" in host["Tmpfs"]["/tmp"]
    assert [(mount["Type"], mount["Target"]) for mount in host["Mounts"]] == [("tmpfs", "/data")]
    assert not {"Binds", "Devices", "DeviceRequests", "CapAdd", "Privileged", "VolumesFrom"} & {
        k for k, v in host.items() if v
    }
    assert told["environment"]["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_the_container_is_ours_by_its_label() -> None:
    assert options()["labels"] == {"graphrepro.label": "place/run/cell/1/coding/t", "graphrepro.run": "place/run"}


@pytest.mark.parametrize(
    ("warnings", "lost"),
    [
        (None, False),
        ([], False),
        (["Published ports are discarded when using host network mode"], True),
        (["Your kernel does not support swap limit capabilities. Memory limited without swap."], True),
        (["Your kernel does not support PIDs limit capabilities. PIDs limit discarded."], True),
        (["The requested image's platform does not match"], False),
    ],
)
def test_a_limit_that_the_host_cannot_keep_is_noticed(warnings: list[str] | None, lost: bool) -> None:
    assert (lost_limits(warnings) is not None) == lost


def test_volumes_of_an_image() -> None:
    assert image_volumes({"Config": {"Volumes": {"/b": {}, "/a": {}}}}) == ("/a", "/b")
    assert image_volumes({"Config": {"Volumes": None}}) == image_volumes({"Config": None}) == ()


def frame(data: bytes, kind: int = 1) -> bytes:
    return struct.pack(">BxxxL", kind, len(data)) + data


Play = Callable[[socket.socket], None]


class FakeApi:
    """As much of docker's low-level client as a sandbox uses: a container that plays what it says."""

    api_version = "1.41"

    def __init__(self, play: Play, *, warnings: list[str] | None = None, oom: bool = False) -> None:
        self._play, self._warnings, self._oom = play, warnings, oom
        self.removed: list[str] = []
        self.heard = b""

    def create_container(self, **options: Any) -> dict[str, Any]:
        return {"Id": "c1", "Warnings": self._warnings}

    def attach_socket(self, container: str, params: Any) -> socket.socket:
        ours, theirs = socket.socketpair()
        self._theirs = theirs
        return ours

    def start(self, container: str) -> None:
        def run() -> None:
            with contextlib.suppress(OSError), self._theirs:
                self.heard = self._theirs.recv(1 << 20)
                self._play(self._theirs)

        threading.Thread(target=run, daemon=True).start()

    def inspect_container(self, container: str) -> dict[str, Any]:
        return {"State": {"OOMKilled": self._oom, "Error": "", "Status": "exited", "ExitCode": 1}}

    def remove_container(self, container: str, **options: Any) -> None:
        self.removed.append(container)


def sandbox(api: FakeApi, **limits: Any) -> DockerSandbox:
    return DockerSandbox(daemon=Daemon(api, return_s=0), of=IMAGE, limits=Limits(**limits))  # type: ignore[arg-type]


def says(*pieces: bytes) -> Play:
    def play(line: socket.socket) -> None:
        for piece in pieces:
            line.sendall(piece)

    return play


HEAD = json.dumps({"ended": "exited", "status": 0, "oom_kills": 0}).encode() + b"\n"


def test_the_report_comes_out_and_what_is_expected_stays_here() -> None:
    api = FakeApi(
        says(
            frame(b"begun\n"),
            frame(HEAD),
            frame(b'{"case": 0, "val')[:20],
            frame(b'{"case": 0, "val')[20:],
            frame(b'ue": 1}\n'),
        )
    )
    ran = sandbox(api).run("def f(): ...", CASES, "x")
    assert (ran.ended, ran.report) == ("exited", '{"case": 0, "value": 1}\n')
    size, _, document = api.heard.partition(b"\n")
    assert int(size) == len(document)
    assert json.loads(document) == {"code": "def f(): ...", "cases": [{"setup": "", "value": "f()"}]}
    assert api.removed == ["c1"]


@pytest.mark.parametrize(
    ("pieces", "oom", "ended"),
    [
        ((b"begun\n",), False, "signalled"),
        ((b"begun\n",), True, "out_of_memory"),
        ((b"begun\n", b"nonsense\n"), False, "signalled"),
        ((b"begun\n", b'{"ended": "won", "status": 0, "oom_kills": 0}\n'), False, "signalled"),
        ((b"begun\n", b'{"ended": "exited", "status": 0, "oom_kills": 2}\n'), False, "out_of_memory"),
        ((b"begun\n", b"[" * 50_000), False, "signalled"),
        ((b"begun\n", *([b"x" * 60_000] * 6)), False, "flooded"),
    ],
)
def test_an_end_without_a_word_is_no_pass(pieces: tuple[bytes, ...], oom: bool, ended: str) -> None:
    api = FakeApi(says(*map(frame, pieces)), oom=oom)
    assert sandbox(api).run("", CASES, "x").ended == ended
    assert api.removed == ["c1"]


def test_a_frame_that_is_too_large_is_not_waited_for() -> None:
    api = FakeApi(says(frame(b"begun\n"), struct.pack(">BxxxL", 1, 1 << 31)))
    assert sandbox(api).run("", CASES, "x").ended == "flooded"


def test_a_container_that_does_not_start_judges_nothing() -> None:
    api = FakeApi(says(frame(b"python: bad option\n", 2)))
    with pytest.raises(SandboxError, match="the sandbox did not start: python: bad option"):
        sandbox(api).run("", CASES, "x")
    assert api.removed == ["c1"]


def test_a_host_without_the_limits_runs_nothing() -> None:
    api = FakeApi(says(), warnings=["PIDs limit discarded."])
    with pytest.raises(SandboxError, match="cannot keep a limit"):
        sandbox(api).run("", CASES, "x")
    assert (api.removed, api.heard) == (["c1"], b"")


def test_what_docker_complains_of_is_said() -> None:
    class Refusing(FakeApi):
        def create_container(self, **options: Any) -> dict[str, Any]:
            raise docker.errors.APIError("no such image: x")

    with pytest.raises(SandboxError, match="no such image"):
        sandbox(Refusing(says())).run("", CASES, "x")
