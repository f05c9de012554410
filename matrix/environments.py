"""The engine's Python environment on this host."""

import sys
from pathlib import Path

from matrix.spec import Spec
from repro.errors import UnavailableError

MAKE_IT = "make it with `nox -s engine-cpu`, or name yours with --engine-env DIR"


def engine_python(spec: Spec, engine_env: Path | None) -> Path:
    """The interpreter that runs the attempt program and the engine.

    The simulated engine runs in our own environment. Raises UnavailableError if the environment is missing, cannot run
    here, or holds no SGLang of the spec's version.
    """
    if spec.engine.name == "simulated":
        return Path(sys.executable)
    if engine_env is None:
        raise UnavailableError(
            f"target {spec.target} needs an environment with SGLang {spec.engine.version}: {MAKE_IT}"
        )
    python = engine_env / "bin" / "python"
    if not python.exists():
        raise UnavailableError(f"engine environment {engine_env}: no Python at bin/python: {MAKE_IT}")
    found = installed_version(engine_env, "sglang")
    if found is None:
        raise UnavailableError(f"engine environment {engine_env}: SGLang is not installed in it: {MAKE_IT}")
    if found != spec.engine.version:
        raise UnavailableError(
            f"engine environment {engine_env}: holds SGLang {found}, and the spec says {spec.engine.version}: {MAKE_IT}"
            ", or correct /engine/version in a spec of your own"
        )
    return python.absolute()


def installed_version(engine_env: Path, package: str) -> str | None:
    """The version of a package in an environment, read from its metadata without starting its Python."""
    for metadata in sorted(engine_env.glob(f"lib/python3*/site-packages/{package}-*.dist-info/METADATA")):
        for line in metadata.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("Version: "):
                return line.removeprefix("Version: ").strip()
    return None


def own_version() -> str:
    """The version of graphrepro that runs."""
    from importlib.metadata import version

    return version("graphrepro")
