"""Which GPUs an attempt gets, and which no attempt gets any more: those that an abandoned container may still hold."""

from collections.abc import Mapping, Sequence
from typing import Any

from matrix.runtimes.docker_container import GpuAccess
from repro.errors import SpecError, UnavailableError

ALL = ("all",)


class Gpus:
    """``listed`` are the GPUs that may be used: ids, or ``("all",)``, or none. ``needed`` is how many an attempt gets;
    of "all" it gets all, whatever is needed."""

    def __init__(self, listed: Sequence[str], needed: int) -> None:
        self._listed = tuple(listed)
        self._needed = needed
        self.quarantined: dict[str, str] = {}
        """GPU -> name of the container that may still hold it."""

    def take(self) -> tuple[str, ...]:
        """The GPUs of the next attempt. Raises UnavailableError if too few are left."""
        if not self._listed:
            return ()
        left = tuple(gpu for gpu in self._listed if gpu not in self.quarantined)
        needed = 1 if self._listed == ALL else self._needed
        if len(left) >= needed and not (self.quarantined and self._listed == ALL):
            return left[:needed]
        if not self.quarantined:
            raise UnavailableError(
                f"--gpus {','.join(self._listed)}: an attempt needs {needed}: name more, or give --gpus all"
            )
        holders = ", ".join(sorted(set(self.quarantined.values())))
        raise UnavailableError(
            f"GPUs {', '.join(sorted(self.quarantined))} may still be held by what could not be ended ({holders}): "
            "restart docker or the host, then give the same command again; results are kept"
        )

    def quarantine(self, gpus: Sequence[str], container: str) -> None:
        self.quarantined |= dict.fromkeys(gpus, container)


def parse_gpus(text: str) -> tuple[str, ...]:
    """`all`, `none`, or ids separated by commas -> GPUs. Raises SpecError."""
    if text == "none":
        return ()
    gpus = tuple(part.strip() for part in text.split(","))
    if not all(gpus) or len(set(gpus)) != len(gpus) or (len(gpus) > 1 and "all" in gpus):
        raise SpecError(f"--gpus {text!r}: give all, none, or GPU indices or UUIDs separated by commas")
    return gpus


def choose_access(info: Mapping[str, Any]) -> GpuAccess:
    """How the daemon (its `/info`) hands out GPUs: by NVIDIA's runtime where it has one, else by CDI where it reads
    specifications (docker 25 and later), else by the runtime hook that needs no registration."""
    if "nvidia" in (info.get("Runtimes") or {}):
        return "runtime"
    return "cdi" if info.get("CDISpecDirs") else "runtime"
