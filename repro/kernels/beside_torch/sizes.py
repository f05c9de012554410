"""How a release's sizes depend on its settings: formulas that its own code agrees with at every point tried."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from . import backend
from .backend import Replayed
from .formulas import said
from .surroundings import Setting

SIZES = {"max_batch": 1, "runner_width": 1, "draft_tokens": 2, "context": 1}
STEPS = {"batch": 1, "captured_width": 1, "draft_tokens": 2, "width": 2, "prefix": 1}
"""Arguments of the formulas and their highest powers: what is allocated, and what the metadata of a step says."""


@dataclass(frozen=True)
class Formulas:
    """In words. ``mask``, ``indices`` and ``entries`` are allocated; ``mask_needed`` is what the tree builder makes;
    the others are said by the metadata of a replay."""

    mask: str
    indices: str
    entries: str
    mask_needed: str
    query_rows: str
    grid_rows: str
    mask_cells: str
    prefix_tokens: str


def formulas() -> Formulas:
    """Of the release that can be imported now. Raises `NotExecutedError`."""
    return Formulas(
        mask=said(partial(_allocated, lambda made: backend.mask_buffer(made).numel()), SIZES),
        indices=said(partial(_allocated, lambda made: made.cuda_graph_kv_indices.numel()), SIZES),
        entries=said(partial(_allocated, lambda made: made.qo_indptr.numel()), SIZES),
        mask_needed=said(backend.built_mask_cells, {"batch": 1, "prefix": 1, "width": 2}),
        query_rows=said(partial(_told, lambda told: told.query_rows), STEPS),
        grid_rows=said(partial(_told, lambda told: told.grid_rows), STEPS),
        mask_cells=said(partial(_told, lambda told: told.mask_cells), STEPS),
        prefix_tokens=said(partial(_told, lambda told: told.prefix_tokens), STEPS),
    )


def _allocated(measure: Callable[[Any], int], **sizes: int) -> int:
    return int(measure(backend.made(Setting(**sizes), "meta")))


def _told(
    measure: Callable[[Replayed], int], *, batch: int, captured_width: int, draft_tokens: int, width: int, prefix: int
) -> int:
    setting = Setting(draft_tokens=draft_tokens, runner_width=captured_width, max_batch=batch, context=2)
    made = backend.made(setting, "cpu")
    prefixes = torch.full((batch,), prefix)
    return measure(backend.replayed(made, prefixes, captured_width=captured_width, width=width))
