"""The Triton attention backend of one release, made by its own class with stand-ins for the server around it.

What is executed is the release's: the allocation for graph capture, the metadata of capture and of replay, the tree
mask's builder, and the decode runner's question whether a batch may replay a graph.
"""

import importlib
import inspect
import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from .surroundings import Setting, VerifyMode, answers, model_runner, step

BACKEND = "sglang.srt.layers.attention.triton_backend"
RUNNERS = (
    "sglang.srt.model_executor.runner.decode_cuda_graph_runner",
    "sglang.srt.model_executor.cuda_graph_runner",
)
REAL = frozenset(
    {
        BACKEND,
        *RUNNERS,
        "sglang.srt.layers.attention.base_attn_backend",
        "sglang.srt.layers.attention.verify_mask",
        "sglang.srt.speculative.eagle_utils",
        "sglang.kernels.ops.speculative.spec_tree",
    }
)


class NotExecutedError(Exception):
    """The release's code cannot be executed with these stand-ins; the message says which part."""


@dataclass(frozen=True)
class Replayed:
    """What capture froze and the metadata of one replay say. ``grid_rows``: query rows of a request that the captured
    launch is made for. ``copy_error``: copying the step's mask into its buffer ended with this message."""

    grid_rows: int
    query_rows: int
    mask_cells: int
    prefix_tokens: int
    mask_dtype: str | None
    copy_error: str | None


class HalfOfBytes:
    """`torch` whose buffers of bytes come out half as long: a release that allocates too little for its mask."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def zeros(self, *size: Any, dtype: Any = None, device: Any = None) -> Any:
        made_right = torch.zeros(*size, dtype=dtype, device=device)
        return made_right[: len(made_right) // 2] if dtype == torch.uint8 else made_right


def made(setting: Setting, device: str, *, cut: bool = False) -> Any:
    """The release's backend after `init_cuda_graph_state`, called as its decode runner does. ``cut``: with
    `HalfOfBytes`, a fault to be seen. Raises `NotExecutedError`."""
    module = importlib.import_module(BACKEND)
    vars(module).update(answers(setting))
    for allocating in (module, sys.modules.get("sglang.srt.layers.attention.verify_mask")):
        if allocating is not None and "torch" in vars(allocating):
            vars(allocating)["torch"] = HalfOfBytes() if cut else torch
    # Asked with isinstance, so these two must be classes.
    vars(module).update(dict.fromkeys(("SWAKVPool", "BaseSWAKVPool"), type("NoPool", (), {})))
    try:
        backend = module.TritonAttnBackend(model_runner(setting, device))
        backend.init_cuda_graph_state(setting.max_batch, setting.max_batch * setting.runner_width)
    except Exception as error:
        raise NotExecutedError(f"its backend cannot be made here: {type(error).__name__}: {error}") from error
    return backend


def mask_buffer(backend: Any) -> Any:
    """The static buffer of the tree mask, or None."""
    owned = getattr(backend, "_verify_mask", None)
    if owned is not None:
        return owned.buffer
    return getattr(backend, "cuda_graph_custom_mask", None)


def accepted(backend: Any, batch: int) -> bool | None:
    """What the release's own check says of a batch and its mask buffer; None if it has no such check."""
    check = getattr(getattr(backend, "_verify_mask", None), "fits", None)
    return None if check is None else bool(check(batch))


def _call(backend: Any, phase: str, batch: int, prefixes: Any, spec_info: Any) -> None:
    """Capture's or replay's metadata, under the names that releases have had for it."""
    given = {
        "bs": batch,
        "num_tokens": batch * spec_info.num_tokens_per_req,
        "req_pool_indices": torch.zeros(batch, dtype=torch.int64),
        "seq_lens": prefixes,
        "seq_lens_sum": int(prefixes.sum()),
        "seq_lens_cpu": prefixes,
        "encoder_lens": None,
        "forward_mode": VerifyMode(),
        "spec_info": spec_info,
    }
    older = getattr(backend, f"init_forward_metadata_{phase}_cuda_graph", None)
    if older is not None:
        older(**{name: given[name] for name in inspect.signature(older).parameters})
        return
    names = {"batch_size": batch, "kv_loc_plan": None, "out_cache_loc": None}
    backend.init_forward_metadata_out_graph(SimpleNamespace(**given, **names), in_capture=phase == "capture")


