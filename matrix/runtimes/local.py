"""The local runtime: attempts are processes on this host, in an engine environment that the user names."""

import contextlib
import glob
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from matrix.runtimes.protocol import AttemptOrder, Ended
from repro.errors import UnavailableError

LABEL = "GRAPHREPRO_LABEL"
"""The environment variable that marks every process an attempt starts."""
OWNER_FD = "GRAPHREPRO_OWNER_FD"
"""Names the pipe end at which the attempt program sees that its owner is gone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalRuntime:
    """``python`` is the interpreter of the engine's environment; ``grace_s`` how long an attempt may take to stop its
    server when it is asked to."""

    python: Path
    payload: Path
    grace_s: float
    name: Literal["local"] = "local"
    on_owner_death: Literal["reap"] = "reap"

    def placeholders(self) -> Mapping[str, str]:
        return {"python": str(self.python), "payload": str(self.payload)}

    def environment(self, image: str | None) -> Mapping[str, str]:
        del image
        return {}

    def reap_leftovers(self, prefix: str) -> int:
        """Kills processes whose label starts with the prefix. Only for a prefix whose owner is known to be dead."""
        return end_labelled(prefix)

    @contextmanager
    def start(self, order: AttemptOrder) -> Iterator["LocalHandle"]:
        owner_read, owner_write = os.pipe()
        log = order.directory / "attempt.log"
        command = [str(self.python), "-P", str(self.payload), "attempt", str(order.directory)]
        environment = {**_inherited(self.python.parent), LABEL: order.label, OWNER_FD: str(owner_read)}
        try:
            with log.open("ab") as output:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(owner_read,),
                    env=environment,
                    start_new_session=True,
                )
        except OSError as problem:
            os.close(owner_write)
            raise UnavailableError(f"cannot start the attempt program: {problem}") from problem
        finally:
            os.close(owner_read)
        handle = LocalHandle(process, order.label, log)
        try:
            yield handle
        finally:
            os.close(owner_write)  # an attempt that still runs takes this for our death, and stops its server
            handle.finish(self.grace_s)


class LocalHandle:
    """The attempt program's process; what it started is found by its label."""

    def __init__(self, process: subprocess.Popen[bytes], label: str, log: Path) -> None:
        self._process = process
        self._label = label
        self._log = log
        # Readable when it has ended. Popen.wait would look every few milliseconds, beside an engine that is measured.
        self._end = os.pidfd_open(process.pid)

    def wait(self, timeout_s: float) -> Ended | None:
        select.select([self._end], [], [], timeout_s)
        status = self._process.poll()
        if status is None:
            return None
        tail = self._log.read_bytes()[-2000:].decode("utf-8", "replace").strip()
        return Ended(status=status, detail=tail.splitlines()[-1] if tail else "")

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    def kill(self) -> None:
        end_labelled(self._label)

    def finish(self, grace_s: float) -> None:
        """Wait until the attempt has ended; then, or if it does not, end what is left of it by its label."""
        select.select([self._end], [], [], grace_s)
        end_labelled(self._label)
        self._process.wait()
        os.close(self._end)


def end_labelled(prefix: str) -> int:
    """Kill until nothing with the label is left: a process may fork between two looks. Their scratch folders go too."""
    ended = 0
    while leftovers := list(labelled(prefix)):
        ended += len(leftovers)
        for process in leftovers:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(0.01)  # not psutil.wait_procs: an orphan stays a zombie for as long as init pleases
    _remove_scratch(prefix)
    return ended


def _remove_scratch(prefix: str) -> None:
    """An attempt names its scratch folder after the first part of its label, and one run makes one attempt at a time.
    Its guardian removes it; what is here now, nobody is left to remove."""
    place = prefix.partition("/")[0]
    for folder in Path(tempfile.gettempdir()).glob(f"graphrepro-{glob.escape(place)}-*") if place else ():
        shutil.rmtree(folder, ignore_errors=True)


def labelled(prefix: str) -> Iterator[psutil.Process]:
    """Processes of this user whose label is the prefix, or starts with it and goes on with a slash."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            label = process.environ().get(LABEL, "") if process.status() != psutil.STATUS_ZOMBIE else ""
            if label == prefix or label.startswith(prefix.rstrip("/") + "/"):
                yield process


def _inherited(programs: Path) -> dict[str, str]:
    """What an attempt inherits of our environment: where programs and libraries are, with those of the engine's own
    environment first; and nothing that steers an engine or holds a user's secrets."""
    kept = ("HOME", "TMPDIR", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_HOME", "TZ")
    found = {name: os.environ[name] for name in kept if name in os.environ}
    return {**found, "PATH": os.pathsep.join([str(programs), os.environ.get("PATH", os.defpath)])}
