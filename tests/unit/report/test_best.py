"""Where a tree stops being faster: a bracket between measured levels, and never a point in between."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.best import bracket
from repro.model import SpeedLevel


def level(concurrency: int, ratio: float, *, sure: bool = True) -> SpeedLevel:
    decided: Literal["faster", "slower"] = "faster" if ratio > 1 else "slower"
    return SpeedLevel(concurrency=concurrency, ratio=ratio, low=None, high=None, state=decided if sure else "undecided")


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([level(1, 2.0), level(8, 1.2), level(64, 0.9)], ("crosses", 8, 64)),
        ([level(1, 2.0), level(8, 1.01, sure=False), level(64, 0.9)], ("crosses", 1, 64)),
        ([level(1, 2.0), level(8, 0.99, sure=False), level(64, 0.9)], ("crosses", 1, 64)),
        ([level(1, 2.0, sure=False), level(8, 0.9)], ("stops_between", 1, 8)),
        ([level(1, 2.0), level(8, 1.1)], ("always_faster", 8, None)),
        ([level(1, 0.9), level(8, 0.8)], ("never_faster", None, 1)),
        ([level(1, 0.9), level(8, 1.1)], ("mixed", None, None)),
        ([level(1, 1.1), level(8, 0.9), level(16, 1.1)], ("mixed", None, None)),
    ],
)
def test_bracket(levels: list[SpeedLevel], expected: tuple[str, int | None, int | None]) -> None:
    assert bracket(levels) == expected


@given(st.lists(st.tuples(st.floats(0.5, 2.0), st.booleans()), min_size=1, max_size=6))
def test_both_ends_are_levels_that_were_measured(points: list[tuple[float, bool]]) -> None:
    levels = [level(2**i, ratio, sure=sure) for i, (ratio, sure) in enumerate(points)]
    _, last, first = bracket(levels)
    measured = {one.concurrency: one.ratio for one in levels}
    assert last is None or measured[last] > 1
    assert first is None or measured[first] <= 1
    assert last is None or first is None or last < first
