"""One process beside torch: started in a session of its own, given time limits, and gone on every path.

What it prints becomes finished cases. A case at which it dies, hangs or floods is finished too; the next process goes
on behind it.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.errors import UnavailableError
from repro.kernels.case import Case
from repro.kernels.conversation import Conversation, Finished
from repro.model.kernels import KernelFault, KernelSubject
from repro.model.words import CheckState

PROTOCOL = 1
START = Path(__file__).with_name("beside_torch") / "start.py"
KEPT_BYTES = 16384
"""How much of standard error's end is kept."""
LONGEST_LINE_BYTES = 4 << 20
MOST_GARBAGE = 1000
START_LIMIT_S = 300.0
"""From the start to the first case: imports, which take seconds on an idle machine."""
END_LIMIT_S = 30.0
"""From the last case to the end of the process."""
CLOSE_LIMIT_S = 5.0
MEMORY_SIGNALS = (signal.SIGSEGV, signal.SIGBUS)
OUTSIDE_SIGNALS = (signal.SIGKILL, signal.SIGTERM)
"""Somebody else ended it, such as the kernel when memory ran out: that says nothing of what is tested."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """How to start a program: the Python of the environment, the module, and what its request says beside the cases.
    ``start`` is the file that is run, ours but in tests."""

    python: Path
    module: str
    request: Mapping[str, Any]
    environment: Mapping[str, str]
    start: Path = START
    start_limit_s: float = START_LIMIT_S


class NeverBegunError(Exception):
    """A process ended before its first case, so that no case can be blamed. The message says what it said last."""


async def serve(program: Program, cases: Sequence[Case], subject: KernelSubject) -> AsyncGenerator[Finished, None]:
    """Each case as it ends; stops where the process does. What is not yielded is left for another process.

    Raises `NeverBegunError`, and `UnavailableError` if the process cannot be started.
    """
    talk = Conversation(cases, subject)
    async with _process(program, cases) as (process, errors):
        cause = None
        clock = asyncio.get_running_loop().time
        heard_s = clock()
        lines = _lines(process.stdout)
        while cause is None:
            limit_s = _limit_s(program, talk)
            try:
                line = await asyncio.wait_for(anext(lines, None), limit_s)
            except TimeoutError:
                cause = ("hung", f"nothing came for {limit_s:g} s")
                break
            if line is None:
                break
            heard_s = clock() if talk.current is None else heard_s
            finished = talk.hear(line)
            if finished is not None:
                yield finished
            if talk.garbage > MOST_GARBAGE:
                cause = ("flooded", f"it printed more than {MOST_GARBAGE} lines that mean nothing")
        if cause is not None:
            _kill(process)
        status = await _exit_status(process)
        said = await errors
    if talk.current is None and talk.begun == 0 and talk.left:
        what = cause[1] if cause else _how(status)
        raise NeverBegunError(
            f"the program {program.module!r} ended before its first case ({what}): {_last_line(said)}"
        )
    finished = talk.end_badly(**_ending(talk.current, cause, status, said), wall_s=clock() - heard_s)
    if finished is not None:
        yield finished


def _limit_s(program: Program, talk: Conversation) -> float:
    if talk.current is not None:
        return talk.current.limit_s
    return END_LIMIT_S if not talk.left else program.start_limit_s


@contextlib.asynccontextmanager
async def _process(
    program: Program, cases: Sequence[Case]
) -> AsyncIterator[tuple[asyncio.subprocess.Process, "asyncio.Task[bytes]"]]:
    """The running process, and the task that ends with the tail of its standard error."""
    with tempfile.TemporaryFile() as request:
        request.write(json.dumps({**program.request, **_request(cases)}).encode())
        request.seek(0)
        try:
            process = await asyncio.create_subprocess_exec(
                str(program.python),
                str(program.start),
                program.module,
                stdin=request,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=dict(program.environment),
                start_new_session=True,
            )
        except OSError as error:
            raise UnavailableError(
                f"{program.python}: cannot be started ({error.strerror}); make the environment with `nox -s engine-cpu`"
            ) from None
    errors = asyncio.create_task(_tail(process.stderr))
    try:
        yield process, errors
    finally:
        _kill(process)
        await process.wait()
        await _close(process, errors)


async def _close(process: asyncio.subprocess.Process, errors: "asyncio.Task[bytes]") -> None:
    """Reads both pipes to their end, which is near since all that wrote to them is dead: only then they are closed."""
    assert process.stdout is not None  # noqa: S101 - it was asked for as a pipe
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.gather(_tail(process.stdout), errors), CLOSE_LIMIT_S)


def _request(cases: Sequence[Case]) -> dict[str, Any]:
    asked = [
        {
            "key": case.key,
            "cell": {name: getattr(case.cell, name) for name in case.cell.__dataclass_fields__},
            "planted": case.planted,
            "parameters": dict(case.parameters),
        }
        for case in cases
    ]
    return {"protocol": PROTOCOL, "parent": os.getpid(), "cases": asked}


async def _lines(stream: asyncio.StreamReader | None) -> AsyncIterator[bytes]:
    """Whole lines; one that is too long comes cut, and so does the last one if it has no end."""
    assert stream is not None  # noqa: S101 - it was asked for as a pipe
    rest = b""
    while chunk := await stream.read(1 << 16):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line
        if len(rest) > LONGEST_LINE_BYTES:
            yield rest
            rest = b""
    if rest:
        yield rest


async def _tail(stream: asyncio.StreamReader | None) -> bytes:
    assert stream is not None  # noqa: S101 - it was asked for as a pipe
    kept = b""
    while chunk := await stream.read(1 << 16):
        kept = (kept + chunk)[-KEPT_BYTES:]
    return kept


def _kill(process: asyncio.subprocess.Process) -> None:
    """The whole session: the process has made none of its own inside."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _exit_status(process: asyncio.subprocess.Process) -> int:
    """Its own, or that of the kill if it does not end although its output has."""
    try:
        return await asyncio.wait_for(process.wait(), END_LIMIT_S)
    except TimeoutError:
        _kill(process)
        return await process.wait()


