"""The server as the attempt program sees it: through the line to the guardian that holds it."""

import asyncio
import contextlib
import json
import os
import socket
from typing import Any

from attempt import processes
from attempt.evidence import Timeline
from attempt.phases import Phases


class Server:
    """`exited` is done when the launcher has ended; `status` is its exit status, None if nobody is left who knows it.

    `left` names the processes that could not be killed in the end; empty if there are none. `guardian` is the parent of
    all that belongs to the server.
    """

    def __init__(self, control: socket.socket, guardian: int, timeline: Timeline, phases: Phases) -> None:
        self._control = control
        self.guardian = guardian
        self._timeline = timeline
        self._phases = phases
        self.exited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.status: int | None = None
        self.left = ""
        self._listening = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        reader, writer = await asyncio.open_connection(sock=self._control)
        gone = False
        try:
            while line := await reader.readline():
                message = json.loads(line)
                gone = gone or message["event"] == "gone"
                self._take(message)
            if not gone:
                # The guardian itself was killed. We are a subreaper too, so what it held is now ours to end.
                alive, _ = processes.kill_descendants(os.getpid(), 10.0)
                self.left = processes.describe(alive)
                self._timeline.append("signal-sent", detail="SIGKILL to all: the guardian is gone")
        finally:
            self._end(self.status)  # nobody may wait for it any more, not even when the disk is full
            writer.close()

    def _take(self, message: dict[str, Any]) -> None:
        event, detail = message["event"], message["detail"]
        if event == "exited":
            self._phases.look_to_the_end()
            self._timeline.append("server-exited", phase=self._phases.current, status=message["status"])
            self._end(message["status"])
        elif event == "signal":
            self._timeline.append("signal-sent", phase=self._phases.current, detail=detail)
        else:
            self.left = detail or ""

    def _end(self, status: int | None) -> None:
        self.status = status
        if not self.exited.done():
            self.exited.set_result(None)

    async def stop(self, *, hung: bool) -> None:
        """Has everything stopped, and returns when nothing that the server started is left, or cannot be killed.

        A server that hangs is first asked to dump what it knows, then to end as by Ctrl-C, which Python code can still
        answer when it drains requests for ever.
        """
        with contextlib.suppress(OSError):  # it has already stopped
            self._control.send(b"hung\n" if hung else b"stop\n")
        await self._listening


async def first_of(*futures: "asyncio.Future[Any]", limit_s: float | None = None) -> None:
    """Returns when one of them is done, or the limit is reached. Raises nothing of theirs."""
    await asyncio.wait(set(futures), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
