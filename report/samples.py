"""Two sets of fresh launches: how far apart they are, and how sure that is. Pure.

One value stands for one launch. Rounds within a launch share its server, its placement and its clocks, so they are not
independent and never enter here. Values are compared on a logarithmic scale where all are positive: rates and times
scatter by a percentage, and a ratio is what is asked for. Otherwise they are compared as they are, without a ratio.

scipy.special is imported where it is used, and scipy.stats not at all: it takes most of a second to import.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, exp, isclose, log, sqrt
from statistics import fmean, variance

_ROUNDING = 1e-9
"""Differences below this share of the values are rounding: constant values would else have a tiny random scatter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """Geometric mean here over that there, with its 95 % interval; no interval without repeats on both sides."""

    ratio: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Welch:
    """Difference of two means, its standard error, and the degrees of freedom that Welch and Satterthwaite give it."""

    difference: float
    error: float
    freedom: float


def effect(ours: Sequence[float], theirs: Sequence[float]) -> Effect | None:
    """The ratio of two sets of launches; None where a value is not positive, or a side is empty."""
    if not ours or not theirs or min(*ours, *theirs) <= 0:
        return None
    if min(len(ours), len(theirs)) < 2:
        return Effect(ratio=exp(_mean_log(ours) - _mean_log(theirs)), low=None, high=None)
    welch = _welch(ours, theirs)
    half = _quantile(welch.freedom, 0.975) * welch.error
    return Effect(ratio=exp(welch.difference), low=exp(welch.difference - half), high=exp(welch.difference + half))


def difference_p(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Two-sided p of Welch's test, on logarithms where all values are positive. Two values a side at least.

    Source: B. L. Welch, 1947. Sides whose values do not scatter at all differ for certain or not at all.
    """
    welch = _welch(ours, theirs)
    if welch.error == 0:
        return 1.0 if welch.difference == 0 else 0.0
    return min(1.0, 2 * _below(welch.freedom, -abs(welch.difference) / welch.error))


def equivalence_p(ours: Sequence[float], theirs: Sequence[float], margin: float) -> float | None:
    """The larger p of two one-sided Welch tests, that the ratio lies above 1 / (1 + margin) and below 1 + margin.

    Source: D. J. Schuirmann, 1987. None where a value is not positive: a margin is a share.
    """
    if min(*ours, *theirs) <= 0:
        return None
    welch, bound = _welch(ours, theirs), log(1 + margin)
    if welch.error == 0:
        return 0.0 if abs(welch.difference) < bound else 1.0
    return max(_below(welch.freedom, (sign * welch.difference - bound) / welch.error) for sign in (1, -1))


def rank_p(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Two-sided p of the Wilcoxon rank-sum test, exact also with ties: the share of all splits of the ranks whose sum
    is at least as far from its mean. It assumes nothing about how launches scatter, but that sides are interchangeable.

    Source: F. Wilcoxon, 1945, with the conditional distribution of mid-ranks.
    """
    ranks = _doubled_ranks([*ours, *theirs])
    taken, total = len(ours), sum(ranks)
    ways: list[dict[int, int]] = [{0: 1}, *({} for _ in range(taken))]
    for rank in ranks:
        for size in range(taken, 0, -1):
            for below, count in ways[size - 1].items():
                ways[size][below + rank] = ways[size].get(below + rank, 0) + count
    # Sums are compared with their mean, taken * total / len(ranks), in whole numbers.
    away = abs(sum(ranks[:taken]) * len(ranks) - taken * total)
    far = sum(count for s, count in ways[taken].items() if abs(s * len(ranks) - taken * total) >= away)
    return far / comb(len(ranks), taken)


def fisher_p(ours: tuple[int, int], theirs: tuple[int, int]) -> float:
    """Two-sided p of Fisher's exact test on k of n on either side. Source: R. A. Fisher, 1934."""
    (k, n), (other_k, other_n) = ours, theirs
    failed = k + other_k
    weights = [comb(n, i) * comb(other_n, failed - i) for i in range(max(0, failed - other_n), min(failed, n) + 1)]
    seen = comb(n, k) * comb(other_n, other_k)
    return sum(weight for weight in weights if weight <= seen) / comb(n + other_n, failed)


def smallest_fisher_p(ours: tuple[int, int], theirs: tuple[int, int]) -> float:
    """The smallest p that any split of the same number of failures would have."""
    (k, n), (other_k, other_n) = ours, theirs
    failed = k + other_k
    most, fewest = min(failed, n), max(0, failed - other_n)
    return min(fisher_p((i, n), (failed - i, other_n)) for i in (most, fewest))


def holm(values: Sequence[float]) -> tuple[float, ...]:
    """Each p corrected for the number of them, so that one error among all is as rare as the level says.

    Source: S. Holm, 1979.
    """
    corrected = [0.0] * len(values)
    largest = 0.0
    for done, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, values[index] * (len(values) - done)))
        corrected[index] = largest
    return tuple(corrected)


def _mean_log(values: Sequence[float]) -> float:
    return fmean(log(value) for value in values)


def _welch(ours: Sequence[float], theirs: Sequence[float]) -> _Welch:
    positive = min(*ours, *theirs) > 0
    here, there = ([log(value) for value in side] if positive else list(side) for side in (ours, theirs))
    size = 1.0 if positive else max(abs(value) for value in (*here, *there)) or 1.0
    difference = fmean(here) - fmean(there)
    parts = [variance(side) / len(side) for side in (here, there)]
    error = sqrt(sum(parts))
    if isclose(difference, 0, abs_tol=_ROUNDING * size):
        difference = 0.0
    if error < _ROUNDING * size:
        return _Welch(difference=difference, error=0.0, freedom=float(len(here) + len(there) - 2))
    share = [part / sum(parts) for part in parts]  # of the variance: squares of tiny variances would underflow
    freedom = 1 / sum(s * s / (len(side) - 1) for s, side in zip(share, (here, there), strict=True))
    return _Welch(difference=difference, error=error, freedom=freedom)


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice the mid-rank of each value, which is a whole number also for ties."""
    ordered = sorted(values)
    first: dict[float, int] = {}
    count: dict[float, int] = {}
    for place, value in enumerate(ordered, start=1):
        first.setdefault(value, place)
        count[value] = count.get(value, 0) + 1
    return [2 * first[value] + count[value] - 1 for value in values]


def _below(freedom: float, t: float) -> float:
    from scipy import special

    return float(special.stdtr(freedom, t))


def _quantile(freedom: float, share: float) -> float:
    from scipy import special

    return float(special.stdtrit(freedom, share))
