"""A running attempt in a container: watched, asked to stop, ended by force, and its end understood."""

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from matrix.runtimes.docker_daemon import Daemon
from matrix.runtimes.docker_problems import DOCKER_ERRORS
from matrix.runtimes.docker_watch import Watch
from matrix.runtimes.protocol import Ended, EndReason

STOP_S = 10
KILL_S = 20.0
"""SIGKILL takes a process at once, unless it is in the kernel, waiting for a device: then it may never end."""
INTERRUPTED, KILLED, TERMINATED = 130, 137, 143
NO_PROGRAM = (126, 127)
"""What docker's init process exits with if it cannot execute its program."""
ALIVE_LOOKS = 10
OOM_KILLS = "evidence/oom_kills.txt"
"""The attempt program's own count: docker misses the kernel's event where it cannot follow the control group."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """A container that runs. ``stdin`` closes the attempt's owner pipe; ``since`` is when it was made, in seconds."""

    id: str
    name: str
    directory: Path
    since: float
    hang_up: Callable[[], None]
    limit_s: float | None
    memory_bytes: int | None


class ContainerHandle:
    """`finish()` must be called in the end. ``abandoned`` is then True if the container could not be ended, and
    ``no_program`` if the image has not the interpreter that was asked for."""

    def __init__(self, daemon: Daemon, started: Started, *, grace_s: float) -> None:
        self._daemon = daemon
        self._started = started
        self._grace_s = grace_s
        self._asked = False
        self._deadline = time.monotonic() + started.limit_s if started.limit_s is not None else None
        self._watch = Watch(daemon, started.id)
        self._ended: Ended | None = None
        self._rungs: list[str] = []
        self._events: list[Mapping[str, Any]] = []
        self.abandoned = False
        self.no_program = False
        self._watch.start()

    def wait(self, timeout_s: float) -> Ended | None:
        if self._ended is None:
            if self._watch.ended.wait(timeout_s):
                self._ended = self._understood()
            elif self._deadline is not None and time.monotonic() > self._deadline:
                self._note(f"still running {self._started.limit_s:.0f} s after its start, past all its own limits")
                self._end_from_outside()
                self._ended = self._understood()
        return self._ended

    def stop(self) -> None:
        self._signal("SIGTERM")

    def kill(self) -> None:
        self._signal("SIGKILL")

    def finish(self) -> None:
        """Ends the container if it still runs, keeps what docker knows of it beside the evidence, and removes it."""
        self._started.hang_up()  # an attempt that still runs takes this for our death, and stops its server
        if not self._watch.ended.is_set() and not self.abandoned:
            self._end_from_outside()
        with contextlib.suppress(*DOCKER_ERRORS, OSError):
            self._keep()
        if self.abandoned:
            return
        with contextlib.suppress(*DOCKER_ERRORS):  # what stays has our label: the next start removes it
            self._daemon.api.remove_container(self._started.id, force=True, v=True)

    def _signal(self, name: str) -> None:
        self._asked = True
        self._note(f"{name} to the attempt")
        with contextlib.suppress(*DOCKER_ERRORS):  # it has ended, or the daemon is away and has ended it
            self._daemon.api.kill(self._started.id, name)

    def _end_from_outside(self) -> None:
        """The ladder: ask, docker stop, docker kill, and in the end give the container up."""
        self._signal("SIGTERM")
        if self._watch.ended.wait(self._grace_s):
            return
        self._note("docker stop")
        with contextlib.suppress(*DOCKER_ERRORS):
            self._daemon.api.stop(self._started.id, timeout=STOP_S)
        if self._watch.ended.wait(1.0):
            return
        self._signal("SIGKILL")
        if self._watch.ended.wait(KILL_S):
            return
        self.abandoned = True
        self._note("given up: the container runs on, and its GPUs are used no more")

    def _understood(self) -> Ended:
        state = self._watch.state
        if self.abandoned:
            return Ended(
                status=None,
                detail=f"container {self._started.name} could not be ended ({'; '.join(self._rungs)})"[:400],
                reason="abandoned",
            )
        if state is None:
            code = self._watch.code
            return Ended(
                status=_status(code) if code is not None else None,
                detail=self._watch.gone or "",
                reason="killed" if self._watch.removed else "lost",
            )
        self._events = self._read_events()
        reason, detail = self._reason(state)
        return Ended(status=_status(int(state["ExitCode"])), detail=detail or self._last_words(), reason=reason)

    def _reason(self, state: Mapping[str, Any]) -> tuple[EndReason | None, str]:
        code = int(state["ExitCode"])
        if self._watch.contact_lost.is_set() or (not self._asked and code != 0 and self._daemon_went()):
            return "runtime_error", (
                "the docker daemon went away in mid-cell and took the container with it: keep it from restarting "
                "(unattended upgrades, `systemctl restart docker`) while a run goes on"
            )
        actions = [event["Action"] for event in self._events]
        if state["OOMKilled"] or "oom" in actions or (self._started.directory / OOM_KILLS).is_file():
            limit = self._started.memory_bytes
            told = f"limit {limit >> 20} MiB" if limit is not None else "no limit of its own"
            return "oom", f"the kernel killed a process of the container for want of memory ({told})"
        if code in NO_PROGRAM:
            self.no_program = True
            return "runtime_error", f"{self._last_words()}: the image has no such interpreter: name its --image-python"
        if state["Error"]:
            return "runtime_error", " ".join(str(state["Error"]).split())[:400]
        if not self._asked and code in {INTERRUPTED, KILLED, TERMINATED}:
            signals = [e["Actor"]["Attributes"].get("signal", "?") for e in self._events if e["Action"] == "kill"]
            how = f"docker sent signal {', then '.join(signals)}" if signals else "not through docker"
            return "killed", f"the attempt was stopped from outside, by somebody else ({how}); exit code {code}"
        return None, ""

    def _daemon_went(self) -> bool:
        """Whether the daemon is on its way out: it ends its containers first. It forgets its events then, so one that
        is back already does not know that our container ever started."""
        for _ in range(ALIVE_LOOKS):
            if not self._daemon.answers():
                with contextlib.suppress(*DOCKER_ERRORS):
                    self._daemon.patiently(self._daemon.api.ping)
                return True
            if not any(event["Action"] == "start" for event in self._events):
                return True
            time.sleep(0.1)
        return False

    def _read_events(self) -> list[Mapping[str, Any]]:
        """What docker told about the container; empty if it has forgotten."""
        try:
            return list(
                self._daemon.api.events(  # type: ignore[call-overload]  # docker takes fractions of a second
                    since=f"{self._started.since - 1:.6f}",
                    until=f"{time.time():.6f}",  # not later: docker would wait for that moment
                    filters={"container": self._started.id},
                    decode=True,
                )
            )
        except DOCKER_ERRORS:
            return []

    def _last_words(self) -> str:
        try:
            said = self._daemon.api.logs(self._started.id, tail=20).decode("utf-8", "replace").strip()
        except DOCKER_ERRORS:
            return ""
        return said.splitlines()[-1] if said else ""

    def _keep(self) -> None:
        """The daemon's own answers as they came, and what was done to end the attempt."""
        folder = self._started.directory / "evidence" / "container"
        folder.mkdir(parents=True, exist_ok=True)
        if self._rungs:
            (folder / "ladder.log").write_text("".join(f"{rung}\n" for rung in self._rungs), encoding="utf-8")
        inspected = self._daemon.api.inspect_container(self._started.id)
        (folder / "inspect.json").write_text(json.dumps(inspected, indent=1), encoding="utf-8")
        events = self._events or self._read_events()
        (folder / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events), encoding="utf-8")
        log = self._daemon.api.logs(self._started.id, tail=2000)
        (self._started.directory / "attempt.log").write_bytes(log)

    def _note(self, text: str) -> None:
        self._rungs.append(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ} {text}")


class RefusedHandle:
    """An attempt whose container never ran."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended

    def wait(self, timeout_s: float) -> Ended | None:
        del timeout_s
        return self._ended

    def stop(self) -> None: ...

    def kill(self) -> None: ...


def _status(code: int) -> int:
    """An exit code of docker's -> a status as in the protocol. 128 + n stands for signal n, but for the attempt
    program's own 130."""
    return 128 - code if code > 128 and code != INTERRUPTED else code
