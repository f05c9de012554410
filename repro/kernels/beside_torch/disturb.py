"""What is put wrong into a step on purpose. Each function changes a step that is about to run, and returns the rows of
the output that it disturbs."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch

from .inputs import Step

Tensor: TypeAlias = Any


def causal_mask(step: Step) -> frozenset[int]:
    """The kernel sees a chain instead of the trees."""
    rows, disturbed = step.problem.rows, set()
    for index, tree in enumerate(step.trees):
        chain = torch.tril(torch.ones_like(tree))
        mask_of(step, index)[:, -rows:] = chain
        disturbed |= {index * rows + row for row in range(rows) if bool((chain[row] != tree[row]).any())}
    return frozenset(disturbed)


def hidden_root(step: Step) -> frozenset[int]:
    """One bit: the last row of the first request does not see its root."""
    rows = step.problem.rows
    mask_of(step, 0)[rows - 1, -rows] = 0
    return frozenset({rows - 1})


def slot_of_another_request(step: Step) -> frozenset[int]:
    """One entry of kv_indices: the first request's first key is taken from another request."""
    indices = step.tensors["kv_indices"]
    indices[0] = indices[int(step.tensors["kv_indptr"][1])].clone()
    return frozenset(range(step.problem.rows))


def mask_of(step: Step, index: int) -> Tensor:
    """The mask of one request, rows x (prefix + rows): a view."""
    starts = step.tensors["mask_indptr"]
    return step.tensors["mask"][int(starts[index]) : int(starts[index + 1])].view(step.problem.rows, -1)


PLANTED: Mapping[str, Callable[[Step], frozenset[int]]] = {
    "causal_mask": causal_mask,
    "hidden_root": hidden_root,
    "slot_of_another_request": slot_of_another_request,
}
