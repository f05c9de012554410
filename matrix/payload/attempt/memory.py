"""What the kernel says about processes of this attempt that it killed for want of memory.

A container runtime may tell too, but docker loses the event now and then, and where there is no container nobody tells.
"""

from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def oom_kills() -> int | None:
    """How many processes the OOM killer has taken from this control group so far; None where the kernel does not say.

    `oom_kill` stands in `memory.events` (version 2) or `memory.oom_control` (version 1, since Linux 4.13). In a
    container the group's own path is the mount's root.
    """
    for place in _places():
        try:
            lines = place.read_text(encoding="ascii").splitlines()
        except (OSError, ValueError):
            continue
        for line in lines:
            name, _, number = line.partition(" ")
            if name == "oom_kill" and number.isdecimal():
                return int(number)
    return None


def _places() -> list[Path]:
    places = [CGROUPS / "memory.events", CGROUPS / "memory" / "memory.oom_control"]
    try:
        lines = OWN.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return places
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            places.insert(0, CGROUPS / path.lstrip("/") / "memory.events")
        elif "memory" in controllers.split(","):
            places.insert(0, CGROUPS / "memory" / path.lstrip("/") / "memory.oom_control")
    return places
