"""How long `python -m report build` takes over many runs, how much memory it needs, and how large its page is.

    python benchmarks/report.py [--runs N] [--attempts N …]

The runs are those of one target with the same number of attempts each, most of which pass; one in ten has crashed.
Exit status: 0 if the targets for 10,000 attempts are met by every size up to that, else 1.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

from tabulate import tabulate

TARGET_S, TARGET_BYTES, TARGET_PAGE_BYTES = 15.0, 600 * 10**6, 4 * 10**6
FIXTURES = Path(__file__).parents[1] / "tests" / "unit" / "report" / "conftest.py"
LAUNCHES = 10  # of each cell of a run


def main(arguments: list[str]) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--attempts", type=int, nargs="+", default=[1_000, 10_000])
    options = parser.parse_args(arguments)
    rows, met = [], True
    for attempts in options.attempts:
        with tempfile.TemporaryDirectory() as folder:
            with patch("os.fsync"):  # the runs are made, not measured: they need not outlive a power cut
                made = make_runs(Path(folder, "results"), options.runs, attempts)
            wall_s, cpu_s, peak_bytes, page_bytes = build(Path(folder))
        rows.append([made, wall_s, cpu_s, 1000 * cpu_s / made, peak_bytes / 1e6, page_bytes / 1e6])
        if attempts <= 10_000:
            met &= wall_s <= TARGET_S and peak_bytes <= TARGET_BYTES and page_bytes <= TARGET_PAGE_BYTES
    headers = ["attempts", "wall s", "CPU s", "CPU ms each", "peak MB", "page MB"]
    print(tabulate(rows, headers=headers, floatfmt=".2f"))
    print(f"at most {TARGET_S:.0f} s, 600 MB and a page of 4 MB: {'met' if met else 'NOT MET'}")
    return 0 if met else 1


def make_runs(root: Path, runs: int, attempts: int) -> int:
    """How many attempts there are, written as result records under ``root``."""
    made = fixtures()
    cells = max(1, attempts // runs // LAUNCHES)
    names = [f"sm_103-b{4 + index}t4-graph-nvls" for index in range(cells)]
    launches = [launch(made, name, index, number) for index, name in enumerate(names) for number in range(1, 11)]
    for number in range(runs):
        run = made.run_record("b300", f"run-{number:03}", f"2026-11-{1 + number % 28:02}T09:00:00Z")
        made.write_run(root, run, launches, planned=dict.fromkeys(names, LAUNCHES))
    return runs * len(launches)


def launch(made: ModuleType, cell: str, index: int, number: int) -> object:
    """An attempt: one in ten has crashed, the others have passed."""
    if (index + number) % 10 == 0:
        crash = made.illegal_access()
        return made.Launch(cell, number, "crashed", "ended in serving", checks=(), diagnosis=crash)
    width = 5 + index
    proof = (made.proof(), made.proof("width", width, width))
    return made.Launch(cell, number, checks=made.checks(4.4 + number / 100, 300.0 + number), proof=proof)


def build(folder: Path) -> tuple[float, float, int, int]:
    """(wall seconds, CPU seconds, peak bytes, bytes of the page) of one process."""
    command = [sys.executable, "-m", "report", "build", "--results", str(folder / "results"), "--out", str(folder)]
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the report ended with {process.returncode}")
    page = (folder / "findings.html").stat().st_size
    return wall_s, usage.ru_utime + usage.ru_stime, 1024 * usage.ru_maxrss, page


def fixtures() -> ModuleType:
    """The makers of records that the report's unit tests use."""
    spec = importlib.util.spec_from_file_location("report_fixtures", FIXTURES)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["report_fixtures"] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
