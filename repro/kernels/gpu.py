"""The GPU arm: the kernel on the GPU that is here, launched by itself and in CUDA graphs.

A plan cannot know the GPU: cells have no architecture in their id unless one was named, and every row says what it ran
on. Where another GPU is here than the named one, nothing is run.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, TypeAlias

from repro.kernels.case import QUICK_BUDGETS, Case, Parameter, Selection, capability, cell, head_shape
from repro.model.kernels import KernelMode

BUDGETS = (4, 8, 9, 12, 16, 24, 32)
SHAPES = ("gqa-64-8-128", "mla-12-1-576-512")
QUICK_SHAPES = ("gqa-64-8-128",)
BATCHES = (1, 2, 4)
"""The last one has a padded slot. Triton makes other code for a single request."""
QUICK_BATCHES = (4,)
MODES: tuple[KernelMode, ...] = (
    "eager",
    "eager-graph-dtypes",
    "replay-same",
    "replay-refreshed",
    "long-then-short",
    "short-then-long",
)
ROUNDS = 8
LONGEST = 256
"""Tokens of the longest prefix: four tiles of keys. In longer ones a single key weighs too little to be missed."""
PLANTED: tuple[tuple[str, KernelMode, int], ...] = (
    ("causal_mask", "eager", 16),
    ("slot_of_another_request", "eager-graph-dtypes", 16),
    ("stale_mask", "replay-refreshed", 16),
    ("stale_mask_indptr", "replay-refreshed", 16),
    ("stale_kv_indices", "long-then-short", 16),
    ("mask_sized_for_budget_8", "replay-refreshed", 16),
    ("grid_of_budget_8", "replay-refreshed", 32),
)
"""With mode and budget; in the process of the largest batch, which every plan has. The grid shows where a tile has
fewer rows than the verify: latent attention alone."""
PLANTED_BATCH = 2
"""In a larger batch of unequal prefixes a mask that is sized for the longest may be large enough for another budget."""
HIDDEN = "grid_of_budget_8"
WIDE_KEYS = 256
"""Above this many, SGLang's tiles have 16 or 32 query rows."""
LIMIT_S = 120.0

Tool: TypeAlias = Literal["memcheck", "racecheck", "initcheck", "synccheck"]
TOOLS: tuple[Tool, ...] = ("memcheck", "racecheck", "initcheck", "synccheck")
SANITIZED_BUDGETS = QUICK_BUDGETS
SANITIZED_MODES: tuple[KernelMode, ...] = ("eager-graph-dtypes", "replay-refreshed")
SANITIZED_ROUNDS = 2
SANITIZED_LONGEST = 128
SANITIZED_LIMIT_S = 300.0
SANITIZER_PLANTED = {"memcheck": "mask_sized_for_budget_8", "initcheck": "mask_never_written"}
"""Of races and barriers none is planted: the kernel gives no way to put one in from outside."""


def plan(selection: Selection) -> tuple[Case, ...]:
    """Planted faults first, then every cell; last the few under compute-sanitizer, if any tool was named."""
    architectures = selection.architectures or (None,)
    for name in selection.architectures or ():
        capability(name)
    return tuple(
        case for name in architectures for make in (_planted, _asked, _sanitized) for case in make(selection, name)
    )


def _planted(selection: Selection, architecture: str | None) -> Iterator[Case]:
    for shape in selection.some_shapes(SHAPES, QUICK_SHAPES):
        for fault, mode, budget in PLANTED:
            if fault != HIDDEN or head_shape(shape).key_dim > WIDE_KEYS:
                case = _case(architecture, shape, budget, PLANTED_BATCH, mode, planted=fault)
                yield replace(case, group=f"gpu-{shape}-bs{BATCHES[-1]}")


def _asked(selection: Selection, architecture: str | None) -> Iterator[Case]:
    budgets = selection.budgets or (QUICK_BUDGETS if selection.quick else BUDGETS)
    for shape in selection.some_shapes(SHAPES, QUICK_SHAPES):
        for batch in QUICK_BATCHES if selection.quick else BATCHES:
            for budget in budgets:
                for mode in MODES:
                    yield _case(architecture, shape, budget, batch, mode)


def _sanitized(selection: Selection, architecture: str | None) -> Iterator[Case]:
    for tool in selection.sanitizers:
        for shape in selection.some_shapes(SHAPES, QUICK_SHAPES):
            if tool in SANITIZER_PLANTED:
                fault = SANITIZER_PLANTED[tool]
                yield _under(tool, _case(architecture, shape, 16, 2, "replay-refreshed", tool, planted=fault))
            for budget in selection.budgets or SANITIZED_BUDGETS:
                for mode in SANITIZED_MODES:
                    yield _under(tool, _case(architecture, shape, budget, 2, mode, tool))


def _under(tool: str, case: Case) -> Case:
    fewer: dict[str, Parameter] = {
        "rounds": SANITIZED_ROUNDS,
        "longest": SANITIZED_LONGEST,
        "tight": True,
        "tool": tool,
    }
    return replace(
        case,
        program="gpu_sanitizer",
        group=f"gpu-{tool}-{case.cell.shape}-{case.cell.mode}",
        parameters={**case.parameters, **fewer, "tool": tool},
        limit_s=SANITIZED_LIMIT_S,
    )


def _case(
    architecture: str | None,
    shape: str,
    budget: int,
    batch: int,
    mode: KernelMode,
    *parts: str,
    planted: str | None = None,
) -> Case:
    heads = head_shape(shape)
    plain = cell(mode, *parts, architecture=architecture, budget=budget, shape=shape, batch=batch, dtype="bf16")
    return Case(
        check="kernel-gpu",
        evidence_class="gpu",
        program="gpu",
        group=f"gpu-{shape}-bs{batch}",
        cell=replace(plain, mode=mode),
        planted=planted,
        parameters={
            "heads": (heads.query_heads, heads.key_heads, heads.key_dim, heads.value_dim),
            "rounds": ROUNDS,
            "longest": LONGEST,
            "seed": budget,
        },
        limit_s=LIMIT_S,
    )
