"""`python PAYLOAD_FOLDER attempt FOLDER`: runs the attempt described by FOLDER/step.json into FOLDER/evidence.

Exit status: 0 it did its work, whatever the server did; 3 nothing could be started; 130 it was interrupted.
GRAPHREPRO_OWNER_FD may name the read end of a pipe; when all its write ends are closed, the attempt is interrupted.
"""

import contextlib
import os
import signal
import socket
import sys
import tempfile
from pathlib import Path

from attempt import guardian, memory, processes
from attempt.evidence import Evidence, Timeline
from attempt.log_limit import KEEP_BYTES, LogLimit
from attempt.phases import Phases
from attempt.step import BadStepError, Step, read_step

OWNER_VARIABLE = "GRAPHREPRO_OWNER_FD"
LABEL_VARIABLE = "GRAPHREPRO_LABEL"
LOG_VARIABLE = "GRAPHREPRO_LOG_KEEP_BYTES"
"""How much of head and tail of a long log is kept; for tests."""


def main(arguments: list[str]) -> int:
    """The exit status."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python PAYLOAD_FOLDER attempt FOLDER", file=sys.stderr)
        return 2
    folder = Path(arguments[0]).absolute()
    try:
        step = read_step(folder / "step.json")
        owner = _owner()
    except BadStepError as problem:
        print(f"attempt: {problem}", file=sys.stderr)
        return 3
    return _attempt(step, folder, owner)


def _attempt(step: Step, folder: Path, owner: int | None) -> int:
    caught: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: caught.append(number))
    evidence = Evidence(folder / "evidence")
    timeline = Timeline(evidence.folder / "timeline.jsonl")
    timeline.append("attempt-begun")
    taken = port_problem(step)
    if taken is not None:
        timeline.append("port-taken", detail=taken)
        timeline.append("attempt-ended")
        return 3
    evidence.log.touch()
    log_limit = LogLimit(evidence.log, keep=int(os.environ.get(LOG_VARIABLE) or KEEP_BYTES))
    processes.become_subreaper()
    # A short path: engines put Unix sockets below TMPDIR, and those have room for about a hundred bytes. It says whose
    # run it is, so that the runtime can remove what nobody was left to remove.
    place = os.environ.get(LABEL_VARIABLE, "").partition("/")[0]
    scratch = Path(tempfile.mkdtemp(prefix=f"graphrepro-{place}-"))
    oom_kills = memory.oom_kills()
    control = guardian.start(step, log_limit, timeline, scratch)
    begun = guardian.first_word(control)
    if begun["event"] != "started":
        timeline.append("not-started", detail=begun["detail"])
        timeline.append("attempt-ended")
        return 3
    timeline.append("server-started")
    phases = Phases(timeline)
    phases.begin("launch")

    # Only now, while the server is starting: these imports take longer than all that came before.
    import asyncio

    from attempt.program import Attempt, run

    attempt = Attempt(
        step=step,
        evidence=evidence,
        timeline=timeline,
        phases=phases,
        log_limit=log_limit,
        control=control,
        guardian=begun["guardian"],
        owner=owner,
        caught=caught,
        oom_kills=oom_kills,
    )
    return asyncio.run(run(attempt))


def port_problem(step: Step) -> str | None:
    """Why the server could not listen where it is to; None if it can.

    Asked before the start, since a server that is already there would answer the checks in place of ours.
    """
    try:
        family = socket.getaddrinfo(step.host or None, step.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with contextlib.closing(socket.socket(family[0], socket.SOCK_STREAM)) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(family[4])
            listener.listen(1)
    except OSError as problem:
        return f"port {step.port}: {problem.strerror}"
    return None


def _owner() -> int | None:
    text = os.environ.get(OWNER_VARIABLE)
    if not text:
        return None
    try:
        number = int(text)
        os.fstat(number)
        os.set_inheritable(number, False)
    except (ValueError, OSError):
        raise BadStepError(f"{OWNER_VARIABLE} is not an open file descriptor: {text!r}") from None
    return number
