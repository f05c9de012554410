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
    """`exited` is done when the launcher has ended and `status` is its exit status, or when it could not be started."""

    def __init__(self, control: socket.socket, timeline: Timeline, phases: Phases) -> None:
        self._control = control
        self._timeline = timeline
        self._phases = phases
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[bool] = loop.create_future()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.status: int | None = None
        self.left = 0
        self._listening = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        reader, writer = await asyncio.open_connection(sock=self._control)
        gone = False
        while line := await reader.readline():
            message = json.loads(line)
            gone = gone or message["event"] in ("gone", "not-started")
            self._take(message)
        if not gone:
            # The guardian itself was killed. We are a subreaper too, so what it held is now ours to end.
            self.left, _ = processes.kill_descendants(os.getpid(), 10.0)
            self._timeline.append("signal-sent", detail="SIGKILL to all: the guardian is gone")
            self._end(None)
        writer.close()

    def _take(self, message: dict[str, Any]) -> None:
        event, detail = message["event"], message["detail"]
        if event == "started":
            self._timeline.append("server-started")
            self.started.set_result(True)
        elif event == "not-started":
            self._timeline.append("not-started", detail=detail)
            self.started.set_result(False)
            self._end(None)
        elif event == "exited":
            self._timeline.append("server-exited", phase=self._phases.current, status=message["status"])
            self._end(message["status"])
        elif event == "signal":
            self._timeline.append("signal-sent", phase=self._phases.current, detail=detail)
        else:
            self.left = message["left"]

    def _end(self, status: int | None) -> None:
        self.status = status
        if not self.started.done():
            self.started.set_result(False)
        if not self.exited.done():
            self.exited.set_result(None)

    async def stop(self) -> None:
        """Has everything stopped, and returns when nothing that the server started is left, or cannot be killed."""
        with contextlib.suppress(OSError):  # it has already stopped
            self._control.send(b"stop\n")
        await self._listening
