"""kill -9 of the harness at random moments of a run on the simulated engine, again and again, until it is complete.

    python tests/integration/kill_at_random.py --kills 20 [--seed N]

After each kill: everything that the run started ends by itself, no port is left open, no scratch folder lies about, the
run directory is readable, and every result that was there is there still, byte for byte. In some rounds the attempt
program is killed with the harness, and in some its guardian too: then the next start ends what is left. Exit status: 0
if all of this held and the run came to its end, else 1.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from tabulate import tabulate

from matrix.run import label_prefix
from repro import store

SPEC = Path(__file__).with_name("small.toml")
SHORTER = {"count = 4": "count = 2", "max_new_tokens = 32": "max_new_tokens = 12", "[1, 4]": "[1, 2]"}
"""What is changed in that spec, so that an attempt hardly outlasts its start."""
ALL = "harness, attempt and guardian"
ROUNDS = ("harness", "harness and attempt", ALL, "harness", "harness")
"""Who is killed, round by round."""
LONGEST_S = 60.0
"""How long anything is waited for before it counts as not happening."""


class Broken(AssertionError):  # noqa: N818 - it is what the script reports, not an error of its own
    """Something that must hold after a kill does not."""


@dataclass
class World:
    """A folder of its own for everything: results, HOME and TMPDIR. HOME is passed on to every process of an attempt,
    the server's too, so it tells ours from all others without any label."""

    folder: Path
    launches: int
    kept: dict[Path, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.results, self.home, self.temporary = (self.folder / name for name in ("results", "home", "tmp"))
        for path in (self.results, self.home, self.temporary):
            path.mkdir()
        self.log = self.folder / "harness.log"
        self.spec = self.folder / "spec.toml"
        text = SPEC.read_text()
        for old, new in SHORTER.items():
            text = text.replace(old, new)
        self.spec.write_text(text)

    def start(self) -> subprocess.Popen[bytes]:
        """The harness, in a session of its own."""
        command = [sys.executable, "-m", "matrix", "run", "--spec", str(self.spec), "--results", str(self.results)]
        command += ["--launches", str(self.launches), "--select", "*-b8t4-graph*"]
        environment = {**os.environ, "HOME": str(self.home), "TMPDIR": str(self.temporary), "PYTHONSAFEPATH": "1"}
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def processes(self, *but: int) -> list[psutil.Process]:
        """Ours that live, by HOME."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if (
                    process.pid not in but
                    and process.status() != psutil.STATUS_ZOMBIE
                    and process.environ().get("HOME") == str(self.home)
                ):
                    found.append(process)
        return found

    def results_now(self) -> dict[Path, bytes]:
        """Every result on disk."""
        return {path: path.read_bytes() for path in self.results.glob("*/*/cells/*/*/result.json")}

    def scratch(self) -> set[str]:
        """What lies in TMPDIR."""
        return {path.name for path in self.temporary.iterdir()}

    def ports(self) -> set[int]:
        """The ports that attempts were told to use."""
        found = set()
        for path in self.results.glob("*/*/cells/*/*/step.json"):
            with contextlib.suppress(OSError, ValueError):
                found.add(int(json.loads(path.read_bytes())["port"]))
        return found


def main(arguments: list[str]) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, which is printed")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10_000)
    chance = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="kill-"))
    world = World(folder, launches=options.kills // 2 + 2)
    rows: list[list[object]] = []
    print(f"seed {seed}, {options.kills} kills, in {folder}", flush=True)
    try:
        for number in range(options.kills):
            rows.append([number + 1, *_round(world, ROUNDS[number % len(ROUNDS)], chance)])
            print("  ".join(str(cell) for cell in rows[-1]), flush=True)
        _complete(world)
    except Broken as problem:
        print(f"BROKEN: {problem}\nthe last lines of the harness:\n{_tail(world.log)}", file=sys.stderr)
        print(f"kept for a look: {folder}", file=sys.stderr)
        return 1
    finally:
        for process in world.processes():  # only after something broke is there any
            with contextlib.suppress(psutil.Error):
                process.kill()
    headers = ["kill", "of", "after", "in", "results before", "ended by themselves", "left to the next start"]
    print(tabulate(rows, headers=headers, disable_numparse=True))
    print(f"the run is complete: {len(world.kept)} results, none lost or changed")
    shutil.rmtree(folder)
    return 0


def _round(world: World, whom: str, chance: random.Random) -> list[object]:
    """One start and one kill: a row of the table."""
    inherited, old = world.processes(), world.scratch()
    harness = world.start()
    _until(lambda: not _living(inherited), lambda: f"this start did not end what was left: {_living(inherited)}")
    moment_s = chance.uniform(0.1, 3.0)
    with contextlib.suppress(subprocess.TimeoutExpired):
        harness.wait(moment_s)  # it may refuse to start, or come to the end of the run
    if harness.returncode not in (None, 0):
        raise Broken(f"the harness ended by itself with status {harness.returncode}")
    if harness.returncode == 0:  # the run came to its end before all kills were spent: the same command begins another
        _demand_results_kept(world)
        return _round(world, whom, chance)
    victims = [process for process in world.processes(harness.pid) if whom != "harness" and _is_attempt(process, whom)]
    before = _begun(world)
    os.kill(harness.pid, signal.SIGKILL)
    for victim in victims:
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
    harness.wait()
    orphaned = len(world.processes())
    abandoned = whom == ALL and bool(victims)
    if abandoned:
        _demand_only_servers(world)
    else:
        _until(lambda: not world.processes(), lambda: f"still there after the kill: {world.processes()}")
        _demand_nothing_left(world, but=old)
    _demand_results_kept(world)
    left = len(world.processes())
    return [whom, f"{moment_s:.2f} s", before, len(world.kept), orphaned - left, left]


def _complete(world: World) -> None:
    """Let the run come to its end."""
    harness = world.start()
    try:
        status = harness.wait(20 * LONGEST_S)
    except subprocess.TimeoutExpired:
        harness.kill()
        raise Broken("the run does not come to its end") from None
    if status != 0:
        raise Broken(f"the run ended with status {status}")
    _until(lambda: not world.processes(), lambda: f"still there after the run: {world.processes()}")
    _demand_nothing_left(world)
    _demand_results_kept(world)
    runs, problems = store.scan(world.results, None)
    if problems or not runs:
        raise Broken(f"{len(runs)} runs, {problems}")
    for run in runs:
        results, bad = run.results()
        wanted = sum(step.launches for step in run.plan().steps)
        if bad or len(results) != wanted:
            raise Broken(f"{len(results)} of {wanted} results; problems: {bad}")
        if failed := [result for result in results if result.outcome != "completed"]:
            raise Broken(f"not completed: {[(r.cell, r.attempt, r.outcome, r.outcome_detail) for r in failed]}")


def _demand_nothing_left(world: World, but: Set[str] = frozenset()) -> None:
    """No process with a label of ours, no open port, no scratch folder but those that the start before this kill was to
    remove: it may not have come so far."""
    prefixes = [label_prefix(run.path) for run in store.scan(world.results, None)[0]]
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            label = process.environ().get("GRAPHREPRO_LABEL", "") if process.status() != psutil.STATUS_ZOMBIE else ""
            if label and label.startswith(tuple(prefixes)):
                raise Broken(f"labelled and alive: {process}")
    for port in world.ports():
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                raise Broken(f"port {port} still answers")
    if scratch := world.scratch() - but:
        raise Broken(f"left in TMPDIR: {scratch}")


def _demand_only_servers(world: World) -> None:
    """With the guardian dead too, nobody is left to end the server; but no attempt program may live on."""
    alive = [process for process in world.processes() if _is_attempt(process, ALL)]
    if alive:
        raise Broken(f"attempt programs that should be dead: {alive}")


def _demand_results_kept(world: World) -> None:
    """The run is readable, and what was finished before is as it was. Takes up what is new."""
    runs, problems = store.scan(world.results, None)
    if problems:
        raise Broken(f"the results are not readable: {problems}")
    for run in runs:
        _, bad = run.results()
        if bad:
            raise Broken(f"results that cannot be used: {bad}")
    now = world.results_now()
    for path, content in world.kept.items():
        if now.get(path) != content:
            raise Broken(f"{path} is {'gone' if path not in now else 'changed'}")
    world.kept = now


def _is_attempt(process: psutil.Process, whom: str) -> bool:
    """Whether this is an attempt program; its guardian, a fork of it, counts only where ``whom`` says so."""
    with contextlib.suppress(psutil.Error):
        words = process.cmdline()
        if "attempt" not in words:
            return False
        parent = process.parent()
        forked = parent is not None and "attempt" in parent.cmdline()
        return whom == ALL or not forked
    return False


def _living(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


def _until(holds: Callable[[], bool], complaint: Callable[[], str]) -> None:
    until = time.monotonic() + LONGEST_S
    while not holds():
        if time.monotonic() > until:
            raise Broken(complaint())
        time.sleep(0.02)


def _begun(world: World) -> str:
    """What the attempt in flight was at, as its timeline has it."""
    unfinished = [path for path in world.results.glob("*/*/cells/*/*") if not (path / "result.json").exists()]
    for attempt in unfinished:
        last = list(_events(attempt / "evidence" / "timeline.jsonl"))[-1:]
        return last[0] if last else "an attempt's first moment"
    return "between attempts" if any(world.results.glob("*/*/run.json")) else "before the run"


def _events(timeline: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for line in timeline.read_text().splitlines():
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                yield " ".join(str(entry[name]) for name in ("event", "phase", "check") if entry[name])


def _tail(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-15:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
