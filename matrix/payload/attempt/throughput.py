"""`throughput`: each concurrency in rounds, until the rate is known well enough or the time is up.

A round sends the same requests as every other round of its level, with an empty prefix cache. Before the first one a
warm-up round, which is stored as round 0 and measures nothing, sends one request for each stream.
"""

import asyncio
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from statistics import fmean, stdev
from typing import Any

from attempt import counters, peer
from attempt.checks import CheckRun, End, Situation
from attempt.client import Request
from attempt.evidence import Evidence
from attempt.step import Prompt, Repeats

ONCE = Repeats(warm_up=0, at_least=1, at_most=1, relative=1.0)
OWN_SHARE_BESIDE_A_PEER = 0.5
_SPARE = 0.95
_T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Student's t, two-sided 95 %, for 1 to 10 degrees of freedom; what lies beyond is rounded up to the last."""


class ThroughputRun(CheckRun):
    def __init__(self, situation: Situation) -> None:
        super().__init__(situation)
        self._repeats = self._check.repeats or ONCE
        self._counts: list[dict[str, Any]] = []
        self._unflushed: set[int] = set()
        self._evidence: Evidence | None = None

    async def send(self) -> None:
        own = OWN_SHARE_BESIDE_A_PEER if self._check.peer else 1.0
        begun_s = self._timeline.now_s()
        end_s = begun_s + self._check.limit_s * _SPARE * own
        levels = self._check.concurrency
        for place, level in enumerate(levels):
            now_s = self._timeline.now_s()
            await self._level(level, now_s + (end_s - now_s) / (len(levels) - place))
            if self._server.exited.done():
                return
        if self._check.peer and self._evidence is not None:
            await self._run_peer(self._evidence, begun_s + self._check.limit_s * _SPARE)

    def fields(self, begun_s: float, because: str | None) -> dict[str, Any]:
        return super().fields(begun_s, because) | {"counts": self._counts}

    async def run(self, evidence: Evidence) -> End:
        self._evidence = evidence
        return await super().run(evidence)

    async def _run_peer(self, evidence: Evidence, end_s: float) -> None:
        """The other load generator, level by level, until one gives no figures. Its failure is not the check's."""
        levels = self._check.concurrency
        for place, level in enumerate(levels):
            limit_s = (end_s - self._timeline.now_s()) / (len(levels) - place)
            requests = round_size(len(self._prompts), level)
            words = peer.arguments(self._step, self._check, level, requests, peer.folder(evidence))
            problem = await peer.measure(self._step, words, peer.folder(evidence) / f"{level}.txt", limit_s)
            if problem:
                self._remarks.append(problem)
                return

    async def _level(self, concurrency: int, until_s: float) -> None:
        """One concurrency; `until_s`: when its share of the time is over."""
        for _ in range(self._repeats.warm_up):
            await self._round(concurrency, 0)
        rates: list[float] = []
        longest_s = 0.0
        while len(rates) < self._repeats.at_most and not self._server.exited.done():
            begun_s = self._timeline.now_s()
            if rates and begun_s + longest_s > until_s:
                self._remarks.append(f"the limit left no time for more rounds at concurrency {concurrency}")
                return
            rates.append(await self._round(concurrency, len(rates) + 1))
            longest_s = max(longest_s, self._timeline.now_s() - begun_s)
            if len(rates) >= self._repeats.at_least and settled(rates, self._repeats.relative):
                return

    async def _round(self, concurrency: int, repeat: int) -> float:
        """Tokens a second over the round."""
        if not await self._client.flush_cache(30.0) and concurrency not in self._unflushed:
            self._unflushed.add(concurrency)
            self._remarks.append(f"the prefix cache could not be flushed before concurrency {concurrency}")
        before = await counters.read(self._client)
        count = concurrency if repeat == 0 else round_size(len(self._prompts), concurrency)
        queue, done = islice(cycle(self._prompts), count), list[Request]()
        with _without_pauses():
            await asyncio.gather(*(self._stream(queue, concurrency, repeat, done) for _ in range(concurrency)))
        tokens = sum(len(request.output_ids) for request in done)
        more = await counters.gained(self._client, before, tokens=tokens, requests=len(done))
        self._counts.append(more.fields(concurrency, repeat))
        lasted_s = max((r.ended_s for r in done), default=0.0) - min((r.begun_s for r in done), default=0.0)
        return tokens / lasted_s if lasted_s > 0 else 0.0

    async def _stream(self, queue: Iterator[Prompt], concurrency: int, repeat: int, done: list[Request]) -> None:
        for prompt in queue:
            if self._server.exited.done():
                return
            request = self.begin(prompt, concurrency, repeat=repeat)
            lasted = await self._client.generate(request, prompt, self._check.max_new_tokens, margins=False)
            await self.end(request, lasted=lasted)
            done.append(request)


@contextmanager
def _without_pauses() -> Iterator[None]:
    """Python's search for cycles waits: it would stop all clocks of a round for milliseconds."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def round_size(prompts: int, concurrency: int) -> int:
    """Requests of a round: alone each prompt once, together at least two for each stream, going round the prompts."""
    return prompts if concurrency == 1 else max(prompts, 2 * concurrency)


def settled(rates: Sequence[float], relative: float) -> bool:
    """Whether the 95 % t-interval of the mean reaches no further than this share of it on either side."""
    if len(rates) < 2:
        return False
    t = _T_975[min(len(rates) - 1, len(_T_975)) - 1]
    return bool(t * stdev(rates) / len(rates) ** 0.5 <= relative * fmean(rates))
