"""The machine without its GPUs: processor, memory, kernel, limits."""

import os
import platform
import re
import resource
from collections.abc import Mapping
from pathlib import Path

from probe.facts import Unknown, Value


def system() -> Mapping[str, Value]:
    """Interpreter, kernel and architecture. The kernel's own version string is left out: some builds name a host."""
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()) or "unknown",
    }


def distribution() -> Mapping[str, Value]:
    """The operating system of the environment, in a container that of the image."""
    release = platform.freedesktop_os_release()
    return {"os": f"{release['ID']} {release.get('VERSION_ID', '')}".strip()}


def processor() -> Mapping[str, Value]:
    """The CPU's name, and how many of its cores this process may use."""
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    counted: dict[str, Value] = {"cpu_count": len(os.sched_getaffinity(0))}
    return counted | ({"cpu_model": found[1].strip()} if found else {})


def memory() -> Mapping[str, Value]:
    """Memory of the machine, and the limit of the container where there is one."""
    total = re.search(r"^MemTotal:\s*(\d+) kB", Path("/proc/meminfo").read_text(encoding="utf-8"), re.MULTILINE)
    if total is None:
        raise Unknown("/proc/meminfo has no MemTotal")
    return {"memory_mib": int(total[1]) // 1024}


def shared_memory() -> Mapping[str, Value]:
    """Size of /dev/shm, which tensor-parallel engines need much of."""
    size = os.statvfs("/dev/shm")  # noqa: S108
    return {"shm_mib": size.f_blocks * size.f_frsize // (1 << 20)}


def limits() -> Mapping[str, Value]:
    """The soft limits that engines are known to run into."""

    def soft(which: int) -> Value:
        value = resource.getrlimit(which)[0]
        return "unlimited" if value == resource.RLIM_INFINITY else value

    return {
        "ulimit_nofile": soft(resource.RLIMIT_NOFILE),
        "ulimit_memlock": soft(resource.RLIMIT_MEMLOCK),
        "ulimit_stack": soft(resource.RLIMIT_STACK),
        "ulimit_core": soft(resource.RLIMIT_CORE),
    }
