"""Attempts that go wrong in every way we know, one after another, each of which must be classified rightly.

    python tests/docker/fault_mix.py --attempts 50 [--seed N] [--flood-mb 1024] [--kinds crash,oom]

Each attempt is a run of its own: `python -m matrix run --runtime docker` with the simulated engine, on a docker daemon
that this script starts and may restart. In the end `python -m matrix clean` must leave the daemon as it was found.
Exit status 0 if everything was as it must be.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker

sys.path.insert(0, str(Path(__file__).parent))

import images_for_tests
from own_dockerd import OwnDockerd

import matrix
from matrix.runtimes.docker_container import LABEL

CELL = "sim-b8t4-graph-nvls"
SPECS = Path(matrix.__file__).parent / "specs"
LONGEST_S = 180.0
LOG_BYTES = (64 + 64 + 1) << 20
"""More than a log that was cut holds: what the attempt program keeps of head and tail."""
HOG = "import sys\nkept = []\nwhile True: kept.append(b'x' * (8 << 20))\n"
SILENT = "import os\nos._exit(0)\n"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """``faults`` are the engine's, with a number or not; ``server`` is code that the server's Python runs before it;
    ``during`` does something to the daemon or the harness once the server was started; ``outcomes`` are those of the
    attempts, in order."""

    outcomes: tuple[str, ...]
    faults: tuple[tuple[str, int | None], ...] = ()
    server: str = ""
    options: tuple[str, ...] = ()
    slow: bool = False
    during: Callable[["World", subprocess.Popen[str]], None] | None = None
    runs: int = 1


@dataclass
class World:
    dockerd: OwnDockerd
    image: str
    flood_mb: int
    folder: Path
    problems: list[str] = field(default_factory=list)

    def containers(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = self.dockerd.client().containers(all=True, filters={"label": [LABEL]})
        return listed


def restart(world: World, _harness: subprocess.Popen[str]) -> None:
    world.dockerd.restart(signal.SIGTERM)


def crash_daemon(world: World, _harness: subprocess.Popen[str]) -> None:
    world.dockerd.restart(signal.SIGKILL)


def kill_harness(world: World, harness: subprocess.Popen[str]) -> None:
    harness.kill()
    harness.wait()
    until(lambda: all(c["State"] == "exited" for c in world.containers()), "the attempt outlived its harness")


def kill_container(world: World, _harness: subprocess.Popen[str]) -> None:
    world.dockerd.client().kill(world.containers()[0]["Id"])


KINDS = {
    "healthy": Kind(outcomes=("completed",)),
    "crash": Kind(outcomes=("crashed",), faults=(("scheduler-exception", 3),)),
    "hang": Kind(outcomes=("hung",), faults=(("hang-capture", None), ("ignore-sigterm", None), ("orphan", 2))),
    "flood": Kind(outcomes=("completed",), faults=(("log-flood", -1),)),
    "oom": Kind(outcomes=("oom",), server=HOG, options=("--memory", "160m")),
    "silent": Kind(outcomes=("crashed",), server=SILENT),
    "daemon-restart": Kind(outcomes=("runtime_error", "completed"), slow=True, during=restart),
    "daemon-crash": Kind(outcomes=("runtime_error", "completed"), slow=True, during=crash_daemon),
    "harness-kill": Kind(outcomes=("completed",), slow=True, during=kill_harness, runs=2),
    "docker-kill": Kind(outcomes=("killed",), slow=True, during=kill_container),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--attempts", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--flood-mb", type=int, default=int(os.environ.get("GRAPHREPRO_FLOOD_MB", "1024")))
    parser.add_argument("--kinds", default=",".join(KINDS))
    options = parser.parse_args()
    order = _order(options.kinds.split(","), options.attempts, random.Random(options.seed))
    outside = docker.APIClient(version="auto", **docker.utils.kwargs_from_env())
    image = images_for_tests.engine_image(outside)
    with OwnDockerd() as dockerd, _folder() as folder:
        images_for_tests.copy_image(outside, image, dockerd.client())
        world = World(dockerd, image, options.flood_mb, folder)
        before = _snapshot(world)
        for number, name in enumerate(order, 1):
            begun, told = time.monotonic(), _one(world, number, name)
            print(f"{number:3} {name:15} {told:40} {time.monotonic() - begun:6.1f} s", flush=True)
        after = _snapshot(world)
        if before != after:
            world.problems.append(f"the daemon is not as it was: {before} became {after}")
        for problem in world.problems:
            print(f"WRONG: {problem}", flush=True)
        print(f"{len(order)} attempts, {len(world.problems)} problems", flush=True)
        return 1 if world.problems else 0


def _order(kinds: list[str], attempts: int, chance: random.Random) -> list[str]:
    """Every kind as often as the others, as nearly as can be, in an order that the seed decides."""
    order = [kinds[n % len(kinds)] for n in range(attempts)]
    chance.shuffle(order)
    return order


def _one(world: World, number: int, name: str) -> str:
    """Makes the attempt; what came of it. What is wrong is added to the world's problems."""
    kind, place = KINDS[name], world.folder / f"{number}-{name}"
    place.mkdir()
    results = place / "results"
    command = _command(kind, place, results, world)
    for run in range(kind.runs):
        harness = _start(command, world, place)
        if kind.during is not None and run == 0:
            started = _wait_for_start(results, harness)
            if started:
                kind.during(world, harness)
        harness.wait(LONGEST_S)
    outcomes = [json.loads(path.read_text())["outcome"] for path in sorted(results.rglob("result.json"))]
    if tuple(outcomes) != kind.outcomes:
        said = (place / "log").read_text()[-600:]
        world.problems.append(f"{number} {name}: {outcomes}, not {list(kind.outcomes)}: {said}")
    if name == "flood":
        _judge_flood(world, results)
    left = [container["Names"] for container in world.containers()]
    if left:
        world.problems.append(f"{number} {name}: left containers {left}")
    _clean(world, results)
    shutil.rmtree(place)
    return ", ".join(outcomes)


