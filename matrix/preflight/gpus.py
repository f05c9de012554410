"""The GPUs of the host as the preflight and the health check see them; NVML, or recorded answers, stand behind it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from repro.model import GpuState, Xid


class GpusUnknownError(Exception):
    """The GPUs cannot be asked. The text says why, on one line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """What a GPU is, and how it is now. None where the driver does not say.

    ``fabric`` is the state of its registration with the NVSwitch fabric: `completed`, `in_progress`, `not_started`,
    `not_supported`, or `failed (…)`; ``switch_links`` counts the NVLinks that lead to an NVSwitch. ``bus`` is the PCI
    address, which kernel messages name the GPU by.
    """

    state: GpuState
    name: str
    capability: str | None
    bus: str
    memory_mib: float | None
    default_power_limit_w: float | None
    max_sm_clock_mhz: float | None
    ecc: bool | None
    mig: bool | None
    fabric: str | None
    switch_links: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """``cuda`` is the newest CUDA that the driver serves, such as 13.0; ``unknown`` says what could not be read."""

    driver: str | None
    cuda: str | None
    gpus: tuple[Gpu, ...]
    unknown: tuple[str, ...]


class Gpus(Protocol):
    """All GPUs of the host."""

    def read(self) -> Machine:
        """All of them now. Makes no CUDA context. Raises GpusUnknownError if there is no driver to ask."""

    def watch(self) -> "XidWatch":
        """Listens for the driver's errors from now on. Raises GpusUnknownError if it cannot."""


class XidWatch(Protocol):
    """A listener for Xids."""

    def seen(self) -> tuple[Xid, ...]:
        """What was reported since the watch began, and ends it."""


def indices(gpus: Sequence[int]) -> str:
    """`GPU 3`, or `GPUs 0-5, 7`."""
    runs: list[list[int]] = []
    for gpu in sorted(set(gpus)):
        if runs and gpu == runs[-1][-1] + 1:
            runs[-1].append(gpu)
        else:
            runs.append([gpu])
    told = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"GPU{'s' if len(set(gpus)) > 1 else ''} {told}"
