"""Plan -> launches: in which order, which of them a run already has, and which are left. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from repro.model import Plan, PlanStep, Result

MAX_VOID = 2
"""How often a launch that turned out void is made again (design: planned again as a new attempt, at most twice)."""
VOID_OUTCOMES = frozenset({"runtime_error", "lost"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """One launch of the plan; ``index`` counts the launches of its cell from 0, over all the cell's roles."""

    step: PlanStep
    index: int


def launches(plan: Plan) -> tuple[Launch, ...]:
    """The plan's launches in order: the reference, then the cells round by round, then the reference again.

    Rounds are interleaved so that what changes with time does not fall on one cell.
    """
    counted: dict[str, int] = {}

    def numbered(step: PlanStep) -> Launch:
        index = counted.get(step.cell, 0)
        counted[step.cell] = index + 1
        return Launch(step=step, index=index)

    return tuple(numbered(step) for step in _in_order(plan))


def _in_order(plan: Plan) -> Iterator[PlanStep]:
    middle = [step for step in plan.steps if step.role not in {"reference", "reference-again"}]
    yield from (step for step in plan.steps if step.role == "reference")
    for round_number in range(max((step.launches for step in middle), default=0)):
        yield from (step for step in middle if step.launches > round_number)
    yield from (step for step in plan.steps if step.role == "reference-again")


def unfinished(plan: Plan, results: Sequence[Result]) -> bool:
    """Whether a launch of the plan is left, for a run that has these results, in any order."""
    by_cell: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda r: r.attempt):
        by_cell.setdefault(result.cell, []).append(result)
    return any(next_attempt(launch, by_cell.get(launch.step.cell, [])) is not None for launch in launches(plan))


def next_attempt(launch: Launch, results: Sequence[Result]) -> int | None:
    """The attempt number at which a launch is made next, or None if it is done: it has a result that is not void, or
    was void as often as is allowed. ``results`` are those of the launch's cell, by attempt number."""
    slot = voids = 0
    for result in results:
        if slot > launch.index:
            break
        if result.outcome in VOID_OUTCOMES and voids < MAX_VOID:
            voids += 1
        else:
            slot, voids = slot + 1, 0
    if slot > launch.index:
        return None
    return max((result.attempt for result in results), default=0) + 1
