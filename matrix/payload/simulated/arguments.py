"""The command line: SGLang's own options, as far as they concern speculation, graphs, collectives and serving, and
four of the simulator's. An unknown option is an error with SGLang's wording and status, as the real parser gives."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

VERSION = "1"

TEXT = (
    "model-path", "tokenizer-path", "served-model-name", "dtype", "quantization", "kv-cache-dtype", "device",
    "load-format", "attention-backend", "prefill-attention-backend", "decode-attention-backend", "sampling-backend",
    "log-level", "speculative-algorithm", "speculative-draft-model-path", "speculative-attention-mode",
    "speculative-draft-attention-backend", "cuda-graph-config", "cuda-graph-backend-decode",
    "cuda-graph-backend-prefill", "flashinfer-allreduce-fusion-backend", "chat-template", "reasoning-parser",
    "tool-call-parser", "moe-runner-backend", "moe-a2a-backend", "json-model-override-args", "kv-canary",
    "crash-dump-folder",
)  # fmt: skip
NUMBERS = (
    "speculative-num-steps", "speculative-eagle-topk", "speculative-num-draft-tokens",
    "speculative-dflash-block-size", "speculative-draft-window-size", "cuda-graph-max-bs-decode",
    "cuda-graph-max-bs-prefill", "max-running-requests", "max-total-tokens", "context-length",
    "chunked-prefill-size", "page-size", "random-seed", "nccl-port", "dist-timeout",
)  # fmt: skip
REALS = ("mem-fraction-static", "watchdog-timeout")
SWITCHES = (
    "trust-remote-code", "disable-cuda-graph", "disable-decode-cuda-graph", "disable-prefill-cuda-graph",
    "disable-cuda-graph-padding", "debug-cuda-graph", "enable-profile-cuda-graph", "enable-nccl-nvls",
    "enable-symm-mem", "enable-torch-symm-mem", "enable-mscclpp", "disable-custom-all-reduce",
    "enforce-disable-flashinfer-allreduce-fusion", "disable-overlap-schedule", "disable-radix-cache",
    "skip-server-warmup", "enable-metrics", "log-requests", "enable-deterministic-inference",
    "incremental-streaming-output", "enable-dp-attention", "pre-warm-nccl", "enable-p2p-check",
)  # fmt: skip
LISTS = ("cuda-graph-bs-decode", "cuda-graph-bs-prefill")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage()
        self.exit(2, f"sglang serve: error: {message}\n")


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The options by their names with underscores; SystemExit 2 for what SGLang's parser would refuse."""
    parser = _Parser(prog="sglang serve", description=__doc__)
    parser.add_argument("--script", default="default", help="a name in simulated/scripts, or the path of a script")
    parser.add_argument("--cell", default="", help="the cell that is played; rules of the script are matched with it")
    parser.add_argument("--launch", type=int, default=1, help="the number of this launch, from 1")
    parser.add_argument("--emissions", type=Path, help="a file to which is added when each stream was written")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--tp-size", "--tensor-parallel-size", dest="tp_size", type=int, default=1)
    parser.add_argument("--decode-log-interval", type=int, default=40)
    for name in TEXT:
        parser.add_argument(f"--{name}")
    for name in NUMBERS:
        parser.add_argument(f"--{name}", type=int)
    for name in REALS:
        parser.add_argument(f"--{name}", type=float)
    for name in LISTS:
        parser.add_argument(f"--{name}", type=int, nargs="+")
    for name in SWITCHES:
        parser.add_argument(f"--{name}", action="store_true")
    return parser.parse_args(list(words))
