"""`lossless`: each prompt alone, as a user would send it, and for the reference again with log-probabilities."""

import asyncio
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

from attempt.checks import CONTROL_S, CheckRun, Situation
from attempt.server_info import accept_length
from attempt.step import Prompt


class LosslessRun(CheckRun):
    """Also any other check that has no client of its own: prompts in turn, so many at a time."""

    def __init__(self, situation: Situation) -> None:
        super().__init__(situation)
        self._accept_length: float | None = None

    async def send(self) -> None:
        for level in self._check.concurrency:
            await self._level(level, margins=False)
        # Before the pass for the margins, which is not streamed and whose requests nothing is measured by.
        self._accept_length = await accept_length(self._client, CONTROL_S)
        if self._check.margins:
            await self._level(1, margins=True)

    def fields(self, begun_s: float, because: str | None) -> dict[str, Any]:
        return super().fields(begun_s, because) | {"server_accept_length": self._accept_length}

    async def _level(self, concurrency: int, *, margins: bool) -> None:
        await self.flush(f"concurrency {concurrency}")
        count = len(self._prompts) if concurrency == 1 else max(len(self._prompts), 2 * concurrency)
        queue = islice(cycle(self._prompts), count)
        await asyncio.gather(*(self._worker(queue, concurrency, margins=margins) for _ in range(concurrency)))

    async def _worker(self, queue: Iterator[Prompt], concurrency: int, *, margins: bool) -> None:
        for prompt in queue:
            if self._server.exited.done():
                return
            request = self.begin(prompt, concurrency)
            lasted = await self._client.generate(request, prompt, self._check.max_new_tokens, margins=margins)
            await self.end(request, lasted=lasted)
