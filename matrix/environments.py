"""The engine's Python environment on this host."""

import subprocess
import sys
from pathlib import Path

from matrix.spec import Spec
from repro.errors import UnavailableError

OLDEST_PYTHON = (3, 11)
"""What the attempt program is written for."""
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
    _demand_python(python, engine_env)
    found = installed_version(engine_env, "sglang")
    if found is None:
        raise UnavailableError(f"engine environment {engine_env}: SGLang is not installed in it: {MAKE_IT}")
    if found != spec.engine.version:
        raise UnavailableError(
            f"engine environment {engine_env}: holds SGLang {found}, and the spec says {spec.engine.version}: {MAKE_IT}"
            ", or correct /engine/version in a spec of your own"
        )
    return python.absolute()


def _demand_python(python: Path, engine_env: Path) -> None:
    """Raises UnavailableError if the interpreter does not run here, or is too old for the attempt program."""
    question = [str(python), "-I", "-c", "import sys; print(*sys.version_info[:2])"]
    try:
        answer = subprocess.run(question, capture_output=True, text=True, timeout=60, check=True, errors="replace")
        version = tuple(int(part) for part in answer.stdout.split())
    except (OSError, subprocess.SubprocessError, ValueError) as problem:
        said = problem.strerror if isinstance(problem, OSError) else "it does not tell its version"
        raise UnavailableError(
            f"engine environment {engine_env}: its bin/python does not run here ({said}): {MAKE_IT}"
        ) from None
    if version < OLDEST_PYTHON:
        told, needed = (".".join(map(str, numbers)) for numbers in (version, OLDEST_PYTHON))
        raise UnavailableError(f"engine environment {engine_env}: holds Python {told}, older than {needed}: {MAKE_IT}")


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
