"""Planted faults as deeds, through SGLang's hook registry; nothing here is installed unless a fault was asked for.

Steps and tokens are counted from the moment a fault becomes active. A step is one forward pass that gives output tokens: a
verify of drafts, or a decode without speculation; prefill is not counted.
"""

import os
import pkgutil
import signal
import sys
import time
from typing import Any

import torch

from graphrepro_ddtree.faults import Fault, Source, UnusableFault

NEVER_SAID = 3  # the shipped tokenizer's <mask>, which no text contains
SPACING_AT_CONCURRENCY = 10  # wrong-at-concurrency: one wrong token in so many
EXIT_STATUS = 3
CRASH_TEXT = (
    "CUDA error: an illegal memory access was encountered\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"
    "(planted by graphrepro_ddtree: no GPU is involved)"
)
_WORKER = "sglang.srt.managers.tp_worker.TpModelWorker"
_TREES = "sglang.srt.speculative.ngram_worker.NGRAMWorker"
_RUNNER = "sglang.srt.model_executor.model_runner.ModelRunner"
_SCHEDULER = "sglang.srt.managers.scheduler"


class Injector:
    """One process's view of the fault: which one is active, and how far it has come."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._algorithm: str | None = None
        self._batch: Any = None
        self.fault: Fault | None = None
        self._forget()

    def _forget(self) -> None:
        self.steps = 0
        self.tokens = 0
        self._previous_mask: torch.Tensor | None = None

    def serve(self, algorithm: str | None) -> None:
        """Tells which algorithm the server runs; UnusableFault if the fault asked for is impossible with it."""
        self._algorithm = algorithm
        self.refresh()

    def refresh(self) -> None:
        """Reads the source again; a change starts all counts anew."""
        fault = self._source.read()
        if fault is not None:
            fault.require(self._algorithm)
        if fault != self.fault:
            self.fault = fault
            self._forget()

    def before_forward(self, batch: Any) -> None:
        """Called before each of the target's forward passes; crashes and hangs happen here."""
        self.refresh()
        produces = batch is not None and (batch.forward_mode.is_decode() or batch.forward_mode.is_target_verify())
        self._batch = batch if produces else None
        if not produces:
            return
        self.steps += 1
        if self.fault is not None and self.steps == self.fault.number:
            _break_down(self.fault.name)

    def after_forward(self, logits: torch.Tensor) -> None:
        """Spoils logits [batch * rows, vocab] in place; the first row of a request decides its next token."""
        if self.fault is None or self._batch is None:
            return
        if self.fault.name == "nan" and self.steps >= self.fault.number:
            logits.fill_(float("nan"))
            return
        rows = len(logits) // len(self._batch.reqs)
        for request in self._spoiled_requests(self._batch.reqs):
            row = logits[request * rows]
            row[row.argmax()] = row.min()  # the second choice wins

    def _spoiled_requests(self, requests: list[Any]) -> list[int]:
        fault = self.fault
        assert fault is not None
        if fault.name == "wrong-late":
            return [at for at, request in enumerate(requests) if _share_done(request) >= fault.number / 100]
        spacing = 0
        if fault.name == "wrong-token":
            spacing = fault.number
        elif fault.name == "wrong-at-concurrency" and len(requests) >= fault.number:
            spacing = SPACING_AT_CONCURRENCY
        if not spacing or self.tokens < spacing:
            return []
        self.tokens -= spacing
        return [self.steps % len(requests)]

    def count(self, tokens: int) -> None:
        """Tells how many output tokens the step gave."""
        concurrent = self._batch is not None and self.fault is not None and len(self._batch.reqs) >= self.fault.number
        if self.fault is not None and (self.fault.name != "wrong-at-concurrency" or concurrent):
            self.tokens += tokens

    def spoil_tree(self, info: Any, batch: int) -> None:
        """Changes drafts or mask of a verify step after the links of the accept walk were made from the right ones."""
        if self.fault is None:
            return
        rows = info.draft_token_num
        if self.fault.name == "useless-trees":
            info.draft_token.view(batch, rows)[:, 1:] = NEVER_SAID
        elif self.fault.name == "causal-mask":
            info.custom_mask = torch.ones(rows, rows, dtype=torch.bool).tril().repeat(batch, 1, 1).flatten()
        elif self.fault.name == "stale-mask":
            current = info.custom_mask.clone()
            if self._previous_mask is not None and len(self._previous_mask) == len(current):
                info.custom_mask = self._previous_mask
            self._previous_mask = current


