"""What all checks that send requests share: how one is watched, and how its evidence is stored whatever happens.

Nothing here judges an answer.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from attempt.client import Client, Request
from attempt.evidence import Evidence, Timeline
from attempt.server import Server, first_of
from attempt.step import Check, Prompt, Step

End = Literal["complete", "slow", "hung", "died"]

WARM_UP_TOKENS = 4
_AFTER = {"died": "the server exited before", "hung": "the server hung before"}
HEALTH_S = 5.0
CONTROL_S = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """What a check has to work with: its plan, all that the step says, and the server with its client."""

    check: Check
    step: Step
    client: Client
    server: Server
    timeline: Timeline


class CheckRun(ABC):
    """One check against a running server. Each kind says what it sends, and may store another document."""

    def __init__(self, situation: Situation) -> None:
        self._check = situation.check
        self._step = situation.step
        self._client = situation.client
        self._server = situation.server
        self._timeline = situation.timeline
        self._prompts = situation.step.prompts[: situation.check.prompts]
        self._ended: list[Request] = []
        self._open: list[Request] = []
        self._remarks: list[str] = []

    @abstractmethod
    async def send(self) -> None:
        """Sends all requests of the check, in its own order. Cancelled at the limit, or when the server dies."""

    def store(self, evidence: Evidence, begun_s: float, because: str | None) -> None:
        """Writes what the check saw; `because` says why it is incomplete, None if it is complete."""
        evidence.write(f"checks/{self._check.name}.json", "check-evidence", self.fields(begun_s, because))

    async def run(self, evidence: Evidence) -> End:
        """How it ended. The evidence is written in any case, also when this is cancelled."""
        begun_s = self._timeline.now_s()
        self._timeline.append("check-begun", phase="serving", check=self._check.name)
        end: End | None = None
        because: str | None = "the attempt was interrupted"
        try:
            end = await watched(self.send(), self._server, self._client, self._timeline.now_s, self._check.limit_s)
            because = stop_reason(end, self._server.status, self._check.limit_s)
        finally:
            if end == "hung":
                self._timeline.append("phase-limit", phase="serving", check=self._check.name, detail=because)
            self.store(evidence, begun_s, because)
            detail = because or "; ".join(self._remarks) or None
            self._timeline.append("check-ended", phase="serving", check=self._check.name, detail=detail)
        return end

    def leave_out(self, evidence: Evidence, end: End) -> None:
        """Stores that the check was not begun, since the server did not survive what came before."""
        self.store(evidence, self._timeline.now_s(), f"not begun: {_AFTER[end]}")

    def fields(self, begun_s: float, because: str | None) -> dict[str, Any]:
        """The fields of a `check-evidence` with the requests made so far."""
        for request in self._open:  # cut off by the check's end, in the order in which they began
            request.error = request.error or because
        return {
            "check": self._check.name,
            "begun_s": begun_s,
            "ended_s": self._timeline.now_s(),
            "complete": because is None,
            "stopped_because": because,
            "requests": [request.fields() for request in (*self._ended, *self._open)],
            "server_accept_length": None,
            "counts": [],
        }

    def begin(self, prompt: Prompt, concurrency: int, *, repeat: int = 1) -> Request:
        """A request that is stored, also if it never comes to its end."""
        request = Request(prompt=prompt.id, concurrency=concurrency, repeat=repeat, begun_s=self._timeline.now_s())
        self._open.append(request)
        return request

    async def end(self, request: Request, *, lasted: bool) -> None:
        """The request has ended; `lasted` is false when its connection did not."""
        self._open.remove(request)
        self._ended.append(request)
        if not lasted:
            # A dying server closes its sockets before its end is known; do not burn the other prompts meanwhile.
            await first_of(self._server.exited, limit_s=0.5)

    async def flush(self, what: str) -> None:
        """Empties the prefix cache; if that fails, the end of the check says so."""
        if not await self._client.flush_cache(CONTROL_S):
            self._remarks.append(f"the prefix cache could not be flushed before {what}")


async def warm_up(
    prompt: Prompt, limit_s: float, *, client: Client, server: Server, timeline: Timeline, evidence: Evidence
) -> End:
    """One short request that pays for what the engine sets up lazily. It is stored apart, and no check counts it."""
    request = Request(prompt=prompt.id, concurrency=1, begun_s=timeline.now_s())
    end = await watched(
        client.generate(request, prompt, WARM_UP_TOKENS, margins=False), server, client, timeline.now_s, limit_s
    )
    because = stop_reason(end, server.status, limit_s)
    request.error = request.error or because
    fields: dict[str, Any] = {
        "check": "launch",
        "begun_s": request.begun_s,
        "ended_s": timeline.now_s(),
        "complete": because is None,
        "stopped_because": because,
        "requests": [request.fields()],
        "server_accept_length": None,
        "counts": [],
    }
    evidence.write("warmup.json", "check-evidence", fields)
    return end


async def watched(
    work: Awaitable[object], server: Server, client: Client, now_s: Callable[[], float], limit_s: float
) -> End:
    """Does the work until it is done, the server dies or the limit is reached. HTTP time-outs are not waited for."""
    task = asyncio.ensure_future(work)
    try:
        await first_of(task, server.exited, limit_s=limit_s)
        if server.exited.done():
            # The last bytes of the dead server may still be in the sockets.
            await first_of(task, limit_s=0.2)
            return "died"
        if task.done():
            task.result()
            return "complete"
        return await _slow_or_hung(server, client, now_s() - limit_s / 2)
    finally:
        if not task.done():
            task.cancel()
            await first_of(task)


async def _slow_or_hung(server: Server, client: Client, since_s: float) -> End:
    """At a limit: a server that has sent something lately and still says it is healthy is slow, any other hangs."""
    if client.progress_s < since_s:
        return "hung"
    answer = await client.get("/health", HEALTH_S)
    if server.exited.done():
        return "died"
    return "slow" if answer is not None and answer[0] == 200 else "hung"


def stop_reason(end: End, status: int | None, limit_s: float) -> str | None:
    """Why the work is incomplete, for a person; None when it is complete."""
    return {
        "complete": None,
        "slow": f"the limit of {limit_s:g} s was reached; the server still answers",
        "hung": f"the limit of {limit_s:g} s was reached; the server hangs",
        "died": f"the server exited with status {status}",
    }[end]
