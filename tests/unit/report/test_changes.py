"""When a difference is one."""

import pytest

from report.changes import change_of_failures, change_of_numbers, overall

FAST, SLOW = [10.0, 10.1, 10.2, 10.3, 10.4], [5.0, 5.1, 5.2, 5.3, 5.4]


@pytest.mark.parametrize(("ours", "theirs"), [([1.0], [2.0]), ([1.0], SLOW), (FAST, [2.0])])
def test_single_numbers_decide_nothing(ours: list[float], theirs: list[float]) -> None:
    change, why = change_of_numbers(ours, theirs, 1)
    assert change == "undecided"
    assert "n is too small" in why


def test_three_against_three_can_never_decide() -> None:
    assert change_of_numbers([9.0, 9.1, 9.2], [1.0, 1.1, 1.2], 1)[0] == "undecided"


@pytest.mark.parametrize(
    ("ours", "theirs", "better", "expected"),
    [
        (FAST, SLOW, 1, "improvement"),
        (SLOW, FAST, 1, "regression"),
        (FAST, SLOW, -1, "regression"),
        (SLOW, FAST, -1, "improvement"),
        (FAST, [value + 0.05 for value in FAST], 1, "undecided"),
    ],
)
def test_five_against_five_can(ours: list[float], theirs: list[float], better: int, expected: str) -> None:
    assert change_of_numbers(ours, theirs, better)[0] == expected


def test_equal_numbers_are_not_called_equivalent() -> None:
    assert change_of_numbers([2.0] * 10, [2.0] * 10, 1)[0] == "undecided"


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [((0, 1), (1, 1), "undecided"), ((0, 10), (8, 10), "improvement"), ((8, 10), (0, 10), "regression")],
)
def test_failures(ours: tuple[int, int], theirs: tuple[int, int], expected: str) -> None:
    assert change_of_failures(ours, theirs)[0] == expected


def test_the_worst_decided_change_stands_for_all() -> None:
    assert overall([None, "undecided", "improvement"]) == "improvement"
    assert overall(["improvement", "regression"]) == "regression"
    assert overall([None]) == "undecided"
