"""The course of an attempt, from a started server to none."""

import asyncio
import contextlib
import os
import signal
import socket
from dataclasses import dataclass
from typing import cast

from attempt import server_info
from attempt.checks import CheckRun, End, warm_up
from attempt.client import Client
from attempt.evidence import Evidence, Timeline
from attempt.phases import MarkReader, Phases
from attempt.power import PowerSampler
from attempt.server import Server
from attempt.step import Step

EXIT_DONE, EXIT_NOTHING_STARTED, EXIT_INTERRUPTED = 0, 3, 130
COLLECT_S = 10.0
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """`caught` holds the signals that came before the event loop could take them."""

    step: Step
    evidence: Evidence
    timeline: Timeline
    control: socket.socket
    owner: int | None
    caught: list[int]


async def run(attempt: Attempt) -> int:
    """The exit status of the program. The server and all it started are gone when this returns."""
    phases = Phases(attempt.timeline)
    server = Server(attempt.control, attempt.timeline, phases)
    phases.begin("launch")
    interrupt = _interruption(attempt)
    power = PowerSampler(attempt.timeline.now_s)
    probe = asyncio.ensure_future(asyncio.to_thread(_probe, attempt.evidence))
    course = asyncio.ensure_future(_course(attempt, server, phases, power))
    await asyncio.wait(cast("set[asyncio.Future[object]]", {course, interrupt}), return_when=asyncio.FIRST_COMPLETED)
    if not course.done():
        attempt.timeline.append("interrupted", phase=phases.current, detail=interrupt.result())
        course.cancel()
        await asyncio.wait({course})
    started = server.started.done() and server.started.result()
    if server.status is None and started:
        phases.begin_shutdown(orderly=_orderly(course))
    await server.stop()
    if phases.current == "shutdown" and server.left == 0:
        phases.end()
    attempt.evidence.write("power.json", "power-evidence", power.fields())
    await probe
    if not course.cancelled():
        course.result()  # an error of this program's own is shown, after the server is gone
    attempt.timeline.append(
        "attempt-ended", detail=f"{server.left} processes could not be ended" if server.left else None
    )
    if interrupt.done():
        return EXIT_INTERRUPTED
    return EXIT_DONE if started else EXIT_NOTHING_STARTED


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


def _orderly(course: "asyncio.Future[bool]") -> bool:
    return not course.cancelled() and course.exception() is None and course.result()


async def _course(attempt: Attempt, server: Server, phases: Phases, power: PowerSampler) -> bool:
    """Whether the server was well to the end of the last check."""
    if not await server.started:
        return False
    async with Client(attempt.step.url, attempt.timeline.now_s) as client:
        if not await _ready(attempt, server, phases, client):
            return False
        await server_info.collect(client, attempt.evidence, "_start", COLLECT_S)
        with power:
            end = await _checks(attempt, server, client)
        if end == "hung":
            # The engine's own watchdog may be about to say why: its own exit leaves more in the log than our kill.
            grace_s = min(attempt.step.limit_s("shutdown"), 600.0)
            await asyncio.wait({server.exited}, timeout=grace_s)
        elif end != "died":
            await server_info.collect(client, attempt.evidence, "", COLLECT_S)
        return end in ("complete", "slow")


async def _ready(attempt: Attempt, server: Server, phases: Phases, client: Client) -> bool:
    """Whether the server became ready; if not, the timeline says why."""
    healthy = asyncio.ensure_future(_healthy(client))
    try:
        with MarkReader(attempt.evidence.log, attempt.step.marks) as marks:
            while not server.exited.done():
                for phase in marks.look(phases.current or "launch"):
                    phases.begin(phase)
                if healthy.done():
                    phases.begin("serving")
                    return True
                limit_s = attempt.step.limit_s(phases.current or "launch")
                if phases.elapsed_s() > limit_s:
                    attempt.timeline.append("phase-limit", phase=phases.current, detail=f"more than {limit_s:g} s")
                    return False
                left_s = max(limit_s - phases.elapsed_s(), 0.0)
                await asyncio.wait(
                    {healthy, server.exited}, timeout=min(left_s + 0.001, 0.05), return_when=asyncio.FIRST_COMPLETED
                )
        return False
    finally:
        healthy.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await healthy


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
        run = CheckRun(check, step.prompts, client, server, attempt.timeline)
        if end in ("complete", "slow"):
            end = await run.run(attempt.evidence)
        else:
            run.leave_out(attempt.evidence, end)
    return end
