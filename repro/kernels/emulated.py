"""Cases of emulated capture and replay: the real kernel on static buffers whose contents change."""

from collections.abc import Iterator

from repro.kernels.case import Case, Selection, capability, cell, head_shape

ARCHITECTURES = ("sm_103", "sm_120")
QUERY_TILES = ("gqa-4-2-128", "mla-2-1-576-512")
"""One shape for each query tile: of the default shapes only latent attention has a smaller one."""
LONGEST = (96, 96, 1)
"""Two requests with the longest prefixes that the buffers are made for, and a padded slot."""
DTYPE = "fp32"
FAULTS = (
    ("mask_sized_for_budget_8", 16),
    ("grid_of_budget_8", 16),
    ("grid_of_budget_8", 32),
    ("stale_mask_indptr", 16),
    ("stale_mask", 16),
    ("stale_out_cache_loc", 16),
    ("host_sync", 16),
)
"""With the budget that each is planted at."""
LIMIT_S = 300.0


def plan(selection: Selection) -> tuple[Case, ...]:
    """Planted faults first, then every budget, for each architecture and shape."""
    architectures = selection.architectures or ARCHITECTURES
    shapes = selection.some_shapes(every=QUERY_TILES)
    return tuple(case for name in architectures for shape in shapes for case in _group(selection, name, shape))


def _group(selection: Selection, architecture: str, shape: str) -> Iterator[Case]:
    for fault, budget in FAULTS:
        yield _case(architecture, shape, budget, planted=fault)
    for budget in selection.some_budgets():
        yield _case(architecture, shape, budget)


def _case(architecture: str, shape: str, budget: int, *, planted: str | None = None) -> Case:
    heads = head_shape(shape)
    capability(architecture)
    return Case(
        check="kernel-emulated",
        evidence_class="emulated",
        program="emulated",
        group=f"{architecture}-{shape}",
        cell=cell(architecture=architecture, budget=budget, shape=shape, batch=len(LONGEST), dtype=DTYPE),
        planted=planted,
        parameters={
            "heads": (heads.query_heads, heads.key_heads, heads.key_dim, heads.value_dim),
            "prefixes": LONGEST,
            "seed": budget,
        },
        limit_s=LIMIT_S,
    )
