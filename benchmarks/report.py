"""How long `python -m report build` takes over many runs, how much memory it needs, and how large its page is; beside
`asv publish` over as many results of airspeed velocity's own format.

    python benchmarks/report.py [--attempts N …] [--asv PROGRAM] [--rounds N]

The first table is of 40 runs of one target; the second has other shapes; the third, with `--asv`, both programs in
turns. Nine of ten launches pass, one has crashed. TMPDIR says where the files are made (/dev/shm: no disk is measured);
50,000 launches take 400 MB. Peaks are those of the largest process. Exit status: 0 if every shape of up to 10,000
launches meets the targets, no launch of 50,000 costs more than twice one of 10,000, and `asv publish` is not faster;
else 1.
"""

import argparse
import functools
import importlib.util
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import asv_project
from tabulate import tabulate

from repro import codec
from repro.canonical import pretty_bytes

TARGET_S, TARGET_BYTES, TARGET_PAGE_BYTES = 15.0, 600 * 10**6, 4 * 10**6
MOST_TARGETED = 10_400  # the shapes of about 10,000 launches do not all divide evenly
FIXTURES = Path(__file__).parents[1] / "tests" / "unit" / "report" / "conftest.py"
RUNS = 40
PLACEHOLDER = b"run-of-the-benchmark"
HEADERS = ("shape", "launches", "wall s", "CPU s", "CPU ms each", "peak MB", "page MB", "Markdown KB")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """Of one process and its children."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    shape: str
    launches: int
    cost: Cost
    page_bytes: int
    markdown_bytes: int

    @property
    def row(self) -> tuple[object, ...]:
        each_ms = 1000 * self.cost.cpu_s / self.launches
        sizes = (self.cost.peak_bytes / 1e6, self.page_bytes / 1e6, self.markdown_bytes / 1e3)
        return (self.shape, self.launches, self.cost.wall_s, self.cost.cpu_s, each_ms, *sizes)

    @property
    def met(self) -> bool:
        if self.launches > MOST_TARGETED:
            return True
        cost = self.cost
        return cost.wall_s <= TARGET_S and cost.peak_bytes <= TARGET_BYTES and self.page_bytes <= TARGET_PAGE_BYTES


def main(arguments: list[str]) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, nargs="+", default=[1_000, 10_000, 50_000])
    parser.add_argument("--asv", metavar="PROGRAM", help="asv's command, to measure `asv publish` too")
    parser.add_argument("--rounds", type=int, default=3, help="of the comparison; the fastest of each side counts")
    options = parser.parse_args(arguments)
    sizes = [measure(f"{RUNS} runs", lambda root, n=n: many_runs(root, n)) for n in options.attempts]
    shapes = [
        measure("one run of 100 cells", lambda root: one_run(root, cells=100, launches=100)),
        measure("40 targets", lambda root: many_targets(root, targets=40, cells=26, launches=10)),
        measure("one run of 400 cells", lambda root: one_run(root, cells=400, launches=5)),
    ]
    met = all(one.met for one in (*sizes, *shapes)) and is_linear(sizes)
    print(tabulate([one.row for one in (*sizes, *shapes)], headers=HEADERS, floatfmt=".2f"))
    print(f"at most {TARGET_S:.0f} s, 600 MB and 4 MB up to 10,000 launches, and linear: {'met' if met else 'NOT MET'}")
    if options.asv is not None:
        met &= beside(options.asv, options.rounds)
    return 0 if met else 1


def is_linear(sizes: Sequence[Measured]) -> bool:
    """Whether a launch more costs at most twice as much among the most as among the fewest, the start taken out."""
    if len(sizes) < 3:
        return True
    slopes = [
        (larger.cost.cpu_s - smaller.cost.cpu_s) / (larger.launches - smaller.launches)
        for smaller, larger in itertools.pairwise(sizes)
    ]
    return slopes[-1] <= 2 * slopes[0]


def beside(program: str, rounds: int) -> bool:
    """Both programs over 10,000 results, in turns; whether ours is not slower."""
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder, "ours"), Path(folder, "theirs")
        made = without_sync(lambda: many_runs(ours / "results", 10_000))
        results = asv_project.make(theirs, RUNS, made)
        found: dict[str, list[Cost]] = {"report build": [], "asv publish": []}
        sides: list[tuple[str, Callable[[], Cost]]] = [
            ("report build", lambda: build(ours)),
            ("asv publish", lambda: run([program, "publish", "--no-pull"], theirs)),
        ]
        for number in range(rounds):
            for name, side in sides if number % 2 == 0 else reversed(sides):
                found[name].append(side())
        best = {name: min(costs, key=lambda cost: cost.wall_s) for name, costs in found.items()}
        rows = [
            (
                name,
                made if name == "report build" else results,
                size(ours / "results" if name == "report build" else theirs / "results") / 1e6,
                best[name].wall_s,
                statistics.median(cost.wall_s for cost in costs),
                best[name].cpu_s,
                best[name].peak_bytes / 1e6,
            )
            for name, costs in found.items()
        ]
    print(
        tabulate(
            rows, headers=("program", "results", "read MB", "wall s", "median", "CPU s", "peak MB"), floatfmt=".2f"
        )
    )
    ratio = best["report build"].wall_s / best["asv publish"].wall_s
    cpu = min(c.cpu_s for c in found["report build"]) / min(c.cpu_s for c in found["asv publish"])
    said = "met" if ratio <= 1 else "NOT MET"
    print(f"report build / asv publish, fastest of {rounds} rounds: wall {ratio:.2f} ({said}), CPU {cpu:.2f}")
    return ratio <= 1


def size(folder: Path) -> int:
    """Of all files below, in bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(shape: str, make: Callable[[Path], int]) -> Measured:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = without_sync(lambda: make(folder / "results"))
        cost = build(folder)
        page, text = (folder / "findings.html").stat().st_size, (folder / "findings.md").stat().st_size
    return Measured(shape=shape, launches=made, cost=cost, page_bytes=page, markdown_bytes=text)


