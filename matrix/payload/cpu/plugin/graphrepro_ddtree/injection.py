"""Planted faults as deeds, through SGLang's hook registry; nothing here is installed unless a fault was asked for.

Steps and tokens are counted from the moment a fault becomes active. A step is one forward pass that gives output
tokens: a verify of drafts, or a decode without speculation; prefill is not counted.
"""

import os
import pkgutil
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import torch

from graphrepro_ddtree.faults import Fault, FaultError, Source

if TYPE_CHECKING:
    from collections.abc import Callable

NEVER_SAID = 3  # the shipped tokenizer's <mask>, which no text contains
SPACING_AT_CONCURRENCY = 10  # wrong-at-concurrency: one wrong token in so many
EXIT_STATUS = 3
CRASH_TEXT = (
    "CUDA error: an illegal memory access was encountered\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be"
    " incorrect.\n"
    "(planted by graphrepro_ddtree: no GPU is involved)"
)
_ARGUMENTS = "sglang.srt.server_args.ServerArgs"
_WORKER = "sglang.srt.managers.tp_worker.TpModelWorker"
_TREES = "sglang.srt.speculative.ngram_worker.NGRAMWorker"
_RUNNER = "sglang.srt.model_executor.model_runner.ModelRunner"
_SCHEDULER_MODULE = "sglang.srt.managers.scheduler"


class Injector:
    """One process's fault: which one is active, and how far it has come. Harmless until it is given a source."""

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self._source: Source | None = None
        self._algorithm: str | None = None
        self._requests: list[Any] = []  # of the step that runs now; empty during prefill
        self._start_counting()

    def _start_counting(self) -> None:
        self._steps = 0
        self._tokens = 0
        self._previous_mask: torch.Tensor | None = None

    def watch(self, source: Source) -> None:
        """Where the fault is to be read from."""
        self._source = source

    def serve(self, algorithm: str | None) -> None:
        """Tells which algorithm the server runs; FaultError if the fault asked for is impossible with it."""
        self._algorithm = algorithm
        self.refresh()

    def refresh(self) -> None:
        """Reads the source again; a change starts all counts anew."""
        fault = None if self._source is None else self._source.read()
        if fault is not None:
            fault.require(self._algorithm)
        if fault != self.fault:
            self.fault = fault
            self._start_counting()

    def is_active(self, name: str) -> bool:
        """Whether the fault of this name is planted now, in this process."""
        return self.fault is not None and self.fault.name == name

    def before_forward(self, batch: Any) -> None:
        """Called before each of the target's forward passes; crashes and hangs happen here."""
        self.refresh()
        gives_tokens = batch is not None and (batch.forward_mode.is_decode() or batch.forward_mode.is_target_verify())
        self._requests = list(batch.reqs) if gives_tokens else []
        if not gives_tokens:
            return
        self._steps += 1
        if self.fault is not None and self._steps == self.fault.number:
            _break_down(self.fault.name)

    def spoil_logits(self, logits: torch.Tensor) -> None:
        """Changes logits [batch * rows, vocab] in place; the first row of a request decides its next token."""
        if self.fault is None or not self._requests:
            return
        if self.fault.name == "nan" and self._steps >= self.fault.number:
            logits.fill_(float("nan"))
            return
        rows = len(logits) // len(self._requests)
        for request in self._victims(self.fault):
            row = logits[request * rows]
            row[row.argmax()] = row.min()  # the second choice wins

    def _victims(self, fault: Fault) -> list[int]:
        """Places in the batch of the requests that get a wrong token now."""
        if fault.name == "wrong-late":
            return [at for at, request in enumerate(self._requests) if _share_done(request) >= fault.number / 100]
        spacing = 0
        if fault.name == "wrong-token":
            spacing = fault.number
        elif fault.name == "wrong-at-concurrency" and len(self._requests) >= fault.number:
            spacing = SPACING_AT_CONCURRENCY
        if not spacing or self._tokens < spacing:
            return []
        self._tokens -= spacing
        return [self._steps % len(self._requests)]

    def count(self, tokens: int) -> None:
        """Tells how many output tokens the step gave."""
        if self.fault is None or not self._requests:
            return
        if self.fault.name != "wrong-at-concurrency" or len(self._requests) >= self.fault.number:
            self._tokens += tokens

    def spoil_tree(self, info: Any, batch: int) -> None:
        """Changes drafts or mask of a verify step.

        The links of the accept walk are made already, from the right ones.
        """
        rows = info.draft_token_num
        if self.is_active("useless-trees"):
            info.draft_token.view(batch, rows)[:, 1:] = NEVER_SAID
        elif self.is_active("causal-mask"):
            info.custom_mask = torch.ones(rows, rows, dtype=torch.bool).tril().repeat(batch, 1, 1).flatten()
        elif self.is_active("stale-mask"):
            current = info.custom_mask.clone()
            if self._previous_mask is not None and len(self._previous_mask) == len(current):
                info.custom_mask = self._previous_mask
            self._previous_mask = current


