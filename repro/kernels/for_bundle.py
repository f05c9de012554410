"""What a bundle about a failing server brings along of the kernel checks: the verify kernel alone, at its budget."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from repro.kernels.case import SHAPES
from repro.kernels.reproducer import FILE_NAME, Asked, reproducer
from repro.model import Coordinates, Signature

if TYPE_CHECKING:
    from repro.bundle.contents import Contents

KINDS = frozenset({"cuda_illegal_memory_access", "corrupt_output"})
"""Failures that this kernel could cause though nothing names it; others must name attention."""
GPU_SHAPE = "gqa-64-8-128"
"""Of a large model without tensor parallelism: what fits its heads is given with --heads."""


def kernel_files(contents: "Contents") -> Mapping[str, bytes]:
    """By name below `kernel/`: a reproducer if the failure may be one of verify attention, else nothing."""
    asked = asked_for(contents.subject.signature, contents.first.result.coordinates, contents.subject.architecture)
    return {} if asked is None else {FILE_NAME: reproducer(asked)}


def asked_for(signature: Signature, where: Coordinates, architecture: str | None) -> Asked | None:
    """The case of the kernel that is nearest to a failing cell of a server; None if its failure does not point there,
    nothing is verified in the cell, or its engine is none."""
    points_there = signature.subsystem == "attention" or signature.kind in KINDS
    if not points_there or where.budget < 1 or where.engine_source == "simulated":
        return None
    is_gpu = architecture is not None and re.fullmatch(r"sm_\d{2,3}", architecture) is not None
    return Asked(
        budget=where.budget,
        shape=GPU_SHAPE if is_gpu else SHAPES[0],
        batch=3,
        dtype="bf16" if is_gpu else "fp16",
        mode="replay-refreshed" if where.graph == "graph" else "eager",
        architecture=architecture if architecture is not None and is_gpu else "sm_103",
    )
