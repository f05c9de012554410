"""Cache-slot bookkeeping. Arguments come as SGLang passes them; results are written into the tensors given for them.

`req_to_token` is [requests, pool_len]: row r, column p holds the cache slot of token p of the request in pool row r.
"""

import ctypes

from torch import Tensor


def assign_extend_cache_locs_cpu(
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    start_offset: Tensor,
    end_offset: Tensor,
    out_cache_loc: Tensor,
    pool_len: int,
) -> None:
    """Reads: the slots of tokens [start, end) of each request, one request after the other, into `out_cache_loc`."""
    done = 0
    spans = zip(req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True)
    for pool_row, start, end in spans:
        out_cache_loc[done : done + end - start] = req_to_token[pool_row, start:end].to(out_cache_loc.dtype)
        done += end - start


def assign_req_to_token_pool_cpu(
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    start_offset: Tensor,
    end_offset: Tensor,
    out_cache_loc: Tensor,
    pool_len: int,
) -> None:
    """Writes: the slots in `out_cache_loc` become those of tokens [start, end) of each request in turn."""
    done = 0
    spans = zip(req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True)
    for pool_row, start, end in spans:
        req_to_token[pool_row, start:end] = out_cache_loc[done : done + end - start].to(req_to_token.dtype)
        done += end - start


def fill_accept_out_cache_loc_cpu(accept_index: Tensor, out_cache_loc: Tensor, accept_out_cache_loc: Tensor) -> None:
    """Gathers the slots of accepted rows (index >= 0) to the front of `accept_out_cache_loc`."""
    rows = accept_index.flatten()
    kept = out_cache_loc[rows[rows >= 0].long()]
    accept_out_cache_loc[: len(kept)] = kept.to(accept_out_cache_loc.dtype)


def copy_all_layer_kv_cache_cpu(data_ptrs: Tensor, strides: Tensor, tgt_loc: Tensor, src_loc: Tensor) -> None:
    """Moves slots in each layer's buffer, given by address and bytes per slot; sources and targets may overlap."""
    moves = [(to, came) for to, came in zip(tgt_loc.tolist(), src_loc.tolist(), strict=True) if to != came]
    for base, size_bytes in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        rows = [ctypes.string_at(base + came * size_bytes, size_bytes) for _, came in moves]
        for (to, _), row in zip(moves, rows, strict=True):
            ctypes.memmove(base + to * size_bytes, row, size_bytes)
