"""The numbers of one compiled kernel: Triton's metadata, and what its bundled tools say of the machine code."""

import hashlib
import importlib.util
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

KIB = 1024


@dataclass(frozen=True)
class Limits:
    """What a GPU has, of the CUDA programming guide's table of compute capabilities. ``shared_bytes``: dynamic shared
    memory that a block may ask for; ``tensor_memory_columns``: of one multiprocessor of 10.x."""

    shared_bytes: Mapping[str, int]
    tensor_memory_columns: int


LIMITS = Limits(
    shared_bytes={"sm_90": 227 * KIB, "sm_100": 227 * KIB, "sm_103": 227 * KIB, "sm_120": 99 * KIB},
    tensor_memory_columns=512,
)
OPERATION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+ )?([A-Z][A-Z0-9]+)")
FAMILIES = (("UTC", "tcgen05"), ("HGMMA", "wgmma"), ("HMMA", "mma.sync"))
PTX_FAMILIES = (("tcgen05.mma", "tcgen05"), ("wgmma.mma_async", "wgmma"), ("mma.sync", "mma.sync"))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def tool(name: str, triton: ModuleSpec | None = None) -> str:
    """A program that Triton bundles for NVIDIA GPUs: the Triton given, or the one that is imported."""
    if triton is None:
        triton = importlib.util.find_spec("triton")
    if triton is None or triton.origin is None:
        raise ModuleNotFoundError("triton is not installed")
    return str(Path(triton.origin).parent / "backends" / "nvidia" / "bin" / name)


def resources(cubin: str) -> tuple[int, int]:
    """Registers of a thread and its bytes of stack, as the bundled cuobjdump prints them."""
    shown = subprocess.run([tool("cuobjdump"), "-res-usage", cubin], capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", shown)
    if found is None:
        raise ValueError(f"cuobjdump shows no registers: {shown[:200]}")
    return int(found[1]), int(found[2])


def operations(cubin: str, disassemblers: Sequence[str]) -> frozenset[str]:
    """Names of the machine's operations, by the first disassembler that knows the architecture; empty if none does."""
    for disassembler in disassemblers:
        shown = subprocess.run([disassembler, "-c", cubin], capture_output=True, text=True, check=False).stdout
        if found := frozenset(OPERATION.findall(shown)):
            return found
    return frozenset()


def family(names: frozenset[str], ptx: str) -> str:
    """How matrices are multiplied: the family, and the machine's operations that say so. Where no disassembler knows
    the machine code, by the PTX."""
    if not names:
        known = [word for mark, word in PTX_FAMILIES if mark in ptx]
        return f"{known[0] if known else 'no matrix instruction'} (from PTX)"
    matrix = sorted(name for name in names if name.endswith("MMA"))
    known = [word for mark, word in FAMILIES if any(name.startswith(mark) for name in matrix)]
    if not matrix:
        return "no matrix instruction"
    return f"{known[0] if known else 'other'} ({', '.join(matrix)})"


def without_target(ptx: str) -> str:
    """The code alone: architectures whose code is the same differ in the target that it names."""
    return re.sub(r"(?m)^(//.*|\.version .*|\.target .*)\n", "", ptx)


def describe(compiled: Any, architecture: str, disassemblers: Sequence[str]) -> dict[str, Any]:
    """The fields of `CompiledVariant`, but for ``query_tiles``. ``compiled`` is what Triton's compiler returns."""
    ptx, cubin, metadata = compiled.asm["ptx"], compiled.asm["cubin"], compiled.metadata
    target = re.search(r"^\.target (\w+)", ptx, re.MULTILINE)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        registers, stack_bytes = resources(file.name)
        matrix = family(operations(file.name, (tool("nvdisasm"), *disassemblers)), ptx)
    return {
        "ptx_target": target[1] if target else "none",
        "registers": registers,
        "stack_bytes": stack_bytes,
        "shared_bytes": metadata.shared,
        "shared_limit_bytes": LIMITS.shared_bytes[architecture],
        "tensor_memory_columns": getattr(metadata, "tmem_size", None) or 0,
        "mma": matrix,
        "warps": metadata.num_warps,
        "stages": metadata.num_stages,
        "cubin_sha256": sha256(cubin),
        "ptx_sha256": sha256(without_target(ptx).encode()),
    }
