"""Shares and rates in words, without false precision."""

from repro.intervals import upper_bound, wilson


def percent(share: float) -> str:
    """`23 %`, `2.6 %`, `< 0.1 %`; 100 % only for all of them."""
    value = 100 * share
    if value in {0.0, 100.0} or 9.95 <= value <= 99:
        return f"{value:.0f} %"
    if value > 99:
        return f"{min(value, 99.9):.1f} %"
    return f"{value:.1f} %" if value >= 0.1 else "< 0.1 %"


def launches(n: int) -> str:
    """`1 launch`, `3 launches`."""
    return f"{n} launch" if n == 1 else f"{n} launches"


def rate(k: int, n: int) -> str:
    """`2 of 3 launches (95 % interval 21 % to 94 %)`; one launch has no interval worth telling."""
    if n == 0:
        return "no launch that decided"
    if n == 1:
        return "the only launch" if k else "0 of 1 launch"
    low, high = wilson(k, n) or (0.0, 1.0)
    return f"{k} of {launches(n)} (95 % interval {percent(low)} to {percent(high)})"


def failed(k: int, n: int) -> str:
    """`0 of 5 launches failed: below 45 % at 95 % confidence`, or how many did, with the interval."""
    if n == 1 and not k:
        return "0 of 1 launch failed, which says next to nothing"
    if n and not k:
        return f"0 of {launches(n)} failed: {below(n)}"
    return f"{rate(k, n)} failed"


def below(n: int) -> str:
    """What no failure in n launches says: `below 26 % at 95 % confidence`. The exact one-sided bound."""
    return f"below {percent(upper_bound(0, n))} at 95 % confidence"
