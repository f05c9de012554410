"""The same of a release's FlashInfer backend: what it allocates for graph capture, and what a verify hands over.

Its allocation and the verify input's arguments are the release's own code, called on objects with just the attributes
that they read. The library FlashInfer is not at hand: that it packs the mask, eight cells to a byte and each request by
itself, is stated here.
"""

import importlib
import inspect
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from .backend import NotExecutedError, built_mask_cells
from .formulas import said
from .standins import StandIn
from .surroundings import Setting

BACKEND = "sglang.srt.layers.attention.flashinfer_backend"
VERIFY_INPUT = "sglang.srt.speculative.eagle_info"
REAL = frozenset({BACKEND, VERIFY_INPUT})
MASK = "tree_mask_bytes"


class WithoutData:
    """`torch` whose zeros hold no data, whatever device they are asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def zeros(self, *size: Any, dtype: Any = None, device: Any = None) -> Any:
        del device
        return torch.zeros(*size, dtype=dtype, device="meta")


@dataclass(frozen=True)
class FlashInferFormulas:
    """In words: mask and indices allocated; cells of the mask, indices and query rows that a verify hands over."""

    mask: str
    indices: str
    cells: str
    indices_needed: str
    query_rows: str


def formulas() -> FlashInferFormulas:
    """Of the release that can be imported now. Raises `NotExecutedError`."""
    sizes = {"max_batch": 1, "runner_width": 1, "draft_tokens": 2, "context": 1}
    steps = {"batch": 1, "prefix": 1, "width": 2}
    return FlashInferFormulas(
        mask=said(lambda **of: allocated(Setting(**of)).cuda_graph_custom_mask.numel(), sizes),
        indices=said(lambda **of: allocated(Setting(**of)).cuda_graph_kv_indices[0].numel(), sizes),
        cells=said(built_mask_cells, steps),
        indices_needed=said(lambda **of: handed_over(**of)[0], steps),
        query_rows=said(lambda **of: handed_over(**of)[1], steps),
    )


def allocated(setting: Setting) -> Any:
    """An object with the buffers that the release's `init_cuda_graph_state` makes. Raises `NotExecutedError`."""
    module = importlib.import_module(BACKEND)
    vars(module)["torch"] = WithoutData()
    backend = SimpleNamespace(
        max_context_len=setting.context,
        num_wrappers=1,
        skip_prefill=False,
        use_sliding_window_kv_pool=False,
        kv_index_translator=StandIn("kv_index_translator"),
        kv_indptr=[torch.zeros(setting.max_batch + 1, dtype=torch.int32, device="meta")],
    )
    try:
        module.FlashInferAttnBackend.init_cuda_graph_state(
            backend, setting.max_batch, setting.max_batch * setting.runner_width
        )
    except Exception as error:
        raise NotExecutedError(f"FlashInfer's buffers cannot be made here: {type(error).__name__}: {error}") from error
    return backend


def handed_over(batch: int, prefix: int, width: int) -> tuple[int, int, int]:
    """(read indices, query rows, mask bytes) of a verify of ``width`` rows. Raises `NotExecutedError`."""
    module = importlib.import_module(VERIFY_INPUT)
    cells = built_mask_cells(batch, prefix, width)
    given = {
        "req_pool_indices": torch.zeros(batch, dtype=torch.int64),
        "paged_kernel_lens": torch.full((batch,), prefix),
        "paged_kernel_lens_sum": batch * prefix,
        "req_to_token": torch.zeros((1, 1), dtype=torch.int32),
        "translator": StandIn("translator"),
        "plan": None,
        "kv_read_tables": None,
    }
    verify = SimpleNamespace(
        draft_token_num=width, num_tokens_per_req=width, custom_mask=torch.ones(cells, dtype=torch.bool, device="meta")
    )
    question = module.EagleVerifyInput.generate_attn_arg_prefill
    wanted = [name for name in inspect.signature(question).parameters if name in given]
    try:
        indices, _, rows, mask = question(verify, **{name: given[name] for name in wanted})
    except Exception as error:
        raise NotExecutedError(f"a verify's arguments cannot be made here: {type(error).__name__}: {error}") from error
    return int(indices.numel()), int(rows[-1]), batch * -(-int(mask.numel()) // batch // 8)


def needs(setting: Setting, width: int, formula: FlashInferFormulas) -> list[dict[str, Any]]:
    """Records `BufferNeed` for the largest batch at the end of the context. Raises `NotExecutedError`."""
    made = allocated(setting)
    batch = setting.max_batch
    indices, rows, mask = handed_over(batch, setting.context - 1, width)
    found = (
        (
            MASK,
            made.cuda_graph_custom_mask.numel(),
            mask,
            formula.mask,
            f"({formula.cells}) / 8, each request rounded up",
        ),
        ("kv_indices", made.cuda_graph_kv_indices[0].numel(), indices, formula.indices, formula.indices_needed),
        ("qo_indptr", made.cuda_graph_qo_indptr[0].numel(), batch + 1, "max_batch + 1", "batch + 1"),
        ("mask_indptr", made.cuda_graph_qk_indptr[0].numel(), batch + 1, "max_batch + 1", "batch + 1"),
        ("stated_query_rows", rows, batch * width, formula.query_rows, "batch * width"),
        # What the decode runner captures; the plan that FlashInfer makes of it is not at hand.
        ("captured_grid_rows", setting.runner_width, width, "runner_width", "width"),
    )
    names = ("buffer", "allocated", "needed", "allocated_formula", "needed_formula")
    return [dict(zip(names, row, strict=True)) for row in found]
