"""The guardian: a small process between the attempt program and the server that outlives either of them, but not both.

It starts the server and is its parent, so it learns the exit status first hand, and as a subreaper it inherits whatever
the server leaves behind. It stops everything when it is told to, and also when the attempt program is gone, however
that happened: a SIGKILL of the attempt program cannot leave a server on the GPUs. It holds no threads, imports almost
nothing, and sits in a session of its own, out of reach of signals to the attempt program's process group.

To the attempt program it sends JSON lines: {"event": "started" | "not-started" | "exited" | "signal" | "gone", …}, and
it is told `stop` or `hung`.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from attempt import dumps, processes
from attempt.evidence import Timeline
from attempt.log_limit import LogLimit
from attempt.step import Step

LIMIT_LOG_S = 0.2
SERVER_VARIABLES = ("PATH", "HOME", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CUDA_HOME")
"""What the server gets from outside the step: where programs, libraries and caches lie on this machine. Nothing else
leaks in, so that two attempts of one step differ in nothing."""


def start(step: Step, log: LogLimit, timeline: Timeline, scratch: Path) -> socket.socket:
    """Forks the guardian, which starts the server: the attempt program's end of the line to it.

    To be called before any thread exists, and before asyncio does. `scratch` is removed by the guardian at the end.
    """
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        _guard(theirs, step, log, timeline, scratch)
    theirs.close()
    return ours


def first_word(control: socket.socket) -> dict[str, Any]:
    """The guardian's first line: whether the server was started. Read byte by byte, to leave the next line alone."""
    line = b""
    while not line.endswith(b"\n"):
        piece = control.recv(1)
        if not piece:
            return {"event": "not-started", "detail": "the guardian ended"}
        line += piece
    message: dict[str, Any] = json.loads(line)
    return message


def server_environment(step: Step, scratch: Path) -> dict[str, str]:
    """The server's whole environment; what the step says wins."""
    passed = {name: os.environ[name] for name in SERVER_VARIABLES if name in os.environ}
    return {"PATH": os.defpath, "HOME": str(scratch), **passed, "TMPDIR": str(scratch), **step.environment}


def server_path(step: Step) -> str:
    """Where the server looks for programs."""
    return step.environment.get("PATH") or os.environ.get("PATH", os.defpath)


def _guard(control: socket.socket, step: Step, log: LogLimit, timeline: Timeline, scratch: Path) -> NoReturn:
    status = 1
    try:
        os.setsid()
        processes.become_subreaper()
        _Guardian(control, step, timeline, log).watch(scratch)
        status = 0
    except BaseException as problem:  # noqa: BLE001  # a fork must never run on into its parent's code
        print(f"guardian: {type(problem).__name__}: {problem}", file=sys.stderr)
        processes.kill_descendants(os.getpid(), step.stop.kill_s)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(status)


