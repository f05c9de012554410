"""When a difference is one, and when it is none."""

import random
from collections import Counter
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.changes import FailurePair, Pair, decide, decide_failures, overall

FAST, SLOW = (10.0, 10.1, 10.2, 10.3, 10.4), (5.0, 5.1, 5.2, 5.3, 5.4)
BETWEEN, WITHIN, ROUNDS = 0.01, 0.006, 5
SEEDS = range(200)


def change(ours: tuple[float, ...], theirs: tuple[float, ...], better: int = 1, margin: float | None = 0.03) -> str:
    (found,) = decide([Pair(ours=ours, theirs=theirs, better=better, margin=margin)])
    return found.change


def launches(chance: random.Random, count: int, rate: float) -> tuple[float, ...]:
    """Launch means with the noise model of docs/report.md."""
    return tuple(
        rate * sum(exp(launch + chance.gauss(0, WITHIN)) for _ in range(ROUNDS)) / ROUNDS
        for launch in (chance.gauss(0, BETWEEN) for _ in range(count))
    )


def changes(slowdown: float, *, count: int = 10, levels: int = 6) -> Counter[str]:
    """What is said of one level of a cell, over all seeds, with others in the same family that are not slower."""
    said: Counter[str] = Counter()
    for seed in SEEDS:
        chance = random.Random(seed)
        pairs = [
            Pair(
                ours=launches(chance, count, 300 * (1 - slowdown if level == 0 else 1)),
                theirs=launches(chance, count, 300),
                better=1,
                margin=0.03,
            )
            for level in range(levels)
        ]
        said[decide(pairs)[0].change] += 1
    return said


def test_a_planted_slowdown_of_five_percent_is_a_regression() -> None:
    said = changes(0.05)
    assert said["regression"] >= 0.95 * len(SEEDS)
    assert said["equivalent"] == 0


def test_without_a_slowdown_hardly_ever_a_regression() -> None:
    said = changes(0.0)
    assert said["regression"] <= 0.02 * len(SEEDS)
    assert said["improvement"] <= 0.02 * len(SEEDS)
    assert said["equivalent"] >= 0.9 * len(SEEDS)


def test_launches_that_come_in_two_kinds_are_no_regression() -> None:
    """Half of all launches 3 % faster, whatever is launched: not a normal distribution, and no difference."""
    said: Counter[str] = Counter()
    for seed in SEEDS:
        chance = random.Random(seed)
        sides = [
            tuple(300 * exp(chance.choice((0.0, 0.03)) + chance.gauss(0, 0.001)) for _ in range(5)) for _ in range(2)
        ]
        said[change(sides[0], sides[1])] += 1
    assert said["regression"] + said["improvement"] <= 0.02 * len(SEEDS)


@pytest.mark.parametrize(("ours", "theirs"), [((1.0,), (2.0,)), ((1.0,), SLOW), (FAST, (2.0,))])
def test_single_numbers_decide_nothing(ours: tuple[float, ...], theirs: tuple[float, ...]) -> None:
    (found,) = decide([Pair(ours=ours, theirs=theirs, better=1, margin=0.03)])
    assert (found.change, found.p, found.p_corrected) == ("undecided", None, None)
    assert "n is too small" in found.why


def test_three_against_three_can_never_decide() -> None:
    assert change((9.0, 9.1, 9.2), (1.0, 1.1, 1.2)) == "undecided"
    assert change((9.0, 9.0, 9.0), (9.0, 9.0, 9.0)) == "undecided"


@pytest.mark.parametrize(
    ("ours", "theirs", "better", "expected"),
    [
        (FAST, SLOW, 1, "improvement"),
        (SLOW, FAST, 1, "regression"),
        (FAST, SLOW, -1, "regression"),
        (SLOW, FAST, -1, "improvement"),
        (FAST, tuple(value + 0.2 for value in FAST), 1, "undecided"),
    ],
)
def test_five_against_five_can(ours: tuple[float, ...], theirs: tuple[float, ...], better: int, expected: str) -> None:
    assert change(ours, theirs, better) == expected


def test_equal_numbers_are_equivalent_where_a_margin_is_stated() -> None:
    assert change((2.0,) * 10, (2.0,) * 10) == "equivalent"
    assert change((2.0,) * 10, (2.0,) * 10, margin=None) == "undecided"


def test_a_small_difference_that_is_certain_is_never_equivalent() -> None:
    slower = tuple(300 + n / 100 for n in range(10))
    faster = tuple(302 + n / 100 for n in range(10))
    (found,) = decide([Pair(ours=slower, theirs=faster, better=1, margin=0.03)])
    assert found.change == "regression"
    assert "less" in found.why


def test_more_comparisons_ask_for_more() -> None:
    chance = random.Random(1)
    doubtful = Pair(ours=(10.0, 10.2, 10.1, 10.3, 10.2), theirs=(10.5, 10.4, 10.6, 10.45, 10.7), better=1, margin=0.03)
    same = [
        Pair(ours=launches(chance, 5, 300), theirs=launches(chance, 5, 300), better=1, margin=0.03) for _ in range(60)
    ]
    assert decide([doubtful])[0].change == "regression"
    assert decide([doubtful, *same])[0].change == "undecided"


@given(
    st.lists(st.floats(100, 110), min_size=5, max_size=7),
    st.lists(st.floats(100, 110), min_size=5, max_size=7),
    st.sampled_from([1, -1]),
)
def test_exchanged_sides_give_the_opposite(ours: list[float], theirs: list[float], better: int) -> None:
    opposite = {"regression": "improvement", "improvement": "regression"}
    there, back = change(tuple(ours), tuple(theirs), better), change(tuple(theirs), tuple(ours), better)
    assert back == opposite.get(there, there)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [((0, 1), (1, 1), "undecided"), ((0, 10), (8, 10), "improvement"), ((8, 10), (0, 10), "regression")],
)
def test_failures(ours: tuple[int, int], theirs: tuple[int, int], expected: str) -> None:
    assert decide_failures([FailurePair(ours=ours, theirs=theirs)])[0].change == expected


def test_healthy_cells_do_not_make_a_failing_one_less_sure() -> None:
    healthy = [FailurePair(ours=(0, 10), theirs=(0, 10))] * 40
    failing = FailurePair(ours=(8, 10), theirs=(0, 10))
    found = decide_failures([*healthy, failing])
    assert found[-1].change == "regression"
    assert found[-1].p_corrected == found[-1].p
    many = decide_failures([failing] * 20)
    assert many[0].change == "undecided"


def test_the_worst_decided_change_stands_for_all() -> None:
    assert overall([None, "undecided", "improvement"]) == "improvement"
    assert overall(["improvement", "regression"]) == "regression"
    assert overall(["equivalent", None, "equivalent"]) == "equivalent"
    assert overall(["equivalent", "undecided"]) == "undecided"
    assert overall([None]) == "undecided"
