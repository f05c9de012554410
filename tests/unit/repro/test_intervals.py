"""Intervals against published values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from repro.intervals import mean_interval, upper_bound, wilson

launches = st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [
        # R. G. Newcombe, Statistics in Medicine 17 (1998) 857-872, table I, method 3 (score)
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_is_as_published(k: int, n: int, low: float, high: float) -> None:
    found = wilson(k, n)
    assert found is not None
    assert found == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


@given(launches)
def test_wilson_is_that_of_scipy(case: tuple[int, int]) -> None:
    k, n = case
    interval = stats.binomtest(k, n).proportion_ci(confidence_level=0.95, method="wilson")
    assert wilson(k, n) == (pytest.approx(interval.low, abs=1e-12), pytest.approx(interval.high, abs=1e-12))


@given(launches)
def test_wilson_holds_the_share_and_mirrors(case: tuple[int, int]) -> None:
    k, n = case
    low, high = wilson(k, n) or (None, None)
    assert low is not None
    assert high is not None
    assert -1e-12 <= low <= k / n + 1e-12
    assert k / n - 1e-12 <= high <= 1 + 1e-12
    mirrored = wilson(n - k, n)
    assert mirrored is not None
    assert mirrored == (pytest.approx(1 - high), pytest.approx(1 - low))


def test_nothing_is_known_of_no_launches() -> None:
    assert wilson(0, 0) is None
    assert upper_bound(0, 0) == 1.0


@pytest.mark.parametrize(("n", "bound"), [(1, 0.95), (3, 0.6316), (10, 0.2589), (59, 0.0495)])
def test_no_failure_in_n_launches_bounds_the_share_by_about_three_over_n(n: int, bound: float) -> None:
    assert upper_bound(0, n) == pytest.approx(bound, abs=5e-5)
    assert upper_bound(0, n) == pytest.approx(1 - 0.05 ** (1 / n))


@given(launches)
def test_the_bound_lies_above_the_share_and_falls_with_more_launches(case: tuple[int, int]) -> None:
    k, n = case
    assert k / n <= upper_bound(k, n) <= 1.0
    assert upper_bound(k, n + 1) <= upper_bound(k, n) + 1e-9


@pytest.mark.parametrize("n", [*range(2, 32), 60])
def test_the_interval_of_a_mean_is_students(n: int) -> None:
    values = [float(k * k % 7) for k in range(n)]
    mean, low, high = mean_interval(values)
    assert low is not None
    assert high is not None
    error = stats.tstd(values) / n**0.5
    half = stats.t.ppf(0.975, n - 1) * error
    assert mean == pytest.approx(sum(values) / n)
    assert (mean - low, high - mean) == (pytest.approx(high - mean), pytest.approx(half, rel=3e-5 if n < 32 else 0.042))
    assert high - mean >= half * (1 - 3e-5)


def test_a_single_value_has_no_interval() -> None:
    assert mean_interval([3.0]) == (3.0, None, None)
