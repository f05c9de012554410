"""Which runtime a command asks for. Docker's SDK is imported only where docker is meant: it costs every start."""

import argparse
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from matrix.arguments import Probed
from matrix.engines.deployment import Deployment
from matrix.environments import engine_python
from matrix.runtimes.docker_options import add_docker_options, declared_by, demand_image, docker_runtime
from matrix.runtimes.local import LocalRuntime
from matrix.runtimes.protocol import Runtime
from matrix.spec import Spec
from repro.model import Fact


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """``images``: engine source -> digest, empty for an environment on the host; ``probed``: engine source -> what was
    found there, and where that is; ``own_ports`` says that the server's port is taken in a network of its own, so that
    nobody else's matters; ``declared`` are facts that every result states."""

    runtime: Runtime
    images: Mapping[str, str] = field(default_factory=dict)
    probed: Mapping[str, tuple[Probed, str]] = field(default_factory=dict)
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
    sources: Collection[str],
    payload: Path,
    grace_s: float,
    environment: Mapping[str, str],
    say: Callable[[str], None],
) -> Chosen:
    """The runtime of `run` for the engine ``sources`` of a plan. ``grace_s`` is how long an attempt may take to stop
    its server; ``environment`` may name the daemon (DOCKER_HOST).

    Raises SpecError for options that do not go together, UnavailableError if there is no such environment, daemon or
    image, or if the engine in it cannot run on the target."""
    demand_image(options)
    if options.runtime == "local":
        python = engine_python(spec, options.engine_env)
        probed = _probed_environment(options.engine_env, spec, sources, payload, environment)
        return Chosen(runtime=LocalRuntime(python=python, payload=payload, grace_s=grace_s), probed=probed)
    from matrix.runtimes.docker_daemon import connect
    from matrix.runtimes.docker_engines import ImageSearch

    daemon = connect(environment)
    search = ImageSearch(
        daemon=daemon, spec=spec, payload=payload, environment=environment, say=say, allow_tag=options.allow_tag
    )
    found = search.engines(options, sources)
    runtime = docker_runtime(
        options, spec, deployment, daemon=daemon, image=found.main, payload=payload, grace_s=grace_s
    )
    return Chosen(
        runtime=runtime,
        images=found.by_source,
        probed={
            source: (found.probes[digest], f"probe of image {digest}")
            for source, digest in found.by_source.items()
            if digest in found.probes
        },
        own_ports=options.docker_network != "host",
        declared=declared_by(runtime, found.notes),
    )


def _probed_environment(
    engine_env: Path | None, spec: Spec, sources: Collection[str], payload: Path, environment: Mapping[str, str]
) -> dict[str, tuple[Probed, str]]:
    """What an engine's environment on the host holds: it serves every source."""
    if engine_env is None or spec.engine.name == "simulated":
        return {}
    from matrix.images.probe import probe_environment
    from matrix.images.remembered import probes_folder, remembered, state_of
    from matrix.images.suitable import demand_engine

    probe = remembered(
        probes_folder(environment),
        state_of(engine_env),
        payload,
        lambda: probe_environment(engine_env / "bin" / "python", payload),
    )
    demand_engine(probe, spec.hardware.architecture, where=f"engine environment {engine_env}")
    return dict.fromkeys(sources, (probe, "probe of the engine's environment"))
