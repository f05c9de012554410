"""Runs inside the engine environment only: elsewhere torch is missing and the stand-ins must not be importable."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

PAYLOAD = Path(__file__).resolve().parents[2] / "matrix" / "payload" / "cpu"

if importlib.util.find_spec("torch") is not None:
    sys.path[:0] = [str(PAYLOAD), str(PAYLOAD / "plugin"), str(PAYLOAD / "standins")]


@pytest.fixture(scope="session")
def payload() -> Path:
    return PAYLOAD


START = Path(__file__).resolve().parents[2] / "repro" / "kernels" / "beside_torch" / "start.py"


@pytest.fixture(scope="session")
def ask_program(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str, Sequence[dict[str, Any]]], list[dict[str, Any]]]:
    """Documents of a program beside torch that is asked these cases in a process of its own."""

    def ask(program: str, cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        request = {
            "protocol": 1,
            "parent": os.getpid(),
            "paths": [],
            "scratch": str(tmp_path_factory.mktemp(program)),
            "sglang": None,
            "origin": "environment",
            "cases": list(cases),
        }
        done = subprocess.run(
            [sys.executable, str(START), program],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return ask
