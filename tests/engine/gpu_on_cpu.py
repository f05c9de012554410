"""Cells of the GPU arm on a device that is none: SGLang's kernel in Triton's interpreter, and a recorder for a graph.

`python gpu_on_cpu.py < [CASE…]` prints a row a line. No record of these rows is made: they say nothing of a GPU.
"""

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "repro" / "kernels"))

import torch
from beside_torch import gpu, gpu_cells, gpu_device, loading, recorder, tolerance

ILLEGAL = "CUDA error: an illegal memory access was encountered"


class Graph:
    """Stands for `torch.cuda.CUDAGraph`."""

    def __init__(self) -> None:
        self.recorder = recorder.Recorder()
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1
        self.recorder.replay()


class Stream:
    def __init__(self, name: str) -> None:
        self.name = name

    def wait_stream(self, other: "Stream") -> None:
        pass


class StandIn:
    """Stands for `torch.cuda`. ``said`` holds what was done, in its order. ``broken``: it gives up at the next
    synchronisation, and stays so."""

    def __init__(self, architecture: str) -> None:
        digits = architecture.removeprefix("sm_")
        self._properties = SimpleNamespace(name="an interpreter", major=int(digits[:-1]), minor=int(digits[-1]))
        self._stream = Stream("default")
        self.graphs: list[Graph] = []
        self.said: list[str] = []
        self.broken = False

    def is_available(self) -> bool:
        return True

    def init(self) -> None:
        pass

    def get_device_properties(self, number: int) -> SimpleNamespace:
        return self._properties

    def Stream(self) -> Stream:
        return Stream("other")

    def current_stream(self) -> Stream:
        return self._stream

    @contextlib.contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        self.said.append(f"on the {stream.name} stream")
        yield
        self.said.append("back")

    def CUDAGraph(self) -> Graph:
        self.graphs.append(Graph())
        return self.graphs[-1]

    @contextlib.contextmanager
    def graph(self, graph: Graph) -> Iterator[None]:
        self.said.append("capture")
        with graph.recorder:
            yield
        self.said.append("captured")

    def synchronize(self) -> None:
        self.said.append("synchronize")
        if self.broken:
            raise RuntimeError(f"{ILLEGAL}\nCUDA kernel errors might be asynchronously reported")


def made(architecture: str) -> tuple[StandIn, gpu_device.Cuda]:
    cuda = StandIn(architecture)
    device = gpu_device.Cuda(cuda, where="cpu", built_for="13.0")
    device.arithmetic = tolerance.INTERPRETER
    return cuda, device


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        module = loading.load(loading.find(None, Path(scratch)))
    devices: dict[str, tuple[StandIn, gpu_device.Cuda, gpu_cells.Cells]] = {}
    for case in json.load(sys.stdin):
        name = case.pop("device", "sm_103")
        if name not in devices:
            cuda, device = made(name)
            devices[name] = cuda, device, gpu_cells.Cells(module, device)
        cuda, device, cells = devices[name]
        cuda.graphs.clear()
        cuda.broken = case.pop("broken", False)
        row = gpu.ask(cells, case, device)
        replays = [graph.replays for graph in cuda.graphs]
        counted = {"captures": len(replays), "replays": sum(replays), "lost": gpu.device_is_lost(device)}
        print(json.dumps({"key": case["key"], **asdict(row), **counted}), flush=True)
    cuda, device = made("sm_103")
    device.capture(lambda: cuda.said.append("run"))
    apart = gpu.references_apart(device)
    print(json.dumps({"key": "control", "apart": apart, "said": cuda.said}))


if __name__ == "__main__":
    main()
