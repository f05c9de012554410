"""How many clean launches it takes before a failure of a known rate may be called gone.

The rate that counts is the lower end of what was seen: the exact one-sided 95 % bound (Clopper-Pearson). With it n
launches are enough when a failure of that rate would have shown in them with 95 % probability. At the point estimate
one sighting in one launch would ask for one launch, and a failure of 20 % would be called gone most of the time.
"""

from dataclasses import dataclass
from functools import cache
from math import ceil, log

from repro.intervals import upper_bound

CONFIDENCE = 0.95
LEAST = 3
"""A failure that was always there may have become rarer: one clean launch is never enough."""
MOST = 60
"""A rate of 5 % is about the rarest that is asked about without being told how long it may take."""


@dataclass(frozen=True, slots=True)
class Launches:
    """``count`` to make, ``before``: clean ones made on the same engine, ``needed`` for 95 % power at the old rate."""

    count: int
    before: int
    needed: int


@cache
def lower_bound(k: int, n: int) -> float:
    """The exact one-sided 95 % lower bound of the rate of a failure that showed in k of n launches; 0 if k is 0."""
    return 1 - upper_bound(n - k, n, confidence=CONFIDENCE) if k else 0.0


def needed(k: int, n: int) -> int:
    """Launches in which a failure as rare as `lower_bound` would show with 95 % probability, at least `LEAST`."""
    rate = lower_bound(k, n)
    if rate <= 0:
        raise ValueError("a failure that was never seen cannot be looked for")
    if rate >= 1:
        return LEAST
    return max(LEAST, ceil(log(1 - CONFIDENCE) / log(1 - rate)))


def power(k: int, n: int, launches: int) -> float:
    """The probability that ``launches`` show a failure that is as rare as `lower_bound` of k of n."""
    return float(1 - (1 - lower_bound(k, n)) ** launches)


def choose(k: int, n: int, *, before: int = 0, asked: int | None = None) -> Launches:
    """How many launches to make: what is needed less the clean ones made ``before`` on the same engine, at most `MOST`;
    or as many as were ``asked`` for."""
    wanted = needed(k, n)
    count = asked if asked is not None else min(max(wanted - before, LEAST), MOST)
    return Launches(count=count, before=before, needed=wanted)
