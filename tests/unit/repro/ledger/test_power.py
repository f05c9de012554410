"""How many clean launches are enough: exact numbers, and what they keep in the long run."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from scipy import stats

from repro.ledger import power
from repro.model import Replay


@pytest.mark.parametrize(("k", "n"), [(1, 1), (1, 3), (2, 3), (3, 3), (5, 20), (60, 60)])
def test_the_old_rate_is_the_exact_lower_bound(k: int, n: int) -> None:
    exact = stats.binomtest(k, n, alternative="greater").proportion_ci(0.95, method="exact").low
    assert power.lower_bound(k, n) == pytest.approx(exact)


@pytest.mark.parametrize(
    ("k", "n", "launches"), [(1, 1, 59), (2, 3, 21), (3, 3, 7), (5, 5, 4), (10, 10, 3), (100, 100, 3), (1, 10, 585)]
)
def test_launches_that_are_needed(k: int, n: int, launches: int) -> None:
    assert power.needed(k, n) == launches
    assert power.power(k, n, launches) >= 0.95
    if launches > power.LEAST:
        assert power.power(k, n, launches - 1) < 0.95


def test_what_was_never_seen_cannot_be_looked_for() -> None:
    assert power.lower_bound(0, 5) == 0
    with pytest.raises(ValueError, match="never seen"):
        power.needed(0, 5)


def test_the_choice_is_capped_and_counts_what_was_made_before() -> None:
    assert power.choose(2, 3) == power.Launches(count=21, before=0, needed=21)
    assert power.choose(2, 3, before=10).count == 11
    assert power.choose(2, 3, before=20).count == power.LEAST
    assert power.choose(1, 10).count == power.MOST < power.choose(1, 10).needed
    assert power.choose(2, 3, asked=5).count == 5


@pytest.mark.parametrize("old", [1, 3, 5, 10, 20])
@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_a_failure_that_is_still_there_is_called_gone_in_at_most_5_percent_of_trials(
    old: int, rate: float, desk: Any, replay_of: Callable[..., Replay]
) -> None:
    """The whole way, with seeds: a failure is seen in some of ``old`` launches, packed, and asked about again on an
    engine on which its rate is the same."""
    chance = random.Random(old * 1000 + rate)
    gone = trials = 0
    while trials < 400:
        k = sum(chance.random() < rate for _ in range(old))
        if not k:
            continue  # nothing was seen: there is no bundle
        trials += 1
        desk.ledger = type(desk.ledger)(entries=())
        desk.add(desk.bundle("b", k=k, n=old))

        def run(_: object, launches: int) -> Replay:
            return replay_of("".join("r" if chance.random() < rate else "c" for _ in range(launches)))

        answer = desk.recheck(run)
        gone += answer.status == "closed"
        assert (answer.status == "closed") <= all(check.reproduced == 0 for check in answer.checks)
    assert gone / trials <= 0.05


def test_a_failure_that_is_gone_is_called_gone(desk: Any, replay_of: Callable[..., Replay]) -> None:
    for k, n in ((1, 1), (2, 3), (3, 3), (5, 20), (20, 20)):
        desk.ledger = type(desk.ledger)(entries=())
        desk.add(desk.bundle("b", k=k, n=n))
        assert desk.recheck(lambda _, launches: replay_of("c" * launches)).status == "closed"
