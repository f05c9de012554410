"""The options of `run` that only the docker runtime knows, and the runtime they ask for."""

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from matrix.engines.deployment import Deployment
from matrix.spec import Spec
from repro.errors import SpecError
from repro.model import Fact

if TYPE_CHECKING:
    from matrix.runtimes.docker import DockerRuntime
    from matrix.runtimes.docker_container import ContainerSettings, GpuAccess
    from matrix.runtimes.docker_daemon import Daemon
    from matrix.runtimes.docker_images import Image

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_GPU_SHM_BYTES = 32 << 30
"""As SGLang's documentation runs its image; memory is only taken as it is used."""
_GPU_ULIMITS = {"memlock": -1, "stack": 64 << 20}
"""NCCL pins memory; both are those of SGLang's documented command."""


def add_docker_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("with --runtime docker")
    group.add_argument("--image", metavar="DIGEST", help="repository@sha256:… or an id; default: the newest build")
    group.add_argument("--allow-tag", action="store_true", help="take a tag or open pins all the same (recorded)")
    group.add_argument(
        "--image-python", metavar="P", help="the engine's Python; default: as the image says, or python3"
    )
    group.add_argument("--gpus", metavar="all|none|ID,…", help="default: all, or none where the spec has none")
    group.add_argument("--gpu-access", choices=("auto", "runtime", "cdi"), default="auto", help="default: auto")
    group.add_argument("--no-jit-cache", action="store_true", help="every attempt compiles its kernels anew (recorded)")
    group.add_argument("--ipc", choices=("private", "host"), default="private", help="default: private")
    group.add_argument("--shm-size", type=_size, metavar="SIZE", help="of /dev/shm; default: 32g with GPUs, else 1g")
    group.add_argument("--memory", type=_size, metavar="SIZE", help="limit of a container; default: none")
    group.add_argument("--ulimit", action="append", metavar="NAME=N|none", help="default with GPUs: memlock, stack")
    group.add_argument("--docker-network", metavar="NAME", help="default: docker's bridge, and no published port")
    group.add_argument("--container-user", metavar="UID:GID|image", help="default: yours, so that evidence is yours")
    group.add_argument("--mount", action="append", type=Path, default=[], metavar="PATH", help="seen there, read-only")


def demand_image(options: argparse.Namespace) -> None:
    """Raises SpecError where the options name an image for a runtime that has none. An engine's environment on the host
    is not looked at with docker: a session names one for either runtime."""
    if options.runtime != "docker" and options.image is not None:
        raise SpecError("--image: the engine of an image runs with --runtime docker")


def docker_runtime(
    options: argparse.Namespace,
    spec: Spec,
    deployment: Deployment,
    *,
    daemon: "Daemon",
    image: "Image",
    payload: Path,
    grace_s: float,
) -> "DockerRuntime":
    """The runtime that the options ask for. Raises SpecError for what is wrong in them, UnavailableError if the daemon
    no longer answers."""
    from matrix.runtimes.docker import DockerRuntime
    from matrix.runtimes.docker_gpus import Gpus, choose_access, parse_gpus

    count = spec.hardware.gpu_count
    gpus = parse_gpus(options.gpus or ("all" if count else "none"))
    access = options.gpu_access
    if access == "auto":
        access = choose_access(daemon.info()) if gpus else "runtime"
    mounts = {*options.mount, *weight_mounts(deployment.model), *weight_mounts(deployment.draft_model)}
    script = spec.engine.script
    if script is not None and ("/" in script or script.endswith(".json")):
        mounts.add(Path(script))
    return DockerRuntime(
        daemon=daemon,
        image=image,
        settings=container_settings(
            options,
            bool(gpus),
            cast("GpuAccess", access),
            _existing(mounts),
            python=options.image_python or image.python or "python3",
        ),
        gpus=Gpus(gpus, count),
        payload=payload,
        grace_s=grace_s,
        jit_cache=not options.no_jit_cache,
    )


def container_settings(
    options: argparse.Namespace,
    with_gpus: bool,
    access: "GpuAccess",
    mounts: tuple[Path, ...],
    *,
    python: str = "python3",
) -> "ContainerSettings":
    """The settings that the options ask for. Raises SpecError."""
    from matrix.runtimes.docker_container import ContainerSettings

    user = options.container_user or f"{os.getuid()}:{os.getgid()}"
    if user != "image" and not re.fullmatch(r"\d+:\d+", user):
        raise SpecError(f"--container-user {user!r}: give UID:GID as numbers, or `image`")
    return ContainerSettings(
        python=python,
        user=None if user == "image" else user,
        mounts=mounts,
        gpu_access=access,
        ipc=cast("Literal['private', 'host']", options.ipc),
        shm_bytes=options.shm_size or (_GPU_SHM_BYTES if with_gpus else 1 << 30),
        memory_bytes=options.memory,
        ulimits=_ulimits(options.ulimit, with_gpus),
        network=options.docker_network,
    )


def declared_by(runtime: "DockerRuntime", open_pins: tuple[str, ...] = ()) -> dict[str, Fact]:
    """What every result says of the container it came from, beside the image in the plan."""
    settings = runtime.settings
    told: dict[str, Any] = {
        "container_user": settings.user or "the image's own",
        "container_ipc": settings.ipc,
        "container_ulimits": " ".join(f"{name}={n}" for name, n in sorted(settings.ulimits.items())) or "docker's own",
        "jit_cache": "shared between attempts" if runtime.jit_cache else "off: empty for each attempt",
    }
    if settings.ipc == "private":
        told["container_shm_bytes"] = settings.shm_bytes
    if settings.memory_bytes is not None:
        told["container_memory_bytes"] = settings.memory_bytes
    if settings.network is not None:
        told["container_network"] = settings.network
    if runtime.image.tag is not None:
        told["image_tag"] = runtime.image.tag
    if open_pins:
        told["image_open_pins"] = "; ".join(open_pins)
    return {name: Fact(value=value, status="declared", reason=None) for name, value in told.items()}


def weight_mounts(model: str | None) -> set[Path]:
    """The folder of a model on this host, and what its links lead to: a snapshot in Hugging Face's cache links to its
    blobs. Empty for a name, or a path that only the image has."""
    if model is None or "{" in model or not Path(model).is_absolute() or not Path(model).exists():
        return set()
    folder = Path(model)
    real = folder.resolve()
    targets = {file.resolve().parent for file in folder.iterdir() if file.is_symlink()} if folder.is_dir() else set()
    return {folder, *(target for target in targets if not target.is_relative_to(real))}


def _existing(mounts: set[Path]) -> tuple[Path, ...]:
    for path in mounts:
        if not path.exists():
            raise SpecError(f"--mount {path}: there is no such file or folder on this host")
    return tuple(sorted({path.absolute() for path in mounts}))


def _ulimits(given: list[str] | None, with_gpus: bool) -> dict[str, int]:
    if given is None:
        return dict(_GPU_ULIMITS) if with_gpus else {}
    limits = {}
    for text in given:
        name, _, number = text.partition("=")
        if text == "none":
            continue
        if not re.fullmatch(r"[a-z]+", name) or not re.fullmatch(r"-1|\d{1,18}", number):
            raise SpecError(f"--ulimit {text!r}: write NAME=N, such as memlock=-1, or none")
        limits[name] = int(number)
    return limits


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d{1,12})([kmgt]?)b?", text.lower())
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no size, such as 32g")
    return int(found[1]) * _UNITS[found[2]]
