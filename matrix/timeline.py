"""A look at an attempt that is running: which phase its timeline has reached. For display only."""

import json
from pathlib import Path


def current_phase(attempt_dir: Path) -> str:
    """The phase or check that began last; empty if nothing has. Never raises for what is in the file."""
    path = attempt_dir / "evidence" / "timeline.jsonl"
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return ""
    for line in reversed(lines):
        try:
            entry = json.loads(line)
            if entry["event"] == "check-begun":
                return str(entry["check"])
            if entry["event"] == "phase-begun":
                return str(entry["phase"])
        except (ValueError, KeyError, TypeError):
            continue
    return ""
