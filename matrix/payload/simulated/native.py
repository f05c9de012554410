"""SGLang's own endpoints: generation, health, facts about the server, counters."""

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

from aiohttp import web

from simulated.answers import Wish, answer
from simulated.emissions import Emission
from simulated.engine import Engine, Sequence
from simulated.facts import metrics, model_info, server_info
from simulated.language import encode

HEALTH_LIMIT_S = 20.0
_numbers = itertools.count(1)


class BadRequest(ValueError):  # noqa: N818
    """A body that SGLang answers with status 400."""


class Native:
    """`ready` is false until the warm-up is over. `emissions` names the file that says when streams were written."""

    def __init__(self, engine: Engine, emissions: Path | None = None) -> None:
        self._engine = engine
        self._emissions = emissions
        self.ready = False

    def routes(self) -> list[web.RouteDef]:
        """All routes of this class."""
        return [
            web.get("/health", self._health),
            web.get("/health_generate", self._health),
            web.get("/ready", self._ready),
            web.get("/ping", self._ready),
            web.get("/model_info", self._model_info),
            web.get("/get_model_info", self._model_info),
            web.get("/server_info", self._server_info),
            web.get("/get_server_info", self._server_info),
            web.get("/metrics", self._metrics),
            web.route("*", "/flush_cache", self._flush_cache),
            web.post("/abort_request", self._abort),
            web.post("/generate", self._generate),
            web.put("/generate", self._generate),
        ]

    async def _health(self, _request: web.Request) -> web.Response:
        if self._engine.hung:
            await asyncio.sleep(HEALTH_LIMIT_S)
            return web.Response(status=503)
        return web.Response(status=200 if self.ready else 503)

    async def _ready(self, _request: web.Request) -> web.Response:
        return web.Response(status=200 if self.ready else 503)

    async def _model_info(self, _request: web.Request) -> web.Response:
        return web.json_response(model_info(self._engine.configuration))

    async def _server_info(self, _request: web.Request) -> web.Response:
        await self._alive()
        return web.json_response(server_info(self._engine))

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(text=metrics(self._engine), content_type="text/plain")

    async def _flush_cache(self, _request: web.Request) -> web.Response:
        await self._alive()
        if not self._engine.idle:
            return web.Response(status=400, text="Flush cache failed. There are running or waiting requests.\n")
        self._engine.reset_acceptance()
        return web.Response(
            text="Cache flushed.\nPlease check backend logs for more details. "
            "(When there are running or waiting requests, the operation will not be performed.)\n"
        )

    async def _abort(self, request: web.Request) -> web.Response:
        body = await _body(request)
        self._engine.abort(None if body.get("abort_all") else str(body.get("rid")))
        return web.Response(status=200)

    async def _alive(self) -> None:
        """What is asked of the scheduler gets no answer from one that hangs."""
        if self._engine.hung:
            await asyncio.Event().wait()

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        try:
            body = await _body(request)
            sequence, wish = parse(body, self._engine)
        except BadRequest as problem:
            return web.json_response({"error": {"message": str(problem)}}, status=400)
        if self._engine.planted("error-body") is not None:
            return await self._error_body(request, stream=bool(body.get("stream")))
        self._engine.submit(sequence)
        if body.get("stream"):
            return await self._stream(request, sequence, wish)
        await finished(sequence)
        return web.json_response(answer(sequence, wish, 0))

    async def _stream(self, request: web.Request, sequence: Sequence, wish: Wish) -> web.StreamResponse:
        emission = Emission(self._emissions, sequence)
        response = await open_stream(request)
        faults = self._engine.planted
        steps, early = faults("bundled") or 1, faults("early-close")
        seen, chunk = 0, b""
        try:
            for number in itertools.count(1):
                await news(sequence, steps)
                chunk = b"data: " + json.dumps(answer(sequence, wish, seen)).encode() + b"\n\n"
                seen = len(sequence.ids)
                emission.writes()
                await response.write(chunk)
                if sequence.finished is not None:
                    break
                if number == early:
                    _hang_up(request)
                    self._engine.abort(sequence.id)
                    return response
            if faults("duplicate-final") is not None:
                await response.write(chunk)
            if faults("missing-done") is None:
                await response.write(b"data: [DONE]\n\n")
            await response.write_eof()
            emission.store()
        except ConnectionResetError:
            self._engine.abort(sequence.id)
        return response

    async def _error_body(self, request: web.Request, *, stream: bool) -> web.StreamResponse:
        error = {"message": "Internal server error: out of resource", "type": "internal_error", "code": 500}
        if not stream:
            return web.json_response({"error": error})
        response = await open_stream(request)
        await response.write(b"data: " + json.dumps({"error": error}).encode() + b"\n\ndata: [DONE]\n\n")
        await response.write_eof()
        return response


def parse(body: dict[str, Any], engine: Engine) -> tuple[Sequence, Wish]:
    """The request in a body of `/generate`; BadRequest as SGLang words it."""
    text, ids = body.get("text"), body.get("input_ids")
    if (text is None) == (ids is None):
        raise BadRequest("Either text, input_ids or input_embeds should be provided.")
    if ids is not None and not ids:
        raise BadRequest("input_ids cannot be empty.")
    if ids is not None and not (isinstance(ids, list) and all(isinstance(token, int) for token in ids)):
        raise BadRequest("input_ids should be a list of integers.")
    sampling = body.get("sampling_params") or {}
    most = sampling.get("max_new_tokens", 128)
    if not isinstance(most, int) or most < 0:
        raise BadRequest(f"max_new_tokens must be at least 0, got {most}.")
    sequence = Sequence(
        id=str(body.get("rid") or f"{next(_numbers):032x}"), prompt=ids or encode(str(text)), max_new_tokens=most
    )
    start = body.get("logprob_start_len")
    wish = Wish(
        width=engine.configuration.width,
        incremental=bool(body.get("stream")) and bool(engine.configuration.options["incremental_streaming_output"]),
        logprobs=bool(body.get("return_logprob")),
        top=int(body.get("top_logprobs_num") or 0),
        logprob_start=None if start is None else int(start),
    )
    return sequence, wish


async def finished(sequence: Sequence) -> None:
    """Waits for the end of a request."""
    while sequence.finished is None:
        await news(sequence, 1)


async def news(sequence: Sequence, steps: int) -> None:
    """Waits until so many steps have added ids, or the request has ended."""
    for _ in range(steps):
        if sequence.finished is None:
            await sequence.news.wait()
            sequence.news.clear()


async def open_stream(request: web.Request) -> web.StreamResponse:
    """A response for server-sent events, its head already sent."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    return response


def _hang_up(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


async def _body(request: web.Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except ValueError as problem:
        raise BadRequest(f"the body is not JSON: {problem}") from None
    if not isinstance(body, dict):
        raise BadRequest("the body must be an object")
    return body
