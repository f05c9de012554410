"""How many drafts a verify step accepts: a geometric distribution cut off at the depth of the draft."""

import math
from collections.abc import Mapping
from itertools import pairwise

from simulated.chance import of_context

_SALT = 77_003


def mean_for(budget: int, by_budget: Mapping[int, float]) -> float:
    """Tokens per verify step for a budget; between the given budgets along their logarithm, outside as at the ends."""
    known = sorted(by_budget)
    if not known or budget <= 0:
        return 1.0
    if budget <= known[0]:
        return by_budget[known[0]]
    for low, high in pairwise(known):
        if budget <= high:
            part = math.log(budget / low) / math.log(high / low)
            return by_budget[low] + part * (by_budget[high] - by_budget[low])
    return by_budget[known[-1]]


class Acceptance:
    """Draws the accepted drafts of a step, 0 to `depth`, so that a step gives `mean` tokens on average.

    The draw depends on the context alone. A larger mean accepts at least as much in every single step, so acceptance
    rises with the budget for each request, not only on average.
    """

    def __init__(self, mean: float, depth: int) -> None:
        wanted = min(max(mean - 1.0, 0.0), float(depth))
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            expected = sum(middle**accepted for accepted in range(1, depth + 1))
            low, high = (middle, high) if expected < wanted else (low, middle)
        self._chance = low
        self._depth = depth

    def draw(self, last: tuple[int, int, int, int]) -> int:
        """Accepted drafts after these tokens. P(at least k) is chance**k up to the depth."""
        if self._chance <= 0.0:
            return 0
        share = (of_context(_SALT, last) + 1) / (1 << 64)
        if self._chance >= 1.0:
            return self._depth
        return min(int(math.log(share) / math.log(self._chance)), self._depth)
