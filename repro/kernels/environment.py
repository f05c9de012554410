"""The environment beside torch: its Python, and which code it would test."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repro.errors import UnavailableError
from repro.kernels.case import PINNED_SGLANG
from repro.kernels.conversation import Origin
from repro.kernels.worker import PROTOCOL, START, Program
from repro.model.kernels import KernelSubject

MAKE_IT = "make it with `nox -s engine-cpu`, or name yours with --engine-env DIR or --python FILE"
ASKING_LIMIT_S = 300.0


def engine_python(environment: Path | None, python: Path | None) -> Path:
    """The Python to start programs with. Raises `UnavailableError` if there is none."""
    found = python or (environment or Path(".nox/engine-cpu")) / "bin" / "python"
    if not os.access(found, os.X_OK):
        raise UnavailableError(f"{found}: no Python to run the kernel with; {MAKE_IT}")
    return found.absolute()  # not resolved: the link is what makes it an environment's Python


def program(python: Path, *, scratch: Path, sglang: Path | None, environment: Mapping[str, str]) -> Program:
    """How programs are started: one thread each, since processes share the cores, and nothing of ours on their path."""
    kept = {name: value for name, value in environment.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    request: dict[str, str | list[str] | None] = {
        "scratch": str(scratch.absolute()),
        "sglang": None if sglang is None else str(sglang.absolute()),
        "paths": [],
    }
    return Program(
        python=python,
        module="subject",
        request=request,
        environment={**kept, **threads, "PYTHONSAFEPATH": "1", "PYTHONNOUSERSITE": "1"},
    )


def subject(asked: Program) -> KernelSubject:
    """The code that programs started so would test. Raises `UnavailableError`, with what the environment says."""
    request = {**asked.request, "protocol": PROTOCOL, "parent": os.getpid(), "cases": []}
    try:
        done = subprocess.run(
            [str(asked.python), str(START), "subject"],
            input=json.dumps(request),
            env=dict(asked.environment),
            capture_output=True,
            text=True,
            timeout=ASKING_LIMIT_S,
            start_new_session=True,
            check=False,
        )
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[0]) if done.returncode == 0 else {}
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{asked.python}: does not say which code it has ({error}); {MAKE_IT}") from None
    if not told:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise UnavailableError(f"{asked.python}: {said}; {MAKE_IT}")
    fields = {name: told[name] for name in ("sglang", "triton", "torch", "source_path", "source_sha256")}
    if not fields["triton"] or not fields["torch"]:
        raise UnavailableError(f"{asked.python}: has no torch or no Triton beside SGLang; {MAKE_IT}")
    return KernelSubject(origin=_origin(asked, fields["sglang"]), digest=None, **fields)


def _origin(asked: Program, version: str) -> Origin:
    if version == PINNED_SGLANG:
        return "pinned"
    return "environment" if asked.request["sglang"] is None else "release"
