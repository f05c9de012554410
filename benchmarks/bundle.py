"""How long a bundle takes to be packed from 1 GB of evidence, and one of 25 MB to be verified; beside `zip -9`.

    python benchmarks/bundle.py [--size GB] [--rounds N]

The evidence is a run of the simulated engine with a planted crash, whose log is then made as long as asked for by lines
of a server that works, in its middle. `zip -9` packs the same attempt's files and tests (`unzip -tq`) the same bundle,
in turns with ours, each as a whole process, from the page cache. Exit status: 0 if packing takes less than 60 s and
300 MB, and verifying 25 MB less than 2 s, else 1. Needs `zip` and `unzip` on the PATH.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from importlib import resources
from pathlib import Path

from tabulate import tabulate

from repro.bundle import archive
from repro.bundle.archive import Facts, packed
from repro.bundle.inside.verify import LARGEST_ARCHIVE_BYTES
from repro.model import Signature, Subject

CELL = "sim-b16t8-graph-nvls"
PACK_S, MEMORY_MB, VERIFY_S = 60.0, 300.0, 2.0
SPOKEN = (
    "[2026-05-04 08:{:02}:{:02} TP{}] Decode batch, #running-req: {}, #token: {}, token usage: 0.{}, accept len: 3.{}, "
)
SPOKEN += "accept rate: 0.{}, cuda graph: True, gen throughput (token/s): {}.{}, #queue-req: 0, \n"


def main(arguments: list[str]) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=float, default=1.0, metavar="GB", help="of the evidence")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--make-largest", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.make_largest is not None:
        options.make_largest.write_bytes(largest_bundle())
        return 0
    for program in ("zip", "unzip"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is not on the PATH: install it, for example with apt-get install {program}")
    with tempfile.TemporaryDirectory() as scratch:
        rows = [
            pack_row(Path(scratch), options.size, options.rounds),
            verify_row(Path(scratch), options.rounds),
        ]
    headers = ["", "ours s", "zip s", "ratio", "CPU s", "zip CPU s", "ours MB", "zip MB", "our file MB", "zip's MB", ""]
    print(tabulate(rows, headers=headers, floatfmt=".2f"))
    return 0 if all(row[-1] == "pass" for row in rows) else 1


def pack_row(scratch: Path, size_gb: float, rounds: int) -> list[object]:
    results = scratch / "results"
    attempt = evidence(results, int(size_gb * 1e9))
    ours, theirs = scratch / "ours.zip", scratch / "theirs.zip"
    pack = [sys.executable, "-m", "repro", "pack", CELL, "--results", str(results), "--no-replay", "--replace"]
    pairs = []
    for _ in range(rounds):
        theirs.unlink(missing_ok=True)
        pairs.append((timed([*pack, "--out", str(ours)]), timed(["zip", "-9qr", str(theirs), str(attempt)])))
    return row(f"pack {size_gb:g} GB", pairs, ours, theirs, PACK_S)


def verify_row(scratch: Path, rounds: int) -> list[object]:
    path = scratch / "large.zip"
    # Made in a process of its own: a child's peak memory is never less than what its parent had when it was started.
    subprocess.run([sys.executable, __file__, "--make-largest", str(path)], check=True)
    ours = [sys.executable, "-m", "repro", "verify", str(path)]
    pairs = [(timed(ours), timed(["unzip", "-tq", str(path)])) for _ in range(rounds)]
    return row(f"verify {path.stat().st_size / 1e6:.1f} MB (unzip -t)", pairs, path, path, VERIFY_S)


Measured = tuple[float, float, float]
"""Wall seconds, seconds of CPU, largest resident memory in MB."""


def row(name: str, pairs: list[tuple[Measured, Measured]], ours: Path, theirs: Path, limit_s: float) -> list[object]:
    """The fastest of the rounds, and the most memory of any."""
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    wall, cpu = ([min(one[place] for one in side) for side in sides] for place in (0, 1))
    memory = [max(one[2] for one in side) for side in sides]
    sizes = [path.stat().st_size / 1e6 for path in (ours, theirs)]
    met = "pass" if wall[0] < limit_s and memory[0] < MEMORY_MB else "FAIL"
    return [name, *wall, wall[0] / wall[1], *cpu, *memory, *sizes, met]


def evidence(results: Path, size_bytes: int) -> Path:
    """The directory of a failed attempt with so much evidence; its result lists it."""
    run = [sys.executable, "-m", "matrix", "run", "--spec", "sim", "--select", CELL, "--results", str(results)]
    subprocess.run([*run, "--inject", f"{CELL}=crash-capture"], check=False, capture_output=True)
    [attempt] = results.glob(f"sim/*/cells/{CELL}/1")
    log = attempt / "evidence" / "server.log"
    lines = log.read_bytes().splitlines(keepends=True)
    chance = random.Random(1)
    block = "".join(
        SPOKEN.format(
            *(chance.randrange(10, 60) for _ in range(2)),
            chance.randrange(8),
            *(chance.randrange(10, 99999) for _ in range(6)),
            1,
        )
        for _ in range(50_000)
    ).encode()
    with log.open("wb") as stream:
        stream.writelines(lines[: len(lines) // 2])
        for _ in range(size_bytes // len(block) + 1):
            stream.write(block)
        stream.writelines(lines[len(lines) // 2 :])
    relist(attempt)
    return attempt


def relist(attempt: Path) -> None:
    """Bring the result up to the log as it is now, offsets of the diagnosis included."""
    result = json.loads((attempt / "result.json").read_text())
    log = attempt / "evidence" / "server.log"
    with log.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    for item in result["evidence"]:
        if item["path"] == "evidence/server.log":
            item.update(size_bytes=log.stat().st_size, sha256=digest)
    (attempt / "result.json").write_text(json.dumps(result))


def largest_bundle() -> bytes:
    """A bundle of nearly the largest size that there may be, of text that compresses as logs do."""
    chance = random.Random(2)
    words = [chance.randbytes(6).hex() for _ in range(60_000)]
    files = [packed("verify.py", (resources.files("repro.bundle.inside") / "verify.py").read_bytes())]
    while sum(len(file.data) for file in files) < LARGEST_ARCHIVE_BYTES - 1_000_000:
        text = " ".join(chance.choices(words, k=150_000)).encode()
        files.append(packed(f"results/{CELL}/1/evidence/{len(files):03}.log", text))
    subject = Subject(
        finding=None,
        target="sim",
        architecture="sim",
        cells=(CELL,),
        attempts=(f"run/{CELL}/1",),
        signature=Signature(kind="cuda_illegal_memory_access", phase="capture", subsystem=None),
        engine="simulated",
        engine_version="1",
        engine_source="simulated",
        image=None,
        planted=True,
    )
    facts = Facts(tool_version="0.1.0", subject=subject, left_out=(), redactions=())
    issue = packed("ISSUE.md", archive.digest(files, facts).encode())
    return archive.archive([*files, issue], facts)[0]


def timed(command: list[str]) -> Measured:
    """What a process took."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read() if process.stderr is not None else b""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command[:5])} ended with {process.returncode}: {said.decode()[-500:]}")
    return time.perf_counter() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
