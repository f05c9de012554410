"""Runs inside the engine environment only: elsewhere torch is missing and the stand-ins must not be importable."""

import importlib.util
import sys
from pathlib import Path

import pytest

PAYLOAD = Path(__file__).resolve().parents[2] / "matrix" / "payload" / "cpu"

if importlib.util.find_spec("torch") is not None:
    sys.path[:0] = [str(PAYLOAD), str(PAYLOAD / "plugin"), str(PAYLOAD / "standins")]


@pytest.fixture(scope="session")
def payload() -> Path:
    return PAYLOAD
