"""Which cells an earlier run saw fail: what depth `rates` repeats."""

from pathlib import Path

from matrix.summary import cell_verdicts
from repro import store
from repro.errors import NothingToRunError
from repro.verdict import run_verdicts


def failing_cells(results_root: Path, target: str) -> frozenset[str]:
    """Cells that failed or were corrupt in the newest run of the target. Raises NothingToRunError without a run."""
    directories, _ = store.scan(results_root, target) if results_root.is_dir() else ((), ())
    if not directories:
        raise NothingToRunError(
            f"depth rates repeats what failed, and {results_root} holds no run of {target}: run depth screen first"
        )
    results, _ = directories[-1].results()
    cells = cell_verdicts(run_verdicts(results))
    return frozenset(cell.cell for cell in cells if cell.verdict in {"fail", "corrupt"})
