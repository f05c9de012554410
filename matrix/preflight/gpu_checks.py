"""The GPUs against the spec. Each check gives one line, whatever it finds."""

from collections.abc import Callable, Sequence

from matrix.environments import installed_version
from matrix.host.systemd import Systemd
from matrix.preflight.drivers import FIRST_CUDA, MINIMUM_DRIVER, capability, too_old, version
from matrix.preflight.gpus import Gpu, Machine, indices
from matrix.preflight.health import suspicion
from matrix.preflight.question import Asked, ok, problem, unknown
from repro.errors import UnavailableError
from repro.model import PreflightLine

FREE_MIB = 1024.0
"""Memory that a GPU may show as used though nobody uses it: the driver's own."""
MEMORY_SHORT = 0.95
"""Of the memory that the spec states, this much must be there: names say GB where drivers count GiB."""


def gpus(asked: Asked, machine: Machine) -> PreflightLine:
    """Number, name, architecture, memory, MIG."""
    hardware, found = asked.question.spec.hardware, machine.gpus
    told = _told(machine)
    wanted = capability(hardware.architecture)
    if len(found) < hardware.gpu_count:
        return problem(
            "gpus",
            f"{told}; {asked.question.spec.target} needs {hardware.gpu_count}",
            "name another spec, or free them",
        )
    others = [g.state.gpu for g in found if g.capability != wanted]
    if others:
        return problem(
            "gpus",
            f"{told}; {indices(others)}: not {wanted}, which {hardware.architecture} is",
            "choose the spec of this machine, or hide the other GPUs",
        )
    named = [g.state.gpu for g in found if hardware.gpu_name and hardware.gpu_name not in g.name]
    if named:
        return problem(
            "gpus",
            f"{told}; {indices(named)}: not a {hardware.gpu_name}, which numbers are compared for",
            "choose the spec of this machine, or correct /hardware/gpu_name in one of your own",
        )
    split = [g.state.gpu for g in found if g.mig]
    if split:
        return problem("gpus", f"{told}; {indices(split)} split by MIG", "`nvidia-smi -mig 0` on each, when it is idle")
    small = [g for g in found if g.memory_mib and g.memory_mib < MEMORY_SHORT * 1024 * (hardware.gpu_memory_gib or 0)]
    if small:
        have = min(g.memory_mib or 0 for g in small) / 1024
        return problem(
            "gpus",
            f"{told}; {indices([g.state.gpu for g in small])}: {have:.0f} GiB, and the spec says "
            f"{hardware.gpu_memory_gib}",
            "correct /hardware/gpu_memory_gib in a spec of your own, or find out who took the rest",
        )
    return ok("gpus", told)


def driver(asked: Asked, machine: Machine) -> PreflightLine:
    """The driver against the CUDA of the image, and against the architecture."""
    found, serves = version(machine.driver), version(machine.cuda)
    if found is None or serves is None:
        return unknown("driver", "NVML does not tell the driver's version", "`nvidia-smi` does")
    told = f"driver {machine.driver}, up to CUDA {machine.cuda}"
    whose, needed = _cuda_of_engine(asked)
    cuda = version(needed)
    if cuda is not None and (branch := too_old(found, cuda)) is not None:
        return problem("driver", f"{told}; {whose} has CUDA {needed}", f"install a driver of branch {branch} or newer")
    first = FIRST_CUDA.get(asked.question.spec.hardware.architecture)
    if first is not None and serves[:2] < first:
        wanted = ".".join(map(str, first))
        return problem(
            "driver",
            f"{told}; {asked.question.spec.hardware.architecture} needs CUDA {wanted}",
            f"install a driver that serves CUDA {wanted} or newer",
        )
    if cuda is None:
        return unknown(
            "driver", f"{told}; the engine's CUDA is not known", "CUDA 13 needs driver 580 or newer, CUDA 12 needs 525"
        )
    if serves[:2] < cuda[:2]:
        return ok("driver", f"{told}; CUDA {needed} of {whose} runs by minor version compatibility")
    return ok("driver", f"{told}; {whose} has CUDA {needed}")


def _cuda_of_engine(asked: Asked) -> tuple[str, str | None]:
    """Where the engine is, and the CUDA that it was built for: None if it does not say."""
    if asked.question.engine_env is None or asked.question.runtime == "docker":
        return "the image", asked.image.cuda if asked.image is not None else None
    packages = ("nvidia_cuda_runtime", *(f"nvidia_cuda_runtime_cu{major}" for major in sorted(MINIMUM_DRIVER)))
    found = (installed_version(asked.question.engine_env, package) for package in packages)
    return "the environment", next((one for one in found if one), None)


