"""Runs the clients of the checks and stores what they saw. Nothing here judges an answer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import cycle, islice
from typing import Any, Literal

from attempt.client import Client, Request
from attempt.evidence import Evidence, Timeline
from attempt.server import Server, first_of
from attempt.server_info import accept_length
from attempt.step import Check, Prompt

End = Literal["complete", "slow", "hung", "died"]

WARM_UP_TOKENS = 4
_AFTER = {"died": "the server exited before", "hung": "the server hung before"}
HEALTH_S = 5.0
CONTROL_S = 30.0


class CheckRun:
    """One check against a running server."""

    def __init__(
        self, check: Check, prompts: tuple[Prompt, ...], client: Client, server: Server, timeline: Timeline
    ) -> None:
        self._check = check
        self._prompts = prompts[: check.prompts]
        self._client = client
        self._server = server
        self._timeline = timeline
        self._requests: list[Request] = []
        self._open: list[Request] = []
        self._accept_length: float | None = None
        self._unflushed: list[int] = []

    async def run(self, evidence: Evidence) -> End:
        """How it ended. The evidence is written in any case, also when this is cancelled."""
        begun_s = self._timeline.now_s()
        self._timeline.append("check-begun", phase="serving", check=self._check.name)
        end: End | None = None
        because: str | None = "the attempt was interrupted"
        try:
            end = await watched(self._send_all(), self._server, self._client, self._timeline.now_s, self._check.limit_s)
            because = stop_reason(end, self._server.status, self._check.limit_s)
        finally:
            if end == "hung":
                self._timeline.append("phase-limit", phase="serving", check=self._check.name, detail=because)
            self._store(evidence, begun_s, because)
            detail = because or self._remark()
            self._timeline.append("check-ended", phase="serving", check=self._check.name, detail=detail)
        return end

    def leave_out(self, evidence: Evidence, end: End) -> None:
        """Stores that the check was not begun, since the server did not survive what came before."""
        self._store(evidence, self._timeline.now_s(), f"not begun: {_AFTER[end]}")

    def _remark(self) -> str | None:
        if not self._unflushed:
            return None
        return f"the prefix cache could not be flushed before concurrency {', '.join(map(str, self._unflushed))}"

    def _store(self, evidence: Evidence, begun_s: float, because: str | None) -> None:
        for request in self._open:  # cut off by the check's end, in the order in which they began
            request.error = request.error or because
        fields: dict[str, Any] = {
            "check": self._check.name,
            "begun_s": begun_s,
            "ended_s": self._timeline.now_s(),
            "complete": because is None,
            "stopped_because": because,
            "requests": [request.fields() for request in (*self._requests, *self._open)],
            "server_accept_length": self._accept_length,
            "counts": [],
        }
        evidence.write(f"checks/{self._check.name}.json", "check-evidence", fields)

    async def _send_all(self) -> None:
        for level in self._check.concurrency:
            await self._level(level, margins=False)
        # Before the pass for the margins, which is not streamed and whose requests nothing is measured by.
        self._accept_length = await accept_length(self._client, CONTROL_S)
        if self._check.margins:
            await self._level(1, margins=True)

    async def _level(self, concurrency: int, *, margins: bool) -> None:
        if not await self._client.flush_cache(CONTROL_S):
            self._unflushed.append(concurrency)
        count = len(self._prompts) if concurrency == 1 else max(len(self._prompts), 2 * concurrency)
        queue = islice(cycle(self._prompts), count)
        await asyncio.gather(*(self._worker(queue, concurrency, margins=margins) for _ in range(concurrency)))

    async def _worker(self, queue: Iterator[Prompt], concurrency: int, *, margins: bool) -> None:
        for prompt in queue:
            if self._server.exited.done():
                return
            request = Request(prompt=prompt.id, concurrency=concurrency, begun_s=self._timeline.now_s())
            self._open.append(request)
            lasted = await self._client.generate(request, prompt, self._check.max_new_tokens, margins=margins)
            self._open.remove(request)
            self._requests.append(request)
            if not lasted:
                # A dying server closes its sockets before its end is known; do not burn the other prompts meanwhile.
                await first_of(self._server.exited, limit_s=0.5)


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
