"""What a bundle about a failing server brings along of the kernel checks: the verify kernel alone, at its budget."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tabulate import tabulate

from repro import codec
from repro.canonical import canonical_bytes
from repro.escape import one_line
from repro.kernels.case import SHAPES
from repro.kernels.comparisons import compiled_table
from repro.kernels.record import ROWS, read_rows
from repro.kernels.reproducer import FILE_NAME, Asked, reproducer
from repro.model import Coordinates, Signature
from repro.model.kernels import KernelResult

if TYPE_CHECKING:
    from repro.bundle.contents import Contents

KINDS = frozenset({"cuda_illegal_memory_access", "corrupt_output"})
"""Failures that this kernel could cause though nothing names it; others must name attention."""
GPU_SHAPE = "gqa-64-8-128"
"""Of a large model without tensor parallelism: what fits its heads is given with --heads."""


def kernel_files(contents: "Contents", results: Path) -> Mapping[str, bytes]:
    """By name below `kernel/`, if the failure may be one of verify attention, else nothing: a reproducer, and what the
    newest kernel checks of the same SGLang below ``results`` say of that budget and architecture: their rows, with the
    hashes of PTX and cubins, and the resources of the compiled code as a table. Raises `RecordError` for bad rows."""
    result, architecture = contents.first.result, contents.subject.architecture
    asked = asked_for(contents.subject.signature, result.coordinates, architecture)
    if asked is None:
        return {}
    files = {FILE_NAME: reproducer(asked)}
    rows = rows_about(results, asked.budget, asked.architecture, result.engine.version)
    if rows:
        files[ROWS] = b"".join(canonical_bytes(codec.encode(row)) + b"\n" for row in rows)
    table = compiled_table(rows)
    if table.rows:
        cells = [[one_line(cell) for cell in row] for row in table.rows]
        files["resources.txt"] = (tabulate(cells, headers=table.columns, disable_numparse=True) + "\n").encode()
    return files


def rows_about(results: Path, budget: int, architecture: str | None, sglang: str | None) -> Sequence[KernelResult]:
    """The rows of the newest kernel checks that asked this SGLang about the budget and the architecture (or about
    none); empty if none did. Planted faults are left out: they say something of the checks. Raises `RecordError`."""
    for path in sorted((rows.parent for rows in (results / "kernels").glob(f"*/{ROWS}")), reverse=True):
        found = [
            row
            for row in read_rows(path)
            if row.planted is None
            and row.subject.sglang == sglang
            and row.cell.architecture in {None, architecture}
            and (row.cell.budget == budget or budget in row.cell.budgets)
        ]
        if found:
            return found
    return ()


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
