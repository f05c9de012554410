"""The CPU engine's folder, and its plugin package importable: its tree and its faults need neither torch nor SGLang."""

import sys
from pathlib import Path

import pytest

PAYLOAD = Path(__file__).resolve().parents[4] / "matrix" / "payload" / "cpu"
sys.path.append(str(PAYLOAD / "plugin"))


@pytest.fixture(scope="session")
def payload() -> Path:
    return PAYLOAD