def _share_done(request: Any) -> float:
    """How much of its wanted output a request has, 0 to 1."""
    return float(len(request.output_ids) / max(request.sampling_params.max_new_tokens, 1))


def _break_down(name: str) -> None:
    if name == "scheduler-exception":
        raise RuntimeError(CRASH_TEXT)
    if name in ("sigkill", "segfault"):
        os.kill(os.getpid(), signal.SIGKILL if name == "sigkill" else signal.SIGSEGV)
    elif name == "exit":
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(EXIT_STATUS)
    elif name == "host-hang":
        while True:
            time.sleep(60)


INJECTOR = Injector()
"""This process's; SGLang's hooks are functions, so the state they share has to live somewhere."""


def install(source: Source) -> None:
    """Registers this process's hooks, which SGLang applies once all plugins are loaded.

    SystemExit if one has no target.
    """
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    INJECTOR.watch(source)
    hooks: list[tuple[str, Callable[..., Any], Any]] = [
        (f"{_ARGUMENTS}.check_server_args", _before_start, HookType.BEFORE)
    ]
    if _SCHEDULER_MODULE in sys.modules:  # the launcher and the scheduler; other processes run no model
        hooks += [
            (f"{_WORKER}.__init__", _before_worker, HookType.BEFORE),
            (f"{_WORKER}.forward_batch_generation", _around_worker_forward, HookType.AROUND),
            (f"{_RUNNER}.forward", _after_model_forward, HookType.AFTER),
            (f"{_TREES}._prepare_for_speculative_decoding", _after_drafting, HookType.AFTER),
            (f"{_TREES}.forward_batch_generation", _after_verify, HookType.AFTER),
            (f"{_SCHEDULER_MODULE}.Scheduler.init_req_max_new_tokens", _after_limits, HookType.AFTER),
        ]
        _let_blind_rows_be_nan()
    for target, hook, kind in hooks:
        try:
            pkgutil.resolve_name(target)
        except (ImportError, AttributeError) as problem:  # SGLang would only log it and the fault would be lost
            raise SystemExit(f"graphrepro_ddtree: no faults in this SGLang: {target} is missing ({problem})") from None
        HookRegistry.register(target, hook, kind)


def _before_start(server_args: Any) -> None:
    from sglang.srt.arg_groups.overrides import resolving_view

    try:
        INJECTOR.serve(resolving_view(server_args).speculative_algorithm)
    except FaultError as problem:
        raise SystemExit(f"graphrepro_ddtree: {problem}") from None


def _before_worker(_worker: Any, *_arguments: Any, **_named: Any) -> None:
    from sglang.srt.runtime_context import get_spec

    INJECTOR.serve(get_spec().speculative_algorithm)


def _around_worker_forward(original: Any, worker: Any, batch: Any, *arguments: Any, **named: Any) -> Any:
    if worker.is_draft_worker:
        return original(worker, batch, *arguments, **named)
    INJECTOR.before_forward(batch)
    result = original(worker, batch, *arguments, **named)
    if batch is not None and batch.forward_mode.is_decode():  # a verify's tokens are known only after the walk
        INJECTOR.count(len(batch.reqs))
    return result


def _after_model_forward(result: Any, runner: Any, *_arguments: Any, **_named: Any) -> None:
    output = result.logits_output
    if not runner.is_draft_worker and output is not None and output.next_token_logits is not None:
        INJECTOR.spoil_logits(output.next_token_logits)


def _after_drafting(_result: Any, _worker: Any, batch: Any) -> None:
    if batch.forward_mode.is_target_verify():
        INJECTOR.refresh()
        INJECTOR.spoil_tree(batch.spec_info, len(batch.reqs))


def _after_verify(result: Any, *_arguments: Any, **_named: Any) -> None:
    INJECTOR.count(int(result.accept_lens.sum()))


def _after_limits(_result: Any, _scheduler: Any, request: Any) -> None:
    INJECTOR.refresh()
    if INJECTOR.is_active("no-tokens"):
        request.sampling_params.max_new_tokens = 0
        request.sampling_params.min_new_tokens = 0


def _let_blind_rows_be_nan() -> None:
    """For nan-padding: a row that may look at no row of its tree becomes NaN, as in a kernel without a guard for it."""
    from sgl_kernel import attention

    plain = attention.attend

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, mask: torch.Tensor | None) -> Any:
        mixed = plain(q, k, v, scale, mask)
        if mask is not None and INJECTOR.is_active("nan-padding"):
            mixed[~mask[:, -len(mask) :].any(dim=-1)] = float("nan")
        return mixed

    attention.attend = attend
