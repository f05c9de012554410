"""`throughput`: output tokens a second and what lies behind them, at each concurrency, over rounds.

A number is the mean over the rounds of a level, with the 95 % t-interval of that mean; what each number is within a
round stands in `matrix.judge.rounds`. Whether it may be compared is decided later: only cells whose content is right
have comparable numbers.
"""

from collections.abc import Callable, Sequence

from matrix.judge.peer import Raw, peer_numbers
from matrix.judge.results import check_result, measured
from matrix.judge.rounds import Round, middle, p99, rounds_of, why_withheld
from repro.intervals import mean_interval
from repro.model import CheckEvidence, CheckPlan, CheckResult, Measurement

Number = tuple[str, str, int, Callable[[Round], float | None]]
_NUMBERS: tuple[Number, ...] = (
    ("output_rate_steady", "tok/s", 2, Round.steady_rate),
    ("ttft_median", "ms", 2, lambda r: middle(r.first_tokens_ms())),
    ("ttft_p99", "ms", 2, lambda r: p99(r.first_tokens_ms())),
    ("itl_median", "ms", 3, lambda r: middle(r.gaps_ms())),
    ("itl_p99", "ms", 3, lambda r: p99(r.gaps_ms())),
    ("step_time", "ms", 3, Round.step_ms),
    ("steps_per_request", "count", 2, Round.steps_per_request),
)
"""Name, unit, decimals, and how it is taken from a round; None where the round has no such number."""


def judge_throughput(
    plan: CheckPlan, evidence: CheckEvidence | None, *, gpu_count: int, raw: Raw = lambda _: None
) -> CheckResult:
    """`pass`: every level was measured, and ids, usage and the server's counters agree in every round.

    A level with failed requests, or with counts that disagree, has no number but a reason, and leaves the check
    `inconclusive`. A round that the check's limit cut off is dropped. ``raw`` gives the text of a file of evidence.
    """
    if evidence is None or not evidence.requests:
        return check_result("throughput", "not_run", "no_evidence", "no request of this check was sent")
    measurements: list[Measurement] = []
    withheld: list[str] = []
    remarks: list[str] = []
    for level in sorted(plan.concurrency):
        rounds, reason = _usable(evidence, level)
        if reason is None:
            numbers = _level(level, rounds, gpu_count)
            remarks += _remarks(plan, numbers[0])
        else:
            at = {"concurrency": level}
            numbers = [measured("output_rate", None, "tok/s", at=at, n=len(rounds), reason=reason)]
            withheld.append(f"concurrency {level}: {reason}")
        measurements += [*numbers, *_failed(evidence, level)]
    if plan.peer is not None:
        measurements += peer_numbers(plan.concurrency, raw)
    if withheld:
        told = "numbers withheld: " + "; ".join(withheld)
        return check_result("throughput", "inconclusive", "withheld", told, measurements=tuple(measurements))
    rates = ", ".join(f"{m.value:.0f} tok/s at {m.at['concurrency']}" for m in measurements if m.name == "output_rate")
    return check_result("throughput", "pass", None, "; ".join([rates, *remarks]), measurements=tuple(measurements))


def _usable(evidence: CheckEvidence, level: int) -> tuple[list[Round], str | None]:
    """The whole rounds of a level, and why they give no number."""
    begun = rounds_of(evidence.requests, evidence.counts, level)
    cut_off = evidence.stopped_because
    whole = [r for r in begun if cut_off is None or all(request.error != cut_off for request in r.requests)]
    if not whole:
        return [], "cut_off" if begun else "not_measured"
    return whole, next((why for r in whole if (why := why_withheld(r)) is not None), None)


def _level(level: int, rounds: Sequence[Round], gpu_count: int) -> list[Measurement]:
    at = {"concurrency": level}
    rates = [rate for r in rounds if (rate := r.rate()) is not None]
    numbers = [
        over_rounds("output_rate", rates, "tok/s", at=at),
        over_rounds("output_rate_per_user", [rate / level for rate in rates], "tok/s", at=at),
    ]
    if gpu_count:
        numbers.append(over_rounds("output_rate_per_gpu", [rate / gpu_count for rate in rates], "tok/s", at=at))
    for name, unit, digits, take in _NUMBERS:
        values = [value for r in rounds if (value := take(r)) is not None]
        if len(values) == len(rounds):
            numbers.append(over_rounds(name, values, unit, at=at, digits=digits))
    return numbers


def over_rounds(name: str, values: Sequence[float], unit: str, *, at: dict[str, int], digits: int = 2) -> Measurement:
    """The mean over rounds with its 95 % t-interval, as far as it is not below zero; no interval for a single round."""
    mean, low, high = mean_interval(values)
    return measured(
        name,
        round(mean, digits),
        unit,
        at=at,
        n=len(values),
        low=None if low is None else max(round(low, digits), 0.0),
        high=None if high is None else round(high, digits),
    )


def _failed(evidence: CheckEvidence, level: int) -> list[Measurement]:
    """How many requests of a level failed, if any did: they are in no other number."""
    of_level = [request for request in evidence.requests if request.concurrency == level]
    failed = sum(request.error is not None for request in of_level)
    return [measured("requests_failed", failed, "count", at={"concurrency": level}, n=len(of_level))] if failed else []


def _remarks(plan: CheckPlan, rate: Measurement) -> list[str]:
    """That a rate is known less well than was asked for."""
    if plan.repeats is None or rate.high is None or not rate.value:
        return []
    half = (rate.high - rate.value) / rate.value
    if half <= plan.repeats.relative * 1.001:
        return []
    return [f"at concurrency {rate.at['concurrency']} known to ±{100 * half:.0f} % after {rate.n} rounds"]
