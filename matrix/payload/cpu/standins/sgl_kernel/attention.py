"""`extend_attention_cpu` and `decode_attention_cpu` on PyTorch's scaled dot-product attention, computed in float32."""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

_LIBRARY = torch.library.Library("sgl_kernel", "FRAGMENT")
_LIBRARY.define(
    "extend_attention_cpu(Tensor q, Tensor? k, Tensor? v, Tensor(a!) o, Tensor k_buffer, Tensor v_buffer,"
    " float k_scale, float v_scale, Tensor req_to_token, Tensor req_pool_indices, Tensor seq_lens,"
    " Tensor extend_seq_lens, Tensor extend_start_loc, int max_len_extend, float sm_scale, float logit_cap,"
    " bool is_cross_attention, int sliding_window, Tensor? encoder_lens, Tensor? sinks, Tensor? tree_mask,"
    " bool is_causal) -> ()"
)
_LIBRARY.define(
    "decode_attention_cpu(Tensor q, Tensor(b!) k_buffer, Tensor(c!) v_buffer, float k_scale, float v_scale,"
    " Tensor(a!) o, Tensor? k, Tensor? v, Tensor loc, Tensor attn_logits, Tensor req_to_token,"
    " Tensor req_pool_indices, Tensor seq_lens, float sm_scale, float logit_cap, bool is_cross_attention,"
    " int sliding_window, Tensor? encoder_lens, Tensor? sinks) -> ()"
)


def attend(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor | None) -> Tensor:
    """q [rows, heads, size]; k, v [length, kv heads, size]; mask bool [rows, length] or None for all -> like q.

    With a mask its last `rows` columns are the rows themselves. Looked up in this module at each call, so that a
    planted fault can stand in for it.
    """
    grouped = q.shape[1] != k.shape[1]
    query, key, value = (part.transpose(0, 1)[None].float() for part in (q, k, v))
    mixed = scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale, enable_gqa=grouped)
    return mixed[0].transpose(0, 1)


def _visible(rows: int, length: int, tree: Tensor | None, causal: bool) -> Tensor | None:
    """bool [rows, length] of what `rows` new tokens at the end of `length` see; `tree` covers the new ones only."""
    prefix = length - rows
    if tree is not None:
        return torch.cat([torch.ones(rows, prefix, dtype=torch.bool), tree], dim=1)
    if causal and rows > 1:
        return torch.ones(rows, length, dtype=torch.bool).tril(prefix)
    return None


def _refuse_unsupported(logit_cap: float, cross: bool, window: int, sinks: Tensor | None) -> None:
    if logit_cap > 0 or cross or window > 0 or sinks is not None:
        raise NotImplementedError(
            "the CPU attention stand-in has no logit cap, cross attention, sliding window or sinks"
        )


def _extend(
    q: Tensor,
    k: Tensor | None,
    v: Tensor | None,
    o: Tensor,
    k_buffer: Tensor,
    v_buffer: Tensor,
    k_scale: float,
    v_scale: float,
    req_to_token: Tensor,
    req_pool_indices: Tensor,
    seq_lens: Tensor,
    extend_seq_lens: Tensor,
    extend_start_loc: Tensor,
    max_len_extend: int,
    sm_scale: float,
    logit_cap: float,
    is_cross_attention: bool,
    sliding_window: int,
    encoder_lens: Tensor | None,
    sinks: Tensor | None,
    tree_mask: Tensor | None,
    is_causal: bool,
) -> None:
    """New tokens, already in the buffers, look at their request's tokens: prefill, or a tree of drafts."""
    _refuse_unsupported(logit_cap, is_cross_attention, sliding_window, sinks)
    requests = zip(
        req_pool_indices.tolist(), seq_lens.tolist(), extend_seq_lens.tolist(), extend_start_loc.tolist(), strict=True
    )
    used = 0
    for pool_row, length, rows, start in requests:
        slots = req_to_token[pool_row, :length].long()
        tree = None
        if tree_mask is not None:  # on a CPU SGLang passes the tree part only: the prefix is visible to all
            tree = tree_mask[used : used + rows * rows].view(rows, rows).bool()
            used += rows * rows
        mask = _visible(rows, length, tree, is_causal)
        o[start : start + rows] = attend(q[start : start + rows], k_buffer[slots], v_buffer[slots], sm_scale, mask).to(
            o.dtype
        )


def _decode(
    q: Tensor,
    k_buffer: Tensor,
    v_buffer: Tensor,
    k_scale: float,
    v_scale: float,
    o: Tensor,
    k: Tensor | None,
    v: Tensor | None,
    loc: Tensor,
    attn_logits: Tensor,
    req_to_token: Tensor,
    req_pool_indices: Tensor,
    seq_lens: Tensor,
    sm_scale: float,
    logit_cap: float,
    is_cross_attention: bool,
    sliding_window: int,
    encoder_lens: Tensor | None,
    sinks: Tensor | None,
) -> None:
    """One new token per request: its key and value go into the buffers first, then it looks at all of its request."""
    _refuse_unsupported(logit_cap, is_cross_attention, sliding_window, sinks)
    if k is not None and v is not None:
        k_buffer[loc.long()] = k.view(-1, *k_buffer.shape[1:]).to(k_buffer.dtype)
        v_buffer[loc.long()] = v.view(-1, *v_buffer.shape[1:]).to(v_buffer.dtype)
    for row, (pool_row, length) in enumerate(zip(req_pool_indices.tolist(), seq_lens.tolist(), strict=True)):
        slots = req_to_token[pool_row, :length].long()
        o[row : row + 1] = attend(q[row : row + 1], k_buffer[slots], v_buffer[slots], sm_scale, None).to(o.dtype)


_LIBRARY.impl("extend_attention_cpu", _extend, "CPU")
_LIBRARY.impl("decode_attention_cpu", _decode, "CPU")
