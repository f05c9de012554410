"""The numbers of one round of a level: what each is, exactly.

- Rate: ids of all requests over the time from the first request on the wire to the last id.
- Steady rate: ids that came in the window in which all streams are busy, over its length. It begins when as many
  requests as there are streams have had their first id (the ramp-up is over), and ends when so many requests have ended
  that fewer are left than there are streams (the ramp-down begins).
- Time to first token: from the request on the wire to the first chunk with ids.
- Inter-token latency: the time between two chunks with ids, divided by the number of ids that the second one brought,
  and counted once for each of them. A verify step that brings k ids at once is one gap of k tokens.
- Time per step: from first to last id of a request, divided by its verify steps: what a stream sees of a step, with
  what is done between steps, such as prefills of other requests.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from repro.model import RequestRecord, RoundCount


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """One round: its requests, and what the server's counters gained; None if they were not read."""

    concurrency: int
    repeat: int
    requests: tuple[RequestRecord, ...]
    count: RoundCount | None

    @property
    def tokens(self) -> int:
        return sum(len(request.output_ids) for request in self.requests)

    @property
    def lasted_s(self) -> float:
        return max(r.ended_s for r in self.requests) - min(r.begun_s for r in self.requests)

    def rate(self) -> float | None:
        """Ids a second over the whole round; None if the clock did not advance."""
        return self.tokens / self.lasted_s if self.lasted_s > 0 else None

    def steady_rate(self) -> float | None:
        """Ids a second while all streams are busy; None if there is no such time, or nothing was streamed."""
        firsts = sorted(r.first_token_s for r in self.requests if r.first_token_s is not None)
        if len(firsts) < self.concurrency or len(firsts) < len(self.requests):
            return None
        begin_s = firsts[self.concurrency - 1]
        end_s = sorted(r.ended_s for r in self.requests)[len(self.requests) - self.concurrency]
        if end_s <= begin_s:
            return None
        return sum(_ids_within(r, begin_s, end_s) for r in self.requests) / (end_s - begin_s)

    def first_tokens_ms(self) -> list[float]:
        """Time to first token of each request that was streamed."""
        return [1000 * (r.first_token_s - r.begun_s) for r in self.requests if r.first_token_s is not None]

    def gaps_ms(self) -> list[float]:
        """Inter-token latency of each id behind the first chunk."""
        gaps: list[float] = []
        for request in self.requests:
            for (before_s, seen), (at_s, count) in pairwise(request.token_times):
                gaps += [1000 * (at_s - before_s) / (count - seen)] * (count - seen)
        return gaps

    def step_ms(self) -> float | None:
        """Time per verify step; None without speculation."""
        steps = sum(r.verify_calls or 0 for r in self.requests)
        decoding_s = sum(r.token_times[-1][0] - r.token_times[0][0] for r in self.requests if r.token_times)
        return 1000 * decoding_s / steps if steps and decoding_s > 0 else None

    def steps_per_request(self) -> float | None:
        """Verify calls; None without speculation."""
        steps = sum(r.verify_calls or 0 for r in self.requests)
        return steps / len(self.requests) if steps else None


def rounds_of(requests: Sequence[RequestRecord], counts: Sequence[RoundCount], concurrency: int) -> list[Round]:
    """The rounds of a level that count, in order: warm-up rounds are left out."""
    known = {(count.concurrency, count.repeat): count for count in counts}
    repeats = sorted({r.repeat for r in requests if r.concurrency == concurrency and r.repeat > 0})
    return [
        Round(
            concurrency=concurrency,
            repeat=repeat,
            requests=tuple(r for r in requests if r.concurrency == concurrency and r.repeat == repeat),
            count=known.get((concurrency, repeat)),
        )
        for repeat in repeats
    ]


def why_withheld(round_: Round) -> str | None:
    """Why nothing of this round may be shown as a number; None if ids, usage and the server's counters agree."""
    requests, count = round_.requests, round_.count
    counters = (count.generated_tokens, count.finished_requests) if count is not None else (None, None)
    doubts = {
        "requests_failed": any(request.error is not None or not request.output_ids for request in requests),
        "usage_missing": any(request.usage_tokens is None for request in requests),
        "token_counts_disagree": any(request.usage_tokens != len(request.output_ids) for request in requests),
        "clock_did_not_advance": round_.lasted_s <= 0,
        "server_counts_missing": None in counters,
        "server_counts_disagree": counters != (round_.tokens, len(requests)),
    }
    return next((reason for reason, holds in doubts.items() if holds), None)


def middle(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def p99(values: Sequence[float]) -> float | None:
    """The value that 99 % are at or below (nearest rank)."""
    return sorted(values)[math.ceil(0.99 * len(values)) - 1] if values else None


def _ids_within(request: RequestRecord, begin_s: float, end_s: float) -> int:
    """Ids that came after the begin of the window and not after its end."""
    seen = [count for at_s, count in request.token_times if at_s <= end_s]
    before = [count for at_s, count in request.token_times if at_s <= begin_s]
    return (seen[-1] if seen else 0) - (before[-1] if before else 0)
