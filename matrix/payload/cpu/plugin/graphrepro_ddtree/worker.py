"""The DDTREE worker: SGLang's own tree-verify worker, with trees from the block drafter instead of an n-gram corpus."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sglang.srt.speculative import ngram_worker

from graphrepro_ddtree import drafter, injection, tree
from graphrepro_ddtree.registration import drafter_folder


class NoCorpus:
    """In place of the n-gram corpus, which DDTREE never asks and which needs a C++ compiler when it is made."""

    def __init__(self, **settings: Any) -> None:
        """Accepts the real corpus's settings."""

    def reset(self) -> None:
        """Called when caches are flushed."""

    def erase_match_state(self, request_ids: list[str]) -> None:
        """Called when requests leave the batch."""


@contextmanager
def _without_corpus() -> Iterator[None]:
    real = ngram_worker.NgramCorpus
    ngram_worker.NgramCorpus = NoCorpus
    try:
        yield
    finally:
        ngram_worker.NgramCorpus = real


class DDTreeWorker(ngram_worker.NGRAMWorker):  # type: ignore[misc]  # the base class is untyped
    """Drafts a tree per request; verify, accept walk and cache moves are SGLang's."""

    def __init__(self, server_args: Any, gpu_id: int, nccl_port: int, target_worker: Any) -> None:
        with _without_corpus():
            super().__init__(server_args, gpu_id, nccl_port, target_worker)
        self._drafter = drafter.load(drafter_folder(server_args.model_path))
        self._top_k = min(self.topk, self._drafter.config.vocab_size)

    def _prepare_draft_tokens(self, batch: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """(draft tokens [batch * width], ancestor masks [batch * width * width]), both flat."""
        width = self.draft_token_num
        histories = [_last_tokens(request, self._drafter.config.context) for request in batch.reqs]
        best = self._drafter.marginals(histories).topk(self._top_k, dim=-1)
        blind = injection.INJECTOR.is_active("nan-padding")
        budget = width - 2 if blind else width - 1  # the fault needs at least one padding row
        made = [
            tree.build(logp, ids, root=history[-1], budget=budget, width=width)
            for history, logp, ids in zip(histories, best.values.numpy(), best.indices.numpy(), strict=True)
        ]
        masks = [tree.ancestor_mask(one, blind_padding=blind) for one in made]
        return np.concatenate([one.tokens for one in made]), np.stack(masks).reshape(-1)

    def _update_ngram_corpus(self, batch: Any) -> None:
        """The base class feeds its corpus here."""


def _last_tokens(request: Any, count: int) -> list[int]:
    """The last `count` tokens of a request, prompt and output together."""
    output = list(request.output_ids[-count:])
    missing = count - len(output)
    return list(request.origin_input_ids_unpadded[-missing:]) + output if missing else output
