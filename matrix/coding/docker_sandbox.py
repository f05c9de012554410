"""The sandbox: a container for each answer, that may do nothing but compute, and is removed whatever happens."""

import contextlib
import json
import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import docker.errors

from matrix.coding.container import Limits, SandboxImage, lost_limits, sandbox_options
from matrix.coding.sandbox import Ran, SandboxError
from matrix.coding.tasks import Case
from matrix.runtimes.docker_daemon import Daemon
from matrix.runtimes.docker_problems import DOCKER_ERRORS, problem_of
from repro.errors import UnavailableError

START_S = 60.0
"""How long a container may take to start, on a host that is busy."""
_FRAME = struct.Struct(">BxxxL")
_FAILURES: tuple[type[Exception], ...] = (*DOCKER_ERRORS, OSError)


@dataclass(frozen=True, kw_only=True, slots=True)
class DockerSandbox:
    """Containers of one image."""

    daemon: Daemon
    of: SandboxImage
    limits: Limits = field(default_factory=Limits)
    reason: None = None

    @property
    def image(self) -> str:
        return self.of.name

    def run(self, code: str, cases: Sequence[Case], label: str) -> Ran:
        try:
            container = self._create(label)
            try:
                return self._converse(container, _document(code, cases))
            finally:
                self._remove(container)
        except _FAILURES as error:
            raise SandboxError(f"docker: {problem_of(error)}") from None

    def reap_leftovers(self, prefix: str) -> int:
        try:
            return self.daemon.remove_labelled(prefix)[0]
        except UnavailableError:
            return 0  # no daemon, no containers: and whether there is one, the next answer will tell

    def _create(self, label: str) -> str:
        program = (resources.files("matrix.coding") / "inside.py").read_text(encoding="utf-8")
        options = sandbox_options(
            self.of, self.limits, label=label, program=program, api_version=self.daemon.api_version
        )
        made = self.daemon.api.create_container(**options)
        lost = lost_limits(made.get("Warnings"))
        if lost is not None:
            self._remove(str(made["Id"]))
            raise SandboxError(f"this host's docker cannot keep a limit of the sandbox: {lost}")
        return str(made["Id"])

    def _remove(self, container: str) -> None:
        with contextlib.suppress(*DOCKER_ERRORS):  # what stays has our label: the next run, or `clean`, removes it
            self.daemon.api.remove_container(container, force=True, v=True)

    def _converse(self, container: str, document: bytes) -> Ran:
        attached = self.daemon.api.attach_socket(container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        line = attached if isinstance(attached, socket.socket) else getattr(attached, "_sock", attached)
        until = time.monotonic() + START_S
        try:
            self.daemon.api.start(container)
            line.settimeout(START_S)
            line.sendall(document)
            stream = _Stream(line, self.limits.report_bytes + 4096)
            begun = stream.read(until, enough=lambda said: b"begun\n" in said)
            if b"begun\n" not in begun:
                raise SandboxError(f"the sandbox did not start: {self._why(container, stream.complaint)}")
            stream.read(time.monotonic() + self.limits.answer_s + START_S)
        finally:
            line.close()
            attached.close()
        return _understood(stream, self._out_of_memory(container))

    def _why(self, container: str, complaint: bytearray) -> str:
        if complaint.strip():
            return complaint.decode("utf-8", "replace").strip().splitlines()[-1][:200]
        with contextlib.suppress(*DOCKER_ERRORS):
            state = self.daemon.api.inspect_container(container)["State"]
            return str(state["Error"] or f"it is {state['Status']}, exit code {state['ExitCode']}")[:200]
        return f"no word from it within {START_S:g} s"

    def _out_of_memory(self, container: str) -> bool:
        with contextlib.suppress(docker.errors.APIError, KeyError):
            return bool(self.daemon.api.inspect_container(container)["State"]["OOMKilled"])
        return False


class _Stream:
    """What a container writes, out of docker's frames: at most so many bytes of it."""

    def __init__(self, line: Any, most_bytes: int) -> None:
        self._line = line
        self._most = most_bytes
        self._raw = bytearray()
        self.said = bytearray()
        self.complaint = bytearray()
        self.ended = False
        self.flooded = False

    def read(self, until: float, *, enough: Callable[[bytearray], bool] = lambda _: False) -> bytes:
        """All of standard output so far: until it ends, the moment has come, or it is enough."""
        while not (self.ended or self.flooded or enough(self.said)):
            left_s = until - time.monotonic()
            if left_s <= 0:
                break
            self._line.settimeout(left_s)
            try:
                piece = self._line.recv(65536)
            except TimeoutError:
                break
            self.ended = not piece
            self._raw += piece
            self._unframe()
        return bytes(self.said)

    def _unframe(self) -> None:
        while len(self._raw) >= _FRAME.size:
            kind, size = _FRAME.unpack_from(self._raw)
            if size > self._most:
                self.flooded = True
                return
            if len(self._raw) < _FRAME.size + size:
                return
            content = self._raw[_FRAME.size : _FRAME.size + size]
            del self._raw[: _FRAME.size + size]
            into = self.complaint if kind == 2 else self.said
            into += content
        self.flooded = len(self.said) + len(self.complaint) > self._most


def _document(code: str, cases: Sequence[Case]) -> bytes:
    """What goes in. What the cases expect stays here."""
    document = json.dumps({"code": code, "cases": [{"setup": c.setup, "value": c.value} for c in cases]}).encode()
    return b"%d\n%s" % (len(document), document)


def _understood(stream: _Stream, oom: bool) -> Ran:
    _, _, rest = bytes(stream.said).partition(b"begun\n")
    head, _, report = rest.partition(b"\n")
    try:
        told = json.loads(head)
        ended, status, kills = told["ended"], int(told["status"]), int(told["oom_kills"])
    except (ValueError, TypeError, KeyError, RecursionError):
        ended, status, kills = "flooded" if stream.flooded else "signalled" if stream.ended else "timed_out", 9, 0
    if ended not in {"exited", "signalled", "timed_out", "flooded"}:
        ended = "signalled"
    if oom or kills:
        ended = "out_of_memory" if ended in {"signalled", "exited"} else ended
    return Ran(ended=ended, status=status, report=report.decode("utf-8", "replace"))
