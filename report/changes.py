"""When a difference may be called one: exact tests over fresh launches, and words for why there is no verdict.

Each test is at 1 % for itself. Two sides with too few launches for any outcome to reach that are `undecided`, and so is
a difference that may be chance: no difference shown is not the same as none.
"""

from collections.abc import Iterable, Sequence
from math import comb
from typing import Literal, TypeAlias

Change: TypeAlias = Literal["regression", "improvement", "equivalent", "undecided"]

ALPHA = 0.01


def change_of_numbers(ours: Sequence[float], theirs: Sequence[float], better: int) -> tuple[Change, str]:
    """A verdict on two sets of launches and why; ``better`` is 1 if more is better, -1 if less is.

    Exact two-sided Mann-Whitney test.
    """
    few = too_few(len(ours), len(theirs))
    if few is not None:
        return "undecided", few
    from scipy import stats

    tied = len({*ours, *theirs}) < len(ours) + len(theirs)
    test = stats.mannwhitneyu(ours, theirs, alternative="two-sided", method="asymptotic" if tied else "exact")
    p = float(test.pvalue)
    if p >= ALPHA:
        return (
            "undecided",
            f"the difference may be chance (Mann-Whitney p = {p:.2g})",
        )
    more = float(test.statistic) > len(ours) * len(theirs) / 2
    change: Change = "improvement" if more == (better > 0) else "regression"
    return change, f"Mann-Whitney p = {p:.2g} over {len(ours)} and {len(theirs)} launches"


def change_of_failures(ours: tuple[int, int], theirs: tuple[int, int]) -> tuple[Change, str]:
    """A verdict on k failures of n launches on each side and why. Fisher's exact test, two-sided."""
    import numpy as np
    from scipy import stats

    (k, n), (other_k, other_n) = ours, theirs
    p = float(stats.fisher_exact(np.array([[k, n - k], [other_k, other_n - other_k]])).pvalue)
    told = f"{k} of {n} launches failed here and {other_k} of {other_n} there (Fisher p = {p:.2g})"
    if p >= ALPHA:
        return "undecided", f"{told}: too few launches to tell"
    return ("regression" if k / n > other_k / other_n else "improvement"), told


def overall(changes: Iterable[Change | None]) -> Change:
    """What a comparison says when its numbers say this: the worst that was decided, else `undecided`."""
    found = set(changes)
    order: tuple[Change, ...] = ("regression", "improvement", "equivalent")
    return next((change for change in order if change in found), "undecided")


def too_few(ours: int, theirs: int) -> str | None:
    """Why no outcome of this many launches could decide; None if some could."""
    if min(ours, theirs) < 2:
        return f"n is too small: {launches(ours)} here and {_there(theirs)} there; both sides need repeats"
    if 2 / comb(ours + theirs, ours) >= ALPHA:
        return f"n is too small: no outcome of {ours} and {theirs} launches reaches {ALPHA:.0%} (five on each side can)"
    return None


def launches(count: int) -> str:
    return "1 launch" if count == 1 else f"{count} launches"


def _there(count: int) -> str:
    return "a single number" if count == 1 else launches(count)
