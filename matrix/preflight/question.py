"""What a preflight is asked, and whom it asks: everything outside is an argument."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from matrix.host.commands import Commands
from matrix.host.systemd import Scope
from matrix.preflight.gpus import Gpus, Machine
from matrix.spec import Spec
from repro.model import PreflightLine


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """``model`` and ``draft_model`` are paths, or names that the engine resolves; ``port`` 0 is a free one."""

    spec: Spec
    runtime: Literal["local", "docker"]
    image: str | None
    engine_env: Path | None
    model: str
    draft_model: str | None
    results: Path
    launches: int
    port: int
    own_network: bool
    pause_unit: str | None
    pause_scope: Scope


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """``cuda`` is the version that the image says it was built with."""

    size_bytes: int
    cuda: str | None


class DaemonUnknownError(Exception):
    """The docker daemon cannot be asked. The text says why and what to do."""


class Daemon(Protocol):
    """The docker daemon, if one answers."""

    def info(self) -> Mapping[str, object]:
        """Its `/info`, with `ApiVersion`. Raises DaemonUnknownError."""

    def image(self, reference: str) -> Image | None:
        """None if it is not on this host. Raises DaemonUnknownError."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """``machine`` is what the GPUs said once, or why they did not. ``limits``: soft limits by name, in bytes or as a
    count, None for unlimited. ``multicast`` asks the CUDA driver about one GPU; None if it cannot tell.
    ``may_manage_units``: may this user stop and start the system's units? ``cgroup_of``: a process's control group.
    """

    gpus: Gpus
    daemon: Daemon
    commands: Commands
    free_bytes: Callable[[Path], int]
    shm: Path
    cdi: Sequence[Path]
    limits: Callable[[], Mapping[str, int | None]]
    port_problem: Callable[[int], str | None]
    multicast: Callable[[int], bool | None]
    may_manage_units: Callable[[], bool | None]
    cgroup_of: Callable[[int], str | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The question, the sources, and what was read of the GPUs: None with the reason if they cannot be asked."""

    question: Question
    sources: Sources
    machine: Machine | None
    machine_problem: str | None
    image: Image | None
    daemon_problem: str | None
    daemon: Mapping[str, object]


def ok(check: str, detail: str) -> PreflightLine:
    return PreflightLine(check=check, state="ok", detail=detail, advice=None)


def problem(check: str, detail: str, advice: str) -> PreflightLine:
    return PreflightLine(check=check, state="problem", detail=detail, advice=advice)


def unknown(check: str, detail: str, advice: str) -> PreflightLine:
    return PreflightLine(check=check, state="unknown", detail=detail, advice=advice)
