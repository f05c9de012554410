"""Rounds of one cell of the GPU arm, and what all of them together say."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from . import inputs, tolerance
from .comparison import compared, with_power
from .protocol import Fault, Row, measurement

Tensor: TypeAlias = Any


@dataclass(frozen=True)
class Round:
    """``unwritten``: rows whose output is NaN throughout. ``disturbed``: rows that a planted fault makes wrong."""

    row: Row
    unwritten: int
    disturbed: frozenset[int] = frozenset()


def round_of(
    step: inputs.Step, output: Tensor, right: tolerance.Expected, tile: str, disturbed: frozenset[int] = frozenset()
) -> Round:
    """One launch beside what it must be. ``output`` may have more rows than the step, which must still be NaN."""
    total = len(right.output)
    row = _with_head(compared(step, output[:total], right, tile), step.problem)
    if not bool(output[total:].isnan().all()):
        said = f"rows behind the {total} of the step are written"
        fault = Fault("out_of_bounds", said, tensor="o", row=total)
        row = replace(row, state="fail", reason="out_of_bounds", detail=said, faults=(fault,))
    defined = ~right.output.isnan().flatten(1).all(1)
    unwritten = int((output[:total].isnan().flatten(1).all(1) & defined).sum())
    return Round(row=row, unwritten=unwritten, disturbed=disturbed)


def powered(found: Round, step: inputs.Step, right: tolerance.Expected, causal: tolerance.Expected) -> Round:
    """With how far a causal mask would have been."""
    return replace(found, row=with_power(found.row, step, right, causal))


def together(rounds: Sequence[Round], rows: int) -> Row:
    """All rounds as one row: the first that is not right, and the worst of every number. ``rows``: of a request."""
    wrong = [number for number, found in enumerate(rounds) if found.row.state == "fail"]
    blind = [number for number, found in enumerate(rounds) if found.row.state == "inconclusive"]
    checked = sum(_number(found, "rows_checked") or 0.0 for found in rounds)
    numbers = [
        *(_worst(rounds, name, unit) for name, unit in (("max_error", "1"), ("max_error_of_bound", "bound"))),
        measurement("rows_checked", checked, "rows"),
        measurement("rows_not_written", float(sum(found.unwritten for found in rounds)), "rows"),
        measurement("rounds_wrong", float(len(wrong)), "rounds"),
        *(number for number in rounds[0].row.measurements if number["name"] == "causal_distance_of_bound"),
    ]
    if not wrong and not blind:
        worst = numbers[1]["value"]
        said = f"{len(rounds)} rounds of {rows} rows a request; the largest error is {worst:.2f} of its bound"
        return Row(state="pass", detail=said, measurements=numbers)
    first = (wrong or blind)[0]
    word = f"{len(wrong)} of {len(rounds)} rounds are wrong, the first is round {first}: " if wrong else ""
    return replace(rounds[first].row, detail=word + rounds[first].row.detail, measurements=numbers)


def caught(rounds: Sequence[Round], rows: int) -> Row:
    """A pass if the planted fault shows in some round, and in no row that it leaves alone."""
    seen = together(rounds, rows)
    for number, found in enumerate(rounds):
        alone = [fault.row for fault in found.row.faults if fault.row not in found.disturbed]
        if alone:
            said = f"round {number} is wrong in row {alone[0]}, which the fault leaves alone: {found.row.detail}"
            return replace(seen, state="fail", reason="not_caught", detail=said)
    if seen.state != "fail":
        return replace(seen, state="fail", reason="not_caught", detail=f"not caught: {seen.detail}")
    return replace(seen, state="pass", reason=None, detail=f"caught: {seen.detail}")


def _with_head(row: Row, asked: inputs.Problem) -> Row:
    """Faults of the output also name the head of the query."""
    faults = [
        replace(fault, detail=f"{fault.detail}, head {fault.element // asked.value_dim % asked.query_heads}")
        if fault.element is not None
        else fault
        for fault in row.faults
    ]
    return replace(row, faults=faults, detail="; ".join(fault.detail for fault in faults) or row.detail)


def _number(found: Round, name: str) -> float | None:
    values = [number["value"] for number in found.row.measurements if number["name"] == name]
    return values[0] if values else None


def _worst(rounds: Sequence[Round], name: str, unit: str) -> dict[str, Any]:
    values = [_number(found, name) for found in rounds]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return measurement(name, None, unit, reason="not every row is written with numbers")
    return measurement(name, max(known), unit)
