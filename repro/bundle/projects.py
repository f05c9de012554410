"""Whose bug it looks like: the project whose form a bundle fills in, and why."""

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias, get_args

from repro.escape import one_line
from repro.model import Component, Signature

Project: TypeAlias = Literal["sglang", "vllm", "flashinfer", "triton", "nccl", "nvidia"]
PROJECTS: tuple[Project, ...] = get_args(Project)
TITLES: Mapping[Project, str] = {"sglang": "[Bug] ", "vllm": "[Bug]: ", "nccl": "[Issue]: "}
"""How titles begin in the projects whose forms begin them."""

_BY_KIND: tuple[tuple[Project, str, re.Pattern[str]], ...] = (
    ("nccl", "one of NCCL", re.compile(r"nccl_.*")),
    ("triton", "one of the Triton compiler", re.compile(r"triton_(compile_failed|out_of_resources)")),
    (
        "nvidia",
        "one of the GPU, its driver or CUDA",
        re.compile(r"gpu_lost|hardware_ecc|ptx_toolchain_mismatch|ptxas_arch_unsupported"),
    ),
)
_KERNELS: tuple[tuple[Project, re.Pattern[str]], ...] = (
    ("flashinfer", re.compile(r"(?i)flashinfer")),
    ("nccl", re.compile(r"\bnccl[A-Z_]")),
    ("triton", re.compile(r"ptxas")),
)
_FILES: tuple[tuple[Project, re.Pattern[str]], ...] = tuple(
    (project, re.compile(rf"(?:^|/){project}/")) for project in ("flashinfer", "triton", "nccl")
)
"""By folder: an engine's own `triton_backend.py` is the engine's."""


class Choice(NamedTuple):
    """``why`` is a sentence for the person who files it."""

    project: Project
    why: str


def choose(signature: Signature, component: Component | None, engine: str) -> Choice:
    """From the kind of failure first, then from what the diagnosis names as its place, else the engine's own project.

    It is a first guess: whoever knows better gives `--for`.
    """
    for project, what, kinds in _BY_KIND:
        if kinds.fullmatch(signature.kind):
            return Choice(project, f"the failure is {what} ({signature.kind})")
    for place, patterns in _places(component):
        for project, pattern in patterns:
            if place is not None and pattern.search(place):
                return Choice(project, f"the diagnosis names {one_line(place, 80)} as the place")
    if engine == "vllm":
        return Choice("vllm", "the engine is vLLM, and the diagnosis names no part of another project")
    if engine == "simulated":
        return Choice("sglang", "the simulated engine stands in for SGLang")
    return Choice("sglang", "the engine is SGLang, and the diagnosis names no part of another project")


def _places(component: Component | None) -> tuple[tuple[str | None, tuple[tuple[Project, re.Pattern[str]], ...]], ...]:
    if component is None:
        return ()
    return (component.kernel, _KERNELS), (component.function, _KERNELS), (component.file, _FILES)