def without_sync(make: Callable[[], int]) -> int:
    """The runs are made, not measured: they need not outlive a power cut. In a process of their own, since what is
    measured later begins as a copy of this one, and its peak is at least what this one has grown to."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            with patch("os.fsync"):
                os.write(writing, str(make()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        made = stream.read()
    os.waitpid(child, 0)
    if not made:
        raise SystemExit("the runs to measure could not be made")
    return int(made)


def many_runs(root: Path, attempts: int) -> int:
    """How many launches there are: of one target, in 40 runs of ten launches a cell."""
    cells = max(1, attempts // RUNS // 10)
    return sum(
        write(root, "b300", f"run-{number:03}", cells, 10, day=1 + number % 28, modes=("graph",))
        for number in range(RUNS)
    )


def one_run(root: Path, *, cells: int, launches: int) -> int:
    return write(root, "b300", "run", cells, launches)


def many_targets(root: Path, *, targets: int, cells: int, launches: int) -> int:
    return sum(write(root, f"target-{number:02}", "run", cells, launches) for number in range(targets))


def write(
    root: Path,
    target: str,
    run_id: str,
    cells: int,
    launches: int,
    *,
    day: int = 1,
    modes: Sequence[str] = ("graph", "eager"),
) -> int:
    """A run with so many cells and launches of each; returns how many launches."""
    made = fixtures()
    budgets = range(4, 4 + -(-cells // len(modes)))
    names = [f"sm_103-b{budget}t4-{mode}-nvls" for budget in budgets for mode in modes][:cells]
    record = made.run_record(target, run_id, f"2026-11-{day:02}T09:00:00Z")
    directory = made.write_run(root, record, (), planned=dict.fromkeys(names, launches))
    for index, name in enumerate(names):
        for number in range(1, launches + 1):
            folder = directory / "cells" / name / str(number)
            folder.mkdir(parents=True)
            text = document(target, name, index, number).replace(PLACEHOLDER, run_id.encode())
            (folder / "result.json").write_bytes(text)
    return len(names) * launches


@functools.cache
def document(target: str, cell: str, index: int, number: int) -> bytes:
    """The file of a launch, but for the id of its run: one in ten has crashed, the others have passed. Made by the
    program once for each launch of a run, since that takes ten times as long as to write it."""
    made = fixtures()
    launch = made.Launch(cell, number, checks=made.checks(4.4 + number / 100, 300.0 + number))
    if (index + number) % 10 == 0:
        crash = made.illegal_access()
        launch = made.Launch(cell, number, "crashed", "ended in serving", checks=(), diagnosis=crash)
    result = made.result_of(launch, made.run_record(target, PLACEHOLDER.decode()))
    return pretty_bytes(codec.encode(result))


def build(folder: Path) -> Cost:
    return run([sys.executable, "-m", "report", "build", "--results", str(folder / "results"), "--out", str(folder)])


def run(command: list[str], folder: Path | None = None) -> Cost:
    """What a process cost that ended well."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command[:4])} ended with {process.returncode}")
    return Cost(wall_s=wall_s, cpu_s=usage.ru_utime + usage.ru_stime, peak_bytes=1024 * usage.ru_maxrss)


def fixtures() -> ModuleType:
    """The makers of records that the report's unit tests use."""
    if "report_fixtures" in sys.modules:
        return sys.modules["report_fixtures"]
    spec = importlib.util.spec_from_file_location("report_fixtures", FIXTURES)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["report_fixtures"] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
