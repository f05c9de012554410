"""What the kernel's output must be, in float64, and how far rounding alone can move it: a bound for every element.

The bound is derived, not chosen. Notation: u is the unit roundoff of the accumulator (2**-24 for float32), and
gamma(n) = n u / (1 - n u) bounds the relative error of a sum of n products against the sum of their absolute values, in
any order (Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 3.1). For one row and head, with
scores s_j = scale * q.k_j, m their maximum, w_j = softmax(s)_j, o = sum_j w_j v_j, N keys in T tiles of keys:

1. a score is off by at most d_j = gamma(L + 2) * scale * |q|.|k_j| + 3 u |s_j|: L products, two partial sums that are
   added, and the roundings of the scale, of its product with k_scale, and of the product with it;
2. exp(s_j - m) is taken relative to a running maximum and rescaled for each tile. The differences add up to m - s_j
   whatever the tiles are, so the weight's relative error e_j is at most expm1(d_j + u (m - s_j) + u (c + 1)(T + 1)),
   with c u the relative error of the exponential function itself;
3. numerator and denominator both carry it: sum_j w_j e_j |v_j| + |o| sum_j w_j e_j;
4. weights are rounded to the dtype of the values before the second product, not before they are summed: u_v sum_j w_j
   |v_j|, where u_v is the unit roundoff of that dtype (0 for float32), and half of its smallest subnormal for each key,
   since they are at most 1 and the denominator is at least 1;
5. both sums: gamma(N + T) (sum_j w_j |v_j| + |o|); division: u |o|; the output's own rounding: u_o |o| and half of its
   smallest subnormal.

Inputs are no source of error: the reference takes the same rounded inputs, exactly. Everything is first order except
where expm1 and gamma say otherwise; the terms left out are below 1e-4 of the bound.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from .inputs import DTYPES, Step

Tensor: TypeAlias = Any


@dataclass(frozen=True)
class Arithmetic:
    """How exactly a device adds and takes exponentials. ``exp_units``: error of its exponential in ``unit``."""

    unit: float
    exp_units: float


INTERPRETER = Arithmetic(unit=2.0**-24, exp_units=2 * 2.52)
"""NumPy in float32: its vectorised exp is off by at most 2.52 ulp, says its source (loops_exponent_log.dispatch.c.src;
2.43 in 20 million values that we tried), and an ulp is two units."""

GPU = Arithmetic(unit=2.0**-22, exp_units=1.0)
"""Tensor cores sum a block of exact products and the accumulator at once, aligned to the largest of them and cut off
behind its last bit (Fasi, Higham, Mikaitis and Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ CS 7:e330, for
V100 to A100, of which V100 keeps no bit more): a block of b products loses less than (b + 1) 2**-23 of the largest, so
n terms in all blocks less than n (1 + 1/b) 2**-23 of the sum of sizes; 2**-22 holds for any block. The exponential
is ex2.approx of a product with log2(e): 2 units in the last place, 2**-22, says the CUDA C++ programming guide of
exp2f; the product's two roundings, of 2**-24 each, are within what the unit leaves of the subtraction's."""


@dataclass(frozen=True)
class Expected:
    """Rows x heads x value dimension, float64. ``output`` is NaN where a row has nothing to look at: softmax of nothing
    is not defined. ``bound`` is the largest error that rounding explains; ``seen`` the share of single wrong bits of
    the tree masks (rows x rows of each request with a tree) that move some element by more than twice its bound."""

    output: Tensor
    bound: Tensor
    seen: float | None


def gamma(terms: int, unit: float) -> float:
    """Higham's gamma: the relative error bound of ``terms`` roundings."""
    return terms * unit / (1 - terms * unit)


