"""Checks of the verify-attention kernel alone: what was asked of it, on what, and what came out."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from repro.model.result import Measurement
from repro.model.words import CheckState

KernelCheck: TypeAlias = Literal[
    "kernel-reference", "kernel-memory", "kernel-emulated", "kernel-compile", "kernel-buffers", "kernel-gpu"
]
EvidenceClass: TypeAlias = Literal["interpreted", "emulated", "compiled", "gpu"]
KernelMode: TypeAlias = Literal[
    "eager",
    "eager-graph-dtypes",
    "graph",
    "replay-same",
    "replay-refreshed",
    "long-then-short",
    "short-then-long",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelSubject:
    """Which code was tested: versions of the packages, and the SHA-256 of the file that holds the kernel. ``origin``:
    the pinned release, a release of the list, or what an image holds. ``digest`` is that image's."""

    origin: Literal["pinned", "release", "image", "environment"]
    sglang: str
    triton: str | None
    torch: str | None
    source_path: str
    source_sha256: str
    digest: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelCell:
    """One case. ``architecture`` is the one that it speaks about (`sm_103`): whose tiles were interpreted, for which
    code was compiled, or that of the GPU; None where it depends on none. ``budget`` is that of the tree, whose verify
    has budget + 1 rows; None where a row holds for all of ``budgets``. ``shape`` such as `gqa-64-8-128`."""

    id: str
    architecture: str | None
    budget: int | None
    budgets: tuple[int, ...]
    shape: str | None
    batch: int | None
    mode: KernelMode | None
    dtype: str | None
    tile: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelFault:
    """Something wrong that was seen. ``source`` is file:line of the kernel, ``tensor`` and ``element`` or ``row`` say
    where in the data."""

    kind: Literal[
        "out_of_bounds", "rows_not_written", "wrong_values", "host_sync", "not_allocated", "ptxas", "cuda_error"
    ]
    source: str | None
    tensor: str | None
    element: int | None
    row: int | None
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledVariant:
    """What the compiler made. ``query_tiles``: pairs of budget and number of programs over its query rows.
    ``cubin_sha256`` is compared within one version of Triton; ``ptx_sha256`` leaves out the lines that name version and
    target."""

    ptx_target: str
    registers: int
    stack_bytes: int
    shared_bytes: int
    shared_limit_bytes: int
    tensor_memory_columns: int
    mma: str
    warps: int
    stages: int
    cubin_sha256: str
    ptx_sha256: str
    query_tiles: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class BufferNeed:
    """One buffer that graph capture allocates: elements allocated and elements that a verify step touches."""

    buffer: str
    allocated: int | None
    needed: int | None
    allocated_formula: str
    needed_formula: str


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelResult:
    """One line of `rows.jsonl`: one case of one arm. ``planted`` names a fault that was put in on purpose, which must
    be caught; ``reason`` is a code, ``detail`` says it in words."""

    check: KernelCheck
    evidence_class: EvidenceClass
    cell: KernelCell
    subject: KernelSubject
    planted: str | None
    state: CheckState
    reason: str | None
    detail: str
    measurements: tuple[Measurement, ...]
    faults: tuple[KernelFault, ...]
    compiled: CompiledVariant | None
    buffers: tuple[BufferNeed, ...]
    wall_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelArm:
    """How an arm went as a whole. ``broken``: it did not catch what was planted for it, so nothing it says counts."""

    check: KernelCheck
    state: Literal["complete", "unfinished", "broken", "not_run"]
    cases: int
    caught: int
    planted: int
    wall_s: float
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelRun:
    """`kernels.json` beside `rows.jsonl`, in `results/kernels/<run-id>/`."""

    run_id: str
    created_at: str
    tool_version: str
    arms: tuple[KernelArm, ...]
    argv: tuple[str, ...]
