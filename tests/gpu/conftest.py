"""Tests on an NVIDIA GPU. Without one they are skipped with the reason; where GRAPHREPRO_GPU is 1 that is an error.

The kernel runs in the environment GRAPHREPRO_ENGINE_ENV, or in the one of the tests.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ASK = """
import sys
try:
    import torch
except ImportError:
    sys.exit(f"{sys.executable} has no torch")
if not torch.cuda.is_available():
    sys.exit(f"torch {torch.__version__} sees no GPU")
"""


def engine_python() -> str:
    environment = os.environ.get("GRAPHREPRO_ENGINE_ENV")
    return str(Path(environment, "bin", "python")) if environment else sys.executable


@pytest.fixture(scope="session")
def gpu_python() -> str:
    """Python of an environment in which torch sees a GPU."""
    python = engine_python()
    try:
        asked = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=False)
        why = asked.stderr.strip().splitlines()[-1] if asked.returncode else None
    except OSError as error:
        why = f"{python}: {error.strerror}"
    if why is None:
        return python
    if os.environ.get("GRAPHREPRO_GPU") == "1":
        pytest.fail(f"GRAPHREPRO_GPU is 1, and there is no GPU to test on: {why}", pytrace=False)
    pytest.skip(f"no GPU: {why}")