def _ending(case: Case | None, cause: tuple[str, str] | None, status: int, said: bytes) -> dict[str, Any]:
    """How the current case ended with its process: arguments of `Conversation.end_badly`."""
    if cause is not None:
        return _bad("inconclusive", cause[0], f"{cause[1]}; the process was killed", None)
    died = -status if status < 0 else 0
    last = _last_line(said)
    if died in OUTSIDE_SIGNALS:
        return _bad("inconclusive", "killed", f"{_how(status)} from outside, such as for want of memory: {last}", None)
    line = _faulting_line(said)
    where = f" at {line}" if line else ""
    if died in MEMORY_SIGNALS and case is not None and case.evidence_class == "interpreted":
        detail = f"the process died of {_how(status)}{where}"
        fault = KernelFault(
            kind="out_of_bounds", source=line, tensor=None, element=None, row=None, detail=f"{_how(status)}{where}"
        )
        return _bad("fail", "out_of_bounds", detail, fault)
    return _bad(
        "fail" if died else "inconclusive", "died", f"the process ended with {_how(status)}{where}: {last}", None
    )


def _bad(state: CheckState, reason: str, detail: str, fault: KernelFault | None) -> dict[str, Any]:
    return {"state": state, "reason": reason, "detail": detail, "fault": fault}


def _how(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-status).name
    return f"signal {-status}"


def _faulting_line(said: bytes) -> str | None:
    """The kernel's line in what `faulthandler` printed: the innermost of a file of SGLang."""
    found = re.search(rb'File "[^"\n]*/sglang/[^"\n]*?([^"/\n]+\.py)", line (\d+)', said)
    return f"{found[1].decode('utf-8', 'replace')}:{found[2].decode()}" if found else None


def _last_line(said: bytes) -> str:
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:500] if lines else "it said nothing"
