"""Which cells an earlier run saw fail: what depth `rates` repeats."""

from pathlib import Path

from matrix.schedule import unfinished
from matrix.summary import cell_verdicts
from repro import store
from repro.errors import NothingToRunError, RecordError
from repro.verdict import run_verdicts


def failing_cells(results_root: Path, target: str) -> frozenset[str]:
    """Cells that failed or were corrupt in the newest finished run of the target: an unfinished one, such as the run of
    depth rates that is to be resumed, must not change what it repeats.

    Raises NothingToRunError without such a run, RecordError if one of its records is invalid.
    """
    directories, _ = store.scan(results_root, target) if results_root.is_dir() else ((), ())
    for directory in reversed(directories):
        results, problems = directory.results()
        if problems:
            raise RecordError(f"{problems[0].path}: {problems[0].problem}")
        if unfinished(directory.plan(), results):
            continue
        cells = cell_verdicts(results, run_verdicts(results))
        return frozenset(cell.cell for cell in cells if cell.verdict in {"fail", "corrupt"})
    raise NothingToRunError(
        f"depth rates repeats what failed, and {results_root} holds no finished run of {target}: run depth screen first"
    )
