"""The OpenAI-compatible endpoints, as far as ordinary clients use them."""

import itertools
import json
import time
from collections.abc import Callable
from typing import Any

from aiohttp import web

from simulated.coding import scripted, spelled
from simulated.engine import Engine, Sequence
from simulated.language import decode, encode
from simulated.native import finished, news, open_stream

_numbers = itertools.count(1)
Body = dict[str, Any]


class OpenAi:
    """`/v1/models`, `/v1/completions` and `/v1/chat/completions`, streamed and whole."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def routes(self) -> list[web.RouteDef]:
        """All routes of this class."""
        return [
            web.get("/v1/models", self._models),
            web.post("/v1/completions", self._completions),
            web.post("/v1/chat/completions", self._chat),
        ]

    async def _models(self, _request: web.Request) -> web.Response:
        name = self._engine.configuration.options["served_model_name"]
        card = {"id": name, "object": "model", "created": 0, "owned_by": "sglang", "root": name, "max_model_len": 32768}
        return web.json_response({"object": "list", "data": [card]})

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        prompt = body.get("prompt")
        ids = prompt if isinstance(prompt, list) and all(isinstance(token, int) for token in prompt) else None
        return await self._serve(request, body, ids or encode(str(prompt)), "text_completion", _completion_choice)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        text = "\n".join(f"{message.get('role')}: {message.get('content')}" for message in body.get("messages", []))
        asked = [str(m.get("content")) for m in body.get("messages", []) if m.get("role") == "user"]
        wrong = self._engine.planted("wrong-code") is not None
        pieces = scripted(asked[-1], wrong=wrong) if asked else ()
        return await self._serve(request, body, encode(text), "chat.completion", _chat_choice, pieces=pieces)

    async def _serve(
        self,
        request: web.Request,
        body: Body,
        prompt: list[int],
        kind: str,
        choice: Callable[..., Body],
        *,
        pieces: tuple[str, ...] = (),
    ) -> web.StreamResponse:
        most = body.get("max_completion_tokens") or body.get("max_tokens") or 16
        most = min(int(most), len(pieces)) if pieces else int(most)
        sequence = Sequence(id=f"{next(_numbers):032x}", prompt=prompt, max_new_tokens=most)
        frame = {"id": sequence.id, "created": int(time.time()), "model": body.get("model") or "simulated"}
        self._engine.submit(sequence)
        if not body.get("stream"):
            await finished(sequence)
            whole = choice(_text(sequence, pieces, 0), _reason(sequence, pieces), streamed=False)
            return web.json_response({**frame, "object": kind, "choices": [whole], "usage": _usage(sequence)})
        return await self._stream(
            request, sequence, {**frame, "object": f"{kind}.chunk" if "chat" in kind else kind}, choice, pieces=pieces
        )

    async def _stream(
        self,
        request: web.Request,
        sequence: Sequence,
        frame: Body,
        choice: Callable[..., Body],
        *,
        pieces: tuple[str, ...],
    ) -> web.StreamResponse:
        response, seen = await open_stream(request), 0
        try:
            while True:
                await news(sequence, 1)
                text, seen = _text(sequence, pieces, seen), len(sequence.ids)
                chunk = {**frame, "choices": [choice(text, _reason(sequence, pieces), streamed=True)]}
                if sequence.finished is not None:
                    chunk["usage"] = _usage(sequence)
                await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
                if sequence.finished is not None:
                    break
            await response.write(b"data: [DONE]\n\n")
            await response.write_eof()
        except ConnectionResetError:
            self._engine.abort(sequence.id)
        return response


def _text(sequence: Sequence, pieces: tuple[str, ...], begin: int) -> str:
    return spelled(sequence, pieces, begin) if pieces else decode(sequence.ids[begin:])


def _reason(sequence: Sequence, pieces: tuple[str, ...]) -> str | None:
    """A scripted answer that was said to its end has stopped by itself."""
    return (
        "stop" if pieces and sequence.finished == "length" and len(sequence.ids) == len(pieces) else sequence.finished
    )


def _usage(sequence: Sequence) -> Body:
    prompt, completion = len(sequence.prompt), len(sequence.ids)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _completion_choice(text: str, reason: str | None, *, streamed: bool) -> Body:
    del streamed
    return {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}


def _chat_choice(text: str, reason: str | None, *, streamed: bool) -> Body:
    message = {"role": "assistant", "content": text}
    return {"index": 0, "delta" if streamed else "message": message, "logprobs": None, "finish_reason": reason}
