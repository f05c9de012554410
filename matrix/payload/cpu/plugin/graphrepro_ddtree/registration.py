"""The plugin's entry point: DDTREE as an algorithm, tree attention on a CPU, and planted faults if asked for.

SGLang calls `register` in the launcher before it reads the arguments, and again in each of its worker processes. An
exception raised there is only logged by SGLang, so what must stop the server is raised as SystemExit.
"""

import os
from pathlib import Path
from typing import Any

from sglang.srt.layers.attention import attention_registry
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
from sglang.srt.speculative.spec_registry import CustomSpecAlgo

from graphrepro_ddtree import faults

ALGORITHM = "DDTREE"
DEFAULT_BUDGET = 8
DEFAULT_TOP_K = 4
DRAFTER_VARIABLE = "GRAPHREPRO_DRAFTER"


def drafter_folder(model_path: str) -> Path:
    """Where the drafter lies: $GRAPHREPRO_DRAFTER, else `drafter` in the model's folder."""
    return Path(os.environ.get(DRAFTER_VARIABLE) or Path(model_path) / "drafter")


class DDTreeAlgorithm(CustomSpecAlgo):  # type: ignore[misc]  # the base class is untyped
    """Verifies like NGRAM: an irregular tree under a mask, and no key-value cache for drafts."""

    def is_ngram(self) -> bool:
        """SGLang takes its NGRAM branches, which is where irregular trees are handled."""
        return True

    def has_draft_kv(self) -> bool:
        """The drafter keeps no cache."""
        return False

    def carries_draft_hidden_states(self) -> bool:
        """The drafter sees tokens only. SGLang 0.5.23 asks for this method, but its base class does not have it."""
        return False

    def create_future_map(
        self,
        device: Any,
        req_to_token_pool: Any,
        needs_cpu_seq_lens: bool = True,
        needs_confidence_relay: bool = False,
    ) -> Any:
        """As for the built-in algorithms; missing in the base class of SGLang 0.5.23 as well."""
        from sglang.srt.managers.overlap_utils import FutureMap

        return FutureMap(device, self, req_to_token_pool, needs_cpu_seq_lens, needs_confidence_relay)

    def handle_server_args(self, server_args: Any) -> None:
        """Budget and top-k are the server's own arguments; ValueError for what cannot be served."""
        width = server_args.speculative_num_draft_tokens
        top_k = server_args.speculative_eagle_topk
        width = DEFAULT_BUDGET + 1 if width is None else width
        top_k = DEFAULT_TOP_K if top_k is None else top_k
        if width < 2 or top_k < 1:
            raise ValueError(
                f"{ALGORITHM} needs --speculative-num-draft-tokens (budget + 1) of 2 or more and"
                f" --speculative-eagle-topk of 1 or more, not {width} and {top_k}"
            )
        folder = drafter_folder(server_args.model_path)
        if not folder.is_dir():
            raise ValueError(f"{ALGORITHM}: no drafter in {folder}; put one there or set {DRAFTER_VARIABLE}")
        server_args.speculative_num_draft_tokens = width
        server_args.speculative_eagle_topk = top_k
        # under the overlap schedule output_ids lags one step behind and the tree would grow from stale tokens
        server_args.disable_overlap_schedule = True


def register() -> None:
    """Entry point of the group `sglang.srt.plugins`; SystemExit with one line if a fault cannot be planted."""
    source = faults.source_from(os.environ)
    attention_registry.ATTENTION_BACKENDS["torch_native"] = _tree_attention
    SpeculativeAlgorithm.register(ALGORITHM, supports_overlap=True, spec_class=DDTreeAlgorithm)(_worker_class)
    if source is not None:
        from graphrepro_ddtree import injection

        injection.install(source)


def _tree_attention(model_runner: Any) -> Any:
    """Without AMX operators SGLang resolves to `torch_native`, whose own backend cannot verify trees; this one can."""
    from sglang.srt.layers.attention.intel_amx_backend import IntelAMXAttnBackend

    return IntelAMXAttnBackend(model_runner)


def _worker_class(_server_args: Any) -> type:
    from graphrepro_ddtree.worker import DDTreeWorker

    return DDTreeWorker
