"""Which runtime a command asks for. Docker's SDK is imported only where docker is meant: it costs every start."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from matrix.engines.deployment import Deployment
from matrix.environments import engine_python
from matrix.runtimes.docker_options import add_docker_options, declared_by, demand_image, docker_runtime
from matrix.runtimes.local import LocalRuntime
from matrix.runtimes.protocol import Runtime
from matrix.spec import Spec
from repro.model import Fact


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """``image`` is the digest of every step's image, None for an environment on the host; ``own_ports`` says that the
    server's port is taken in a network of its own, so that nobody else's matters; ``declared`` are facts that every
    result states."""

    runtime: Runtime
    image: str | None = None
    own_ports: bool = False
    declared: Mapping[str, Fact] = field(default_factory=dict)


def add_runtime_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runtime", choices=("local", "docker"), default="local", help="default: local")
    parser.add_argument("--engine-env", type=Path, metavar="DIR", help="Python environment with the engine")
    add_docker_options(parser)


def choose_runtime(
    options: argparse.Namespace,
    spec: Spec,
    deployment: Deployment,
    *,
    payload: Path,
    grace_s: float,
    environment: Mapping[str, str],
    say: Callable[[str], None],
) -> Chosen:
    """The runtime of `run`. ``grace_s`` is how long an attempt may take to stop its server.

    Raises SpecError for options that do not go together, UnavailableError if there is no such environment, daemon or
    image."""
    demand_image(options)
    if options.runtime == "local":
        python = engine_python(spec, options.engine_env)
        return Chosen(runtime=LocalRuntime(python=python, payload=payload, grace_s=grace_s))
    runtime = docker_runtime(
        options, spec, deployment, payload=payload, grace_s=grace_s, environment=environment, say=say
    )
    return Chosen(
        runtime=runtime,
        image=runtime.image.digest,
        own_ports=options.docker_network != "host",
        declared=declared_by(runtime),
    )
