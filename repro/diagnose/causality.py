"""Which of the things that went wrong are causes, and which one is the cause."""

from collections.abc import Sequence
from dataclasses import dataclass

from repro.diagnose.timeline import ORDER, Launch, Placed

_GPU_FAULTS = frozenset({"cuda_illegal_memory_access", "misaligned_address", "device_side_assert", "gpu_exception_xid"})
_HARDWARE = frozenset({"hardware_ecc", "gpu_lost"})
_ARCHITECTURE = frozenset(
    {
        "no_kernel_image",
        "kernel_arch_unsupported",
        "ptxas_arch_unsupported",
        "ptx_toolchain_mismatch",
        "binary_abi_mismatch",
        "triton_out_of_resources",
        "triton_compile_failed",
        "toolchain_missing",
    }
)
_NCCL = frozenset({"nccl_nvls", "nccl_fabric_not_ready", "shm_exhausted", "memlock_limit"})
_ENDINGS = frozenset(
    {"killed_by_signal_9", "external_kill", "hang_deadlock", "hang_gpu_kernel", "peer_lost", "segfault"}
)
_OOM = frozenset({"oom_gpu", "oom_gpu_init", "oom_gpu_graph_capture", "oom_gpu_serving"})

EXPLAINED_BY: dict[str, frozenset[str]] = {
    "gpu_exception_xid": (_GPU_FAULTS - {"gpu_exception_xid"}) | _HARDWARE,
    **dict.fromkeys(_GPU_FAULTS - {"gpu_exception_xid"}, _HARDWARE),
    "nccl_error_unspecified": _NCCL | _HARDWARE | _GPU_FAULTS | _OOM | {"host_oom_kill", "driver_too_old"},
    "bus_error_shm": frozenset({"host_oom_kill"}),
    "triton_compile_failed": _ARCHITECTURE - {"triton_compile_failed"},
    "segfault": _HARDWARE,
    "killed_by_signal_9": frozenset({"host_oom_kill"}),
    "client_error": frozenset({"nan_logits", "no_tokens"}),
    "graph_capture_illegal_op": _GPU_FAULTS | _OOM | _ARCHITECTURE | _HARDWARE,
    "docker_gpu_runtime_missing": frozenset({"driver_too_old", "cdi_injection_failed"}),
    "image_build_failed": frozenset({"disk_full", "toolchain_missing"}),
}
"""kind -> kinds that explain it: beside one of those, wherever it stands, it is a consequence."""

_SURVIVABLE = (
    _OOM
    | _ARCHITECTURE
    | _NCCL
    | frozenset({"unsupported_feature_combination", "model_config_unrecognized", "hf_auth"})
    | frozenset({"port_in_use", "disk_full", "graph_capture_illegal_op", "peer_lost", "nccl_error_unspecified"})
    | frozenset({"unknown", "hang_deadlock", "image_build_failed"})
)
"""Kinds that a server may report and go on: with less, with another port, with another kernel."""

LIVE = frozenset(
    {
        "nan_logits",
        "graph_not_replayed",
        "accept_length_collapse",
        "accept_length_regression",
        "perf_regression",
        "wrong_output",
        "wrong_output_graph_only",
        "no_tokens",
        "client_error",
        "bind_address_unreachable",
    }
)
"""Kinds of servers that go on: nothing need end because of them."""

