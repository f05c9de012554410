"""The sources of a preflight on this host."""

import contextlib
import ctypes
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from matrix.host.commands import HostCommands
from matrix.preflight.health import GpuWatch, Health, NoGpus, kernel_log
from matrix.preflight.limited import LimitedGpus
from matrix.preflight.nvml import NvmlGpus
from matrix.preflight.question import DaemonUnknownError, Image, Sources
from matrix.runtimes.local import LABEL
from repro.errors import UnavailableError

_MULTICAST = 132
"""CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED (cuda.h, since CUDA 12.1)."""
_CUDA_S = 60.0
_POLKIT_S = 30.0


def health_of(gpu_count: int) -> Health:
    """Who looks at the GPUs around each attempt."""
    if not gpu_count:
        return NoGpus()
    return GpuWatch(LimitedGpus(NvmlGpus(ours=is_ours)), kernel_log(HostCommands(), time.time))


def is_ours(pid: int) -> bool | None:
    """Does the process carry the label of an attempt? None if its environment is not ours to look at."""
    try:
        return LABEL in psutil.Process(pid).environ()
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return None


def this_host(environment: Mapping[str, str]) -> Sources:
    """``environment`` says where docker is (DOCKER_HOST and its companions)."""
    return Sources(
        gpus=LimitedGpus(NvmlGpus()),
        daemon=DockerDaemon(environment),
        commands=HostCommands(),
        free_bytes=lambda path: shutil.disk_usage(path).free,
        shm=Path("/dev/shm"),  # noqa: S108
        cdi=(),
        limits=soft_limits,
        port_problem=port_problem,
        multicast=multicast,
        may_manage_units=may_manage_units,
        cgroup_of=cgroup_of,
    )


class DockerDaemon:
    """The daemon through docker's SDK, which is imported when it is first asked."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._api: Any = None

    def info(self) -> Mapping[str, object]:
        from matrix.runtimes.docker_problems import DOCKER_ERRORS

        try:
            found: Mapping[str, object] = self._connected().info()
        except DOCKER_ERRORS as error:
            raise DaemonUnknownError(f"docker: {error}") from None
        return found

    def image(self, reference: str) -> Image | None:
        import docker.errors

        from matrix.runtimes.docker_problems import DOCKER_ERRORS

        try:
            found = self._connected().inspect_image(reference)
        except docker.errors.NotFound:
            return None
        except DOCKER_ERRORS as error:
            raise DaemonUnknownError(f"docker: {error}") from None
        pairs = (entry.partition("=") for entry in (found.get("Config") or {}).get("Env") or ())
        return Image(
            size_bytes=int(found.get("Size") or 0),
            cuda=next((value for name, _, value in pairs if name == "CUDA_VERSION"), None),
        )

    def _connected(self) -> Any:
        from matrix.runtimes.docker_daemon import connect

        if self._api is None:
            try:
                self._api = connect(self._environment, return_s=0.0).api
            except UnavailableError as error:
                raise DaemonUnknownError(str(error)) from None
        return self._api


def soft_limits() -> Mapping[str, int | None]:
    """Soft limits of this process; None is unlimited."""
    found = {"memlock": resource.RLIMIT_MEMLOCK, "nofile": resource.RLIMIT_NOFILE}
    values = {name: resource.getrlimit(which)[0] for name, which in found.items()}
    return {name: None if value == resource.RLIM_INFINITY else value for name, value in values.items()}


def port_problem(port: int) -> str | None:
    """Why the port cannot be taken on this host's loopback, or None."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            return error.strerror
    return None


def multicast(gpu: int) -> bool | None:
    """Asked in a process of its own, since it loads the CUDA driver; no context is made."""
    command = [sys.executable, "-P", "-m", "matrix.preflight.this_host", str(gpu)]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        said = subprocess.run(command, capture_output=True, text=True, timeout=_CUDA_S, check=False).stdout.strip()
        return {"1": True, "0": False}.get(said)
    return None


def may_manage_units() -> bool | None:
    """By being root, or by polkit's word; None if there is no polkit to ask."""
    if os.geteuid() == 0:
        return True
    commands = HostCommands()
    if commands.path("pkcheck") is None:
        return None
    asked = ["pkcheck", "--action-id", "org.freedesktop.systemd1.manage-units", "--process", str(os.getpid())]
    return commands.run(asked, _POLKIT_S).status == 0


def cgroup_of(pid: int) -> str | None:
    """The cgroup of a process (version 2), or None if it is gone or not ours to look at."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines():
            if line.startswith("0::"):
                return line.removeprefix("0::")
    return None


def _multicast_attribute(gpu: int) -> int | None:
    """What the CUDA driver says of the attribute, None if it does not answer."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, value = ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), gpu):
        return None
    failed = cuda.cuDeviceGetAttribute(ctypes.byref(value), _MULTICAST, device)
    return None if failed else int(value.value)


if __name__ == "__main__":
    sys.stdout.write(str(_multicast_attribute(int(sys.argv[1]))))
