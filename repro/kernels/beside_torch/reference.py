"""The real kernel in Triton's interpreter against float64, element by element within a derived bound."""

import os

os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import torch

from . import inputs, loading, tolerance
from .protocol import Channel, Fault, Row, measurement

Tensor: TypeAlias = Any

NO_BF16 = (
    "the interpreter keeps bf16 as bit patterns in 16-bit integers, and its dot multiplies those: nothing that it says "
    "of bf16 counts, here {0} for 1 x 1 summed over 16; fp16 has the same route through the kernel"
)


def main(request: Mapping[str, Any], channel: Channel) -> None:
    torch.set_num_threads(1)  # the other side shards over processes
    release = loading.find(request["sglang"], Path(request["scratch"]))
    module = loading.load(release)
    channel.subject(release.subject())
    channel.answer(request["cases"], lambda case: ask(module, case))


def ask(module: Any, case: Mapping[str, Any]) -> Row:
    """The row of a planned case, planted or not."""
    cell = case["cell"]
    if cell["dtype"] == "bf16":
        return Row(state="not_applicable", reason="bf16_in_interpreter", detail=NO_BF16.format(_bf16_dot()))
    loading.emulate(module, cell["architecture"])
    asked = inputs.problem(cell, case["parameters"])
    tile = loading.tile(module, asked.key_dim, asked.value_dim)
    step = inputs.build(asked)
    right = tolerance.expected(step, tolerance.INTERPRETER, int(tile.partition("x")[2]), power=case["planted"] is None)
    if case["planted"]:
        disturbed = PLANTED[case["planted"]](step)
        return planted_row(disturbed, _compared(step, inputs.launch(module, step), right, tile))
    row = _compared(step, inputs.launch(module, step), right, tile)
    causal = tolerance.expected(step, tolerance.INTERPRETER, int(tile.partition("x")[2]), causal=True)
    return _with_power(row, step, right, causal)


def _bf16_dot() -> str:
    """What a dot of ones comes out as: 16.0 if the interpreter ever learns it."""
    import triton
    import triton.language as tl

    def ones(out: Any) -> None:
        one = tl.full([16, 16], 1.0, tl.bfloat16)
        at = tl.arange(0, 16)
        tl.store(out + at[:, None] * 16 + at[None, :], tl.dot(one, one))

    out = torch.zeros(16, 16)
    triton.jit(ones)[(1,)](out)
    return f"{float(out[0, 0]):g}"


def _compared(step: inputs.Step, output: Tensor, right: tolerance.Expected, tile: str) -> Row:
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
        empty = output[undefined]
        numbers.append(measurement("rows_without_keys", float(undefined.sum()), "rows"))
        numbers.append(measurement("rows_without_keys_nan", float(empty.isnan().flatten(1).any(1).sum()), "rows"))
    if not outside.any():
        worst = float(excess.max())
        said = f"{int(defined.sum())} rows within the bound; the largest error is {worst:.2f} of it"
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


def _with_power(row: Row, step: inputs.Step, right: tolerance.Expected, causal: tolerance.Expected) -> Row:
    """With how far a causal mask would have been (in the row that it moves least of those whose mask differs), and
    whether single wrong bits of the masks would show."""
    moved = ((causal.output - right.output).abs() / right.bound).flatten(1).amax(1)
    chain = step.trees[0].new_ones(step.trees[0].shape).tril()
    differs = torch.cat([(tree != chain).any(1) for tree in step.trees]) & ~moved.isnan()
    distance = float(moved[differs].min()) if differs.any() else math.inf
    same = None if differs.any() else "every tree is a chain"
    numbers = [
        *row.measurements,
        measurement("causal_distance_of_bound", None if same else distance, "bound", reason=same),
    ]
    if right.seen is not None:
        numbers.append(measurement("mask_bits_seen", right.seen, "share"))
    if row.state == "pass" and not distance > 2:
        said = f"a causal mask would be {distance:.2g} of the bound away: this case cannot tell the masks apart"
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


def _causal_mask(step: inputs.Step) -> frozenset[int]:
    """The kernel sees a chain instead of the trees."""
    rows, disturbed = step.problem.rows, set()
    for index, tree in enumerate(step.trees):
        chain = torch.tril(torch.ones_like(tree))
        _mask_of(step, index)[:, -rows:] = chain
        disturbed |= {index * rows + row for row in range(rows) if bool((chain[row] != tree[row]).any())}
    return frozenset(disturbed)


def _hidden_root(step: inputs.Step) -> frozenset[int]:
    """One bit: the last row of the first request does not see its root."""
    rows = step.problem.rows
    _mask_of(step, 0)[rows - 1, -rows] = 0
    return frozenset({rows - 1})


def _slot_of_another(step: inputs.Step) -> frozenset[int]:
    """One entry of kv_indices: the first request's first key is taken from another request."""
    indices = step.tensors["kv_indices"]
    indices[0] = indices[int(step.tensors["kv_indptr"][1])].clone()
    return frozenset(range(step.problem.rows))


def _mask_of(step: inputs.Step, index: int) -> Tensor:
    """The mask of one request, rows x (prefix + rows): a view."""
    starts = step.tensors["mask_indptr"]
    return step.tensors["mask"][int(starts[index]) : int(starts[index + 1])].view(step.problem.rows, -1)


PLANTED: Mapping[str, Callable[[inputs.Step], frozenset[int]]] = {
    "causal_mask": _causal_mask,
    "hidden_root": _hidden_root,
    "slot_of_another_request": _slot_of_another,
}
"""What each fault changes in a step that is about to run; returns the rows of the output that it disturbs."""
