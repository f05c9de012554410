"""End what dead runs left behind: processes that carry our label, and nothing else."""

from pathlib import Path

from matrix.run import label_prefix
from matrix.runtimes.local import end_labelled
from repro import store
from repro.errors import UnavailableError


def clean(results_root: Path) -> int:
    """How many processes were ended. A run that another graphrepro holds is left alone. Raises SpecError if there is no
    such results directory."""
    directories, _ = store.scan(results_root, None)
    ended = 0
    for directory in directories:
        try:
            with store.lock(directory.path):
                ended += end_labelled(label_prefix(directory.path))
        except UnavailableError:
            continue
    return ended
