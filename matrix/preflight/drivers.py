"""Which driver a CUDA version needs, and which CUDA first knew an architecture."""

import re

MINIMUM_DRIVER = {13: 580, 12: 525, 11: 450}
"""CUDA major version -> oldest driver branch. Source: NVIDIA, CUDA Compatibility, "Minor Version Compatibility", table
1 (docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html)."""

FIRST_CUDA = {"sm_120": (12, 8), "sm_103": (12, 9), "sm_100": (12, 8)}
"""Architecture -> first CUDA whose ptxas knows it: 12.8 refuses sm_103, 12.9 takes it (tried with ptxas 12.8.93 and
12.9.86)."""


def version(text: str | None) -> tuple[int, ...] | None:
    """`580.65.06` -> (580, 65, 6); None for what is no version."""
    found = re.match(r"\d+(?:\.\d+)*", text or "")
    return tuple(int(part) for part in found[0].split(".")) if found else None


def too_old(driver: tuple[int, ...], cuda: tuple[int, ...]) -> int | None:
    """The oldest driver branch that serves this CUDA, if the driver is older; else None."""
    needed = MINIMUM_DRIVER.get(cuda[0])
    if needed is None and cuda[0] > max(MINIMUM_DRIVER):
        needed = MINIMUM_DRIVER[max(MINIMUM_DRIVER)]
    return needed if needed is not None and driver[0] < needed else None


def capability(architecture: str) -> str | None:
    """`sm_103` -> `10.3`; None for what is no GPU."""
    found = re.fullmatch(r"sm_(\d+)(\d)[af]?", architecture)
    return f"{found[1]}.{found[2]}" if found else None
