"""Installed packages and their versions, from the names of their metadata folders: nothing is imported or opened."""

import os
import re
import sys
from collections.abc import Mapping

from probe.facts import Unknown, Value

_FOLDER = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)\.(?:dist|egg)-info")

NAMED = {
    "engine_version": ("sglang",),
    "torch": ("torch",),
    "triton": ("triton",),
    "flashinfer": ("flashinfer-python",),
    "sglang_kernel": ("sglang-kernel", "sgl-kernel"),
    "transformers": ("transformers",),
    "numpy": ("numpy",),
}
"""Fact -> the packages that may hold it, the first installed one counts."""


def installed() -> dict[str, str]:
    """Normalised name -> version, the first on the import path as Python itself would find it."""
    found: dict[str, str] = {}
    for folder in sys.path:
        try:
            entries = sorted(os.listdir(folder or "."))  # noqa: PTH208
        except OSError:
            continue
        for entry in entries:
            match = _FOLDER.fullmatch(entry)
            if match:
                found.setdefault(re.sub(r"[-_.]+", "-", match["name"]).lower(), match["version"])
    return dict(sorted(found.items()))


def version(packages: Mapping[str, str], fact: str) -> Mapping[str, Value]:
    """The version of the package behind a fact."""
    for name in NAMED[fact]:
        if name in packages:
            return {fact: packages[name]}
    raise Unknown(f"{NAMED[fact][0]} is not installed beside the attempt program")


def nccl(packages: Mapping[str, str]) -> Mapping[str, Value]:
    """NCCL as shipped for PyTorch; the one inside a system image would need the library to be loaded."""
    for name, found in packages.items():
        if re.fullmatch(r"nvidia-nccl(-cu\d+)?", name):
            return {"nccl": found}
    raise Unknown("no nvidia-nccl package is installed")


def torch_cuda(packages: Mapping[str, str]) -> Mapping[str, Value]:
    """The CUDA version that PyTorch was built for, from the `+cu130` of its version."""
    built = re.search(r"\+cu(\d+)(\d)$", packages.get("torch", ""))
    if built:
        return {"cuda_toolkit": f"{built[1]}.{built[2]}"}
    for name, found in packages.items():
        if re.fullmatch(r"nvidia-cuda-runtime(-cu\d+)?", name):
            return {"cuda_toolkit": ".".join(found.split(".")[:2])}
    raise Unknown("torch is not installed, or not built for CUDA as far as its version tells")