def _share_done(request: Any) -> float:
    """How much of its wanted output a request has, 0 to 1."""
    return len(request.output_ids) / max(request.sampling_params.max_new_tokens, 1)


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


_injector: Injector | None = None


def is_active(name: str) -> bool:
    """Whether the fault of this name is planted now, in this process."""
    return _injector is not None and _injector.fault is not None and _injector.fault.name == name


def install(source: Source) -> None:
    """Registers the hooks of this process; SGLang applies them when all plugins are loaded. SystemExit if one has no target."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    global _injector
    _injector = Injector(source)
    hooks = [("sglang.srt.server_args.ServerArgs.check_server_args", _before_start, HookType.BEFORE)]
    if _SCHEDULER in sys.modules:  # the launcher and the scheduler; other processes run no model
        hooks += [
            (f"{_WORKER}.__init__", _before_worker, HookType.BEFORE),
            (f"{_WORKER}.forward_batch_generation", _around_forward, HookType.AROUND),
            (f"{_RUNNER}.forward", _after_forward, HookType.AFTER),
            (f"{_TREES}._prepare_for_speculative_decoding", _after_draft, HookType.AFTER),
            (f"{_TREES}.forward_batch_generation", _after_verify, HookType.AFTER),
            (f"{_SCHEDULER}.Scheduler.init_req_max_new_tokens", _after_limits, HookType.AFTER),
        ]
        _replace_attention()
    for target, hook, kind in hooks:
        try:
            pkgutil.resolve_name(target)
        except (ImportError, AttributeError) as problem:  # SGLang would only log it and the fault would be lost
            raise SystemExit(
                f"graphrepro_ddtree: cannot plant faults in this SGLang: no {target} ({problem})"
            ) from None
        HookRegistry.register(target, hook, kind)


def _before_start(server_args: Any) -> None:
    from sglang.srt.arg_groups.overrides import resolving_view

    assert _injector is not None
    try:
        _injector.serve(resolving_view(server_args).speculative_algorithm)
    except UnusableFault as problem:
        raise SystemExit(f"graphrepro_ddtree: {problem}") from None


def _before_worker(worker: Any, *arguments: Any, **named: Any) -> None:
    from sglang.srt.runtime_context import get_spec

    assert _injector is not None
    _injector.serve(get_spec().speculative_algorithm)


def _around_forward(original: Any, worker: Any, batch: Any, *arguments: Any, **named: Any) -> Any:
    assert _injector is not None
    if worker.is_draft_worker:
        return original(worker, batch, *arguments, **named)
    _injector.before_forward(batch)
    result = original(worker, batch, *arguments, **named)
    if batch is not None and batch.forward_mode.is_decode():  # a verify's tokens are known later
        _injector.count(len(batch.reqs))
    return result


def _after_forward(result: Any, runner: Any, forward_batch: Any, *arguments: Any, **named: Any) -> None:
    assert _injector is not None
    if not runner.is_draft_worker and result.logits_output is not None:
        logits = result.logits_output.next_token_logits
        if logits is not None:
            _injector.after_forward(logits)


def _after_draft(result: Any, worker: Any, batch: Any) -> None:
    assert _injector is not None
    if batch.forward_mode.is_target_verify():
        _injector.refresh()
        _injector.spoil_tree(batch.spec_info, len(batch.reqs))


def _after_verify(result: Any, worker: Any, batch: Any, *arguments: Any, **named: Any) -> None:
    assert _injector is not None
    if _injector._batch is not None:
        _injector.count(int(result.accept_lens.sum()))


def _after_limits(result: Any, scheduler: Any, request: Any) -> None:
    assert _injector is not None
    _injector.refresh()
    if is_active("no-tokens"):
        request.sampling_params.max_new_tokens = 0
        request.sampling_params.min_new_tokens = 0


def _replace_attention() -> None:
    """For nan-padding: a row that may look at no row of its tree becomes NaN, as in a kernel without a guard for it."""
    from sgl_kernel import attention

    plain = attention.attend

    def attend(q: Any, k: Any, v: Any, scale: float, mask: Any) -> Any:
        out = plain(q, k, v, scale, mask)
        if mask is not None and is_active("nan-padding"):
            out[~mask[:, -len(mask) :].any(dim=-1)] = float("nan")
        return out

    attention.attend = attend
