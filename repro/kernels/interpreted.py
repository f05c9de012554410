"""Cases of the two arms that interpret the kernel: against a float64 reference, and between guard pages."""

from collections.abc import Iterator, Mapping

from repro.kernels.case import Case, Parameter, Selection, capability, cell, head_shape
from repro.model.kernels import KernelCheck

PREFIXES = (37, 130, 1)
"""Two requests whose prefixes end inside a tile, one of them longer than two tiles, and a padded slot."""
EMPTY_PREFIXES = (37, 130, 0)
"""As above, but nothing at all for the padded slot to look at."""
DTYPES = ("fp32", "fp16")
REFERENCE_FAULTS = ("causal_mask", "hidden_root", "slot_of_another_request")
MEMORY_FAULTS = ("mask_sized_for_budget_8", "stale_mask_indptr", "output_sized_for_budget_8", "stale_kv_indptr")
MEMORY_FAULT_BUDGET = 16
LIMIT_S = 300.0
"""A case takes about a second; a shared host has been thirty times slower."""


def reference(selection: Selection) -> tuple[Case, ...]:
    """Planted faults first, then each budget in both dtypes for each architecture and shape; bf16 once, refused."""
    return tuple(_reference(selection))


def memory(selection: Selection) -> tuple[Case, ...]:
    """Planted faults first, then every budget, for each architecture and shape."""
    return tuple(_memory(selection))


def _reference(selection: Selection) -> Iterator[Case]:
    budgets = selection.some_budgets()
    pairs = _pairs(selection)
    for architecture, shape in pairs:
        for fault in REFERENCE_FAULTS:
            yield _case("kernel-reference", architecture, shape, budgets[0], "fp16", planted=fault)
    for architecture, shape in pairs:
        yield _case("kernel-reference", architecture, shape, budgets[0], "fp16", prefixes=EMPTY_PREFIXES)
        for budget in budgets:
            for dtype in DTYPES:
                yield _case("kernel-reference", architecture, shape, budget, dtype)
    yield _case("kernel-reference", *pairs[0], budgets[0], "bf16")


def _memory(selection: Selection) -> Iterator[Case]:
    pairs = _pairs(selection)
    for architecture, shape in pairs:
        for fault in MEMORY_FAULTS:
            yield _case("kernel-memory", architecture, shape, MEMORY_FAULT_BUDGET, "fp16", planted=fault)
    for architecture, shape in pairs:
        for budget in selection.some_budgets():
            yield _case("kernel-memory", architecture, shape, budget, "fp16")


def _pairs(selection: Selection) -> list[tuple[str, str]]:
    return [(name, shape) for name in selection.some_architectures() for shape in selection.some_shapes()]


def _case(
    check: KernelCheck,
    architecture: str,
    shape: str,
    budget: int,
    dtype: str,
    *,
    planted: str | None = None,
    prefixes: tuple[int, ...] = PREFIXES,
) -> Case:
    heads = head_shape(shape)
    capability(architecture)
    parts = () if prefixes == PREFIXES else ("empty",)
    parameters: Mapping[str, Parameter] = {
        "heads": (heads.query_heads, heads.key_heads, heads.key_dim, heads.value_dim),
        "prefixes": prefixes,
        "seed": budget,
    }
    return Case(
        check=check,
        evidence_class="interpreted",
        program=check.removeprefix("kernel-"),
        group=f"{architecture}-{shape}",
        cell=cell(*parts, architecture=architecture, budget=budget, shape=shape, batch=len(prefixes), dtype=dtype),
        planted=planted,
        parameters=parameters,
        limit_s=LIMIT_S,
    )
