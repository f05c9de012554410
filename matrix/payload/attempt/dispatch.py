"""Which program sends the requests of a check."""

from importlib import import_module
from typing import cast

from attempt.checks import CheckRun, Situation

_RUNS = {
    "coding": ("attempt.coding", "CodingRun"),
    "load": ("attempt.load", "LoadRun"),
    "lossless": ("attempt.lossless", "LosslessRun"),
    "rescoring": ("attempt.rescoring", "RescoringRun"),
    "throughput": ("attempt.throughput", "ThroughputRun"),
}


def check_run(situation: Situation) -> CheckRun:
    """The run of this check. Its module is only read now: most launches do not make all checks."""
    module, name = _RUNS.get(situation.check.name, _RUNS["lossless"])
    return cast("CheckRun", getattr(import_module(module), name)(situation))
