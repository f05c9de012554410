"""Which sandbox a command asks for. Docker's SDK is imported only where an image is meant: it costs every start."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from matrix.coding.sandbox import NoSandbox, Sandbox
from matrix.resolve import asks_tasks
from matrix.runtimes.protocol import Runtime
from repro.errors import UnavailableError
from repro.model import Plan

if TYPE_CHECKING:
    from matrix.runtimes.docker_daemon import Daemon


def add_sandbox_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sandbox-image",
        metavar="IMAGE",
        help="a local image with Python, in which answers to coding tasks are run; `none`: they are not judged; "
        "default: with --runtime docker the engine's image",
    )


def choose_sandbox(
    options: argparse.Namespace, plan: Plan, runtime: Runtime, environment: Mapping[str, str]
) -> Sandbox:
    """The sandbox for a plan's coding tasks. Without one the run goes on, and their check says why it did not.

    Raises UnavailableError if an image is named and is not on this host: none is pulled for this.
    """
    wanted: str | None = options.sandbox_image
    if not any(asks_tasks(step) for step in plan.steps):
        return NoSandbox(reason="the plan asks no coding task")
    if wanted == "none":
        return NoSandbox(reason="switched off with --sandbox-image none")
    if runtime.name == "docker":
        from matrix.runtimes.docker import DockerRuntime

        if isinstance(runtime, DockerRuntime):
            return _sandbox(runtime.daemon, wanted or runtime.image.id, python=runtime.settings.python)
    if wanted is None:
        return NoSandbox(reason="no image was named for it: with Docker here, give --sandbox-image IMAGE")
    from matrix.runtimes.docker_daemon import connect

    try:
        return _sandbox(connect(environment), wanted, python=None)
    except UnavailableError as problem:
        raise UnavailableError(f"--sandbox-image {wanted}: {problem}") from None


def _sandbox(daemon: "Daemon", reference: str, *, python: str | None) -> Sandbox:
    from matrix.coding.container import SandboxImage, image_volumes
    from matrix.coding.docker_sandbox import DockerSandbox
    from matrix.runtimes.docker_problems import DOCKER_ERRORS, problem_of

    try:
        found = daemon.patiently(lambda: daemon.api.inspect_image(reference))  # type: ignore[no-untyped-call]
    except DOCKER_ERRORS as error:
        raise UnavailableError(str(problem_of(error))) from None
    labels = (found.get("Config") or {}).get("Labels") or {}
    image = SandboxImage(
        id=str(found["Id"]),
        name=str(found["Id"]),
        python=labels.get("graphrepro.python") or python or "python3",
        volumes=image_volumes(found),
    )
    return DockerSandbox(daemon=daemon, of=image)
