"""The arms, and what each can be asked for. Adding one is adding a line, a plan and a program."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module

from repro.kernels.case import Case, Selection
from repro.model.kernels import KernelCheck


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """``module`` and ``function`` make its plan. ``says`` is one line for a person. ``surveys``: it compares many
    releases, so that a case that fails is a finding about one of them and not a failure of the run."""

    check: KernelCheck
    module: str
    function: str
    says: str
    surveys: bool

    def plan(self, selection: Selection) -> tuple[Case, ...]:
        """Its cases, in the order in which they are asked. Raises `SpecError` for what it cannot be asked for."""
        make: Callable[[Selection], tuple[Case, ...]] = getattr(import_module(self.module), self.function)
        return make(selection)


_ARMS = (
    Arm(
        check="kernel-reference",
        module="repro.kernels.interpreted",
        function="reference",
        says="the kernel in Triton's interpreter against float64",
        surveys=False,
    ),
    Arm(
        check="kernel-memory",
        module="repro.kernels.interpreted",
        function="memory",
        says="every address it touches there, on tensors between guard pages",
        surveys=False,
    ),
    Arm(
        check="kernel-emulated",
        module="repro.kernels.emulated",
        function="plan",
        says="the kernel captured once and replayed on refreshed static buffers, without a CUDA graph",
        surveys=False,
    ),
    Arm(
        check="kernel-compile",
        module="repro.kernels.compile",
        function="plan",
        says="the code that its own launch would run on each architecture",
        surveys=False,
    ),
    Arm(
        check="kernel-buffers",
        module="repro.kernels.buffers",
        function="plan",
        says="what each release allocates for graphs, and what a tree's verify needs",
        surveys=True,
    ),
    Arm(
        check="kernel-gpu",
        module="repro.kernels.gpu",
        function="plan",
        says="the kernel on the GPU that is here, launched and in CUDA graphs",
        surveys=False,
    ),
)

ARMS: Mapping[str, Arm] = {arm.check.removeprefix("kernel-"): arm for arm in _ARMS}
"""Name on the command line -> arm, in the order in which they are asked."""
