"""A second docker daemon, with data, socket and state of its own, that a test may restart and kill as it likes."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

import docker
import psutil
import requests

START_S = 60.0


class CannotStartError(Exception):
    """Why there is no second daemon; one line."""


class OwnDockerd:
    """A context: on entry it runs; on exit it is gone with its containerd, its containers and its data."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="graphrepro-dockerd-"))
        self.host = f"unix://{self.root}/docker.sock"
        self._process: subprocess.Popen[bytes] | None = None
        self._containerd: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "OwnDockerd":
        if shutil.which("dockerd") is None or os.getuid() != 0:
            raise CannotStartError("a second dockerd needs dockerd on the PATH, and root")
        try:
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            with contextlib.suppress(docker.errors.DockerException, requests.exceptions.RequestException):
                api = self.client()
                for container in api.containers(all=True):
                    api.remove_container(container["Id"], force=True, v=True)
        finally:
            self._remove()

    def client(self) -> docker.APIClient:
        return docker.APIClient(base_url=self.host, version="auto", timeout=60)

    def start(self) -> None:
        """Starts the daemon; its containerd, which outlives a restart as on a real host, the first time."""
        socket = self.root / "containerd.sock"
        if self._containerd is None:
            (self.root / "containerd.toml").write_text(
                f'version = 2\nroot = "{self.root}/containerd"\nstate = "{self.root}/state"\n'
                f'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\naddress = "{socket}"\n'
            )
            self._containerd = self._spawn(["containerd", "--config", str(self.root / "containerd.toml")])
        folders = ("--data-root", self.root / "data", "--exec-root", self.root / "exec", "--pidfile", self.root / "pid")
        network = ("--bridge=none", "--iptables=false", "--ip-masq=false", "--containerd", str(socket))
        # In a network namespace of its own: a dockerd without a bridge deletes docker0, whosever it is.
        self._process = self._spawn(["unshare", "--net", "dockerd", "-H", self.host, *map(str, folders), *network])
        until = time.monotonic() + START_S
        while True:
            with contextlib.suppress(docker.errors.DockerException, requests.exceptions.RequestException):
                self.client().ping()
                return
            if self._process.poll() is not None or time.monotonic() > until:
                said = (self.root / "log").read_text(errors="replace").strip().splitlines()
                raise CannotStartError(f"dockerd did not start: {said[-1] if said else ''}")
            time.sleep(0.1)

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        with (self.root / "log").open("ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait()

    def restart(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.stop(number)
        self.start()

    def _remove(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.stop()
        for process in self._ours():  # containerd and its shims
            with contextlib.suppress(psutil.Error):
                process.kill()
        if self._containerd is not None:
            self._containerd.wait()
        for line in Path("/proc/self/mounts").read_text().splitlines()[::-1]:
            place = line.split()[1]
            if place.startswith(f"{self.root}/"):
                subprocess.run(["umount", "-l", place], check=False, capture_output=True)
        shutil.rmtree(self.root, ignore_errors=True)

    def _ours(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if any(str(self.root) in word for word in process.cmdline()) and process.pid != os.getpid():
                    found.append(process)
        return found
