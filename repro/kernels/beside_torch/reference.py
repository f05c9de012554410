"""The real kernel in Triton's interpreter against float64, element by element within a derived bound."""

import os

os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from . import disturb, inputs, loading, tolerance
from .comparison import compared, planted_row, with_power
from .protocol import Channel, Row

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
        disturbed = disturb.PLANTED[case["planted"]](step)
        return planted_row(disturbed, compared(step, inputs.launch(module, step), right, tile))
    row = compared(step, inputs.launch(module, step), right, tile)
    causal = tolerance.expected(step, tolerance.INTERPRETER, int(tile.partition("x")[2]), causal=True)
    return with_power(row, step, right, causal)


def _bf16_dot() -> str:
    """What a dot of ones comes out as: 16.0 if the interpreter ever learns it."""
    import triton
    import triton.language as tl

    def product(ones: Any, out: Any) -> None:
        at = tl.arange(0, 16)
        tile = at[:, None] * 16 + at[None, :]
        one = tl.load(ones + tile)
        tl.store(out + tile, tl.dot(one, one))

    out = torch.zeros(16, 16)
    triton.jit(product)[(1,)](torch.ones(16, 16, dtype=torch.bfloat16), out)
    return f"{float(out[0, 0]):g}"
