"""A fingerprint as lines of text, of the kind that projects ask for in their bug forms."""

from collections.abc import Sequence

from repro.bundle.fingerprint import rows
from repro.escape import one_line
from repro.model import Fingerprint

_LINES: Sequence[tuple[str, str]] = (
    ("Python", "python"),
    ("GPU", "gpu_name"),
    ("GPU count", "gpu_count"),
    ("GPU Compute Capability", "compute_capability"),
    ("CUDA (PyTorch's)", "cuda_toolkit"),
    ("CUDA (the driver's newest)", "cuda_driver"),
    ("CUDA Driver Version", "gpu_driver"),
    ("PyTorch", "torch"),
    ("NCCL", "nccl"),
    ("NVIDIA Topology", "gpu_topology"),
    ("SM clock, MHz", "gpu_sm_clock_mhz"),
    ("SM clock, highest, MHz", "gpu_max_sm_clock_mhz"),
    ("ECC", "gpu_ecc"),
    ("ECC errors, uncorrected", "gpu_ecc_uncorrected"),
    ("Xid", "gpu_xids"),
    ("Image", "image_digest"),
    ("Engine's patched files", "engine_patches"),
    ("OS", "os"),
    ("Kernel", "kernel"),
    ("CPU", "cpu_model"),
    ("ulimit soft", "ulimit_nofile"),
)
_PACKAGES = (
    "sglang",
    "sglang-kernel",
    "flashinfer-python",
    "triton",
    "transformers",
    "torchao",
    "numpy",
    "aiohttp",
    "fastapi",
    "huggingface-hub",
    "orjson",
    "outlines",
    "packaging",
    "psutil",
    "pydantic",
    "pyzmq",
    "uvicorn",
    "uvloop",
    "vllm",
    "xgrammar",
    "openai",
    "tiktoken",
)
"""What `python3 -m sglang.check_env` of 0.5.23 lists, as far as engines on GPUs use it."""
_LONGEST_LINE = 240


def check_env(found: Fingerprint) -> tuple[str, ...]:
    """`Name: value` lines of the kind that `python3 -m sglang.check_env` prints, and what that leaves out: image, NCCL,
    clocks, ECC, Xids, patched files. A field that is not known says why."""
    facts = {row.field: row for row in rows(found)}
    lines: list[str] = []
    for label, name in _LINES:
        row = facts.get(name)
        lines.append(f"{label}: {_said(row.value, row.state) if row is not None else 'not recorded'}")
    lines += [f"{name}: {found.packages.get(name, 'not installed')}" for name in _PACKAGES]
    lines += [f"container: {flag}" for flag in found.container_flags]
    lines += [f"environment: {name}={value}" for name, value in found.variables.items()]
    return tuple(one_line(line, _LONGEST_LINE) for line in lines)


def table(found: Fingerprint) -> tuple[tuple[str, str, str], ...]:
    """(field, state, value or the reason why it is unknown), in order."""
    return tuple((row.field, row.state, row.value) for row in rows(found))


def patch_lines(found: Fingerprint) -> tuple[str, ...]:
    """The local patches: a diff where there is one, else the names of the files; empty where there is none."""
    lines: list[str] = []
    for package in found.patches:
        if package.reason is not None:
            lines.append(f"{package.package}: not known whether its files are patched: {one_line(package.reason)}")
        for file in package.files:
            lines.append(f"{package.package}: {file.state}: {one_line(file.path)}")
            lines += file.diff.splitlines() if file.diff is not None else []
    return tuple(lines)


def _said(value: str, state: str) -> str:
    return value if state == "verified" else f"unknown ({value})" if state == "unknown" else f"{value} ({state})"