def replayed(backend: Any, prefixes: Any, *, captured_width: int, width: int, mask: Any = None) -> Replayed:
    """Capture of as many requests as there are ``prefixes``, with ``captured_width`` rows each, then a replay with
    ``width`` rows. ``mask`` is the step's; without one, one cell stands for it, and nothing can be short."""
    batch = len(prefixes)
    short = torch.ones(1, dtype=torch.bool)
    _call(backend, "capture", batch, torch.ones_like(prefixes), step(captured_width, short))
    frozen = backend.forward_metadata
    copy_error = None
    try:
        _call(backend, "replay", batch, prefixes, step(width, short if mask is None else mask))
    except RuntimeError as error:
        copy_error = str(error).splitlines()[0]
        _call(backend, "replay", batch, prefixes, step(width, short))
    return Replayed(
        grid_rows=int(frozen.max_extend_len),
        query_rows=int(frozen.qo_indptr[batch]),
        mask_cells=int(frozen.mask_indptr[batch]),
        prefix_tokens=int(frozen.kv_indptr[batch]),
        mask_dtype=None if frozen.custom_mask is None else str(frozen.custom_mask.dtype).removeprefix("torch."),
        copy_error=copy_error,
    )


def built_mask_cells(batch: int, prefix: int, width: int) -> int:
    """Cells of the mask, in its full layout, that the release's tree builder makes for ``batch`` requests of ``prefix``
    tokens each."""
    return int(_built(batch, prefix, width, None).numel())


def builds_in_place(backend: Any, batch: int, prefix: int, width: int) -> bool:
    """Whether the release's tree builder hands the backend's own buffer on to the kernel that fills it in, for a tree
    of ``width`` rows, however long the buffer is."""
    buffer = mask_buffer(backend)
    return _built(batch, prefix, width, buffer) is buffer


def _built(batch: int, prefix: int, width: int, buffer: Any) -> Any:
    """The mask of the release's tree builder, which has been given ``buffer`` to write it into, if any."""
    module = importlib.import_module("sglang.srt.speculative.eagle_utils")
    vars(module).update(
        dict.fromkeys(("sgl_build_tree_kernel_efficient", "build_tree_kernel_efficient_func"), _nothing)
    )
    try:
        mask, *_ = module.build_tree_kernel_efficient(
            torch.zeros(batch, dtype=torch.int64, device="meta"),
            None,
            None,
            torch.zeros((batch, width - 1), dtype=torch.int64, device="meta"),
            torch.full((batch,), prefix, dtype=torch.int64, device="meta"),
            batch * prefix,
            1,
            1,
            width,
            module.TreeMaskMode.FULL_MASK,
            tree_mask_buf=buffer,
        )
    except Exception as error:
        raise NotExecutedError(f"its tree builder cannot run here: {type(error).__name__}: {error}") from error
    return mask


def _nothing(*_: object) -> None:
    """Stands for the CUDA kernel that fills the mask in."""


def may_replay(setting: Setting, batch: int, width: int) -> bool:
    """What the release's decode runner answers when it has captured ``setting.runner_width`` rows a request and a batch
    comes with ``width``."""
    kind, module = _runner()
    runner = SimpleNamespace(
        captured_req_width=setting.runner_width,
        num_tokens_per_bs=setting.runner_width,
        max_bs=setting.max_batch,
        ragged_verify_mode=False,
        require_mlp_tp_gather=False,
        require_mlp_sync=False,
        disable_padding=False,
        is_encoder_decoder=False,
        enable_two_batch_overlap=False,
        enable_pdmux=False,
        capture_hidden_mode=0,
        model_runner=SimpleNamespace(spec_algorithm=SimpleNamespace(is_ngram=lambda: False)),
        _resolve_lora_variant=lambda _: None,
        _make_graph_key=lambda *_, **__: None,
    )
    batch_of_requests = SimpleNamespace(
        replace_embeds=None,
        batch_size=batch,
        capture_hidden_mode=0,
        spec_info=step(width, None),
        forward_mode=VerifyMode(),
    )
    vars(module)["CaptureHiddenMode"] = SimpleNamespace(NULL=0)
    question = getattr(kind, "can_run_graph", None) or kind.can_run
    try:
        return bool(question(runner, batch_of_requests))
    except Exception as error:
        raise NotExecutedError(f"its decode runner cannot be asked here: {type(error).__name__}: {error}") from error


def _runner() -> tuple[Any, Any]:
    for name in RUNNERS:
        module = importlib.import_module(name)
        for candidate in ("DecodeCudaGraphRunner", "CudaGraphRunner"):
            found = vars(module).get(candidate)
            if isinstance(found, type):
                return found, module
    raise NotExecutedError("no decode runner of CUDA graphs is where releases have had it")
