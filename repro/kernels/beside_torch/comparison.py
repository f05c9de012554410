"""The kernel's output beside what it must be: which rows are wrong or were never written, and what a case can see."""

import math
from dataclasses import replace
from typing import Any, TypeAlias

import torch

from . import inputs, tolerance
from .protocol import Fault, Row, measurement

Tensor: TypeAlias = Any


def compared(step: inputs.Step, output: Tensor, right: tolerance.Expected, tile: str) -> Row:
    """Every element of the output against its bound."""
    error = (output.double() - right.output).abs()
    undefined = right.output.isnan().all(-1).all(-1)
    defined = ~undefined
    excess = (error / right.bound)[defined]
    unwritten = defined & output.isnan().all(-1).all(-1)
    outside = defined & ~(error <= right.bound).flatten(1).all(1)
    numbers = [
        measurement("max_error", _finite(error[defined].max()), "1", reason=_why(error[defined])),
        measurement("max_error_of_bound", _finite(excess.max()), "bound", reason=_why(excess)),
        measurement("rows_checked", float(defined.sum()), "rows"),
    ]
    if undefined.any():
        count, nan = int(undefined.sum()), int(output[undefined].isnan().flatten(1).any(1).sum())
        numbers.append(measurement("rows_without_keys", float(count), "rows"))
        numbers.append(measurement("rows_without_keys_nan", float(nan), "rows"))
    if not outside.any():
        worst = float(excess.max())
        said = f"{int(defined.sum())} rows within the bound; the largest error is {worst:.2f} of it"
        if undefined.any():
            said += f"; of {count} rows with nothing to look at {nan} are NaN"
        return Row(state="pass", detail=said, cell={"tile": tile}, measurements=numbers)
    faults = _faults(step, error, right.bound, unwritten, outside)
    detail = "; ".join(fault.detail for fault in faults)
    reason = "rows_not_written" if unwritten.any() else "wrong_values"
    return Row(state="fail", reason=reason, detail=detail, cell={"tile": tile}, measurements=numbers, faults=faults)


def _faults(step: inputs.Step, error: Tensor, bound: Tensor, unwritten: Tensor, outside: Tensor) -> list[Fault]:
    """The first row of each kind."""
    found = []
    for kind, rows in (("rows_not_written", unwritten), ("wrong_values", outside & ~unwritten)):
        if not rows.any():
            continue
        row = int(rows.nonzero()[0])
        excess = (error[row] / bound[row]).nan_to_num(math.inf).flatten()
        element = row * len(excess) + int(excess.argmax())
        where = f"row {row % step.problem.rows} of request {row // step.problem.rows}"
        said = {
            "rows_not_written": f"{int(rows.sum())} rows are not written, the first is {where}",
            "wrong_values": f"{int(rows.sum())} rows are off by more than rounding, the first is {where}, "
            f"{float(excess.max()):.3g} times its bound",
        }
        found.append(Fault(kind=kind, tensor="o", element=element, row=row, detail=said[kind]))
    return found


def with_power(row: Row, step: inputs.Step, right: tolerance.Expected, causal: tolerance.Expected) -> Row:
    """With how far a causal mask would have been (in the row that it moves least of those whose mask differs), and
    whether single wrong bits of the masks would show."""
    moved = ((causal.output - right.output).abs() / right.bound).flatten(1).amax(1)
    chain = step.trees[0].new_ones(step.trees[0].shape).tril()
    differs = torch.cat([(tree != chain).any(1) for tree in step.trees]).to(moved.device) & ~moved.isnan()
    distance = float(moved[differs].min()) if differs.any() else None
    same = None if differs.any() else "every tree is a chain"
    numbers = [*row.measurements, measurement("causal_distance_of_bound", distance, "bound", reason=same)]
    if right.seen is not None:
        numbers.append(measurement("mask_bits_seen", right.seen, "share"))
    if row.state == "pass" and differs.any() and not bool((moved[differs] > 2).any()):
        said = "a causal mask would be within twice the bound in every row: this case cannot tell the masks apart"
        return replace(row, state="inconclusive", reason="no_power", detail=said, measurements=numbers)
    return replace(row, measurements=numbers)


def _finite(value: Tensor) -> float | None:
    return float(value) if value.isfinite() else None


def _why(values: Tensor) -> str | None:
    return None if values.max().isfinite() else "not every row is written with numbers"


def planted_row(disturbed: frozenset[int], seen: Row) -> Row:
    """A pass if the fault was seen, and first in a row that it disturbs."""
    named = [fault.row for fault in seen.faults]
    if seen.state != "fail":
        return replace(seen, state="fail", reason="not_caught", detail=f"not caught: {seen.detail}")
    if not disturbed.issuperset(named):
        said = f"caught, but in row {named[0]}, which the fault leaves alone: {seen.detail}"
        return replace(seen, reason="not_caught", detail=said)
    return replace(seen, state="pass", reason=None, detail=f"caught: {seen.detail}")
