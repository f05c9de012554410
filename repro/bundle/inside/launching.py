"""Starts the bundle's attempt program, beside an engine's interpreter or in a container, and leaves nothing of it.

The attempt program stops its server when its owner is gone: here a pipe that this process holds open. So a kill of the
replay ends the launch too. Standard library only, Python 3.10 and newer: this file is part of every bundle.
"""

import contextlib
import csv
import glob
import io
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PAYLOAD = "/opt/graphrepro/payload"
ATTEMPT = "/attempt"
LABEL = "GRAPHREPRO_LABEL"
OWNER_FD = "GRAPHREPRO_OWNER_FD"
DOCKER_LABEL = "graphrepro.label"
LOOK_S = 0.1
COMMAND_S = 60.0
SPARE_S = 120.0
"""What a launch may take beyond all of its own limits together."""
KEPT = ("HOME", "TMPDIR", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_HOME", "TZ")
"""Of our environment: where programs, libraries and caches lie. Nothing that steers an engine, and no secret."""


OURS = {"PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
"""For the attempt program: nothing from the current folder, and the bundle stays as its manifest says."""


class Stop:
    """Whether the replay is to end: a signal came, or the pipe that ``owner`` is the read end of was closed."""

    def __init__(self, owner: "int | None") -> None:
        self._owner = owner
        self._caught: str | None = None
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._catch)

    def _catch(self, number: int, _frame: object) -> None:
        self._caught = signal.Signals(number).name

    def asked(self) -> "str | None":
        """Who asked; None if nobody did."""
        if self._caught is None and self._owner is not None and select.select([self._owner], [], [], 0)[0]:
            self._caught = "the owner is gone"
        return self._caught


@dataclass(frozen=True)
class Launch:
    """One launch: ``folder`` holds its `step.json` and gets its evidence; ``label`` marks all that it starts."""

    folder: Path
    label: str
    limit_s: float
    grace_s: float


@dataclass(frozen=True)
class Local:
    """Beside the interpreter ``python`` of an engine's environment, on this machine."""

    python: str
    payload: Path
    name: str = "local"

    def place(self) -> "dict[str, str]":
        """The placeholders that depend on where the attempt runs."""
        return {"python": self.python, "payload": str(self.payload)}

    def run(self, launch: Launch, stop: Stop) -> str:
        """Runs the attempt to its end; in words what went wrong around it, empty if nothing did."""
        ours, theirs = os.pipe()
        try:
            with (launch.folder / "attempt.log").open("ab") as log:
                process = subprocess.Popen(
                    [self.python, str(self.payload), "attempt", str(launch.folder)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(ours,),
                    env={**inherited(self.python), **OURS, LABEL: launch.label, OWNER_FD: str(ours)},
                    start_new_session=True,
                )
        except OSError as problem:
            os.close(theirs)
            return f"the attempt program could not be started: {problem.strerror}"
        finally:
            os.close(ours)
        try:
            return watch(process, launch, stop)
        finally:
            os.close(theirs)  # an attempt that still runs takes this for our death, and stops its server
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(launch.grace_s)
            end_labelled(launch.label)
            process.wait()


@dataclass(frozen=True)
class Docker:
    """In a fresh container of ``image``, which must be there. ``gpus`` as `docker run --gpus` takes them, None for
    none; ``weights`` are folders that the server reads, seen under the same path inside."""

    image: str
    python: str
    payload: Path
    needs: "dict[str, Any]"
    gpus: "str | None"
    weights: "tuple[str, ...]" = ()
    name: str = "docker"
    options: "tuple[str, ...]" = field(default=())

    def place(self) -> "dict[str, str]":
        """The placeholders that depend on where the attempt runs."""
        return {"python": self.python, "payload": PAYLOAD}

    def command(self, launch: Launch) -> "list[str]":
        """The whole `docker run`; the image is never fetched."""
        gpus = [f"--gpus={self.gpus}"] if self.gpus else []
        shm = [] if self.needs["ipc"] == "host" else [f"--shm-size={self.needs['shm_bytes']}"]
        limits = [f"--ulimit={name}={n}:{n}" for name, n in sorted(self.needs["ulimits"].items())]
        mounts = [mount(self.payload, PAYLOAD), mount(launch.folder, ATTEMPT, writable=True)]
        mounts += [mount(Path(path), path) for path in dict.fromkeys(self.weights)]
        settings = {LABEL: launch.label, OWNER_FD: "0", "HOME": "/tmp", "PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1"}  # noqa: S108
        return [
            *("docker", "run", "--rm", "--interactive", "--pull=never", "--init", "--no-healthcheck"),
            f"--name={container_name(launch.label)}",
            f"--label={DOCKER_LABEL}={launch.label}",
            f"--user={os.getuid()}:{os.getgid()}",
            *("--workdir=/", "--hostname=graphrepro", "--stop-timeout=30"),
            *("--cap-drop=ALL", "--cap-add=SYS_NICE", "--cap-add=SYS_PTRACE", "--security-opt=no-new-privileges"),
            f"--ipc={self.needs['ipc']}",
            *(*shm, *limits, *gpus, *self.options),
            *(f"--env={name}={value}" for name, value in settings.items()),
            *(f"--mount={text}" for text in mounts),
            f"--entrypoint={self.python}",
            self.image,
            *(PAYLOAD, "attempt", ATTEMPT),
        ]

    def run(self, launch: Launch, stop: Stop) -> str:
        """As of `Local`. The container's stdin is the attempt's owner pipe: docker closes it when this process ends."""
        try:
            with (launch.folder / "attempt.log").open("ab") as log:
                process = subprocess.Popen(
                    self.command(launch), stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
                )
        except OSError as problem:
            return f"docker could not be started: {problem.strerror}"
        try:
            return watch(process, launch, stop)
        finally:
            if process.stdin is not None:
                process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(launch.grace_s)
            remove_container(container_name(launch.label))
            process.kill()
            process.wait()


def watch(process: "subprocess.Popen[bytes]", launch: Launch, stop: Stop) -> str:
    """Waits for the attempt's end, for its time to be over, or until somebody asks to stop; in words what was wrong."""
    deadline = time.monotonic() + launch.limit_s
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(LOOK_S)
            return "" if status in (0, 3, 130) else f"exit status {status}: {last_line(launch.folder / 'attempt.log')}"
        if stop.asked() is not None:
            return f"interrupted: {stop.asked()}"
        if time.monotonic() > deadline:
            return f"it still ran after {launch.limit_s:.0f} s, past all of its own limits"


def limit_s(step: "dict[str, Any]") -> float:
    """How long a launch of the step may take before it is ended from outside."""
    phases = sum(float(entry["limit_s"]) for entry in step["limits"])
    checks = sum(float(check["limit_s"]) for check in step["checks"])
    return phases + 2 * checks + grace_s(step) + SPARE_S


def grace_s(step: "dict[str, Any]") -> float:
    """How long an attempt may take to stop its server."""
    stop = step["stop"]
    return float(2 * stop["dump_s"] + stop["int_s"] + stop["term_s"] + stop["kill_s"]) + 10.0


def inherited(python: str) -> "dict[str, str]":
    """What an attempt gets of our environment, with the programs of the engine's environment first."""
    found = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {**found, "PATH": os.pathsep.join([str(Path(python).parent), os.environ.get("PATH", os.defpath)])}


def mount(source: Path, target: str, *, writable: bool = False) -> str:
    """The value of `--mount`, which docker reads as a line of CSV."""
    line = io.StringIO()
    fields = ["type=bind", f"source={source}", f"target={target}", *([] if writable else ["readonly"])]
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()


def weight_folders(model: "str | None") -> "tuple[str, ...]":
    """The folder of a model, and what its links lead to: a snapshot in Hugging Face's cache links to its blobs."""
    if model is None or not Path(model).is_absolute() or not Path(model).exists():
        return ()
    folder = Path(model)
    links = [file.resolve().parent for file in folder.iterdir() if file.is_symlink()] if folder.is_dir() else []
    outside = [str(path) for path in links if folder.resolve() not in (path, *path.parents)]
    return (str(folder), *dict.fromkeys(outside))


def container_name(label: str) -> str:
    return "graphrepro-" + label.replace("/", "-")


def remove_container(name: str) -> None:
    """Ends and removes the container; one that is gone is no problem."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            ["docker", "rm", "--force", "--volumes", name],  # noqa: S607  # docker is found as a shell finds it
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_S,
            check=False,
        )


def end_labelled(label: str) -> None:
    """Kills until nothing with the label is left, and removes the scratch folders that nobody is left to remove."""
    while found := labelled(label):
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    place = label.partition("/")[0]
    for folder in Path(tempfile.gettempdir()).glob(f"graphrepro-{glob.escape(place)}-*"):
        shutil.rmtree(folder, ignore_errors=True)


def labelled(label: str) -> "list[int]":
    """Processes that were started with this label and have not ended."""
    wanted = f"{LABEL}={label}".encode()
    found = []
    for place in Path("/proc").iterdir():
        if not place.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            state = (place / "stat").read_bytes().rpartition(b")")[2].split()[0]
            if state not in (b"Z", b"X") and wanted in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
    return found


def last_line(path: Path) -> str:
    """The last line of a short log, at most 300 characters of it."""
    with contextlib.suppress(OSError):
        lines = path.read_bytes()[-4000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else ""
    return ""
