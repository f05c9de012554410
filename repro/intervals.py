"""Intervals for k failures of n launches.

scipy.stats is imported where it is used: it takes most of a second, which commands without intervals should not pay.
"""


def wilson(k: int, n: int, *, confidence: float = 0.95) -> tuple[float, float] | None:
    """Wilson score interval of a proportion; None when n is 0.

    Source: E. B. Wilson, 1927, as computed by scipy.stats.binomtest.
    """
    if n == 0:
        return None
    from scipy import stats

    interval = stats.binomtest(k, n).proportion_ci(confidence_level=confidence, method="wilson")
    return float(interval.low), float(interval.high)


def upper_bound(k: int, n: int, *, confidence: float = 0.95) -> float:
    """One-sided exact (Clopper-Pearson) upper bound of a proportion; 1.0 when n is 0.

    With no failure in n launches it is 1 - (1 - confidence) ** (1 / n), about 3 / n at 95 %.
    """
    if n == 0 or k >= n:
        return 1.0
    from scipy import stats

    return float(stats.binomtest(k, n, alternative="less").proportion_ci(confidence, method="exact").high)
