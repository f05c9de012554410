"""The course of an attempt, from a started server to none."""

import asyncio
import contextlib
import os
import signal
import socket
from dataclasses import dataclass

from attempt import hang, memory, server_info
from attempt.checks import End, Situation, warm_up
from attempt.client import Client
from attempt.dispatch import check_run
from attempt.evidence import Evidence, Timeline
from attempt.log_limit import LogLimit
from attempt.phases import MarkReader, Phases
from attempt.power import PowerSampler
from attempt.server import Server, first_of
from attempt.step import Step

EXIT_DONE, EXIT_INTERRUPTED = 0, 130
COLLECT_S = 10.0
LOOK_S = 0.05
LIMIT_LOG_S = 0.2
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """`caught` holds the signals that came before the event loop could take them; `oom_kills` is the kernel's count
    from before the server was started."""

    step: Step
    evidence: Evidence
    timeline: Timeline
    phases: Phases
    log_limit: LogLimit
    control: socket.socket
    guardian: int
    owner: int | None
    caught: list[int]
    oom_kills: int | None


async def run(attempt: Attempt) -> int:
    """The exit status of the program. The server and all it started are gone when this returns."""
    phases = attempt.phases
    server = Server(attempt.control, attempt.guardian, attempt.timeline, phases)
    interrupt = _interruption(attempt)
    power = PowerSampler(attempt.timeline.now_s)
    limiting = asyncio.ensure_future(_limit_log(attempt))
    probe = asyncio.ensure_future(asyncio.to_thread(_probe, attempt.evidence))
    course = asyncio.ensure_future(_course(attempt, server, phases, power))
    await first_of(course, interrupt)
    interrupted = not course.done()
    if interrupted:
        attempt.timeline.append("interrupted", phase=phases.current, detail=interrupt.result())
        course.cancel()
        await first_of(course)
    if not server.exited.done():
        phases.begin_shutdown(orderly=_end(course) in {"complete", "slow"})
    await server.stop(hung=_end(course) == "hung")
    if phases.current == "shutdown" and not server.left:
        phases.end()
    limiting.cancel()
    attempt.log_limit.cut()
    if attempt.oom_kills is not None and (killed := (memory.oom_kills() or 0) - attempt.oom_kills) > 0:
        attempt.evidence.write_raw("oom_kills.txt", f"{killed}\n".encode())
    attempt.evidence.write("power.json", "power-evidence", power.fields())
    await probe
    if not course.cancelled():
        course.result()  # an error of this program's own is shown, after the server is gone
    attempt.timeline.append("attempt-ended", detail=f"could not be ended: {server.left}" if server.left else None)
    return EXIT_INTERRUPTED if interrupted else EXIT_DONE


def _interruption(attempt: Attempt) -> "asyncio.Future[str]":
    """Done, with who it was, when a signal comes or the owner closes its end of the pipe."""
    loop = asyncio.get_running_loop()
    interrupt: asyncio.Future[str] = loop.create_future()

    def end(who: str) -> None:
        if not interrupt.done():
            interrupt.set_result(who)

    for number in SIGNALS:
        loop.add_signal_handler(number, end, signal.Signals(number).name)
    for caught in attempt.caught:
        end(signal.Signals(caught).name)
    if attempt.owner is not None:
        owner = attempt.owner

        def heard() -> None:
            if not os.read(owner, 4096):
                loop.remove_reader(owner)
                end("the owner is gone")

        loop.add_reader(owner, heard)
    return interrupt


def _probe(evidence: Evidence) -> None:
    from probe.environment import describe

    evidence.write("environment.json", "environment", describe())


async def _limit_log(attempt: Attempt) -> None:
    try:
        while True:
            attempt.phases.limit(attempt.log_limit)
            await asyncio.sleep(LIMIT_LOG_S)
    except OSError as problem:
        detail = f"the log is not limited before the end: {problem.strerror}"
        attempt.timeline.append("evidence-taken", phase=attempt.phases.current, detail=detail)


def _end(course: "asyncio.Future[End]") -> End | None:
    """How the course ended; None if it was cut off."""
    return None if course.cancelled() or course.exception() is not None else course.result()


async def _course(attempt: Attempt, server: Server, phases: Phases, power: PowerSampler) -> End:
    """How the server was at the end of the last check, or of its start if it came no further."""

    async def take_evidence() -> None:
        await hang.take_evidence(attempt.step, server, attempt.evidence, attempt.timeline, phases.current)

    async with Client(attempt.step.url, attempt.timeline.now_s) as client:
        if not await _ready(attempt, server, phases, client):
            if server.exited.done():
                return "died"
            await take_evidence()
            return "hung"
        await server_info.collect(client, attempt.evidence, "_start", COLLECT_S)
        with power:
            end = await _checks(attempt, server, client)
        if end == "hung":
            await take_evidence()
            # The engine's own watchdog may be about to say why: its own exit leaves more in the log than our kill.
            grace_s = min(attempt.step.limit_s("shutdown"), 600.0)
            await first_of(server.exited, limit_s=grace_s)
        elif end != "died":
            await server_info.collect(client, attempt.evidence, "", COLLECT_S)
        return end


async def _ready(attempt: Attempt, server: Server, phases: Phases, client: Client) -> bool:
    """Whether the server became ready; if not, the timeline says why."""
    healthy = asyncio.ensure_future(_healthy(client))
    try:
        with MarkReader(attempt.evidence.log, attempt.step.marks) as marks:
            phases.follow(marks)
            return await _ascent(attempt, server, phases, healthy)
    finally:
        phases.follow(None)
        healthy.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await healthy


async def _ascent(attempt: Attempt, server: Server, phases: Phases, healthy: "asyncio.Future[None]") -> bool:
    while not server.exited.done():
        more = phases.look()
        if healthy.done():
            phases.look_to_the_end()
            phases.begin("serving")
            return True
        limit_s = attempt.step.limit_s(phases.current or "launch")
        left_s = limit_s - phases.elapsed_s()
        if left_s < 0:
            attempt.timeline.append("phase-limit", phase=phases.current, detail=f"more than {limit_s:g} s")
            return False
        await first_of(healthy, server.exited, limit_s=0.0 if more else min(left_s + 0.001, LOOK_S))
    return False


async def _healthy(client: Client) -> None:
    """Returns when the server says that it is ready.

    `/ready` answers at once. SGLang's `/health` takes at least a second, since it generates a token; it is asked where
    `/ready` does not exist (404), as in older releases.
    """
    pause_s = 0.02
    while True:
        answer = await client.get("/ready", 10.0)
        if answer is not None and answer[0] == 404:
            answer = await client.get("/health", 60.0)
        if answer is not None and answer[0] == 200:
            return
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 1.02, 0.25)


async def _checks(attempt: Attempt, server: Server, client: Client) -> End:
    """Runs the checks in order; the first that finds the server dead or hung is the last."""
    step = attempt.step
    if not step.checks or not step.prompts:
        return "complete"
    end = await warm_up(
        step.prompts[0],
        step.checks[0].limit_s,
        client=client,
        server=server,
        timeline=attempt.timeline,
        evidence=attempt.evidence,
    )
    for check in step.checks:
        run = check_run(Situation(check=check, step=step, client=client, server=server, timeline=attempt.timeline))
        if end in ("complete", "slow"):
            end = await run.run(attempt.evidence)
        else:
            run.leave_out(attempt.evidence, end)
    return end
