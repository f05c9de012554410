"""What the docker daemon complains of, and what to do about it.

The texts are those of moby (daemon/create.go, daemon/nvidia_linux.go, daemon/cdi.go), runc and libnvidia-container.
"""

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

import docker.errors
import requests.exceptions

ProblemKind: TypeAlias = Literal[
    "image_missing",
    "daemon_unreachable",
    "daemon_denied",
    "gpu_refused",
    "gpu_driver",
    "cdi_refused",
    "disk_full",
    "name_conflict",
    "port_taken",
    "mount_missing",
    "limit_refused",
    "program_missing",
    "refused",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Why a container could not be made or started. With ``for_all``, no other attempt of the run would fare better."""

    kind: ProblemKind
    text: str
    advice: str
    for_all: bool

    def __str__(self) -> str:
        return f"{self.text}: {self.advice}"


DOCKER_ERRORS: tuple[type[Exception], ...] = (
    docker.errors.DockerException,
    requests.exceptions.RequestException,
    ConnectionError,
)
"""What the SDK raises; a broken connection comes from requests, or as the socket's own error."""

_SAYINGS: tuple[tuple[str, ProblemKind, bool, str], ...] = (
    (
        r"could not select device driver .*gpu",
        "gpu_refused",
        False,
        (
            "the daemon knows no NVIDIA runtime: install nvidia-container-toolkit, run `nvidia-ctk runtime configure "
            "--runtime=docker`, restart docker; or use --gpu-access cdi"
        ),
    ),
    (
        r"CDI device injection failed|unresolvable CDI devices|CDI.*not enabled",
        "cdi_refused",
        False,
        (
            "compare with `nvidia-ctk cdi list`, write the specification anew with `nvidia-ctk cdi generate "
            "--output=/etc/cdi/nvidia.yaml`; or use --gpu-access runtime"
        ),
    ),
    (
        r"driver/library version mismatch|driver not loaded|nvml error",
        "gpu_driver",
        False,
        "the NVIDIA driver on the host does not answer: run nvidia-smi there; after a driver update reboot it",
    ),
    (
        r"nvidia-container-cli|nvidia-container-runtime|unknown or invalid runtime name: nvidia",
        "gpu_refused",
        False,
        "the container runtime refuses the GPUs: run nvidia-smi on the host, and compare --gpus with what it lists",
    ),
    (
        r"no space left on device|not enough space|disk quota exceeded",
        "disk_full",
        False,
        "the disk below docker's data root is full: `docker system df` tells what fills it",
    ),
    (
        r"is already in use by container",
        "name_conflict",
        False,
        "another container has the attempt's name: look at it with `docker ps -a`, and remove it",
    ),
    (
        r"port is already allocated|address already in use",
        "port_taken",
        False,
        "stop what listens there, or run with --port 0",
    ),
    (
        r"bind source path does not exist|error while creating mount source path|invalid mount config",
        "mount_missing",
        True,
        "the daemon does not see that path: it must run on this host, and the path must exist",
    ),
    (
        r"error setting rlimit|operation not permitted.*rlimit",
        "limit_refused",
        True,
        "the daemon may not raise that limit: start it with LimitMEMLOCK=infinity, or give --ulimit none",
    ),
    (
        r"executable file not found|exec: .*no such file or directory|exec: .*permission denied",
        "program_missing",
        True,
        "the image has no such interpreter: name the one it has with --image-python",
    ),
    (r"no such image", "image_missing", True, "build it (`nox -s images-…`) or pull it"),
)


def problem_of(error: BaseException) -> Problem:
    """The problem behind an error of the docker SDK."""
    said = _said(error)
    for expression, kind, for_all, advice in _SAYINGS:
        if re.search(expression, said, re.IGNORECASE):
            return Problem(kind=kind, text=said, advice=advice, for_all=for_all)
    if isinstance(error, docker.errors.APIError):
        return Problem(kind="refused", text=said, advice="see `journalctl -u docker` on that host", for_all=False)
    if "permission denied" in said.lower():
        advice = "this user may not speak to the daemon: add it to the group docker, or set DOCKER_HOST"
        return Problem(kind="daemon_denied", text=said, advice=advice, for_all=True)
    advice = "start it (`systemctl start docker`), or set DOCKER_HOST"
    return Problem(kind="daemon_unreachable", text=f"no docker daemon answers ({said})", advice=advice, for_all=True)


def no_contact(error: BaseException) -> bool:
    """Whether the error means that the daemon did not answer, rather than that it refused."""
    return isinstance(error, DOCKER_ERRORS) and not isinstance(error, docker.errors.APIError)


def _said(error: BaseException) -> str:
    """One line, without what the SDK wraps around the daemon's words."""
    text = str(error)
    if isinstance(error, docker.errors.APIError) and error.explanation:
        text = str(error.explanation)
    inner = re.findall(r"(?:PermissionError|FileNotFoundError|ConnectionRefusedError)\([^)]*\)", text)
    text = inner[-1].partition("(")[2].strip(")") if inner else text
    return " ".join(text.split())[:400]
