"""Where a failure happened: kernel, function, file, rank; and the part of the system that this belongs to."""

import re
from collections.abc import Iterable, Sequence

from repro.diagnose.timeline import Placed
from repro.diagnose.tracebacks import raised_in
from repro.model import Component

_STICKY = "sticky-cuda"
_NEAR_PIECES = 40
_PART = 200
_LOOPS = re.compile(r"busy_loop|event_loop|thread_func|run_scheduler|run_engine|^(?:main|run|wrapper|<module>)$")
"""Frames that every step passes through: they say nothing about where it failed."""
_SUBSYSTEMS = (
    (
        "attention",
        re.compile(r"(?i)attention|flashinfer|flash_?(?:mla|attn)|\bmla\b|prefill|fmha|rope"),
    ),
    ("moe", re.compile(r"(?i)moe\b|/moe/|moe_|expert|deep_?ep|deep_?gemm|grouped_gemm|topk_gating")),
    ("collective", re.compile(r"(?i)nccl|nvls|all_?reduce|distributed|parallel_state|gloo|communicat|shm_broadcast")),
    ("sampling", re.compile(r"(?i)sampl|logits|multinomial|top_k_top_p")),
    ("memory", re.compile(r"(?i)memory_pool|allocator|kv_cache|mem_cache|radix_cache|block_manager")),
    ("host", re.compile(r"(?i)scheduler|tokenizer|launch_server|server_args|arg_utils|api_server|http_server|config")),
)
_BY_KIND = {
    "oom_gpu_init": "memory",
    "oom_gpu_graph_capture": "memory",
    "oom_gpu_serving": "memory",
    "kv_pool_accounting_leak": "memory",
    "host_oom_kill": "host",
    "shm_exhausted": "host",
    "bus_error_shm": "host",
    "argparse_error": "host",
    "port_in_use": "host",
    "nccl_nvls": "collective",
    "nccl_fabric_not_ready": "collective",
    "nccl_error_unspecified": "collective",
    "peer_lost": "collective",
    "nan_logits": "sampling",
}


def locate(decisive: Placed, placed: Sequence[Placed]) -> Component:
    """The component of the deciding event; parts that nothing names are None.

    A CUDA error is reported by whichever call comes next: the frame that raised it is not the place. What lines just
    before it name comes first, then the work from which that call was made; or the frame itself, where only the
    engine's loop called it.
    """
    event = decisive.event
    named = {name: event.groups[name] for name in ("kernel", "function", "file") if name in event.groups}
    for item in reversed(_before(decisive, placed)):
        for name in ("kernel", "function", "file"):
            if name in item.event.groups:
                named.setdefault(name, item.event.groups[name])
    frame, caller = raised_in(event.near, event.place) if event.near else (None, None)
    if _STICKY in event.pattern.tags and caller is not None and not _LOOPS.search(caller.function or ""):
        frame = caller
    if frame is not None and "kernel" not in named and "function" not in named:
        named["function"] = frame.function
        named.setdefault("file", frame.file)
    return Component(
        kernel=_cut(named.get("kernel")),
        function=_cut(named.get("function")),
        file=_cut(_short(named.get("file"))),
        rank=event.rank or _rank_of_same_kind(decisive, placed),
    )


def _before(decisive: Placed, placed: Sequence[Placed]) -> list[Placed]:
    """Context and errors of the same kind that stand just before the deciding line, or just behind it."""
    log, piece, _ = decisive.event.order
    return [
        item
        for item in placed
        if item.event.order[0] == log
        and abs(item.event.order[1] - piece) <= _NEAR_PIECES
        and item.launch == decisive.launch
        and (item.event.pattern.role == "context" or item.event.pattern.kind == decisive.event.pattern.kind)
        and (item.event.rank in {None, decisive.event.rank} or decisive.event.rank is None)
    ]


def _rank_of_same_kind(decisive: Placed, placed: Sequence[Placed]) -> str | None:
    kind = decisive.event.pattern.kind
    return next((p.event.rank for p in placed if p.event.pattern.kind == kind and p.event.rank), None)


def _short(path: str | None) -> str | None:
    """The part of a path that is the same on every machine."""
    if path is None:
        return None
    found = re.search(
        r"(?:site-packages|dist-packages|/python(?=/sglang)|/sgl-workspace|/data/include|/csrc)/(.+)$", path
    )
    return found[1] if found else path.rsplit("/", 1)[-1]


def _cut(text: str | None) -> str | None:
    return None if text is None else text.strip()[:_PART] or None


def subsystem_of(kind: str, said: str | None, component: Component) -> str | None:
    """The part of the system: what the pattern says, what the kind implies, or what the component's names say."""
    if said is not None:
        return said
    if kind in _BY_KIND:
        return _BY_KIND[kind]
    return _first_in(part for part in (component.kernel, component.function, component.file) if part is not None)


def _first_in(parts: Iterable[str]) -> str | None:
    for part in parts:
        for name, expression in _SUBSYSTEMS:
            if expression.search(part):
                return name
    return None
