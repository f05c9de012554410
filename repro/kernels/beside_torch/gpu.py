"""The real kernel on a real GPU, launched and in CUDA graphs, against float64.

Ends before its first case where there is no GPU. An error of CUDA is its case's result and the end of this process,
which cannot use the GPU any more; whoever asked goes on behind it in another one.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import inputs, loading, tolerance
from .gpu_cells import Cells
from .gpu_device import Cuda, NoGpuError, is_fatal
from .gpu_steps import Device, problem
from .protocol import Channel, Fault, Row

CONTROL = {"budget": 8, "dtype": "fp16"}, {"heads": (8, 2, 64, 64), "seed": 8}
CONTROL_KEY_TILE = 64
SAME = 1e-12
"""Two float64 references of sums of a few hundred products near 1 differ by much less."""


def main(request: Mapping[str, Any], channel: Channel) -> None:
    os.environ.setdefault("TRITON_DISABLE_LINE_INFO", "1")  # hashes can then be compared with the compiler arm's
    lines = "triton" if os.environ["TRITON_DISABLE_LINE_INFO"] == "1" else "triton-lines"
    os.environ["TRITON_CACHE_DIR"] = str(Path(request["scratch"], lines))
    try:
        device = Cuda()
    except NoGpuError as problem_:
        raise SystemExit(f"no GPU: {problem_}") from None
    apart = references_apart(device)
    if not apart <= SAME:
        raise SystemExit(f"float64 on this GPU and on the CPU differ by {apart:.1e}: there is no reference")
    release = loading.find(request["sglang"], Path(request["scratch"]))
    cells = Cells(loading.load(release), device)
    channel.subject(release.subject())
    for case in request["cases"]:
        channel.answer([case], lambda asked: ask(cells, asked, device))
        if device_is_lost(device):
            sys.stderr.flush()
            os._exit(0)  # destructors would only repeat the error


def ask(cells: Cells, case: Mapping[str, Any], device: Device) -> Row:
    """The row of a case, also where CUDA gives up on it."""
    try:
        return cells.ask(case)
    except Exception as error:
        if not is_fatal(error):
            raise
        text = " ".join(str(error).split())[:500]
        fault = Fault("cuda_error", text)
        detail = f"{text} ({device.name}, driver {device.driver})"
        cell = {"architecture": device.architecture}
        return Row(state="fail", reason="cuda_error", detail=detail, cell=cell, faults=(fault,))


def device_is_lost(device: Device) -> bool:
    try:
        device.synchronize()
    except Exception:  # noqa: BLE001 - whatever it says, nothing can be asked any more
        return True
    return False


def references_apart(device: Device) -> float:
    """Largest difference between the reference as computed on the device and on the CPU."""
    asked = problem(*CONTROL, (37, 130), 0)
    here, there = inputs.build(asked), inputs.build(asked, device.place)
    right, left = (tolerance.expected(step, device.arithmetic, CONTROL_KEY_TILE) for step in (here, there))
    pairs = ((right.output, left.output), (right.bound, left.bound))
    return max(float((on_cpu - on_device.cpu()).abs().max()) for on_cpu, on_device in pairs)
