"""What the docker runtime costs on top of docker: side by side with a bare `docker run --rm` of the same command.

    python benchmarks/docker_overhead.py [--rounds N] [--image ID]

Two targets. A cell of ten seconds takes at most 1.05 times as long through `DockerRuntime` as through `docker run
--rm` with the same mounts and the same attempt program; the two take turns, so that a busy machine slows both, and the
fastest round of each counts. And from `python -m matrix` to the start of the first container pass at most 2 s, when
nothing is to be built. Exit status: 0 if both targets are met, else 1.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

import docker
from tabulate import tabulate

import matrix
from matrix.promptset import payload_dir
from matrix.resolve import stop_ladder
from matrix.runtimes.docker import DockerRuntime
from matrix.runtimes.docker_container import ATTEMPT, PAYLOAD, ContainerSettings
from matrix.runtimes.docker_daemon import Daemon, connect
from matrix.runtimes.docker_gpus import Gpus
from matrix.runtimes.docker_images import find_image
from matrix.runtimes.protocol import AttemptOrder
from matrix.spec import load_spec
from repro import store
from repro.model import PhaseLimit, Step

RATIO = 1.05
FIRST_S = 2.0
LOAD_S = 9.5
"""With the start, the probe and the stop, ten seconds."""
CELL = "sim-b8t4-eager-nonvls"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--image", help="default: the tests' own")
    options = parser.parse_args()
    daemon = connect(os.environ)
    image = options.image or _image(daemon.api)
    with tempfile.TemporaryDirectory(prefix="graphrepro-benchmark-") as text:
        folder = Path(text)
        bare, ours = [], []
        for number in range(options.rounds):
            bare.append(_bare(image, _attempt(folder / f"bare-{number}")))
            ours.append(_ours(daemon, image, _attempt(folder / f"ours-{number}")))
        firsts = [_first_container(image, folder / f"results-{n}") for n in range(options.rounds)]
    ratio = min(ours) / min(bare)
    rows = [
        ["docker run --rm", f"{min(bare):.2f} s", ""],
        ["DockerRuntime", f"{min(ours):.2f} s", f"ratio {ratio:.3f}, at most {RATIO}"],
        ["python -m matrix to the first container", f"{min(firsts):.2f} s", f"at most {FIRST_S:g} s"],
    ]
    print(tabulate(rows, headers=["", "fastest round", "target"]))
    return 0 if ratio <= RATIO and min(firsts) <= FIRST_S else 1


def _image(api: docker.APIClient) -> str:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "docker"))
    import images_for_tests

    return str(images_for_tests.engine_image(api))


def _attempt(folder: Path) -> Path:
    """A folder with the step of an attempt that loads weights for ten seconds, answers, and is stopped."""
    folder.mkdir()
    script = json.loads((payload_dir() / "simulated" / "scripts" / "default.json").read_text(encoding="utf-8"))
    script["defaults"]["phases_s"]["weights_load"] = LOAD_S
    (folder / "script.json").write_text(json.dumps(script))
    simulated = ("python3", PAYLOAD, "simulated", "--port", "30000", "--cell", CELL)
    step = Step(
        run_id="benchmark",
        target="sim",
        cell=CELL,
        attempt=1,
        argv=(*simulated, "--script", f"{ATTEMPT}/script.json"),
        environment={},
        host="127.0.0.1",
        port=30000,
        checks=(),
        prompts=(),
        tasks=(),
        chat={},
        texts=(),
        limits=(PhaseLimit(phase="launch", limit_s=60.0),),
        marks=(),
        stop=stop_ladder(load_spec("sim")),
        planted=None,
        explains=None,
    )
    store.write_record(folder / "step.json", step)
    return folder


def _bare(image: str, folder: Path) -> float:
    mounts = ("-v", f"{payload_dir()}:{PAYLOAD}:ro", "-v", f"{folder}:{ATTEMPT}")
    user = ("--user", f"{os.getuid()}:{os.getgid()}", "--init")
    command = ["docker", "run", "--rm", *mounts, *user, image, "python3", "-P", PAYLOAD, "attempt", ATTEMPT]
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return time.perf_counter() - begun


def _ours(daemon: Daemon, image: str, folder: Path) -> float:
    runtime = DockerRuntime(
        daemon=daemon,
        image=find_image(daemon, image),
        settings=ContainerSettings(user=f"{os.getuid()}:{os.getgid()}"),
        gpus=Gpus((), 0),
        payload=payload_dir(),
        grace_s=30,
    )
    begun = time.perf_counter()
    with runtime.start(AttemptOrder(directory=folder, label=f"benchmark/{folder.name}/cell/1")) as handle:
        while (ended := handle.wait(0.1)) is None:
            pass
    took = time.perf_counter() - begun
    if ended.status != 0:
        raise SystemExit(f"the attempt ended with {ended}")
    return took


def _first_container(image: str, results: Path) -> float:
    """Seconds from the start of `python -m matrix run` to that of its first container, by docker's clock."""
    run = (sys.executable, "-m", "matrix", "run", "--spec", "sim", "--select", CELL, "--no-references")
    environment = {**os.environ, "PYTHONPATH": str(Path(matrix.__file__).parents[1])}
    begun = time.time()
    done = subprocess.run(
        [*run, "--runtime", "docker", "--image", image, "--results", str(results)],
        env=environment,
        check=False,
        capture_output=True,
    )
    if done.returncode not in {0, 7}:  # without a reference nothing passes (7)
        raise SystemExit(f"the run ended with status {done.returncode}")
    inspected = json.loads(next(results.rglob("inspect.json")).read_text())
    started = datetime.fromisoformat(inspected["State"]["StartedAt"][:26] + "+00:00")
    return started.timestamp() - begun


if __name__ == "__main__":
    sys.exit(main())