class _Guardian:
    def __init__(self, control: socket.socket, step: Step, timeline: Timeline, log: LogLimit) -> None:
        self._control = control
        self._step = step
        self._timeline = timeline
        self._log = log
        self._scratch = Path()
        self._launcher = 0
        self._status: int | None = None
        self._asked = False
        self._hung = False
        self._alone = False
        # SIGCHLD and SIGTERM end a select() through this pipe; handlers alone would not.
        self._wake, write_end = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(signal.SIGTERM, self._ask)
        for number in (signal.SIGINT, signal.SIGHUP):
            # Not SIG_IGN, which the server would inherit: it has to obey the SIGINT that a hanging one is sent.
            signal.signal(number, lambda _number, _frame: None)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True

    def watch(self, scratch: Path) -> None:
        """Starts the server, waits until it is to be stopped, stops it."""
        try:
            self._scratch = scratch
            self._launch(scratch)
        except OSError as problem:
            self._tell("not-started", detail=f"{type(problem).__name__}: {problem.strerror}")
            return
        self._tell("started", guardian=os.getpid())
        self._wait(float("inf"), lambda: self._asked)
        self._stop()

    def _launch(self, scratch: Path) -> None:
        if self._step.armed:
            (scratch / dumps.FOLDER).mkdir()
        with self._log.path.open("ab") as output:
            process = subprocess.Popen(
                self._step.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=scratch,
                env=server_environment(self._step, scratch),
                start_new_session=True,
                restore_signals=True,
            )
        self._launcher = process.pid
        process.returncode = 0  # statuses are taken by reap(); Popen must not wait for it at exit

    def _wait(self, seconds: float, over: Callable[[], bool]) -> None:
        """Until `over()`, at most so long; meanwhile children are reaped and the line is watched."""
        until = time.monotonic() + seconds
        while not over() and (left := until - time.monotonic()) > 0:
            watched: list[int | socket.socket] = [self._wake] if self._alone else [self._wake, self._control]
            if self._alone:
                with contextlib.suppress(OSError):
                    self._log.punch()
            ready, _, _ = select.select(watched, [], [], min(left, LIMIT_LOG_S if self._alone else 3600.0))
            if self._wake in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 4096)
            self._note(processes.reap())
            if self._control in ready:
                said = self._control.recv(4096)
                self._asked = True
                self._hung = self._hung or b"hung" in said
                self._alone = not said

    def _note(self, ended: dict[int, int]) -> None:
        if self._launcher in ended and self._status is None:
            self._status = ended[self._launcher]
            self._tell("exited", status=self._status)

    def _stop(self) -> None:
        if self._alone:
            self._timeline.append("interrupted", detail="the attempt program is gone")
        for number, wait_s, why in self._rungs():
            if self._status is not None:
                break
            processes.kill([self._launcher], number)
            self._tell("signal", detail=f"{number.name} to the launcher{why}")
            self._wait(wait_s, lambda: self._status is not None)
        left = processes.descendants(os.getpid())
        if left:
            self._tell("signal", detail=f"SIGKILL to {len(left)} remaining process{'es' if len(left) > 1 else ''}")
            left, ended = processes.kill_descendants(os.getpid(), self._step.stop.kill_s)
            self._note(ended)
        # A launcher whose threads are still ending counts as dead, and has no status yet.
        self._wait(self._step.stop.kill_s, lambda: self._status is not None)
        self._note(processes.reap())
        if self._step.armed:
            dumps.keep(self._scratch / dumps.FOLDER, self._log.path.parent / dumps.FOLDER)
        if self._alone:  # else the attempt program does it, which has yet to read it
            self._log.cut()
        self._tell("gone", detail=processes.describe(left) if left else None)

    def _rungs(self) -> list[tuple[signal.Signals, float, str]]:
        """(signal to the launcher, how long to wait for its end, why), in order."""
        stop = self._step.stop
        rungs = [(signal.SIGTERM, stop.term_s, "")]
        if self._hung:
            rungs.insert(0, (signal.SIGINT, stop.int_s, ": it hangs"))
            if stop.dump_signal is not None:
                rungs.insert(0, (signal.Signals[stop.dump_signal], stop.dump_s, ": the engine's own dump"))
        return rungs

    def _tell(self, event: str, *, status: int | None = None, detail: str | None = None, **more: int) -> None:
        """Tells the attempt program; when that is gone, what belongs into the timeline is written here."""
        if not self._alone:
            line = json.dumps({"event": event, "status": status, "detail": detail, **more})
            try:
                self._control.sendall(line.encode() + b"\n")
            except OSError:
                self._alone = self._asked = True  # nobody is left to ask
            else:
                return
        gone = "the attempt program is gone"
        if event == "exited":
            self._timeline.append("server-exited", phase="shutdown", status=status, detail=gone)
        elif event == "signal":
            self._timeline.append("signal-sent", phase="shutdown", detail=f"{detail}; {gone}")