def memory(asked: Asked, machine: Machine) -> PreflightLine:
    """Memory that is in use, and by whom."""
    used = [g for g in machine.gpus if (g.state.memory_used_mib or 0) > FREE_MIB or g.state.processes]
    if any(g.state.memory_used_mib is None for g in machine.gpus):
        return unknown("gpu-memory", "not every GPU tells how much memory is used", "`nvidia-smi` tells more")
    if not used:
        return ok(
            "gpu-memory", f"all free but at most {max(g.state.memory_used_mib or 0 for g in machine.gpus):.0f} MiB"
        )
    pids = sorted({p.pid for g in used for p in g.state.processes})
    most = max(g.state.memory_used_mib or 0 for g in used) / 1024
    told = f"{indices([g.state.gpu for g in used])}: up to {most:.0f} GiB in use by " + (
        f"process{'es' if len(pids) > 1 else ''} {', '.join(map(str, pids[:8]))}" if pids else "nobody who is visible"
    )
    unit = asked.question.pause_unit
    if unit is None:
        return problem("gpu-memory", told, "end them, or name their systemd unit with --pause-unit")
    return _held_by_unit(asked, unit, pids, told)


def _held_by_unit(asked: Asked, unit: str, pids: Sequence[int], told: str) -> PreflightLine:
    try:
        group = Systemd(asked.sources.commands, asked.question.pause_scope).state(unit).control_group
    except UnavailableError:
        group = ""
    places = {pid: asked.sources.cgroup_of(pid) for pid in pids}
    if group and pids and all((place or "").startswith(group) for place in places.values()):
        return ok("gpu-memory", f"{told}, all of {unit}, which is stopped first")
    return unknown(
        "gpu-memory",
        f"{told}; not all of them are processes of {unit} itself",
        f"see that nothing but {unit}, or a container that it starts, uses the GPUs",
    )


def clocks(_: Asked, machine: Machine) -> PreflightLine:
    """Power limit and clocks: a GPU that is held down gives numbers that nothing can be compared with."""
    low = [g for g in machine.gpus if _limit(g) < (g.default_power_limit_w or 0) - 1]
    if low:
        told = f"{indices([g.state.gpu for g in low])}: power limit {_limit(low[0]):.0f} W"
        usual = f"{low[0].default_power_limit_w:.0f}"
        return problem("clocks", f"{told}, the default is {usual} W", f"`nvidia-smi -pl {usual}` as root")
    slow = [g for g in machine.gpus if g.state.throttling]
    if slow:
        why = ", ".join(sorted({reason for g in slow for reason in g.state.throttling}))
        return problem(
            "clocks", f"{indices([g.state.gpu for g in slow])} held down: {why}", "look at cooling and power supply"
        )
    limits = sorted({_limit(g) for g in machine.gpus if g.state.power_limit_w is not None})
    if not limits:
        return unknown("clocks", "no GPU tells its power limit", "`nvidia-smi -q -d POWER,CLOCK` tells more")
    top = sorted({g.max_sm_clock_mhz for g in machine.gpus if g.max_sm_clock_mhz is not None})
    told = f"power limit {' / '.join(f'{limit:.0f}' for limit in limits)} W"
    return ok("clocks", told + (f", SM clock up to {' / '.join(f'{clock:.0f}' for clock in top)} MHz" if top else ""))


def health(_: Asked, machine: Machine) -> PreflightLine:
    """ECC, row remapping, recovery action: a suspect host would make every attempt void."""
    states = [g.state for g in machine.gpus]
    suspect = suspicion(states, states, ())
    if suspect:
        return problem(
            "gpu-health", "; ".join(suspect)[:400], "reset these GPUs (`nvidia-smi -r`) or take the host out"
        )
    silent = [s.gpu for s in states if s.recovery_action is None and s.ecc_uncorrected is None]
    if silent:
        return unknown(
            "gpu-health",
            f"{indices(silent)}: neither ECC errors nor recovery action told",
            "`nvidia-smi -q` tells more",
        )
    return ok("gpu-health", "no uncorrectable memory error, no row to remap, no recovery asked for")


GPU_CHECKS: tuple[Callable[[Asked, Machine], PreflightLine], ...] = (gpus, driver, memory, clocks, health)


def _limit(gpu: Gpu) -> float:
    """The power limit in W; infinite where it is not told."""
    return gpu.state.power_limit_w if gpu.state.power_limit_w is not None else float("inf")


def _told(machine: Machine) -> str:
    counted: dict[str, int] = {}
    for gpu in machine.gpus:
        label = f"{gpu.name} ({gpu.capability or 'unknown capability'})"
        counted[label] = counted.get(label, 0) + 1
    return ", ".join(f"{number} x {label}" for label, number in counted.items()) or "no GPU"
