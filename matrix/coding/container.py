"""What the container of an answer may do: nothing but compute, for a while. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docker.types import HostConfig, LogConfig, Mount, Ulimit

from matrix.runtimes.docker_container import LABEL, RUN_LABEL

NOBODY = "65534:65534"
"""The user `nobody`, by number: an image need not know the name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """``answer_s``: wall-clock seconds for an answer and its tests. ``report_bytes``: what may come out."""

    answer_s: float = 10.0
    memory_bytes: int = 256 << 20
    tmp_bytes: int = 16 << 20
    file_bytes: int = 16 << 20
    report_bytes: int = 256 << 10
    processes: int = 32
    open_files: int = 128


@dataclass(frozen=True, kw_only=True, slots=True)
class SandboxImage:
    """``name`` is what records call it; ``volumes`` are the folders that it would get writable space on the host's disk
    for."""

    id: str
    name: str
    python: str
    volumes: tuple[str, ...]


def sandbox_options(
    image: SandboxImage, limits: Limits, *, label: str, program: str, api_version: str
) -> dict[str, Any]:
    """The keyword arguments of `APIClient.create_container`. ``program`` is the text of what is to run in it.

    -I and -S: neither the environment nor a `.pth` file of the image decides what is imported.
    """
    return {
        "image": image.id,
        "entrypoint": [image.python, "-I", "-S", "-B", "-c", program, str(limits.answer_s), str(limits.report_bytes)],
        "command": [],
        "user": NOBODY,
        "working_dir": "/tmp",  # noqa: S108 - of the container
        "hostname": "sandbox",
        # Where NVIDIA's runtime is the daemon's default, an image's own variables would bring the GPUs in.
        "environment": {"NVIDIA_VISIBLE_DEVICES": "void", "HOME": "/tmp"},  # noqa: S108
        "labels": {LABEL: label, RUN_LABEL: "/".join(label.split("/")[:2])},
        "stdin_open": True,
        "tty": False,
        "network_disabled": True,
        "stop_signal": "SIGKILL",
        "healthcheck": {"test": ["NONE"]},
        "host_config": host_config(image, limits, api_version=api_version),
    }


def host_config(image: SandboxImage, limits: Limits, *, api_version: str) -> dict[str, Any]:
    """The document `HostConfig`: nothing of the host, no privilege, little of everything."""
    return dict(
        HostConfig(
            version=api_version,
            network_mode="none",
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            ipc_mode="none",  # no /dev/shm
            mem_limit=limits.memory_bytes,
            memswap_limit=limits.memory_bytes,  # the same limit for both means: no swap
            pids_limit=limits.processes,
            nano_cpus=1_000_000_000,
            oom_score_adj=1000,
            init=False,  # process 1 is ours: no signal from inside ends it
            ulimits=_ulimits(limits),
            tmpfs={"/tmp": f"rw,noexec,nosuid,nodev,size={limits.tmp_bytes},mode=1777"},  # noqa: S108
            mounts=[Mount(path, None, type="tmpfs", tmpfs_size=4096, tmpfs_mode=0o555) for path in image.volumes],
            log_config=LogConfig(type=LogConfig.types.NONE),
        )
    )


def lost_limits(warnings: Sequence[str] | None) -> str | None:
    """What the daemon says if it drops a limit that this host cannot keep; None if it keeps them all."""
    for warning in warnings or ():
        if "discarded" in warning.lower() or "without swap" in warning.lower():
            return " ".join(warning.split())
    return None


def image_volumes(inspected: Mapping[str, Any]) -> tuple[str, ...]:
    """The folders that an image declares as volumes."""
    return tuple(sorted((inspected.get("Config") or {}).get("Volumes") or {}))


def _ulimits(limits: Limits) -> list[Ulimit]:
    values = {
        "core": 0,
        "cpu": int(limits.answer_s) + 5,
        "fsize": limits.file_bytes,
        "nofile": limits.open_files,
    }
    return [Ulimit(name=name, soft=value, hard=value) for name, value in values.items()]
