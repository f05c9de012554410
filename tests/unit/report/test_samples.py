"""The statistics of two sets of launches: against scipy, and by the properties that any such statistic has."""

from math import isclose

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from report.samples import difference_p, effect, equivalence_p, fisher_p, holm, rank_p, smallest_fisher_p

RATES = st.lists(st.floats(1.0, 1e4), min_size=2, max_size=8)
SHARES = st.floats(0.0, 1.0)
ONE = [301.0, 299.5, 304.2, 298.0, 300.7, 302.2]
OTHER = [296.1, 291.0, 293.3, 299.9, 290.2]


def scattered(values: list[float]) -> bool:
    """Whether the values differ by more than rounding: what is constant is certain, and has tests of its own."""
    return max(values) > min(values) * (1 + 1e-6)


def test_welch_is_scipys() -> None:
    import numpy as np

    wanted = stats.ttest_ind(np.log(ONE), np.log(OTHER), equal_var=False)
    interval = wanted.confidence_interval(0.95)
    found = effect(ONE, OTHER)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert isclose(difference_p(ONE, OTHER), float(wanted.pvalue), rel_tol=1e-9)
    assert isclose(found.low, float(np.exp(interval.low)), rel_tol=1e-9)
    assert isclose(found.high, float(np.exp(interval.high)), rel_tol=1e-9)


@given(st.lists(st.floats(1.0, 100.0), min_size=2, max_size=8, unique=True), st.data())
def test_the_rank_test_without_ties_is_scipys(values: list[float], data: st.DataObject) -> None:
    taken = data.draw(st.integers(1, len(values) - 1))
    ours, theirs = values[:taken], values[taken:]
    wanted = stats.mannwhitneyu(ours, theirs, alternative="two-sided", method="exact")
    assert isclose(rank_p(ours, theirs), float(wanted.pvalue), rel_tol=1e-9)


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=5),
    st.lists(st.integers(1, 4), min_size=1, max_size=5),
)
def test_the_rank_test_with_ties_counts_all_splits(ours: list[int], theirs: list[int]) -> None:
    from itertools import combinations

    every = [*ours, *theirs]
    ranks = stats.rankdata(every)
    mean = len(ours) * (len(every) + 1) / 2
    seen = abs(sum(ranks[: len(ours)]) - mean)
    away = [abs(sum(split) - mean) >= seen - 1e-9 for split in combinations(ranks, len(ours))]
    assert isclose(rank_p(ours, theirs), sum(away) / len(away), rel_tol=1e-9)


@given(st.integers(0, 12), st.integers(1, 12), st.integers(0, 12), st.integers(1, 12))
def test_fisher_is_scipys(k: int, n: int, other_k: int, other_n: int) -> None:
    assume(k <= n and other_k <= other_n)
    import numpy as np

    wanted = stats.fisher_exact(np.array([[k, n - k], [other_k, other_n - other_k]]))
    assert isclose(fisher_p((k, n), (other_k, other_n)), float(wanted.pvalue), rel_tol=1e-7)
    assert smallest_fisher_p((k, n), (other_k, other_n)) <= fisher_p((k, n), (other_k, other_n)) + 1e-12


@given(RATES, RATES)
def test_sides_may_be_exchanged(ours: list[float], theirs: list[float]) -> None:
    there, back = effect(ours, theirs), effect(theirs, ours)
    assert there is not None
    assert back is not None
    assert isclose(there.ratio * back.ratio, 1, rel_tol=1e-9)
    assert isclose((there.low or 0) * (back.high or 0), 1, rel_tol=1e-6) or scattered([*ours, *theirs])
    assert isclose(difference_p(ours, theirs), difference_p(theirs, ours), rel_tol=1e-9)
    assert rank_p(ours, theirs) == rank_p(theirs, ours)
    assert isclose(equivalence_p(ours, theirs, 0.03) or 0, equivalence_p(theirs, ours, 0.03) or 0, rel_tol=1e-9)


