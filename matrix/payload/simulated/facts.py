"""What the server says about itself: the facts that prove a configuration, and the counters that prove what ran."""

from typing import Any

from simulated.arguments import VERSION
from simulated.configuration import Configuration
from simulated.engine import Engine

_GRAPH_PHASES = ("prefill", "decode", "target_verify", "draft_prefill", "draft_decode", "draft_extend")
_GB_PER_GRAPH = 0.11


def model_info(configuration: Configuration) -> dict[str, Any]:
    """`/model_info`."""
    return {
        "model_path": configuration.options["model_path"],
        "served_model_name": configuration.options["served_model_name"],
        "tokenizer_path": configuration.options["tokenizer_path"] or configuration.options["model_path"],
        "is_generation": True,
        "preferred_sampling_params": None,
        "weight_version": "default",
        "model_type": "simulated",
        "architectures": ["SimulatedForCausalLM"],
    }


def server_info(engine: Engine) -> dict[str, Any]:
    """`/server_info`: the resolved options, and in `internal_states[0]` what became of them."""
    configuration, counters = engine.configuration, engine.counters
    graph_phase = "target_verify" if configuration.algorithm else "decode"
    graph_gb = round(_GB_PER_GRAPH * len(configuration.graphs), 3)
    by_phase = dict.fromkeys(_GRAPH_PHASES, 0.0) | {graph_phase: graph_gb}
    state: dict[str, Any] = {
        **configuration.options,
        "last_gen_throughput": round(counters.last_throughput, 2),
        "memory_usage": {"weight": 61.82, "kvcache": 24.71, "token_capacity": 404777, "graph": by_phase},
        "startup_time": {
            "load_weight": 0.0,
            "kv_cache_allocation": 0.0,
            "cuda_graph": dict.fromkeys(_GRAPH_PHASES, 0.0),
        },
        "decode_cuda_graph_bs": list(configuration.graphs),
        "decode_cuda_graph_memory_gb": graph_gb,
        "effective_max_running_requests_per_dp": configuration.options["max_running_requests"],
    }
    if configuration.algorithm and counters.verify_calls:
        state["avg_spec_accept_length"] = counters.accepted_tokens / counters.verify_calls
    return {
        **configuration.options,
        "version": VERSION,
        "engine": "simulated",
        "status": "ready",
        "max_total_num_tokens": 404777,
        "internal_states": [state],
    }


def metrics(engine: Engine) -> str:
    """`/metrics` in Prometheus' text form."""
    configuration, counters = engine.configuration, engine.counters
    name = configuration.options["served_model_name"]
    labels = f'engine_type="unified",model_name="{name}",moe_ep_rank="0",pp_rank="0",tp_rank="0"'
    lines: list[str] = []

    def metric(metric_name: str, kind: str, help_text: str, *samples: tuple[str, float]) -> None:
        lines.extend([f"# HELP sglang:{metric_name} {help_text}", f"# TYPE sglang:{metric_name} {kind}"])
        lines.extend(f"sglang:{metric_name}{{{labels}{more}}} {float(value)}" for more, value in samples)

    replayed = counters.passes.get("decode_cuda_graph", 0)
    metric("num_running_reqs", "gauge", "The number of running requests.", ("", engine.running))
    metric("gen_throughput", "gauge", "The generation throughput (token/s).", ("", counters.last_throughput))
    metric("is_cuda_graph", "gauge", "Whether the batch is using CUDA graph.", ("", bool(replayed)))
    passes = [(f',mode="{mode}"', count) for mode, count in sorted(counters.passes.items())]
    metric("cuda_graph_passes_total", "counter", "Total number of forward passes categorized by CUDA graph.", *passes)
    metric("prompt_tokens_total", "counter", "Number of prefill tokens processed.", ("", counters.prompt_tokens))
    metric(
        "generation_tokens_total", "counter", "Number of generation tokens processed.", ("", counters.generation_tokens)
    )
    metric("num_requests_total", "counter", "Number of requests processed.", ("", counters.requests))
    if configuration.algorithm:
        rate = max(counters.last_accept_length - 1, 0.0) / max(configuration.budget, 1)
        metric("spec_accept_length", "gauge", "Mean acceptance length.", ("", counters.last_accept_length))
        metric("spec_accept_rate", "gauge", "Speculative acceptance rate.", ("", rate))
        metric("spec_num_draft_tokens", "gauge", "Active speculative_num_draft_tokens.", ("", configuration.width))
        metric("spec_verify_calls_total", "counter", "Verify calls.", ("", counters.verify_calls))
    return "\n".join(lines) + "\n"
