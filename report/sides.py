"""Both sides of one number, and what may be said of the difference."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from report.changes import MARGINS, Decision, FailurePair, Pair, decide, decide_failures
from report.load import LoadedCell
from report.numbers import BETTER, CellNumber
from report.samples import Effect, effect
from report.words import at_label, number_label
from repro.environment import Comparability
from repro.intervals import wilson
from repro.model import Baseline, BaselineNumber, ComparedNumber, FailureCount


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """Whether two sides are comparable, and why not or what is unknown; and what differs because it is the subject."""

    state: Comparability
    reasons: tuple[str, ...]
    unknown: tuple[str, ...]
    changed: tuple[str, ...] = ()

    @property
    def why_no_verdict(self) -> str:
        if self.state == "not_comparable":
            return "not comparable"
        return "unverified: not all facts are known on both sides"


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One side of a number. ``values``: one for each launch; ``reason``: why there is no number."""

    middle: float | None
    low: float | None
    high: float | None
    values: tuple[float, ...]
    reason: str | None

    @classmethod
    def of_cell(cls, number: CellNumber | None, *, missing: str) -> "Side":
        """A cell's launches: their median, lowest and highest."""
        values = number.values if number is not None else ()
        several = len(values) > 1
        return cls(
            middle=number.middle if number is not None else None,
            low=min(values) if several else None,
            high=max(values) if several else None,
            values=values,
            reason=(number.reason if number is not None else missing) if not values else None,
        )

    @classmethod
    def of_baseline(cls, number: BaselineNumber) -> "Side":
        """The launches that it tells apart; else its figure, which counts as one number, whatever it was taken over."""
        if number.values:
            kept = CellNumber(name=number.name, at=(), unit=number.unit, values=number.values, reason=None)
            return cls.of_cell(kept, missing="")
        value = number.value
        return cls(
            middle=value,
            low=number.low,
            high=number.high,
            values=() if value is None else (value,),
            reason=number.reason,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Sided:
    """A number with both sides, before all that is compared with it is known. ``pair`` is what is to be decided; None
    where there is no verdict to give, and the number then has a reason."""

    number: ComparedNumber
    pair: Pair | FailurePair | None


def compared_number(
    name: str,
    at: Mapping[str, int],
    unit: str,
    *,
    ours: Side,
    theirs: Side,
    standing: Standing,
    margin: float | None = None,
) -> Sided:
    """Both sides of a number. ``margin``: another one than `MARGINS` has for it."""
    pair: Pair | None = None
    reason: str | None = None
    allowed = MARGINS.get(name) if margin is None or name not in MARGINS else margin
    if not ours.values:
        reason = ours.reason or "no number here"
    elif theirs.middle is None and theirs.low is None:
        reason = theirs.reason or "no number there"
    elif standing.state != "comparable":
        reason = standing.why_no_verdict
    elif name not in BETTER:
        reason = "neither more nor less of it is better"
    else:
        pair = Pair(ours=ours.values, theirs=theirs.values, better=BETTER[name], margin=allowed)
    found = effect(ours.values, theirs.values) if standing.state != "not_comparable" else None
    number = _sided_number(name, at, unit, ours=ours, theirs=theirs, found=found, reason=reason, margin=allowed)
    return Sided(number=number, pair=pair)


def failure_share(cell: LoadedCell, there: FailureCount | None, standing: Standing, unstated: str) -> Sided:
    """k of n on both sides; ``there`` None where launches are not counted, as ``unstated`` says."""
    ours = None if cell.planted or not cell.summary.n else FailureCount(k=cell.summary.k, n=cell.summary.n)
    theirs = there if there is not None and there.n else None
    pair: FailurePair | None = None
    reason: str | None = None
    if ours is None:
        reason = "planted_fault" if cell.planted else "no launch decided here"
    elif theirs is None:
        reason = unstated
    elif standing.state != "comparable":
        reason = standing.why_no_verdict
    else:
        pair = FailurePair(ours=(ours.k, ours.n), theirs=(theirs.k, theirs.n))
    number = _sided_number(
        "failure_share", {}, "share", ours=_share(ours), theirs=_share(theirs), found=None, reason=reason, margin=None
    )
    counted = replace(number, ours_n=None if ours is None else ours.n, baseline_n=None if theirs is None else theirs.n)
    return Sided(number=counted, pair=pair)


def failures_of(cell: LoadedCell) -> FailureCount | None:
    """k of n of a cell; None where no launch decided, or faults were planted."""
    if cell.planted or not cell.summary.n:
        return None
    return FailureCount(k=cell.summary.k, n=cell.summary.n)


def settle(sided: Sequence[Sided]) -> tuple[tuple[ComparedNumber, str | None], ...]:
    """Each number with its change, and what decided it. All that is given is tested together, and corrected for."""
    pairs = {i: one.pair for i, one in enumerate(sided) if isinstance(one.pair, Pair)}
    failures = {i: one.pair for i, one in enumerate(sided) if isinstance(one.pair, FailurePair)}
    decisions = dict(zip(pairs, decide(tuple(pairs.values())), strict=True))
    decisions |= dict(zip(failures, decide_failures(tuple(failures.values())), strict=True))
    return tuple(_settled(one.number, decisions.get(i)) for i, one in enumerate(sided))


def with_doubts(sided: Sided, baseline: Baseline) -> Sided:
    """The number with what its source leaves open about it, where there is no verdict anyway."""
    number = sided.number
    names = (name for name in baseline.unknown if name == number.name or name.startswith(f"{number.name}_"))
    doubts = [baseline.unknown[name] for name in sorted(names)]
    if number.reason is None or not doubts:
        return sided
    return replace(sided, number=replace(number, reason="; ".join((number.reason, *doubts))))


def _settled(number: ComparedNumber, decision: Decision | None) -> tuple[ComparedNumber, str | None]:
    if decision is None:
        return number, None
    what = f"{number_label(number.name)}{', ' + at_label(number.at) if number.at else ''}"
    decided = replace(
        number, change=decision.change, p=_rounded_p(decision.p), p_corrected=_rounded_p(decision.p_corrected)
    )
    return decided, decision.why if number.name == "failure_share" else f"{what}: {decision.why}"


def _sided_number(
    name: str,
    at: Mapping[str, int],
    unit: str,
    *,
    ours: Side,
    theirs: Side,
    found: Effect | None,
    reason: str | None,
    margin: float | None,
) -> ComparedNumber:
    return ComparedNumber(
        name=name,
        at=dict(at),
        unit=unit,
        ours=ours.middle,
        ours_low=ours.low,
        ours_high=ours.high,
        ours_n=len(ours.values) or None,
        baseline=theirs.middle,
        baseline_low=theirs.low,
        baseline_high=theirs.high,
        baseline_n=len(theirs.values) if len(theirs.values) > 1 else None,
        ratio=None if found is None else round(found.ratio, 4),
        ratio_low=None if found is None or found.low is None else round(found.low, 4),
        ratio_high=None if found is None or found.high is None else round(found.high, 4),
        p=None,
        p_corrected=None,
        margin=margin,
        change=None,
        reason=reason,
    )


def _share(count: FailureCount | None) -> Side:
    """The share that failed, with its 95 % Wilson interval."""
    if count is None:
        return Side(middle=None, low=None, high=None, values=(), reason=None)
    low, high = wilson(count.k, count.n) or (None, None)
    return Side(
        middle=round(count.k / count.n, 4),
        low=None if low is None else round(low, 4),
        high=None if high is None else round(high, 4),
        values=(),
        reason=None,
    )


def _rounded_p(p: float | None) -> float | None:
    return None if p is None else float(f"{p:.3g}")
