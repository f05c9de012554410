"""Where the real kernel reads and writes, in Triton's interpreter, on tensors between guard pages.

Two methods that do not know of each other: the pointer checker looks at every address before it is used, and says what
is wrong; the guard pages end the process. A planted fault must be caught by both, at the same line of the kernel.
"""

import os

os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported

import faulthandler
import re
import signal
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import torch

from . import inputs, loading
from .guarded import Guarded
from .pointers import Checked, stray
from .protocol import Channel, Fault, Row, measurement

Tensor: TypeAlias = Any

EARLIER = 40
"""How many tokens more each request had in the step whose metadata is still there."""


def main(request: Mapping[str, Any], channel: Channel) -> None:
    torch.set_num_threads(1)  # the other side shards over processes, and one thread can be forked
    release = loading.find(request["sglang"], Path(request["scratch"]))
    module = loading.load(release)
    channel.subject(release.subject())
    channel.answer(request["cases"], lambda case: ask(module, release.kernel, case))


def ask(module: Any, kernel: str, case: Mapping[str, Any]) -> Row:
    """The row of a planned case, planted or not."""
    loading.emulate(module, case["cell"]["architecture"])
    asked = inputs.problem(case["cell"], case["parameters"])
    fault = PLANTED[case["planted"]] if case["planted"] else None

    def place(name: str, tensor: Tensor) -> Tensor:
        return guarded.place(name, fault.change(asked, name, tensor) if fault else tensor)

    with Guarded() as guarded:
        step = inputs.build(asked, place)
        row = _checked(module, kernel, step, guarded)
        if fault is not None:
            row = _planted_row(fault, row, _line_of_death(module, kernel, step))
    return replace(row, cell={"tile": loading.tile(module, asked.key_dim, asked.value_dim)})


def _checked(module: Any, kernel: str, step: inputs.Step, guarded: Guarded) -> Row:
    """With the pointer checker on."""
    try:
        with Checked(guarded, kernel, written={"o"}) as checked:
            inputs.launch(module, step)
    except Exception as error:
        found = stray(error)
        if found is None:
            raise
        fault = Fault("out_of_bounds", str(found), source=found.source, tensor=found.tensor, element=found.element)
        return Row(state="fail", reason="out_of_bounds", detail=str(found), faults=(fault,))
    numbers = (
        measurement("accesses_checked", float(checked.accesses), "accesses"),
        measurement("lanes_checked", float(checked.lanes), "lanes"),
    )
    said = f"{checked.lanes} lanes of {checked.accesses} accesses, all of them inside the tensors"
    return Row(state="pass", detail=said, measurements=numbers)


def _line_of_death(module: Any, kernel: str, step: inputs.Step) -> str | None:
    """The line of the kernel at which a child process dies of the guard pages alone; None if it does not."""
    with tempfile.TemporaryFile("w+") as said:
        child = os.fork()
        if child == 0:
            try:  # whatever happens, the child must not go on as a second program
                faulthandler.enable(file=said, all_threads=False)
                inputs.launch(module, step)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        said.seek(0)
        text = said.read()
    if not os.WIFSIGNALED(status) or os.WTERMSIG(status) not in (signal.SIGSEGV, signal.SIGBUS):
        return None
    found = re.search(rf'File "[^"\n]*{re.escape(kernel)}", line (\d+)', text)
    return f"{kernel.rpartition('/')[2]}:{found[1]}" if found else None


class _Fault:
    """What is wrong with one tensor, and the tensor that the kernel must then leave."""

    def __init__(self, changed: str, change: Callable[[inputs.Problem, Tensor], Tensor], left: str) -> None:
        self.left = left
        self._changed = changed
        self._change = change

    def change(self, asked: inputs.Problem, name: str, tensor: Tensor) -> Tensor:
        return self._change(asked, tensor) if name == self._changed else tensor


def _planted_row(fault: _Fault, seen: Row, death: str | None) -> Row:
    """A pass if both methods caught it at the same line, and in the right tensor."""
    first = seen.faults[0] if seen.faults else None
    if first is None:
        problem = f"the pointer checker missed it ({seen.detail})"
    elif first.tensor != fault.left:
        problem = f"the pointer checker names {first.tensor} instead of {fault.left}"
    elif death != first.source:
        problem = f"on guard pages alone the process dies at {death}, and the pointer checker names {first.source}"
    else:
        return Row(state="pass", detail=f"caught twice: {seen.detail}; killed at {death}", faults=seen.faults)
    return Row(state="fail", reason="not_caught", detail=problem, faults=seen.faults)


def _mask_for_budget_8(asked: inputs.Problem, mask: Tensor) -> Tensor:
    return mask[: sum(9 * (prefix + 9) for prefix in asked.prefixes)]


def _output_for_budget_8(asked: inputs.Problem, output: Tensor) -> Tensor:
    return output[: 9 * len(asked.prefixes)]


def _earlier_mask_starts(asked: inputs.Problem, starts: Tensor) -> Tensor:
    cells = torch.tensor([asked.rows * (prefix + EARLIER + asked.rows) for prefix in asked.prefixes])
    return torch.cat([starts[:1], cells.cumsum(0)]).to(starts.dtype)


def _earlier_key_starts(_: inputs.Problem, starts: Tensor) -> Tensor:
    return starts + EARLIER * torch.arange(len(starts), dtype=starts.dtype)


PLANTED: Mapping[str, _Fault] = {
    "mask_sized_for_budget_8": _Fault("mask", _mask_for_budget_8, "mask"),
    "stale_mask_indptr": _Fault("mask_indptr", _earlier_mask_starts, "mask"),
    "output_sized_for_budget_8": _Fault("o", _output_for_budget_8, "o"),
    "stale_kv_indptr": _Fault("kv_indptr", _earlier_key_starts, "kv_indices"),
}
"""Faults of a capture and its replays; each needs a budget above 8."""
