"""NVSwitch, NVLink and multicast: whether NVLS can exist on this machine at all."""

import re
from collections.abc import Callable

from matrix.preflight.gpus import Machine, indices
from matrix.preflight.question import Asked, ok, problem, unknown
from repro.model import PreflightLine

SMI_S = 30.0
_LINK = re.compile(r"NV\d+|PIX|PXB|PHB|NODE|SYS")


def links_in(topology: str) -> frozenset[str]:
    """The kinds of link between GPUs in `nvidia-smi topo -m`, such as NV18, or PHB and SYS; X (itself) is none."""
    found: set[str] = set()
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in topology.splitlines()]
    header = next((line.split() for line in lines if re.match(r"\s+GPU0\b", line)), [])
    count = sum(bool(re.fullmatch(r"GPU\d+", name)) for name in header)
    for line in lines:
        if re.match(r"GPU\d", line):
            found |= {cell for cell in line.split()[1 : 1 + count] if _LINK.fullmatch(cell)}
    return frozenset(found)


def topology(asked: Asked, machine: Machine) -> PreflightLine:
    """NVLink between all GPUs where the spec says there is an NVSwitch, PCIe where it says there is none."""
    if len(machine.gpus) < 2:
        return ok("topology", "one GPU: no link between GPUs is needed")
    answer = asked.sources.commands.run(["nvidia-smi", "topo", "-m"], SMI_S)
    links = links_in(answer.out)
    if answer.status != 0 or not links:
        return unknown(
            "topology", f"`nvidia-smi topo -m` tells nothing: {answer.said or 'no link named'}", "look at it yourself"
        )
    told = " + ".join(sorted(links))
    nvlink = all(link.startswith("NV") for link in links)
    if asked.question.spec.hardware.nvswitch and not nvlink:
        return problem(
            "topology",
            f"{told} between GPUs, and {asked.question.spec.target} is a machine with NVSwitch",
            "choose the spec of this machine; or find out why NVLink is down: `nvidia-smi nvlink --status`",
        )
    if not asked.question.spec.hardware.nvswitch and nvlink:
        return problem(
            "topology", f"{told} between GPUs, and the spec knows no NVSwitch", "choose the spec of this machine"
        )
    return ok("topology", f"{told} between all GPUs")


def fabric(asked: Asked, machine: Machine) -> PreflightLine:
    """The fabric manager, without which GPUs behind NVSwitches cannot even initialise CUDA."""
    states = {gpu.state.gpu: gpu.fabric for gpu in machine.gpus}
    bad = [gpu for gpu, state in states.items() if state not in {None, "completed", "not_supported"}]
    manager = asked.sources.commands.run(["systemctl", "is-active", "nvidia-fabricmanager"], SMI_S).out.strip()
    advice = "`systemctl start nvidia-fabricmanager` (its version must be the driver's), then look again"
    if bad:
        return problem(
            "fabric", f"{indices(bad)}: fabric {states[bad[0]]}, fabric manager {manager or 'unknown'}", advice
        )
    if states and all(state == "completed" for state in states.values()):
        return ok("fabric", f"all GPUs are in the fabric, fabric manager {manager or 'not asked'}")
    if manager == "active":
        return ok("fabric", "fabric manager active")
    if manager in {"inactive", "failed"}:
        return problem("fabric", f"fabric manager {manager}", advice)
    return unknown("fabric", "neither the driver nor systemd tells of a fabric", "NCCL's log of the first cell tells")


def multicast(asked: Asked, machine: Machine) -> PreflightLine:
    """NVLS needs multicast objects (CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED)."""
    said = {gpu.state.gpu: asked.sources.multicast(gpu.state.gpu) for gpu in machine.gpus}
    without = [gpu for gpu, able in said.items() if able is False]
    if without:
        return problem(
            "multicast",
            f"{indices(without)}: no multicast, so NVLS cannot work",
            "see `fabric` above; or leave the nvls cells out with --skip '*-nvls'",
        )
    if said and all(said.values()):
        return ok("multicast", "supported by all GPUs, so NVLS can be initialised")
    switched = [gpu for gpu in machine.gpus if gpu.switch_links]
    told = f"; NVLinks of {len(switched)} GPUs end at a switch" if switched else ""
    return unknown("multicast", f"the CUDA driver cannot be asked{told}", "NCCL's log of the first nvls cell tells")


SWITCH_CHECKS: tuple[Callable[[Asked, Machine], PreflightLine], ...] = (topology, fabric, multicast)
PCIE_CHECKS: tuple[Callable[[Asked, Machine], PreflightLine], ...] = (topology,)
