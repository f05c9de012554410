"""What the options of the command line amount to, as SGLang resolves them."""

import argparse
from dataclasses import dataclass
from typing import Any

ALGORITHMS = ("DDTREE", "DFLASH", "DSPARK", "EAGLE", "EAGLE3", "FROZEN_KV_MTP", "NGRAM", "STANDALONE", "UNO")
DEFAULT_WIDTH = 16
MAX_DEPTH = 7
"""Drafts on the longest path of a tree: those of a draft with block size 8."""


class Refused(ValueError):  # noqa: N818
    """A configuration that SGLang refuses while it resolves its arguments."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Configuration:
    """`width` is the number of rows of a verify step, 1 without speculation; `graphs` the batch sizes captured."""

    algorithm: str | None
    width: int
    topk: int | None
    graphs: tuple[int, ...]
    ranks: int
    options: dict[str, Any]

    @property
    def budget(self) -> int:
        """Drafts in a verify step, 0 without speculation."""
        return self.width - 1

    @property
    def depth(self) -> int:
        """The most drafts that a step can accept."""
        return min(self.budget, MAX_DEPTH)


def resolve(options: argparse.Namespace) -> Configuration:
    """The configuration; Refused with SGLang's wording for a bad one."""
    algorithm = options.speculative_algorithm.upper() if options.speculative_algorithm else None
    if algorithm is not None and algorithm not in ALGORITHMS:
        raise Refused(f"Unknown speculative algorithm name: {algorithm}")
    width = (options.speculative_num_draft_tokens or DEFAULT_WIDTH) if algorithm else 1
    if width < 2 and algorithm:
        raise Refused(f"speculative_num_draft_tokens must be at least 2, got {width}")
    window = options.speculative_draft_window_size
    if algorithm == "DFLASH" and window is not None and window < width:
        raise Refused(f"speculative_draft_window_size ({window}) must be at least the block size ({width})")
    topk = (1 if algorithm == "DFLASH" else options.speculative_eagle_topk or 1) if algorithm else None
    resolved = {
        name: value for name, value in vars(options).items() if name not in ("script", "cell", "launch", "emissions")
    }
    graphs = _graphs(options)
    resolved |= {
        "model_path": options.model_path or "simulated",
        "served_model_name": options.served_model_name or options.model_path or "simulated",
        "speculative_algorithm": algorithm,
        "speculative_num_draft_tokens": width if algorithm else None,
        "speculative_eagle_topk": topk,
        "max_running_requests": options.max_running_requests or 48,
        "random_seed": options.random_seed or 1,
        "cuda_graph_config": {
            "decode": {
                "backend": "full" if graphs else "disabled",
                "max_bs": max(graphs, default=0),
                "bs": list(graphs),
            },
            "prefill": {"backend": options.cuda_graph_backend_prefill or "breakable"},
        },
    }
    return Configuration(
        algorithm=algorithm, width=width, topk=topk, graphs=graphs, ranks=options.tp_size, options=resolved
    )


def _graphs(options: argparse.Namespace) -> tuple[int, ...]:
    off = options.disable_cuda_graph or options.disable_decode_cuda_graph
    if off or options.cuda_graph_backend_decode == "disabled":
        return ()
    if options.cuda_graph_bs_decode:
        return tuple(sorted(set(options.cuda_graph_bs_decode)))
    most = options.cuda_graph_max_bs_decode or options.max_running_requests or 32
    return tuple(sorted({*(size for size in (1, 2, 4, 8, 16, 24, 32, 64, 128) if size < most), most}))