def _command(kind: Kind, place: Path, results: Path, world: World) -> list[str]:
    script = json.loads((SPECS.parent / "payload" / "simulated" / "scripts" / "default.json").read_text())
    numbers = {-1: world.flood_mb}
    script["defaults"]["faults"] = [
        {"name": name} if number is None else {"name": name, "number": numbers.get(number, number)}
        for name, number in kind.faults
    ]
    if kind.slow:
        script["defaults"]["phases_s"]["weights_load"] = 4.0
    (place / "script.json").write_text(json.dumps(script))
    text = (SPECS / "sim.toml").read_text().replace('script = "default"', f'script = "{place}/script.json"')
    hangs = any(name == "hang-capture" for name, _ in kind.faults)
    text = text.replace("graph_capture = 20", f"graph_capture = {2 if hangs else 120}")
    text = text.replace("[limits]", "[limits]\nstop = 1")
    mounts: tuple[str, ...] = ()
    if kind.server:
        (place / "first").mkdir()
        (place / "first" / "sitecustomize.py").write_text(kind.server)
        text = text.replace("[defaults]", f'[deployment.environment]\nPYTHONPATH = "{place}/first"\n\n[defaults]')
        mounts = ("--mount", f"{place}/first")
    (place / "spec.toml").write_text(text)
    run = (sys.executable, "-m", "matrix", "run", "--spec", str(place / "spec.toml"), "--select", CELL)
    runtime = ("--runtime", "docker", "--image", world.image, "--no-references", "--results", str(results))
    return [*run, *runtime, *mounts, *kind.options]


def _start(command: list[str], world: World, place: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "DOCKER_HOST": world.dockerd.host, "PYTHONPATH": str(SPECS.parents[1])}
    with (place / "log").open("a") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, text=True)


def _wait_for_start(results: Path, harness: subprocess.Popen[str]) -> bool:
    def started() -> bool:
        lines = [line for path in results.rglob("timeline.jsonl") for line in path.read_text().splitlines()]
        return any('"weights_load"' in line for line in lines)

    until(lambda: started() or harness.poll() is not None, "the server was never started")
    return harness.poll() is None


def _judge_flood(world: World, results: Path) -> None:
    for log in results.rglob("server.log"):
        if not 0 < log.stat().st_size < LOG_BYTES:
            world.problems.append(f"flood: the log has {log.stat().st_size} bytes")
        if b"The server is fired up" not in log.read_bytes()[-(1 << 20) :]:
            world.problems.append("flood: the tail of the log is lost")


def _clean(world: World, results: Path) -> None:
    command = [sys.executable, "-m", "matrix", "clean", "--results", str(results)]
    environment = {**os.environ, "DOCKER_HOST": world.dockerd.host, "PYTHONPATH": str(SPECS.parents[1])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        world.problems.append(f"clean: {done.stderr.strip()}")


def _snapshot(world: World) -> dict[str, list[str]]:
    api = world.dockerd.client()
    return {
        "containers": sorted(c["Id"] for c in api.containers(all=True)),
        "volumes": sorted(v["Name"] for v in api.volumes()["Volumes"] or ()),
        "networks": sorted(n["Name"] for n in api.networks()),
        "images": sorted(i["Id"] for i in api.images()),
        "ports": sorted(str(p) for c in api.containers() for p in c["Ports"]),
    }


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="graphrepro-fault-mix-") as text:
        yield Path(text)


def until(holds: Callable[[], object], otherwise: str) -> None:
    end = time.monotonic() + LONGEST_S
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(otherwise)
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
