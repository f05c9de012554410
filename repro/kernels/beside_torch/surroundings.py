"""The server around an attention backend, as far as the backend asks: one head, no sliding window, a verify step.

What is not named here is absent: code of a release that asks for more fails, and is reported as not executed.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from .standins import StandIn


@dataclass(frozen=True)
class Setting:
    """One configuration of a server. ``draft_tokens`` is `speculative_num_draft_tokens`; ``runner_width`` the tokens of
    a request that the decode runner captures; ``max_batch`` and ``context`` the largest batch captured and the model's
    context length."""

    draft_tokens: int
    runner_width: int
    max_batch: int
    context: int


class VerifyMode:
    """A forward mode that is target verify, whatever else the release asks."""

    def is_target_verify(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("is_"):
            return lambda *_, **__: False
        raise AttributeError(name)


def answers(setting: Setting) -> dict[str, Any]:
    """What the release's code asks of the modules around it, for this configuration."""
    speculation = SimpleNamespace(
        speculative_num_draft_tokens=setting.draft_tokens, speculative_num_steps=1, speculative_eagle_topk=None
    )
    kernel = SimpleNamespace(
        enable_lean_attention=False, triton_attention_num_kv_splits=1, triton_attention_split_tile_size=None
    )
    execution = SimpleNamespace(
        kernel=kernel,
        dllm=SimpleNamespace(dllm_algorithm=None),
        deterministic=SimpleNamespace(enable_deterministic_inference=False),
    )
    return {
        "get_spec": lambda: speculation,
        "get_exec": lambda: execution,
        "get_parallel": lambda: SimpleNamespace(attn_tp_size=1, attn_dcp_size=1, attn_dcp_rank=0),
        "get_schedule": lambda: SimpleNamespace(chunked_prefill_size=None, page_size=1),
        "get_attention_tp_size": lambda: 1,
        "get_bool_env_var": lambda *_: False,
        "get_int_env_var": lambda _, value=0: value,
        "get_device_core_count": lambda *_: 1,
        "next_power_of_2": lambda number: 1 << (number - 1).bit_length(),
        "_get_block_sizes_for_extend_attention": lambda **_: (0, 0, 0, 64, 64, 8),
        "_lean_decode_launch_params": lambda *_: (1, 1, 1),
        "_LEAN_BLOCK_M": 1,
        **dict.fromkeys(
            ("mambaish_config", "hybrid_gdn_config", "kimi_linear_config", "linear_attn_model_spec"), lambda *_: None
        ),
    }


def model_runner(setting: Setting, device: str) -> Any:
    """The server around the backend: one head, no sliding window, as many requests as the largest batch."""
    server_args = SimpleNamespace(
        speculative_num_draft_tokens=setting.draft_tokens,
        speculative_num_steps=1,
        speculative_eagle_topk=None,
        triton_attention_num_kv_splits=1,
        triton_attention_split_tile_size=None,
        enable_deterministic_inference=False,
        disable_cuda_graph=False,
        chunked_prefill_size=None,
        enable_lean_attention=False,
        enable_dynamic_chunking=False,
    )
    config = SimpleNamespace(
        attention_arch=None,
        context_len=setting.context,
        num_attention_heads=1,
        v_head_dim=1,
        swa_v_head_dim=1,
        head_dim=128,
        hf_config=SimpleNamespace(),
        is_encoder_decoder=False,
        get_num_kv_heads=lambda *_: 1,
        get_max_num_attention_heads=lambda *_: 1,
    )
    pool = SimpleNamespace(
        get_value_buffer=lambda *_: SimpleNamespace(shape=(1, 1, 1)), get_v_head_dim=lambda: 1, start_layer=0
    )
    return SimpleNamespace(
        server_args=server_args,
        model_config=config,
        token_to_kv_pool=pool,
        token_to_kv_pool_allocator=SimpleNamespace(get_kvcache=lambda: pool),
        req_to_token_pool=SimpleNamespace(
            size=setting.max_batch, req_to_token=torch.zeros((1, 1), dtype=torch.int32, device=device)
        ),
        kv_index_translator=StandIn("kv_index_translator"),
        kv_cache_dtype=torch.bfloat16,
        sliding_window_size=None,
        page_size=1,
        device=device,
        gpu_id=0,
        is_draft_worker=False,
        spec_algorithm=SimpleNamespace(is_dspark=lambda: False, is_ngram=lambda: False),
        hybrid_gdn_config=None,
        kimi_linear_config=None,
        linear_attn_model_spec=None,
        decode_num_tokens_per_req=lambda **_: setting.runner_width,
        decode_num_tokens_per_bs=lambda **_: setting.runner_width,
    )


def step(width: int, mask: Any) -> Any:
    """What a speculation tells the backend about one verify: ``width`` rows a request, and its mask."""
    return SimpleNamespace(
        num_tokens_per_req=width, draft_token_num=width, num_tokens_per_batch=width, custom_mask=mask, kv_indptr=None
    )
