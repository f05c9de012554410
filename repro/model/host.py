"""The host around a run."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class PausedUnit:
    """A service that a run has stopped, on disk before it is stopped, and until it is ready again.

    ``was_active`` False: it did not run before, and is never started. ``timer`` is the transient timer that starts it
    if nobody else does. ``ready_url`` answers with a 2xx status when the service is ready; None: no such address known.
    """

    unit: str
    scope: Literal["system", "user"]
    was_active: bool
    paused_at: str
    run: str
    timer: str
    ready_url: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PreflightLine:
    """One question put to the host. ``advice`` is what to do: given exactly when the state is not `ok`."""

    check: str
    state: Literal["ok", "problem", "unknown"]
    detail: str
    advice: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Preflight:
    """The host against a plan, before any GPU time is spent."""

    target: str
    runtime: Literal["local", "docker", "slurm"]
    lines: tuple[PreflightLine, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuProcess:
    """A process that holds memory of a GPU. ``ours``: it carries the attempt's label; None where nobody can tell."""

    pid: int
    memory_mib: float | None
    ours: bool | None


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuState:
    """A GPU at one moment; None where the driver does not say. ``recovery_action`` is the driver's word, such as `none`
    or `gpu_reset`; ``throttling`` names what holds the clocks down."""

    gpu: int
    temperature_c: float | None
    power_w: float | None
    power_limit_w: float | None
    sm_clock_mhz: float | None
    memory_clock_mhz: float | None
    memory_used_mib: float | None
    throttling: tuple[str, ...]
    ecc_uncorrected: int | None
    remap_pending: bool | None
    remap_failed: bool | None
    recovery_action: str | None
    processes: tuple[GpuProcess, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Xid:
    """An error that the driver reported. ``gpu`` is None if the device named is none of the host's visible GPUs."""

    code: int
    gpu: int | None
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuHealth:
    """`evidence/gpu-health.json`: all GPUs of the host around an attempt. ``suspect`` says why its hardware is not to
    be trusted, empty if nothing does; ``unknown`` what could not be read, and why."""

    before: tuple[GpuState, ...]
    after: tuple[GpuState, ...]
    xids: tuple[Xid, ...]
    suspect: tuple[str, ...]
    unknown: tuple[str, ...]
