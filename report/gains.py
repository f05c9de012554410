"""Words for the best stable configurations and for where a tree stops being faster, and what a comparison changed."""

from collections.abc import Sequence

from report.changes import launches
from report.words import figure, percent
from repro.model import BestConfiguration, Comparison, Crossover, SpeedUp

_TIMES = "\N{MULTIPLICATION SIGN}"
_ARMS = {"ar": "no speculation", "chain": "the flat chain"}


def best_rows(found: Sequence[BestConfiguration]) -> list[tuple[str, ...]]:
    """One row for each concurrency, with the headings of `BEST_HEADINGS`."""
    return [
        (
            str(best.concurrency),
            best.cell,
            f"{figure(best.rate)} {best.unit}{_span(best.low, best.high)}, {launches(best.n)}",
            f"below {percent(best.failure_bound)}",
            *(speedup_words(speedup) for speedup in best.speedups),
            ", ".join(best.not_shown_slower) or "none",
        )
        for best in found
    ]


BEST_HEADINGS = (
    "concurrency",
    "best stable cell",
    "rate (95 % interval)",
    "failures (95 % bound)",
    "over no speculation",
    "over the flat chain",
    "not shown to be slower",
)


def speedup_words(speedup: SpeedUp) -> str:
    """How many times as fast, with the interval; how many times the tokens a step, at how many times the time a step
    takes; or why there is no ratio."""
    if speedup.ratio is None:
        return speedup.reason or "not known"
    told = f"{figure(speedup.ratio)} {_TIMES}{_span(speedup.low, speedup.high)}"
    if speedup.steps is None or speedup.step_time is None:
        return told
    basis = "" if speedup.step_time_basis == "measured" else " (derived)"
    steps, step_time = f"{figure(speedup.steps)} {_TIMES}", f"{figure(speedup.step_time)} {_TIMES}"
    return f"{told}: {steps} the tokens a step at {step_time} the time{basis}"


def crossover_words(crossover: Crossover) -> str:
    """A sentence, without a final stop."""
    head = f"{crossover.cell} against {_ARMS[crossover.over]} ({crossover.other})"
    levels = ", ".join(str(level.concurrency) for level in crossover.levels)
    if crossover.state == "crosses":
        return f"{head}: faster up to concurrency {crossover.last_faster}, slower at {crossover.first_slower}"
    if crossover.state == "stops_between":
        where = f"between concurrency {crossover.last_faster} and {crossover.first_slower}"
        return f"{head}: the ratio falls below 1 {where}, which too few launches decide"
    told = {
        "always_faster": "faster",
        "never_faster": "not faster",
        "mixed": "now faster and now slower",
    }[crossover.state]
    every = "wherever it was measured" if len(crossover.levels) > 1 else "at the one concurrency measured"
    sure = (
        "" if all(level.state != "undecided" for level in crossover.levels) else ", by ratios that are not all decided"
    )
    return f"{head}: {told} {every} ({levels}){sure}"


def changed_words(comparison: Comparison) -> str:
    """`what changed: engine_version is 0.5.24 here and 0.5.23 there`; empty if nothing was to change."""
    return f"what changed: {'; '.join(comparison.changed)}" if comparison.changed else ""


def _span(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" ({figure(low)} to {figure(high)})"
