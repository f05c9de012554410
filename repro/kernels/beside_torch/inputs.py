"""Inputs of one verify step, as the release's backend lays them out, and a float64 reference that needs no kernel.

A verify of budget B has B + 1 query rows a request: the root and B drafted nodes (in SGLang ``num_draft_tokens`` is
budget + 1, and ``qo_indptr`` counts in steps of it). Each row sees the whole prefix, its ancestors and itself. The mask
is row-major, one byte a cell, ``rows x (prefix + rows)`` a request, one request after the other.
"""

import heapq
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

Tensor: TypeAlias = Any
Place: TypeAlias = Callable[[str, Tensor], Tensor]

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
DEPTH = 7
"""Deepest node below the root: a draft of block size 8 proposes 7 tokens."""
WIDTH = 6
"""Candidates for each depth, as in the DDTree pull request (sgl-project/sglang#29907, ``SGLANG_DDTREE_MAX_TOPK``)."""
MLA_QUERY_DIM = 192
"""Of DeepSeek's attention, 128 without and 64 with rotary embedding: what scores are scaled by."""
MLA_KEY_DIM = 576


@dataclass(frozen=True)
class Problem:
    """Sizes of one verify step. ``nodes`` of each request: how many rows its tree has, the root among them; rows beyond
    are padding, which no key of the tree is visible to. A padded slot has no node at all."""

    budget: int
    prefixes: tuple[int, ...]
    nodes: tuple[int, ...]
    query_heads: int
    key_heads: int
    key_dim: int
    value_dim: int
    dtype: str
    seed: int
    own_scale: float | None = None

    @property
    def rows(self) -> int:
        """Query rows of each request."""
        return self.budget + 1

    @property
    def is_latent(self) -> bool:
        """Whether values are the first part of the keys' cache, as in multi-head latent attention."""
        return self.key_dim == MLA_KEY_DIM

    @property
    def scale(self) -> float:
        """What scores are multiplied by: the model's own factor, where it has one."""
        if self.own_scale is not None:
            return self.own_scale
        return 1 / math.sqrt(MLA_QUERY_DIM if self.is_latent else self.key_dim)


@dataclass(frozen=True)
class Step:
    """The tensors of a verify step by the names of `tensors`, and the tree masks: ``rows x rows`` for each request."""

    problem: Problem
    tensors: Mapping[str, Tensor]
    trees: tuple[Tensor, ...]


