"""Every fault that can be planted in the CPU engine, each in its own launch, and the verdict that it has to get.

Stand-alone: `python tests/integration/faults_cpu.py --engine-env DIR` (nox -s faults-cpu).
Prints a table; exit 1 on a miss.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tabulate import tabulate

from repro import store
from repro.model import Result
from repro.verdict import run_verdicts

CELLS = tuple(f"cpu-{arm}-eager-nonvls" for arm in ("b8t4", "b12t4", "b16t8", "b32t8"))

EXPECTED = {
    # fault: (outcome, verdict, reason code that must be among the verdict's)
    "stale-mask": ("completed", "corrupt", "content_wrong"),
    "causal-mask": ("completed", "corrupt", "content_wrong"),
    "wrong-token:200": ("completed", "corrupt", "content_wrong"),
    "wrong-at-concurrency:3": ("completed", "corrupt", "content_wrong"),
    "wrong-late:90": ("completed", "corrupt", "content_wrong"),
    "nan:25": ("completed", "corrupt", "content_wrong"),
    "nan-padding": ("completed", "corrupt", "content_wrong"),
    "useless-trees": ("completed", "fail", "acceptance_at_floor"),
    "no-tokens": ("completed", "fail", "no_tokens"),
    "scheduler-exception:25": ("crashed", "fail", "cuda_illegal_memory_access"),
    "segfault:25": ("crashed", "fail", "segfault"),
    "exit:25": ("crashed", "fail", "crashed"),
    "sigkill:25": ("killed", "inconclusive", "killed_by_signal_9"),
    "host-hang:25": ("hung", "fail", "hang_deadlock"),
}


def run(engine: Path, planted: dict[str, str], folder: Path) -> list[tuple[str, Result, str, tuple[str, ...]]]:
    """One run with a fault in each of some cells: (fault, result, verdict, reasons) of each."""
    command = [sys.executable, "-m", "matrix", "run", "--spec", "cpu", "--engine-env", str(engine)]
    command += ["--results", str(folder)]
    for cell, fault in planted.items():
        command += ["--select", cell, "--inject", f"{cell}={fault}"]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    directories, problems = store.scan(folder, "cpu")
    assert not problems, problems
    results, bad = directories[-1].results()
    assert not bad, bad
    rows = []
    for result, verdict in zip(results, run_verdicts(results), strict=True):
        if result.cell in planted:
            rows.append((planted[result.cell], result, verdict.verdict, verdict.reasons))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine-env", type=Path, required=True)
    parser.add_argument("--fault", action="append", help="only these")
    options = parser.parse_args()
    faults = options.fault or list(EXPECTED)
    rows, missed = [], 0
    with tempfile.TemporaryDirectory(prefix="graphrepro-faults-") as folder:
        for at in range(0, len(faults), len(CELLS)):
            planted = dict(zip(CELLS, faults[at : at + len(CELLS)], strict=False))
            for fault, result, verdict, reasons in run(options.engine_env, planted, Path(folder) / str(at)):
                outcome, wanted, code = EXPECTED[fault]
                right = (result.outcome, verdict) == (outcome, wanted) and code in reasons
                missed += not right
                acceptance = next((c.detail for c in result.checks if c.check == "acceptance"), "")
                seen = f"{result.outcome}, {verdict}: {', '.join(reasons)}"
                rows.append([fault, seen, acceptance[:44], "" if right else f"WRONG: {outcome}, {wanted}: {code}"])
    print(tabulate(rows, headers=["planted", "seen", "acceptance", ""]))
    print(f"{len(rows) - missed} of {len(rows)} as they have to be")
    return 1 if missed or len(rows) != len(faults) else 0


if __name__ == "__main__":
    sys.exit(main())
