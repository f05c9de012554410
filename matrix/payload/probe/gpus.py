"""The GPUs, through `nvidia-smi`: no CUDA context is made, so the engine finds them untouched."""

import re
import shutil
import subprocess
from collections.abc import Mapping

from probe.facts import Unknown, Value

LIMIT_S = 10.0

QUERY = {
    "gpu_name": "name",
    "gpu_driver": "driver_version",
    "compute_capability": "compute_cap",
    "gpu_power_limit_w": "power.limit",
    "gpu_max_sm_clock_mhz": "clocks.max.sm",
    "gpu_max_memory_clock_mhz": "clocks.max.memory",
    "gpu_memory_mib": "memory.total",
    "gpu_ecc": "ecc.mode.current",
    "gpu_mig": "mig.mode.current",
}
"""Fact -> field of `nvidia-smi --query-gpu`."""

NUMBERS = ("gpu_power_limit_w", "gpu_max_sm_clock_mhz", "gpu_max_memory_clock_mhz", "gpu_memory_mib")
NAMES = ("gpu_count", *QUERY)


def gpus() -> Mapping[str, Value]:
    """What all GPUs have in common; where they differ, the values are joined, so a mixed machine is seen as one."""
    rows = [
        line.split(", ") for line in _ask(f"--query-gpu={','.join(QUERY.values())}", "--format=csv,noheader,nounits")
    ]
    found: dict[str, Value] = {"gpu_count": len(rows)}
    for column, name in enumerate(QUERY):
        values = sorted({row[column].strip() for row in rows if column < len(row)} - {"", "[N/A]", "[Not Supported]"})
        if len(values) == 1 and name in NUMBERS:
            found[name] = float(values[0])
        elif values:
            found[name] = " + ".join(values)
    return found


def driver_cuda() -> Mapping[str, Value]:
    """The newest CUDA that the driver supports."""
    found = re.search(r"CUDA Version:\s*([\d.]+)", "\n".join(_ask()))
    if found is None:
        raise Unknown("nvidia-smi names no CUDA version")
    return {"cuda_driver": found[1]}


def topology() -> Mapping[str, Value]:
    """The kinds of link between GPUs, such as `NV18`, or `PHB + SYS`; `single` for one GPU."""
    rows = [line.split("\t") for line in _ask("topo", "-m")]
    links = sorted(
        {
            cell.strip()
            for row in rows
            if re.fullmatch(r"\s*(\x1b\[[\d;]*m)*GPU\d+.*", row[0])
            for cell in row[1:]
            if re.fullmatch(r"\s*(NV\d+|PIX|PXB|PHB|NODE|SYS)\s*", cell)
        }
    )
    return {"gpu_topology": " + ".join(links) or "single"}


def _ask(*arguments: str) -> list[str]:
    program = shutil.which("nvidia-smi")
    if program is None:
        raise Unknown("nvidia-smi is not installed")
    try:
        answer = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise Unknown(f"nvidia-smi did not answer within {LIMIT_S:g} s") from None
    if answer.returncode != 0:
        raise Unknown(f"nvidia-smi failed with status {answer.returncode}")
    return [line for line in answer.stdout.splitlines() if line.strip()]
