"""Intervals for k failures of n launches.

scipy.stats is imported where it is used: it takes most of a second, which no run should pay at its end.
"""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist, fmean, stdev


def wilson(k: int, n: int, *, confidence: float = 0.95) -> tuple[float, float] | None:
    """Wilson score interval of a proportion; None when n is 0.

    Source: E. B. Wilson, 1927; scipy.stats.binomtest gives the same, which a test compares.
    """
    if n == 0:
        return None
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, weight = k / n, z * z / n
    middle = share + weight / 2
    half = z * sqrt(share * (1 - share) / n + weight / (4 * n))
    low = 0.0 if k == 0 else (middle - half) / (1 + weight)
    high = 1.0 if k == n else (middle + half) / (1 + weight)
    return low, high


_T_975 = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip
"""Student's t for two-sided 95 %, with 1 to 30 degrees of freedom; a test compares it with scipy's."""


def mean_interval(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """(mean, low, high) with the 95 % t-interval of the mean; no interval for a single value.

    Beyond 30 degrees of freedom that of 30 is used, which is at most 4.2 % too wide.
    """
    mean = fmean(values)
    if len(values) < 2:
        return mean, None, None
    half = _T_975[min(len(values) - 1, len(_T_975)) - 1] * stdev(values) / sqrt(len(values))
    return mean, mean - half, mean + half


def upper_bound(k: int, n: int, *, confidence: float = 0.95) -> float:
    """One-sided exact (Clopper-Pearson) upper bound of a proportion; 1.0 when n is 0.

    With no failure in n launches it is 1 - (1 - confidence) ** (1 / n), about 3 / n at 95 %.
    """
    if n == 0 or k >= n:
        return 1.0
    if k == 0:
        return float(1 - (1 - confidence) ** (1 / n))
    from scipy import stats

    return float(stats.binomtest(k, n, alternative="less").proportion_ci(confidence, method="exact").high)
