"""The payload's packages by their bare names, as running the payload gives them."""

import sys
from pathlib import Path

import matrix

sys.path.insert(0, str(Path(matrix.__file__).parent / "payload"))
