"""Cells of the GPU arm on a device that is none: SGLang's kernel in Triton's interpreter, and a recorder for a graph.

`python gpu_on_cpu.py < [CASE…]` prints a row a line. No record of these rows is made: they say nothing of a GPU.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "repro" / "kernels"))

import torch
from beside_torch import gpu, gpu_cells, loading, recorder, tolerance

ILLEGAL = "CUDA error: an illegal memory access was encountered"


class Interpreted:
    """``calls`` counts. ``broken``: the device gives up at its next synchronisation, and stays so."""

    name = "an interpreter"
    driver = "none"
    arithmetic = tolerance.INTERPRETER

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture
        self.captures = self.replays = 0
        self.broken = False

    def place(self, name: str, tensor: Any) -> Any:
        return tensor.clone()

    def capture(self, run: Callable[[], object]) -> Callable[[], None]:
        self.captures += 1
        graph = recorder.Recorder()
        with graph:
            run()

        def replay() -> None:
            self.replays += 1
            graph.replay()

        return replay

    def synchronize(self) -> None:
        if self.broken:
            raise RuntimeError(f"{ILLEGAL}\nCUDA kernel errors might be asynchronously reported")

    def describe(self, compiled: Any) -> None:
        return None


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        module = loading.load(loading.find(None, Path(scratch)))
    devices: dict[str, tuple[Interpreted, gpu_cells.Cells]] = {}
    for case in json.load(sys.stdin):
        name = case.pop("device", "sm_103")
        if name not in devices:
            device = Interpreted(name)
            devices[name] = device, gpu_cells.Cells(module, device)
        device, cells = devices[name]
        device.captures = device.replays = 0
        device.broken = case.pop("broken", False)
        row = gpu.ask(cells, case, device)
        counted = {"captures": device.captures, "replays": device.replays, "lost": gpu.device_is_lost(device)}
        print(json.dumps({"key": case["key"], **asdict(row), **counted}), flush=True)
    print(json.dumps({"key": "control", "apart": gpu.references_apart(Interpreted("sm_103"))}))


if __name__ == "__main__":
    main()
