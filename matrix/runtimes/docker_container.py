"""What a container of an attempt looks like: settings -> the two documents that the docker API takes. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from docker.types import DeviceRequest, HostConfig, LogConfig, Mount, Ulimit

PAYLOAD = "/opt/graphrepro/payload"
ATTEMPT = "/attempt"
LABEL = "graphrepro.label"
RUN_LABEL = "graphrepro.run"
GPUS_LABEL = "graphrepro.gpus"
CAPABILITIES = ("SYS_NICE", "SYS_PTRACE")
"""SYS_PTRACE: py-spy, and pidfd_getfd, by which torch's symmetric memory passes handles between ranks and which
docker's seccomp profile ties to it. SYS_NICE: NUMA policies (mbind, set_mempolicy)."""
LOG_BYTES = "1m"
"""The container's own log holds the attempt program's words only; the server's go to `evidence/server.log`."""

GpuAccess: TypeAlias = Literal["runtime", "cdi"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerSettings:
    """What all containers of a run share.

    ``user`` is who the attempt runs as, None for the image's own; the default of a run is the harness's user, who then
    owns the evidence. ``mounts`` are folders and files that are seen read-only under the same path inside: weights,
    scripts. ``network`` None is docker's default bridge; no port is published in any case, since the checks run in the
    container. ``ulimits`` maps names to soft and hard limit alike, -1 for none.
    """

    python: str = "python3"
    user: str | None = None
    mounts: tuple[Path, ...] = ()
    gpu_access: GpuAccess = "runtime"
    ipc: Literal["private", "host"] = "private"
    shm_bytes: int = 1 << 30
    memory_bytes: int | None = None
    ulimits: Mapping[str, int] = field(default_factory=dict)
    network: str | None = None
    stop_s: int = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What one container has of its own. ``gpus`` are the ids that it is to get: indices or UUIDs, or ``("all",)``;
    ``cache`` the name of the volume for compiled kernels and where it is mounted."""

    name: str
    label: str
    image_id: str
    directory: Path
    payload: Path
    gpus: tuple[str, ...] = ()
    cache: tuple[str, str] | None = None


def create_options(place: Place, settings: ContainerSettings, *, api_version: str) -> dict[str, Any]:
    """The keyword arguments of `APIClient.create_container`."""
    return {
        "image": place.image_id,
        "name": place.name,
        "entrypoint": [settings.python, "-P", PAYLOAD, "attempt", ATTEMPT],
        "command": [],
        "user": settings.user,
        "working_dir": "/",
        "hostname": "graphrepro",
        "environment": {
            "GRAPHREPRO_LABEL": place.label,
            "GRAPHREPRO_OWNER_FD": "0",
            "HOME": "/tmp",  # noqa: S108  # of the container; the harness's user has no home in the image
            "PYTHONUNBUFFERED": "1",
        },
        "labels": labels(place),
        "stdin_open": True,
        "tty": False,
        "stop_signal": "SIGTERM",
        "stop_timeout": settings.stop_s,
        "healthcheck": {"test": ["NONE"]},  # an image's own would run beside the measurement
        "host_config": host_config(place, settings, api_version=api_version),
    }


def host_config(place: Place, settings: ContainerSettings, *, api_version: str) -> dict[str, Any]:
    """The document `HostConfig`."""
    options: dict[str, Any] = {
        "mounts": _mounts(place, settings),
        "ipc_mode": settings.ipc,
        "security_opt": ["no-new-privileges"],
        "cap_drop": ["ALL"],
        "cap_add": list(CAPABILITIES),
        "init": True,
        "ulimits": [Ulimit(name=name, soft=n, hard=n) for name, n in sorted(settings.ulimits.items())],
        "log_config": LogConfig(type=LogConfig.types.JSON, config={"max-size": LOG_BYTES, "max-file": "1"}),
        "device_requests": device_requests(place.gpus, settings.gpu_access),
    }
    if settings.ipc == "private":
        options["shm_size"] = settings.shm_bytes
    if settings.memory_bytes is not None:  # the same limit for both means: no swap
        options |= {"mem_limit": settings.memory_bytes, "memswap_limit": settings.memory_bytes}
    if settings.network is not None:
        options["network_mode"] = settings.network
    return dict(HostConfig(version=api_version, **options))


def device_requests(gpus: Sequence[str], access: GpuAccess) -> list[DeviceRequest]:
    """As `docker run --gpus` makes them, or `--device nvidia.com/gpu=…` with CDI."""
    if not gpus:
        return []
    if access == "cdi":
        return [DeviceRequest(driver="cdi", device_ids=[f"nvidia.com/gpu={gpu}" for gpu in gpus])]
    capabilities = [["gpu", "compute", "utility"]]
    if tuple(gpus) == ("all",):
        return [DeviceRequest(count=-1, capabilities=capabilities)]
    return [DeviceRequest(device_ids=list(gpus), capabilities=capabilities)]


def labels(place: Place) -> dict[str, str]:
    """``graphrepro.run`` is the label without its cell and attempt."""
    return {
        LABEL: place.label,
        RUN_LABEL: "/".join(place.label.split("/")[:2]),
        GPUS_LABEL: ",".join(place.gpus),
    }


def _mounts(place: Place, settings: ContainerSettings) -> list[Mount]:
    """Only the payload's folder, never the repository it may lie in."""
    mounts = [
        Mount(PAYLOAD, str(place.payload), type="bind", read_only=True),
        Mount(ATTEMPT, str(place.directory), type="bind"),
        *(Mount(str(path), str(path), type="bind", read_only=True) for path in settings.mounts),
    ]
    if place.cache is not None:
        volume, inside = place.cache
        mounts.append(Mount(inside, volume, type="volume"))
    return mounts
