"""Static buffers of a captured verify step: made once for the longest step, refreshed before each replay.

As SGLang's graph runner does it: what the captured launches were given stays where it is and as large as it is, and new
contents are copied into its beginning. What a step does not use is poisoned, so that whoever reads it is found out: NaN
in numbers, 0xFF in the mask (every key visible), a slot behind the pool in indices, a length beyond all memory in
starts.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch

from .inputs import DTYPES, Place, Problem, Step

Tensor: TypeAlias = Any

SPARE = 3
"""Entries of each buffer that no step uses."""
FILL_PREFIX = 1
"""Prefix of every request at capture, as SGLang's Triton backend has it (get_cuda_graph_seq_len_fill_value)."""
VISIBLE = 0xFF
BEYOND_MEMORY = 1 << 30
STARTS = ("qo_indptr", "kv_indptr", "mask_indptr")


@dataclass(frozen=True)
class Static:
    """``tensors`` by the names of a step's, and ``out_cache_loc``: int64, slots of the pool that drafted keys are
    written to. ``problem`` has the sizes: of its prefixes each is the longest. ``slots`` are those of the pool."""

    problem: Problem
    tensors: Mapping[str, Tensor]
    slots: int

    def step(self) -> Step:
        """What the captured launch is given: these buffers, cut to the batch where the launch takes its size from a
        shape."""
        entries = len(self.problem.prefixes) + 1
        cut = {name: self.tensors[name][:entries] for name in STARTS}
        return Step(problem=self.problem, tensors={**self.tensors, **cut}, trees=())

    def refresh(self, step: Step, leave: Collection[str] = ()) -> None:
        """Takes a step's contents over, but those of ``leave``, which stay as they are; outputs become NaN.

        What does not fit is cut off, as a program would that writes into a buffer without asking for its size.
        """
        drafted = self.drafted_slots(step)
        contents = {**step.tensors, "out_cache_loc": drafted}
        for name, buffer in self.tensors.items():
            if name in leave or (name == "v_buffer" and self.problem.is_latent):
                continue
            fitting = contents[name][: len(buffer)] if name != "o" else contents[name][:0]
            buffer[: len(fitting)].copy_(fitting)
            buffer[len(fitting) :].fill_(self._poison(name))
            if name in ("k_buffer", "v_buffer"):
                buffer[drafted.to(buffer.device)] = math.nan  # the captured step writes them

    def drafted_slots(self, step: Step) -> Tensor:
        """Where the step's drafted keys go: slots of its pool that no request looks at, shuffled."""
        at = step.tensors
        free = torch.ones(len(at["k_buffer"]), dtype=torch.bool)
        free[at["kv_indices"].cpu()] = False
        free[0] = False
        generator = torch.Generator().manual_seed(step.problem.seed)
        slots = free.nonzero().flatten()
        return slots[torch.randperm(len(slots), generator=generator)][: len(at["k_extend"])]

    def _poison(self, name: str) -> float:
        if name in STARTS:
            return BEYOND_MEMORY
        return {"mask": VISIBLE, "kv_indices": self.slots, "out_cache_loc": 0}.get(name, math.nan)


def make(
    problem: Problem, place: Place = lambda _, tensor: tensor, *, mask_rows: int | None = None, pool: int = 0
) -> Static:
    """Buffers for steps of this problem with prefixes up to its own. ``mask_rows``: how many rows a request the mask's
    buffer is made for, those of the problem if None; ``pool``: how many slots the pool has at least; ``place`` may put
    a named tensor somewhere else."""
    batch, dtype = len(problem.prefixes), DTYPES[problem.dtype]
    total, longest = batch * problem.rows, max(problem.prefixes)
    masked = mask_rows or problem.rows
    slots = max(pool, batch * longest + total + 1) + SPARE
    heads = (problem.query_heads, problem.key_heads)
    shapes: Mapping[str, tuple[tuple[int, ...], Any]] = {
        "q": ((total + SPARE, heads[0], problem.key_dim), dtype),
        "k_extend": ((total + SPARE, heads[1], problem.key_dim), dtype),
        "v_extend": ((total + SPARE, heads[1], problem.value_dim), dtype),
        "o": ((total + SPARE, heads[0], problem.value_dim), dtype),
        "k_buffer": ((slots, heads[1], problem.key_dim), dtype),
        "v_buffer": ((slots, heads[1], problem.value_dim), dtype),
        "qo_indptr": ((batch + 1 + SPARE,), torch.int64),
        "kv_indptr": ((batch + 1 + SPARE,), torch.int32),
        "kv_indices": ((batch * longest + SPARE,), torch.int64),
        "mask": ((batch * masked * (longest + masked),), torch.uint8),
        "mask_indptr": ((batch + 1 + SPARE,), torch.int64),
        "out_cache_loc": ((total,), torch.int64),
    }
    tensors = {
        name: place(name, torch.zeros(shape, dtype=kind))
        for name, (shape, kind) in shapes.items()
        if name != "v_buffer" or not problem.is_latent
    }
    if problem.is_latent:
        tensors["v_buffer"] = tensors["k_buffer"][..., : problem.value_dim]
    return Static(problem=problem, tensors=tensors, slots=slots)


def with_prefixes(problem: Problem, prefixes: tuple[int, ...], seed: int) -> Problem:
    """The same problem at another moment: other prefixes, and other contents by another seed."""
    return replace(problem, prefixes=prefixes, seed=seed)


def misread_rows(static: Static, step: Step) -> frozenset[int]:
    """Rows of the output that see other drafted keys than the step's trees say, by what mask and starts hold now.

    Of the mask the kernel reads the columns of drafted keys only; the whole prefix is visible to every row.
    """
    mask, starts = static.tensors["mask"].cpu(), static.tensors["mask_indptr"].cpu()
    rows, found = step.problem.rows, set()
    for request, (prefix, tree) in enumerate(zip(step.problem.prefixes, step.trees, strict=True)):
        for row in range(rows):
            first = int(starts[request]) + row * (prefix + rows) + prefix
            if (mask[first : first + rows] != 0).tolist() != tree[row].tolist():
                found.add(request * rows + row)
    return frozenset(found)
