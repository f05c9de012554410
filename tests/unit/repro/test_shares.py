"""Rates in words: never more than the launches say."""

import pytest

from repro.shares import below, failed, launches, percent, rate


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.0, "0 %"), (0.0004, "< 0.1 %"), (0.026, "2.6 %"), (0.23, "23 %"), (0.9999, "99.9 %"), (1.0, "100 %")],
)
def test_percent(share: float, said: str) -> None:
    assert percent(share) == said


@pytest.mark.parametrize(
    ("k", "n", "said"),
    [
        (0, 0, "no launch that decided failed"),
        (0, 1, "0 of 1 launch failed, which says next to nothing"),
        (1, 1, "the only launch failed"),
        (0, 5, "0 of 5 launches failed: below 45 % at 95 % confidence"),
        (2, 3, "2 of 3 launches (95 % interval 21 % to 94 %) failed"),
    ],
)
def test_failed(k: int, n: int, said: str) -> None:
    assert failed(k, n) == said


def test_the_parts() -> None:
    assert (launches(1), launches(2)) == ("1 launch", "2 launches")
    assert rate(0, 3) == "0 of 3 launches (95 % interval 0 % to 56 %)"
    assert below(59) == "below 5.0 % at 95 % confidence"
