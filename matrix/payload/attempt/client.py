"""The client of one server: `/generate` streamed or whole, and the few other endpoints that evidence needs."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from types import SimpleNamespace, TracebackType
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

from attempt.reply import DONE, Reply, storable
from attempt.sse import EventStream
from attempt.step import Prompt

MAX_BODY_BYTES = 64 << 20
Progress = Callable[[int], bool]
"""Told how many ids have come so far, each time that there are more; true: the request is to be given up."""
FAILURES = (asyncio.TimeoutError, aiohttp.ClientError, OSError, ValueError)  # two things in Python 3.10
"""What a request may end in that is the server's doing."""


@dataclass(kw_only=True, slots=True)
class Request:
    """A request under way, and in the end what is stored about it: the fields of the host's `RequestRecord`."""

    prompt: str
    concurrency: int
    begun_s: float
    repeat: int = 1
    cancelled: bool = False
    asked_tokens: int | None = None
    first_token_s: float | None = None
    ended_s: float = 0.0
    status: int | None = None
    error: str | None = None
    finish_reason: str | None = None
    output_ids: tuple[int, ...] = ()
    output_text: str | None = None
    usage_tokens: int | None = None
    verify_calls: int | None = None
    accept_histogram: tuple[int, ...] | None = None
    margins: tuple[float, ...] | None = None
    token_times: tuple[tuple[float, int], ...] = ()

    def fields(self) -> dict[str, Any]:
        """As stored."""
        return asdict(self)

    def take(self, reply: Reply) -> None:
        """Copies what a reply has brought so far."""
        self.error = self.error or reply.error
        self.finish_reason = reply.finish_reason
        self.output_ids, self.output_text = tuple(reply.ids), reply.text
        self.usage_tokens, self.verify_calls = reply.usage_tokens, reply.verify_calls
        self.accept_histogram, self.margins = reply.accept_histogram, reply.margins


