"""The docker daemon: does it answer, can it hand out GPUs, has it the image, has it room?"""

from collections.abc import Callable, Mapping
from pathlib import Path

from matrix.preflight.drivers import version
from matrix.preflight.question import Asked, DaemonUnknownError, ok, problem, unknown
from repro.model import PreflightLine

GIB = 1 << 30
OLDEST = (20, 10)
"""Device requests came with 19.03, and with 20.10 they no longer need a runtime of their own to be named."""
ROOM_BYTES = 20 * GIB
"""Our own choice: what containers write, and compiled kernels."""
IMAGE_BYTES = 100 * GIB
"""Our own choice: an image of the engine that is not here yet, packed and unpacked."""


def daemon(asked: Asked) -> PreflightLine:
    if asked.daemon_problem is not None:
        return problem("docker", asked.daemon_problem, "start docker, and see that this user may speak to it")
    told = str(asked.daemon.get("ServerVersion") or "of an unknown version")
    found = version(told)
    if found is not None and found < OLDEST:
        return problem("docker", f"docker {told}", "install docker 20.10 or newer")
    return ok("docker", f"docker {told}")


def gpu_access(asked: Asked) -> PreflightLine:
    """NVIDIA's runtime, or CDI (docker 25 and later) with a specification to read."""
    advice = "install nvidia-container-toolkit, `nvidia-ctk runtime configure --runtime=docker`, restart docker"
    runtimes, folders = asked.daemon.get("Runtimes"), asked.daemon.get("CDISpecDirs")
    if isinstance(runtimes, Mapping) and "nvidia" in runtimes:
        return ok("gpu-runtime", "the daemon has NVIDIA's runtime")
    if isinstance(folders, list) and folders:
        places = [Path(str(folder)) for folder in folders] if not asked.sources.cdi else asked.sources.cdi
        specs = sorted(path.name for place in places for path in place.glob("*nvidia*") if path.is_file())
        if specs:
            return ok("gpu-runtime", f"by CDI: {specs[0]}")
        return problem(
            "gpu-runtime",
            "no NVIDIA runtime, and CDI has no specification of a GPU",
            "`nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`",
        )
    return problem("gpu-runtime", "the daemon knows neither NVIDIA's runtime nor CDI", advice)


def image(asked: Asked) -> PreflightLine:
    reference = asked.question.image
    if reference is None:
        return problem(
            "image",
            "none is named, and none is built here for this target",
            f"`nox -s images-{asked.question.spec.target}` builds one, --image DIGEST names one",
        )
    if asked.image is None:
        return problem(
            "image",
            f"{reference} is not on this host",
            f"`docker pull` it, or build it: `nox -s images-{asked.question.spec.target}`",
        )
    cuda = f", CUDA {asked.image.cuda}" if asked.image.cuda else ""
    return ok("image", f"here: {asked.image.size_bytes / GIB:.1f} GiB{cuda}")


def room(asked: Asked) -> PreflightLine:
    place = Path(str(asked.daemon.get("DockerRootDir") or "/var/lib/docker"))
    try:
        free = asked.sources.free_bytes(place)
    except OSError as error:
        return unknown("docker-disk", f"{place}: {error.strerror}", "look at its free space with `df` as root")
    needed = ROOM_BYTES if asked.image is not None else IMAGE_BYTES
    told = f"{free / GIB:.0f} GiB free in docker's folder, {needed // GIB} may be needed"
    if free < needed:
        return problem("docker-disk", told, "`docker system df` shows what can go; `docker image prune`")
    return ok("docker-disk", told)


WITH_DAEMON: tuple[Callable[[Asked], PreflightLine], ...] = (image, room)

__all__ = ["WITH_DAEMON", "DaemonUnknownError", "daemon", "gpu_access", "image", "room"]