@given(RATES, RATES, st.sampled_from([0.001, 0.25, 4.0, 1000.0]))
def test_the_unit_makes_no_difference(ours: list[float], theirs: list[float], unit: float) -> None:
    assume(scattered(ours) and scattered(theirs))
    here, there = [unit * value for value in ours], [unit * value for value in theirs]
    one, same = effect(ours, theirs), effect(here, there)
    assert one is not None
    assert same is not None
    assert isclose(one.ratio, same.ratio, rel_tol=1e-9)
    assert isclose(difference_p(ours, theirs), difference_p(here, there), rel_tol=1e-5, abs_tol=1e-12)


@given(st.floats(1.0, 3.0), st.floats(1.0, 3.0))
def test_a_larger_difference_is_surer(one: float, other: float) -> None:
    near, far = sorted((one, other))
    assume(far > near * 1.001)
    assert difference_p([far * v for v in ONE], ONE) <= difference_p([near * v for v in ONE], ONE)
    nearer = equivalence_p([near * v for v in ONE], ONE, 0.5)
    farther = equivalence_p([far * v for v in ONE], ONE, 0.5)
    assert nearer is not None
    assert farther is not None
    assert farther >= nearer


@given(RATES, RATES)
def test_the_ratio_lies_in_its_interval(ours: list[float], theirs: list[float]) -> None:
    found = effect(ours, theirs)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.ratio * (1 + 1e-12)
    assert found.ratio <= found.high * (1 + 1e-12)


@given(RATES, RATES, st.floats(0.01, 0.5), st.floats(0.01, 0.5))
def test_a_wider_margin_is_easier(ours: list[float], theirs: list[float], one: float, other: float) -> None:
    narrow, wide = sorted((one, other))
    easy, hard = equivalence_p(ours, theirs, wide), equivalence_p(ours, theirs, narrow)
    assert easy is not None
    assert hard is not None
    assert easy <= hard + 1e-12


@given(st.lists(SHARES, min_size=1, max_size=20))
def test_holm_only_raises_and_keeps_the_order(values: list[float]) -> None:
    corrected = holm(values)
    assert all(before <= after <= 1 for before, after in zip(values, corrected, strict=True))
    assert max(corrected) <= min(1, len(values) * max(values))
    for i, before in enumerate(values):
        for j, other in enumerate(values):
            assert not before < other or corrected[i] <= corrected[j]


def test_holm_of_a_known_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))


@given(RATES, RATES)
def test_probabilities_are_probabilities(ours: list[float], theirs: list[float]) -> None:
    for p in (difference_p(ours, theirs), rank_p(ours, theirs), equivalence_p(ours, theirs, 0.03) or 0.0):
        assert 0 <= p <= 1


def test_what_does_not_scatter_is_certain() -> None:
    same, other = [3.37] * 5, [3.36] * 5
    assert (difference_p(same, same), equivalence_p(same, same, 0.03)) == (1.0, 0.0)
    assert (difference_p(same, other), equivalence_p(same, other, 0.001)) == (0.0, 1.0)
    assert effect(same, same) == effect(other, other)


@pytest.mark.parametrize(("ours", "theirs"), [([0.0, 1.0], [1.0, 2.0]), ([1.0], []), ([-1.0], [2.0])])
def test_no_ratio_of_what_is_not_positive(ours: list[float], theirs: list[float]) -> None:
    assert effect(ours, theirs) is None


def test_numbers_that_may_be_zero_are_compared_as_they_are() -> None:
    assert difference_p([0.0, 0.0, 1.0], [5.0, 5.0, 4.0]) < 0.01
    assert equivalence_p([0.0, 1.0], [1.0, 2.0], 0.03) is None


def test_one_launch_a_side_has_a_ratio_and_no_interval() -> None:
    found = effect([150.0], [100.0, 100.0])
    assert found is not None
    assert (round(found.ratio, 9), found.low, found.high) == (1.5, None, None)
