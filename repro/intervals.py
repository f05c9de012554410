"""Intervals for k failures of n launches.

scipy.stats is imported where it is used: it takes most of a second, which no run should pay at its end.
"""

from math import sqrt
from statistics import NormalDist


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


def upper_bound(k: int, n: int, *, confidence: float = 0.95) -> float:
    """One-sided exact (Clopper-Pearson) upper bound of a proportion; 1.0 when n is 0.

    With no failure in n launches it is 1 - (1 - confidence) ** (1 / n), about 3 / n at 95 %.
    """
    if n == 0 or k >= n:
        return 1.0
    from scipy import stats

    return float(stats.binomtest(k, n, alternative="less").proportion_ci(confidence, method="exact").high)
