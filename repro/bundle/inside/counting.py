"""What the launches of a replay add up to: how many are made, what is said of them, and the exit status.

Standard library only, Python 3.10 and newer: this file is part of every bundle.
"""

import math
from dataclasses import dataclass, field
from typing import Any

REPRODUCED, NOT_REPRODUCED, UNTOLD = 1, 0, 125
FEWEST, MOST = 3, 20
"""Launches if none are asked for: enough to see the failure with 95 % probability at its old rate, within these."""
MOST_VOID = 3


@dataclass
class Tally:
    """What the launches were, in order, as a `replay` record has them."""

    runs: "list[dict[str, Any]]" = field(default_factory=list)

    def count(self, *states: str) -> int:
        return sum(run["state"] in states for run in self.runs)

    def made(self) -> int:
        """How many launches said something."""
        return self.count("reproduced", "clean", "another_failure")

    def problem(self) -> "str | None":
        """Why more launches would be of no use: the last ones said nothing. None if they would."""
        last = self.runs[-MOST_VOID:]
        if len(last) < MOST_VOID or any(run["state"] != "void" for run in last):
            return None
        return f"{MOST_VOID} launches in a row could not be judged, the last: {last[-1]['detail'][:300]}"


def default_launches(expectation: "dict[str, Any]") -> int:
    """Enough to see the failure once with 95 % probability at the rate it was seen at, from 3 to 20."""
    k, n = expectation["k"], expectation["n"]
    if not 0 < k < n:
        return FEWEST
    return min(MOST, max(FEWEST, math.ceil(math.log(0.05) / math.log(1 - k / n))))


def statement(tally: Tally, blocked: "str | None") -> str:
    """What the launches say, on one line."""
    reproduced, n = tally.count("reproduced"), tally.count("reproduced", "clean")
    others = [run for run in tally.runs if run["state"] == "another_failure"]
    more = f"; {len(others)} ended in another failure, the first: {others[0]['detail'][:200]}" if others else ""
    if blocked is not None and not reproduced:
        return f"could not run, because {blocked}"
    if reproduced:
        return f"reproduced {reproduced} of {n}{more}"
    if n:
        return f"not reproduced (0 of {n}: below {100 * upper_bound(n):.1f} % at 95 %){more}"
    if not others:
        return "not reproduced: no launch said anything"
    all_of = {1: "the launch", 2: "both launches"}.get(len(others), f"all {len(others)} launches")
    return f"not reproduced: {all_of} ended in another failure, the first: {others[0]['detail'][:200]}"


def upper_bound(n: int) -> float:
    """The exact one-sided 95 % bound on a probability that showed in none of n launches."""
    return float(1 - 0.05 ** (1 / n))


def exit_status(record: "dict[str, Any]") -> int:
    if record["reproduced"]:
        return REPRODUCED
    return UNTOLD if record["blocked"] is not None or not record["launches"] else NOT_REPRODUCED
