"""`load`: known prompts while requests join, leave and are given up, at batch sizes that no graph was captured for.

Streams join while those before them are generating, twice as many each time; requests ask for different numbers of
tokens; some are given up by the client in mid-way; the last request of each stream is longer than that of the stream
before, so that the batch shrinks one by one.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

from attempt import counters
from attempt.checks import CheckRun, Situation
from attempt.client import Request
from attempt.step import Prompt
from attempt.throughput import round_size

JOIN_AFTER = 2
"""Tokens of a stream's first request before the streams behind it join: its prefill is over then."""
_PARTS = (1.0, 0.5, 0.75, 0.25)
"""Of the most tokens, what requests ask for in turn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Job:
    """A request to be sent: `tokens` are asked for; after `give_up_at` of them the client goes away, None: never."""

    prompt: Prompt
    tokens: int
    give_up_at: int | None


@dataclass(kw_only=True, slots=True)
class _Level:
    """A level under way: what is still to be sent, which streams have joined, and what has ended."""

    queue: Iterator[_Job]
    joined: list[asyncio.Event]
    done: list[Request] = field(default_factory=list)


class LoadRun(CheckRun):
    def __init__(self, situation: Situation) -> None:
        super().__init__(situation)
        self._counts: list[dict[str, Any]] = []

    async def send(self) -> None:
        for concurrency in self._check.concurrency:
            await self._level(concurrency)
            if self._server.exited.done():
                return

    def fields(self, begun_s: float, because: str | None) -> dict[str, Any]:
        return super().fields(begun_s, because) | {"counts": self._counts}

    async def _level(self, concurrency: int) -> None:
        await self.flush(f"concurrency {concurrency}")
        before = await counters.read(self._client)
        jobs = plan(self._prompts, concurrency, most=self._check.max_new_tokens, cancel_every=self._check.cancel_every)
        level = _Level(queue=iter(jobs), joined=[asyncio.Event() for _ in range(concurrency)])
        await asyncio.gather(*(self._stream(number, level) for number in range(concurrency)))
        kept = [request for request in level.done if not request.cancelled]
        tokens = sum(len(request.output_ids) for request in kept)
        more = await counters.gained(self._client, before, tokens=tokens, requests=len(kept))
        self._counts.append(more.fields(concurrency, 1))

    async def _stream(self, number: int, level: _Level) -> None:
        if number:
            await level.joined[number // 2].wait()
        try:
            for job in level.queue:
                if self._server.exited.done():
                    return
                await self._ask(job, level, level.joined[number])
        finally:
            level.joined[number].set()  # nobody may wait for a stream that found nothing to do, or failed

    async def _ask(self, job: _Job, level: _Level, joined: asyncio.Event) -> None:
        def progress(count: int) -> bool:
            if count >= JOIN_AFTER:
                joined.set()
            return job.give_up_at is not None and count >= job.give_up_at

        request = self.begin(job.prompt, len(level.joined))
        lasted = await self._client.generate(request, job.prompt, job.tokens, margins=False, progress=progress)
        joined.set()
        await self.end(request, lasted=lasted)
        level.done.append(request)


def plan(prompts: tuple[Prompt, ...], concurrency: int, *, most: int, cancel_every: int | None) -> list[_Job]:
    """What a level sends, in order. `most`: the most tokens that a request asks for."""
    count = max(round_size(len(prompts), concurrency), 2 * concurrency)
    jobs: list[_Job] = []
    for number, prompt in enumerate(islice(cycle(prompts), count)):
        from_the_end = count - 1 - number
        last = from_the_end < concurrency
        part = (concurrency - from_the_end) / concurrency if last else _PARTS[number % len(_PARTS)]
        tokens = max(round(most * part), 2)
        given_up = not last and cancel_every is not None and number % cancel_every == cancel_every - 1
        jobs.append(_Job(prompt=prompt, tokens=tokens, give_up_at=max(tokens // 2, 1) if given_up else None))
    return jobs
