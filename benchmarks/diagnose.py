"""How long `python -m repro diagnose` takes for a large log of eight interleaved ranks, beside `rg -c` (ripgrep).

    python benchmarks/diagnose.py [--sizes 0.1 1 4] [--rounds N] [--keep FOLDER]

ripgrep counts the lines that hold one of the literals of the catalogue: the least that such a reader must do. The log
is a server's that serves and then fails; made once for each size, read from the page cache by both. Exit status: 0 if
every size is read within ten times ripgrep's time and in less than 300 MB, else 1. Needs `rg` on the PATH.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tabulate import tabulate

from repro.diagnose.catalogue import catalogue

RATIO = 10.0
MEMORY_MB = 300.0
RANKS = 8
START = (
    "[2026-05-04 08:00:00] server_args=ServerArgs(model_path='/models/m', tp_size=8, speculative_algorithm='EAGLE')\n"
    "[2026-05-04 08:00:09 TP0] Load weight begin. avail mem=139.50 GB\n"
    "[2026-05-04 08:01:09 TP0] Load weight end. type=M, avail mem=71.92 GB, mem usage=67.58 GB.\n"
    "[2026-05-04 08:01:10 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=21.00 GB\n"
    "[2026-05-04 08:01:20 TP0] Capture cuda graph end. Time elapsed: 9.62 s. avail mem=20.34 GB.\n"
    "[2026-05-04 08:01:21] The server is fired up and ready to roll!\n"
)
END = (
    "[2026-05-05 08:00:00 TP3] Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py", line 1, in run_batch\n'
    "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n\n"
    "[2026-05-05 08:00:01] SIGQUIT received. signum=None, frame=None. It usually means one child failed.\n"
)


def main(arguments: list[str]) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=float, nargs="+", default=[0.1, 1.0], metavar="GB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="write the logs here, and use those that are there")
    options = parser.parse_args(arguments)
    if shutil.which("rg") is None:
        raise SystemExit("rg (ripgrep) is not on the PATH: install it, for example with apt-get install ripgrep")
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        literals = write_literals(folder)
        rows += [measured(log_of(folder, size), literals, size, options.rounds) for size in options.sizes]
    headers = ["GB", "diagnose s", "rg -c s", "ratio", "MB/s", "memory MB", ""]
    print(tabulate(rows, headers=headers, floatfmt=".2f"))
    return 0 if all(row[-1] == "pass" for row in rows) else 1


def measured(log: Path, literals: Path, size: float, rounds: int) -> list[object]:
    """A row of the table: the fastest of so many rounds, each program after the other."""
    diagnose = [sys.executable, "-m", "repro", "diagnose", str(log), "--json"]
    counted = ["rg", "-c", "-F", "-a", "-f", str(literals), str(log)]
    pairs = [(timed(diagnose), timed(counted)) for _ in range(rounds)]
    ours, theirs = min(pair[0][0] for pair in pairs), min(pair[1][0] for pair in pairs)
    memory = max(pair[0][1] for pair in pairs)
    met = ours <= RATIO * theirs and memory < MEMORY_MB
    return [size, ours, theirs, ours / theirs, size * 1000 / ours, memory, "pass" if met else "FAIL"]


def timed(command: list[str]) -> tuple[float, float]:
    """(wall seconds, largest resident memory in MB) of a process."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command[:4])} ended with status {process.returncode}")
    return time.perf_counter() - begun, usage.ru_maxrss / 1024


def write_literals(folder: Path) -> Path:
    """All literals of the catalogue, one a line."""
    rules = (*catalogue().patterns, *catalogue().markers)
    path = folder / "literals.txt"
    path.write_text("\n".join(sorted({text for rule in rules for text in rule.literals})) + "\n", encoding="utf-8")
    return path


def log_of(folder: Path, size: float) -> Path:
    path = folder / f"ranks-{size:g}.log"
    if not path.exists():
        with path.open("w", encoding="utf-8") as log:
            log.write(START)
            for part in serving(int(size * 1e9)):
                log.write(part)
            log.write(END)
    return path


def serving(size_bytes: int) -> Iterator[str]:
    """Lines of eight ranks at work, about so many bytes, a megabyte at a time."""
    chance = random.Random(8)
    written, second = 0, 0
    while written < size_bytes:
        lines = []
        for _ in range(6000):
            second += chance.random() < 0.2
            lines.append(line_of(chance, second))
        part = "".join(lines)
        written += len(part)
        yield part


def line_of(chance: random.Random, second: int) -> str:
    clock = f"2026-05-04 {8 + second // 3600 % 16:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    kind = chance.random()
    if kind < 0.2:
        return f'[{clock}] INFO:     127.0.0.1:{chance.randrange(65536)} - "POST /generate HTTP/1.1" 200 OK\n'
    rank = f"[{clock} TP{chance.randrange(RANKS)}]"
    if kind < 0.4:
        return (
            f"{rank} Prefill batch, #new-seq: {chance.randrange(9)}, #new-token: {chance.randrange(9999)}, "
            f"#cached-token: {chance.randrange(999)}, token usage: 0.02, #running-req: 16, #queue-req: 0, \n"
        )
    return (
        f"{rank} Decode batch, #running-req: {chance.randrange(64)}, #token: {chance.randrange(99999)}, token usage: "
        f"0.{chance.randrange(99):02d}, accept len: {1 + 3 * chance.random():.2f}, accept rate: 0.18, "
        f"cuda graph: True, gen throughput (token/s): {4000 * chance.random():.2f}, #queue-req: 0, \n"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