def expected(
    step: Step, arithmetic: Arithmetic, key_tile: int, *, causal: bool = False, power: bool = False
) -> Expected:
    """What the kernel should write for this step. ``key_tile``: keys a tile. ``causal``: as if the tree were a chain,
    to show that the masks matter. ``power``: also what single mask bits change."""
    asked, at = step.problem, step.tensors
    outputs, bounds = [], []
    seen = bits = 0
    for index, (nodes, tree) in enumerate(zip(asked.nodes, step.trees, strict=True)):
        first = index * asked.rows
        rows = slice(first, first + asked.rows)
        slots = at["kv_indices"][int(at["kv_indptr"][index]) : int(at["kv_indptr"][index + 1])]
        group = asked.query_heads // asked.key_heads
        keys, values = (
            torch.cat([at[buffer][slots], at[drafted][rows]]).double().repeat_interleave(group, 1)
            for buffer, drafted in (("k_buffer", "k_extend"), ("v_buffer", "v_extend"))
        )
        visible = torch.tril(torch.ones_like(tree)) if causal else tree
        mask = torch.cat([torch.ones(asked.rows, len(slots), dtype=torch.bool), visible.cpu()], dim=1)
        request = _Request(at["q"][rows].double(), keys, values, mask.to(keys.device), asked.scale)
        outputs.append(request.output)
        bounds.append(request.bound(arithmetic, key_tile, asked.dtype))
        if power and nodes:
            found = request.flips(bounds[-1])[:, len(slots) :]
            seen, bits = seen + int(found.sum()), bits + found.numel()
    share = seen / bits if bits else None
    return Expected(output=torch.cat(outputs), bound=torch.cat(bounds), seen=share)


class _Request:
    """One request in float64: queries rows x heads x L, keys and values keys x heads x …, mask rows x keys."""

    def __init__(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scale: float) -> None:
        self.values = values
        self.mask = mask
        self.terms = queries.shape[-1]
        self.scores = torch.einsum("qhd,khd->qhk", queries, keys) * scale
        self.score_sizes = torch.einsum("qhd,khd->qhk", queries.abs(), keys.abs()) * scale
        self.masked = self.scores.masked_fill(~mask[:, None, :], -torch.inf)
        self.weights = self.masked.softmax(-1)
        self.output = torch.einsum("qhk,khd->qhd", self.weights, values)

    def bound(self, arithmetic: Arithmetic, key_tile: int, dtype: str) -> Tensor:
        """rows x heads x value dimension; the numbers are those of the module's text."""
        u, kind = arithmetic.unit, torch.finfo(DTYPES[dtype])
        keys = self.mask.shape[1]
        tiles = keys // key_tile + 2  # the prefix and the drafted keys are tiled apart
        maximum = self.masked.amax(-1, keepdim=True)
        score_error = gamma(self.terms + 2, u) * self.score_sizes + 3 * u * self.scores.abs()
        rescaling = u * (maximum - self.masked) + u * (arithmetic.exp_units + 1) * (tiles + 1)
        weight_error = torch.where(self.mask[:, None, :], self.weights * torch.expm1(score_error + rescaling), 0.0)
        sizes, sized = self.values.abs(), self.output.abs()
        carried = torch.einsum("qhk,khd->qhd", weight_error, sizes) + sized * weight_error.sum(-1, keepdim=True)
        weighed = torch.einsum("qhk,khd->qhd", self.weights, sizes)
        sums = gamma(keys + tiles, u) * (weighed + sized) + u * sized
        if dtype == "fp32":
            return carried + sums + u * sized
        rounding, subnormal = kind.eps / 2, kind.tiny * kind.eps / 2
        looked_at = torch.einsum("qk,khd->qhd", self.mask.double(), sizes)
        return carried + sums + rounding * (weighed + sized) + subnormal * (looked_at + 1)

    def flips(self, bound: Tensor) -> Tensor:
        """rows x keys: whether the output tells a mask bit from its opposite."""
        total = torch.logsumexp(self.masked, -1, keepdim=True)
        alone = torch.exp(self.scores - total)  # of a hidden key: its share against all visible ones
        shown = self.mask[:, None, :]
        moved = torch.where(shown, self.weights / (1 - self.weights), alone / (1 + alone))
        seen = torch.zeros_like(self.mask)
        for key in range(self.mask.shape[1]):
            change = moved[:, :, key, None] * (self.values[key] - self.output).abs()
            seen[:, key] = (change > 2 * bound).flatten(1).any(1)
        return seen
