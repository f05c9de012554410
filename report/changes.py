"""When a difference may be called one, when it may be called none, and words for why there is no verdict.

A number is a regression or an improvement when two tests agree. Welch's test on logarithms decides at 1 %, corrected
(Holm) for all numbers that the same two runs are compared by. The exact rank-sum test must reach 1 % by itself: that
holds whatever the distribution of launches is, and with ties. Neither would do alone. With five launches a side the
exact test cannot go below 0.8 %, so that corrected for two numbers it could never decide; Welch's test can, but trusts
that launches scatter about like a normal distribution. Brunner and Munzel's test says p = 0 for any two sides that do
not overlap, which with five a side happens by chance in 0.8 % of all cases.

`equivalent` is said when two one-sided Welch tests at 1 %, corrected likewise, put the ratio within the margin, and
never when the difference is significant before correction. What is neither is `undecided`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Literal, TypeAlias

from report.samples import Effect, difference_p, effect, equivalence_p, fisher_p, holm, rank_p, smallest_fisher_p

Change: TypeAlias = Literal["regression", "improvement", "equivalent", "undecided"]

ALPHA = 0.01

MARGIN = 0.03
"""What may pass for no difference in a rate. Launch means that scatter by 1 % between launches and by 0.6 % within
one have a standard error of 0.5 % of the ratio with ten launches a side and of 0.7 % with five; a margin of 3 % is the
smallest round one that ten launches a side can show with corrections for some dozens of numbers (`docs/report.md`)."""

MARGINS: Mapping[str, float] = {
    "output_rate": MARGIN,
    "step_time": MARGIN,
    "acceptance": MARGIN,
    "coding_correct": MARGIN,
    "ttft_median": 0.10,
    "ready": 0.10,
}
"""Times to a first token and to readiness depend on queues and disks; a tenth is what a user would notice. A number
that is not named here is never called equivalent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Two sets of launches to compare by one number. ``better`` is 1 if more is better, -1 if less is; ``margin`` None:
    no difference is small enough to be none."""

    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    better: int
    margin: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class FailurePair:
    """k failures of n launches on either side."""

    ours: tuple[int, int]
    theirs: tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """A verdict and why. ``p`` is as tested and ``p_corrected`` with Holm's correction; both None without a test."""

    change: Change
    why: str
    p: float | None
    p_corrected: float | None


def decide(pairs: Sequence[Pair]) -> tuple[Decision, ...]:
    """A verdict on each pair. All of them together are the family that is corrected for; those that no outcome could
    decide are not tested, and not counted."""
    tested = [i for i, pair in enumerate(pairs) if too_few(len(pair.ours), len(pair.theirs)) is None]
    raw = [difference_p(pairs[i].ours, pairs[i].theirs) for i in tested]
    same = [_equivalence(pairs[i]) for i in tested]
    corrected = dict(zip(tested, zip(raw, holm(raw), holm(same), strict=True), strict=True))
    return tuple(
        _decision(pair, *corrected[i], among=len(tested)) if i in corrected else _untested(pair)
        for i, pair in enumerate(pairs)
    )


def decide_failures(pairs: Sequence[FailurePair]) -> tuple[Decision, ...]:
    """A verdict on the failures of each cell, by Fisher's exact test, two-sided. A cell whose failures are so few that
    no split of them reaches the level could never decide, and is not corrected for (R. E. Tarone, 1990)."""
    raw = [fisher_p(pair.ours, pair.theirs) for pair in pairs]
    able = [i for i, pair in enumerate(pairs) if smallest_fisher_p(pair.ours, pair.theirs) < ALPHA]
    corrected = dict(zip(able, holm([raw[i] for i in able]), strict=True))
    return tuple(_failure_decision(pair, raw[i], corrected.get(i), among=len(able)) for i, pair in enumerate(pairs))


def overall(changes: Iterable[Change | None]) -> Change:
    """What a comparison says when its numbers say this: the worst that was decided; `equivalent` only when nothing that
    was compared is open, else `undecided`."""
    found = set(changes) - {None}
    order: tuple[Change, ...] = ("regression", "improvement", "undecided", "equivalent")
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


def told_effect(found: Effect | None) -> str:
    """`4.9 % less (95 %: 5.8 % less to 4.0 % less)`; empty without a ratio."""
    if found is None:
        return ""
    if found.low is None or found.high is None:
        return _away(found.ratio)
    return f"{_away(found.ratio)} (95 %: {_away(found.low)} to {_away(found.high)})"


def _equivalence(pair: Pair) -> float:
    """p of equivalence; 1 where it cannot be shown."""
    p = equivalence_p(pair.ours, pair.theirs, pair.margin) if pair.margin is not None else None
    return 1.0 if p is None else p


def _decision(pair: Pair, p: float, p_corrected: float, p_same: float, *, among: int) -> Decision:
    told = told_effect(effect(pair.ours, pair.theirs))
    repeats = f"{len(pair.ours)} and {len(pair.theirs)} launches"
    tests = f"p = {p:.2g}, {p_corrected:.2g} corrected for {_numbers(among)}"
    said = "; ".join(part for part in (told, tests, repeats) if part)
    if p_corrected < ALPHA and rank_p(pair.ours, pair.theirs) < ALPHA:
        more = sum(pair.ours) / len(pair.ours) > sum(pair.theirs) / len(pair.theirs)
        change: Change = "improvement" if more == (pair.better > 0) else "regression"
        return Decision(change=change, why=said, p=p, p_corrected=p_corrected)
    if p >= ALPHA and p_same < ALPHA and pair.margin is not None:
        shown = f"within {pair.margin:.0%} either way: {told}; {repeats}"
        return Decision(change="equivalent", why=shown, p=p, p_corrected=p_corrected)
    open_ = "" if pair.margin is None else f", and that it is below {pair.margin:.0%} is not shown"
    return Decision(
        change="undecided", why=f"the difference may be chance{open_}: {said}", p=p, p_corrected=p_corrected
    )


def _untested(pair: Pair) -> Decision:
    why = too_few(len(pair.ours), len(pair.theirs)) or ""
    told = told_effect(effect(pair.ours, pair.theirs))
    return Decision(change="undecided", why=f"{why}; {told}" if told else why, p=None, p_corrected=None)


def _failure_decision(pair: FailurePair, p: float, p_corrected: float | None, *, among: int) -> Decision:
    (k, n), (other_k, other_n) = pair.ours, pair.theirs
    told = f"{k} of {n} launches failed here and {other_k} of {other_n} there (Fisher p = {p:.2g}"
    if p_corrected is None or p_corrected >= ALPHA:
        more = "" if p_corrected is None else f", {p_corrected:.2g} corrected for {_numbers(among, 'cell')}"
        return Decision(
            change="undecided", why=f"{told}{more}): too few launches to tell", p=p, p_corrected=p_corrected
        )
    change: Change = "regression" if k / n > other_k / other_n else "improvement"
    why = f"{told}, {p_corrected:.2g} corrected for {_numbers(among, 'cell')})"
    return Decision(change=change, why=why, p=p, p_corrected=p_corrected)


def _numbers(count: int, what: str = "number") -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"


def _away(ratio: float) -> str:
    """`4.9 % less`, `2 % more`, `equal`."""
    share = 100 * (ratio - 1)
    if abs(share) < 0.005:
        return "equal"
    size = f"{abs(share):.0f}" if abs(share) >= 10 else f"{abs(share):.2g}"
    return f"{size} % {'more' if share > 0 else 'less'}"


def _there(count: int) -> str:
    return "a single number" if count == 1 else launches(count)