class _Stamped(ResponseHandler):
    """A connection that knows when bytes came last: with a hundred streams their readers have their turn much later."""

    def __init__(self, now_s: Callable[[], float], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._now_s = now_s
        self.received_s = 0.0

    def data_received(self, data: bytes) -> None:
        self.received_s = self._now_s()
        super().data_received(data)


class _Sending:
    """A request whose turn on the wire it is, until it is sent or has failed."""

    def __init__(self, request: Request, wire: asyncio.Lock) -> None:
        self.request = request
        self._wire: asyncio.Lock | None = wire

    def done(self) -> None:
        """Gives the turn to the next; once."""
        if self._wire is not None:
            self._wire.release()
            self._wire = None


class Client:
    """Talks to the server at `url`. `now_s` gives the seconds since the attempt began.

    `progress_s` is when the server last sent a piece of any answer: what tells slow from hung.
    """

    def __init__(self, url: str, now_s: Callable[[], float]) -> None:
        self._url = url
        self._now_s = now_s
        self.progress_s = 0.0
        # One request is put on the wire at a time: the first tokens of a hundred that begin at once would be waited for
        # while the server's HTTP side still reads the others, and that is no time of the engine.
        self._wire = asyncio.Lock()
        # No limits of the library's own: how long anything may take is the step's to say. No proxy either.
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            connector=self._connector(),
            trust_env=False,
            trace_configs=[self._stamping()],
        )

    def _connector(self) -> aiohttp.TCPConnector:
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        # An attribute of aiohttp's own: where a release has it no more, chunks are stamped when they are read.
        connector._factory = partial(_Stamped, self._now_s, loop=asyncio.get_running_loop())  # type: ignore[assignment]
        return connector

    def _stamping(self) -> aiohttp.TraceConfig:
        """A request begins when it is on the wire: our own queue for connections is not the server's time."""

        async def sent(_session: object, about: SimpleNamespace, _sent: object) -> None:
            if isinstance(about.trace_request_ctx, _Sending):
                about.trace_request_ctx.request.begun_s = self._now_s()
                about.trace_request_ctx.done()

        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(sent)
        return trace

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._session.close()

    async def get(self, path: str, limit_s: float) -> tuple[int, bytes] | None:
        """Status and body, None when there is no answer in time."""
        return await self._plain("GET", path, limit_s)

    async def flush_cache(self, limit_s: float) -> bool:
        """Empties the prefix cache. The engine refuses while requests of the last level are being torn down, so it is
        asked a few times."""
        for _ in range(10):
            answer = await self._plain("POST", "/flush_cache", limit_s)
            if answer is None:
                return False
            if answer[0] != 400:
                return answer[0] == 200
            await asyncio.sleep(0.05)
        return False

    async def _plain(self, method: str, path: str, limit_s: float) -> tuple[int, bytes] | None:
        try:
            limit = aiohttp.ClientTimeout(total=limit_s)
            async with self._session.request(method, self._url + path, timeout=limit) as response:
                return response.status, await _body(response)
        except FAILURES:
            return None

    async def generate(
        self,
        request: Request,
        prompt: Prompt,
        max_new_tokens: int,
        *,
        margins: bool,
        progress: Progress | None = None,
    ) -> bool:
        """Sends the prompt and fills in the request, also when it fails or is cancelled; never raises but for that.

        `progress` may give up a reply that is streamed: the connection is closed, as a user would who has gone away.
        False when the connection could not be made or did not last.
        """
        request.asked_tokens = max_new_tokens
        reply = Reply(None if prompt.input_ids is None else len(prompt.input_ids), margins=margins)
        question = _question(prompt, max_new_tokens, margins=margins)
        try:
            return await self.ask(request, "/generate", question, reply, progress)
        finally:
            if reply.token_times and not margins:
                request.first_token_s = reply.token_times[0][0]
                request.token_times = tuple(reply.token_times)

    async def ask(
        self, request: Request, path: str, question: dict[str, Any], reply: Reply, progress: Progress | None = None
    ) -> bool:
        """Posts the question and lets the reply take what comes, as `generate` does, for any endpoint."""
        try:
            await self._exchange(request, path, question, reply, progress)
            if not request.cancelled:
                reply.close()
            return True
        except FAILURES as problem:
            request.error = storable(f"{type(problem).__name__}: {str(problem)[:200]}")
            return False
        finally:
            reply.settle()
            request.take(reply)
            request.ended_s = self._now_s()

    async def _exchange(
        self, request: Request, path: str, question: dict[str, Any], reply: Reply, progress: Progress | None
    ) -> None:
        await self._wire.acquire()
        sending = _Sending(request, self._wire)
        try:
            async with self._session.post(self._url + path, json=question, trace_request_ctx=sending) as response:
                sending.done()
                await self._take(request, response, reply, progress)
        finally:
            sending.done()

    async def _take(
        self, request: Request, response: aiohttp.ClientResponse, reply: Reply, progress: Progress | None
    ) -> None:
        request.status = response.status
        if response.status != 200:
            body = await _body(response)
            request.error = f"HTTP {response.status}: {body[:200].decode(errors='replace')}"
        elif response.content_type != "text/event-stream":  # not asked for, or an error in place of a stream
            reply.absorb(await _body(response), self._now_s())
            self.progress_s = self._now_s()
        else:
            await self._follow(request, response, reply, progress)

    async def _follow(
        self, request: Request, response: aiohttp.ClientResponse, reply: Reply, progress: Progress | None
    ) -> None:
        events, seen = EventStream(), 0
        wire = response.connection.protocol if response.connection is not None else None
        async for piece in response.content.iter_any():
            self.progress_s = at_s = wire.received_s if isinstance(wire, _Stamped) else self._now_s()
            for data in events.feed(piece):
                reply.absorb(data, at_s)
            if progress is not None and reply.count > seen:
                seen = reply.count
                if progress(seen) and reply.unfinished():
                    request.cancelled = True
                    response.close()
                    return
        rest = events.rest()
        if rest is not None:  # it may be cut off, so it is read in full, as a body is
            reply.absorb(rest if rest == DONE else rest.encode(), self._now_s())


def _question(prompt: Prompt, max_new_tokens: int, *, margins: bool) -> dict[str, Any]:
    asked: dict[str, Any] = {"text": prompt.text} if prompt.input_ids is None else {"input_ids": prompt.input_ids}
    asked["sampling_params"] = {"temperature": 0, "max_new_tokens": max_new_tokens, "ignore_eos": True}
    return asked | ({"return_logprob": True, "top_logprobs_num": 2} if margins else {"stream": True})


async def _body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise ValueError(f"a body of more than {MAX_BODY_BYTES} bytes")
    return bytes(body)
