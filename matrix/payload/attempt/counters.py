"""The server's own counters, as its `/metrics` shows them in Prometheus' text form."""

import asyncio
import re
from dataclasses import dataclass

from attempt.client import Client

PAUSE_S = 0.05
LAG_S = 2.0
"""How long the counters may stay behind the replies."""
READ_S = 10.0
_TOKENS, _REQUESTS = "sglang:generation_tokens_total", "sglang:num_requests_total"
_SAMPLE = r"^{}(?:\{{[^\n]*\}})? (\S+)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Counters:
    """Tokens generated and requests ended since the server started, over all labels; None without such a counter."""

    tokens: int | None
    requests: int | None

    def since(self, before: "Counters") -> "Counters":
        """What was gained. A counter that appeared in between began at zero."""
        return Counters(tokens=_gained(before.tokens, self.tokens), requests=_gained(before.requests, self.requests))

    def fields(self, concurrency: int, repeat: int) -> dict[str, int | None]:
        """As stored: the host's `RoundCount`."""
        return {
            "concurrency": concurrency,
            "repeat": repeat,
            "generated_tokens": self.tokens,
            "finished_requests": self.requests,
        }

    def reaches(self, tokens: int, requests: int) -> bool:
        """Whether there is no counter that is behind these numbers."""
        return (self.tokens is None or self.tokens >= tokens) and (self.requests is None or self.requests >= requests)


async def read(client: Client) -> Counters:
    """The counters now."""
    answer = await client.get("/metrics", READ_S)
    if answer is None or answer[0] != 200:
        return Counters(tokens=None, requests=None)
    return parse(answer[1].decode(errors="replace"))


async def gained(client: Client, before: Counters, *, tokens: int, requests: int) -> Counters:
    """What was gained since `before`, read as soon as the counters have caught up with the replies, or at `LAG_S`."""
    waited_s = 0.0
    while True:
        more = (await read(client)).since(before)
        if more.reaches(tokens, requests) or waited_s >= LAG_S:
            return more
        await asyncio.sleep(PAUSE_S)
        waited_s += PAUSE_S


def parse(text: str) -> Counters:
    """The sums over all labels of both counters."""
    return Counters(tokens=_sum(_TOKENS, text), requests=_sum(_REQUESTS, text))


def _sum(name: str, text: str) -> int | None:
    """None when there is no sample, or one that is no count."""
    try:
        values = [float(value) for value in re.findall(_SAMPLE.format(re.escape(name)), text, re.MULTILINE)]
        return int(sum(values)) if values else None
    except (ValueError, OverflowError):
        return None


def _gained(before: int | None, after: int | None) -> int | None:
    if after is None:
        return None
    return max(after - (before or 0), 0)
