"""The first GPU that torch sees, as the `Device` of `gpu_cells`: everything that needs CUDA is here."""

import ctypes
import subprocess
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch

from . import tolerance
from .compiled import LIMITS, describe

Tensor: TypeAlias = Any

FATAL = ("CUDA error", "Triton Error [CUDA]", "device-side assert")
"""What messages of torch and Triton say of an error after which the process cannot use the GPU any more."""
WARM_UPS = 2
"""Launches before a capture: the first one compiles and loads, which a capture does not allow."""


class NoGpuError(Exception):
    """There is no GPU to be used; the message says why."""


def is_fatal(error: BaseException) -> bool:
    return any(mark in str(error) for mark in FATAL)


def absent(cuda: Any = torch.cuda, built_for: str | None = torch.version.cuda) -> str | None:
    """Why there is no GPU, None if there is one. Makes no context. ``built_for``: the version of CUDA."""
    if built_for is None:
        return f"torch {torch.__version__} is built without CUDA"
    if not cuda.is_available():
        return f"torch {torch.__version__} sees no GPU: is there one, with a driver for CUDA {built_for}?"
    return None


class Cuda:
    """Raises `NoGpuError` where there is none. ``cuda`` is `torch.cuda`, or in tests what stands for it, with tensors
    ``where`` that one has them."""

    arithmetic = tolerance.GPU

    def __init__(
        self, cuda: Any = torch.cuda, *, where: str = "cuda", built_for: str | None = torch.version.cuda
    ) -> None:
        why = absent(cuda, built_for)
        if why is not None:
            raise NoGpuError(why)
        self._cuda = cuda
        self._where = where
        try:
            cuda.init()
            properties = cuda.get_device_properties(0)
        except Exception as error:
            raise NoGpuError(f"the GPU cannot be used: {str(error).splitlines()[0]}") from error
        self.name = str(properties.name)
        self.architecture = f"sm_{properties.major}{properties.minor}"
        self.driver = _driver()

    def place(self, name: str, tensor: Tensor) -> Tensor:
        """A contiguous copy on the GPU, whatever its name is."""
        del name
        return torch.empty_like(tensor, device=self._where, memory_format=torch.contiguous_format).copy_(tensor)

    def capture(self, run: Callable[[], object]) -> Callable[[], None]:
        """A CUDA graph of what ``run`` launches, after it was launched on a stream of its own, as torch's notes on CUDA
        graphs ask for."""
        stream = self._cuda.Stream()
        stream.wait_stream(self._cuda.current_stream())
        with self._cuda.stream(stream):
            for _ in range(WARM_UPS):
                run()
        self._cuda.current_stream().wait_stream(stream)
        self._cuda.synchronize()
        graph = self._cuda.CUDAGraph()
        with self._cuda.graph(graph):
            run()

        def replay() -> None:
            graph.replay()

        return replay

    def synchronize(self) -> None:
        self._cuda.synchronize()

    def describe(self, compiled: Any) -> Mapping[str, Any] | None:
        """What Triton's bundled tools say of the code; None where they or we do not know the architecture."""
        if compiled is None or self.architecture not in LIMITS.shared_bytes:
            return None
        try:
            return describe(compiled, self.architecture, ())
        except (OSError, ValueError, subprocess.SubprocessError):
            return None


def _driver() -> str:
    """The driver's version as NVML has it, such as 580.159.04."""
    text = ctypes.create_string_buffer(80)  # NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        failed = nvml.nvmlInit_v2() or nvml.nvmlSystemGetDriverVersion(text, len(text))
    except (OSError, AttributeError):
        failed = 1
    if not failed and text.value:
        return text.value.decode("ascii", "replace")
    return "unknown (no NVML)"