_SYMPTOM_ORDER = (
    ("killed_by_signal_9", "segfault", "bus_error_shm"),
    ("hang_gpu_kernel",),
    ("hang_deadlock",),
    ("external_kill",),
    ("nccl_error_unspecified",),
    ("peer_lost",),
    ("unknown",),
)
_OTHERS = 1
_ASKED = frozenset({-15, -2, -1})
"""How a server ends that was sent SIGTERM, SIGINT or SIGHUP."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """All that is known of one launch. ``status`` is negative for a signal and None if unknown; ``well`` whether probes
    say that the outputs are right (None: no probes); ``limit``: it ran into a time limit."""

    placed: tuple[Placed, ...]
    launch: Launch
    status: int | None
    well: bool | None
    limit: bool


def roots(case: Case) -> list[Placed]:
    """The causes, the likeliest first."""
    found = [item for item in case.placed if item.event.pattern.role == "root" and _counts(item, case)]
    found = _not_explained(found)
    return sorted(
        found,
        key=lambda item: (
            item.event.pattern.weak,
            _overcome(item, case),
            _in_good_order(item, case),
            *_when(item, found),
        ),
    )


def symptoms(case: Case) -> list[Placed]:
    """The consequences that decide where no cause is, the one that says most first."""
    found = [item for item in case.placed if item.event.pattern.role == "symptom" and _counts(item, case)]
    return sorted(found, key=lambda item: (_weight(item), item.event.pattern.weak, *_when(item, found)))


def fatal_events(case: Case) -> list[Placed]:
    """Lines that say that the server died of something, before anyone asked it to stop."""
    return [item for item in case.placed if "fatal" in item.event.pattern.tags and not item.stopping]


def _counts(item: Placed, case: Case) -> bool:
    pattern = item.event.pattern
    tags = {tag for other in case.placed if _beside(item, other) for tag in other.event.pattern.tags}
    if set(pattern.follows) & tags or set(pattern.unless) & tags:
        return False
    if pattern.needs and not set(pattern.needs) & tags:
        return False
    if pattern.kind == "external_kill":
        return _from_outside(item, case)
    if item.stopping:
        return case.status not in {None, 0} and pattern.kind not in _SURVIVABLE | _ENDINGS
    if case.status == 0 and case.well and (pattern.weak or pattern.role == "symptom" or pattern.kind in LIVE):
        return False
    return not _survived(item, case)


def _beside(item: Placed, other: Placed) -> bool:
    """True if one event may have to do with the other: what another server in the same log does has not."""
    sources = {item.event.source, other.event.source}
    return other is not item and (len(sources) == 1 or None in sources or item.event.order[0] != other.event.order[0])


def _from_outside(item: Placed, case: Case) -> bool:
    """True if a signal from outside is what ended it: not our own stop after a limit, and not the good end of a run."""
    if case.limit or case.status == 0 or item.astray:
        return False
    return not _in_good_order(item, case) or case.status in _ASKED  # only the status says that this is the end


def _in_good_order(item: Placed, case: Case) -> bool:
    """True if it is the stop of a server that served, and nothing broke over it: of several servers in one log, the
    others come first."""
    if item.event.pattern.kind != "external_kill" or ORDER[item.phase] < ORDER["serving"]:
        return False
    return case.launch.stopped_in(item.event) and not torn_by(item, case)


def torn_by(item: Placed, case: Case) -> list[Placed]:
    """What broke over a kill from outside: lines of the same server behind it."""
    if item.event.pattern.kind != "external_kill":
        return []
    return [
        other
        for other in case.placed
        if {"engine-dead", "fatal"} & set(other.event.pattern.tags)
        and other.event.source == item.event.source
        and other.event.order > item.event.order
    ]


def _survived(item: Placed, case: Case) -> bool:
    """True if the server went on after it as if nothing had been."""
    pattern = item.event.pattern
    if pattern.kind not in _SURVIVABLE and pattern.role == "root":
        return False
    if case.status not in {None, 0} or case.limit:
        return False
    died = any(other.event.order > item.event.order for other in fatal_events(case))
    return not died and (case.launch.goes_on_after(item.event) or (case.status == 0 and case.launch.stopped))


def _overcome(item: Placed, case: Case) -> bool:
    """True if the same launch came further after it: it may still be the cause, but others come first."""
    if item.event.pattern.kind not in _SURVIVABLE:
        return False
    return any(
        p.order > item.event.order and p.marker.edge == "begin" and ORDER[p.marker.phase] > ORDER[item.phase]
        for p in case.launch.beside(item.event)
    )


def _not_explained(found: Sequence[Placed]) -> list[Placed]:
    kinds = {item.event.pattern.kind for item in found if not item.event.pattern.weak}
    left = [item for item in found if not EXPLAINED_BY.get(item.event.pattern.kind or "", frozenset()) & kinds]
    return left or list(found)


def _when(item: Placed, found: Sequence[Placed]) -> tuple[float, tuple[int, int, int]]:
    """By the clock where several logs are compared and all have one, else by the place in the log."""
    several = len({other.event.order[0] for other in found}) > 1
    timed = several and all(other.event.at_s is not None for other in found)
    return (item.event.at_s or 0.0) if timed else 0.0, item.event.order


def _weight(item: Placed) -> int:
    kind = item.event.pattern.kind
    return next((number for number, kinds in enumerate(_SYMPTOM_ORDER) if kind in kinds), _OTHERS)