def problem(cell: Mapping[str, Any], parameters: Mapping[str, Any]) -> Problem:
    """The problem of a planned case: its cell, and ``prefixes``, ``heads`` and ``seed`` of its parameters.

    The last request is a padded slot of a captured batch, whose keys are in slot 0 of the pool, and of the one before
    it the last rows are padding, since a tree may have fewer nodes than its budget.
    """
    budget = int(cell["budget"])
    prefixes = tuple(parameters["prefixes"])
    whole = [budget + 1] * (len(prefixes) - 2)
    query_heads, key_heads, key_dim, value_dim = parameters["heads"]
    return Problem(
        budget=budget,
        prefixes=prefixes,
        nodes=(*whole, max(2, budget + 1 - max(1, budget // 4)), 0),
        query_heads=query_heads,
        key_heads=key_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        dtype=cell["dtype"],
        seed=int(parameters["seed"]),
    )


def best_first_parents(nodes: int, seed: int) -> list[int]:
    """Parent of each node of a random tree that is grown best first; the root is node 0, its parent -1.

    As in the DDTree reference (liranringel/ddtree, arXiv 2604.12989): a heap keyed by the path's log-probability;
    taking a node out offers its next sibling and its first child. Parents come before their children.
    """
    source = random.Random(seed)  # noqa: S311 - a tree, no secret
    weights = [sorted((source.random() + 1e-3 for _ in range(WIDTH)), reverse=True) for _ in range(DEPTH)]
    score = [[math.log(weight / sum(level)) for weight in level] for level in weights]
    parents = [-1]
    heap = [(-score[0][0], 0, 0, 0)]  # minus log-probability, parent, depth, rank
    while heap and len(parents) < nodes:
        cost, parent, depth, rank = heapq.heappop(heap)
        parents.append(parent)
        if rank + 1 < WIDTH:
            heapq.heappush(heap, (cost + score[depth][rank] - score[depth][rank + 1], parent, depth, rank + 1))
        if depth + 1 < DEPTH:
            heapq.heappush(heap, (cost - score[depth + 1][0], len(parents) - 1, depth + 1, 0))
    return parents


def ancestor_mask(parents: list[int], rows: int) -> Tensor:
    """``rows x rows`` booleans: which rows of the tree each row sees. Rows beyond the tree see none."""
    mask = torch.zeros(rows, rows, dtype=torch.bool)
    for node, parent in enumerate(parents):
        if parent >= 0:
            mask[node] = mask[parent]
        mask[node, node] = True
    return mask


def build(asked: Problem, place: Place = lambda _, tensor: tensor) -> Step:
    """A verify step with random contents. ``place`` may put a named tensor somewhere else, or change its size."""
    generator = torch.Generator().manual_seed(asked.seed)
    dtype = DTYPES[asked.dtype]
    total = len(asked.prefixes) * asked.rows
    slots = sum(asked.prefixes) + total

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(dtype)

    queries = normal(total, asked.query_heads, asked.key_dim)
    keys = normal(slots + 1, asked.key_heads, asked.key_dim)
    values = keys[..., : asked.value_dim] if asked.is_latent else normal(slots + 1, asked.key_heads, asked.value_dim)
    order = torch.randperm(slots, generator=generator) + 1  # slot 0 is where padded requests point
    drafted = order[-total:]
    trees = [
        ancestor_mask(best_first_parents(nodes, asked.seed * 1000 + index) if nodes else [], asked.rows)
        for index, nodes in enumerate(asked.nodes)
    ]
    tensors = {
        "q": queries,
        "k_extend": keys[drafted].contiguous(),
        "v_extend": values[drafted].contiguous(),
        "o": torch.full((total, asked.query_heads, asked.value_dim), math.nan, dtype=dtype),
        "k_buffer": keys,
        "v_buffer": values,
        **_metadata(asked, order, trees),
    }
    return Step(problem=asked, tensors=_placed(tensors, place, asked), trees=tuple(trees))


def _metadata(asked: Problem, order: Tensor, trees: list[Tensor]) -> dict[str, Tensor]:
    """What the backend computes before the kernel, in the dtypes of its graph buffers."""
    indices, mask, used = [], [], 0
    for prefix, nodes, tree in zip(asked.prefixes, asked.nodes, trees, strict=True):
        indices.append(order[used : used + prefix] if nodes else torch.zeros(prefix, dtype=torch.int64))
        used += prefix
        mask.append(torch.cat([torch.ones(asked.rows, prefix, dtype=torch.bool), tree], dim=1).flatten())
    return {
        "qo_indptr": _starts([asked.rows] * len(trees), torch.int64),
        "kv_indptr": _starts(asked.prefixes, torch.int32),
        "kv_indices": torch.cat(indices).to(torch.int64),
        "mask": torch.cat(mask).to(torch.uint8),
        "mask_indptr": _starts([len(part) for part in mask], torch.int64),
    }


def _starts(lengths: Any, dtype: Any) -> Tensor:
    return torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=dtype)


def _placed(tensors: Mapping[str, Tensor], place: Place, asked: Problem) -> dict[str, Tensor]:
    """Values of latent attention stay a view of the keys' buffer."""
    placed = {name: place(name, tensor) for name, tensor in tensors.items() if name != "v_buffer"}
    latent = placed["k_buffer"][..., : asked.value_dim]
    return {**placed, "v_buffer": latent if asked.is_latent else place("v_buffer", tensors["v_buffer"])}


def eager(step: Step) -> Step:
    """The same step with the dtypes of the backend's path without graphs, which is other compiled code."""
    other = {"mask": step.tensors["mask"].bool(), "qo_indptr": step.tensors["qo_indptr"].int()}
    return Step(problem=step.problem, tensors={**step.tensors, **other}, trees=step.trees)


def launch(module: Any, step: Step, *, longest: int | None = None) -> Tensor:
    """Runs the release's own launch code on the step, as the Triton backend calls it. Returns ``o``: rows of all
    requests x heads x value dimension. ``longest``: the query length that the grid is made for, budget + 1 if None."""
    at = step.tensors
    rows = step.problem.rows if longest is None else longest
    scales = (1.0, 1.0, step.problem.scale)
    module.extend_attention_fwd(
        *(at[name] for name in ("q", "k_extend", "v_extend", "o", "k_buffer", "v_buffer")),
        *(at[name] for name in ("qo_indptr", "kv_indptr", "kv_indices", "mask")),
        True,
        at["mask_indptr"],
        rows,
        *scales,
    )
    return at["o"]
