"""Tensors between pages that nobody may touch: one element too far ends the process.

Each lies at the end of its own anonymous mapping, with 64 MiB of address space without access on both sides, which
costs no memory. So a stray pointer cannot land in another tensor either, unless it is off by more than that.
"""

import ctypes
import math
import mmap
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

Tensor: TypeAlias = Any

ZONE_BYTES = 1 << 26
NO_ACCESS, READ_WRITE = 0, 3
PRIVATE_ANONYMOUS_NORESERVE = 0x4022
"""MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE on Linux."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


@dataclass(frozen=True)
class Extent:
    """Where a tensor lies: addresses from ``start`` up to ``end``, not included."""

    name: str
    start: int
    end: int
    element_bytes: int

    @property
    def elements(self) -> int:
        return (self.end - self.start) // self.element_bytes

    def element(self, address: int) -> int:
        """Negative before the tensor."""
        return (address - self.start) // self.element_bytes

    def distance(self, address: int) -> int:
        """Bytes from the tensor to the address; 0 inside."""
        return max(self.start - address, address - self.end + 1, 0)


class Guarded:
    """Tensors between guard pages. A context manager: at its end all mappings are gone, and with them the tensors."""

    def __init__(self) -> None:
        self.extents: list[Extent] = []
        self._mappings: list[tuple[int, int]] = []

    def __enter__(self) -> "Guarded":
        return self

    def __exit__(self, *_: object) -> None:
        for start, size in self._mappings:
            _libc.munmap(start, size)
        self._mappings.clear()
        self.extents.clear()

    def place(self, name: str, tensor: Tensor) -> Tensor:
        """A copy of the tensor, contiguous, whose last element ends where no access begins. Raises OSError."""
        needed = max(tensor.numel() * tensor.element_size(), 1)
        body = math.ceil(needed / mmap.PAGESIZE) * mmap.PAGESIZE
        base = self._map(body)
        start = base + ZONE_BYTES + body - needed
        memory = (ctypes.c_char * needed).from_address(start)
        placed = torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel()).view(tensor.shape)
        placed.copy_(tensor)
        size = tensor.element_size()
        self.extents.append(Extent(name=name, start=start, end=start + needed, element_bytes=size))
        return placed

    def nearest(self, address: int) -> Extent:
        return min(self.extents, key=lambda extent: extent.distance(address))

    def _map(self, body: int) -> int:
        size = 2 * ZONE_BYTES + body
        base = _libc.mmap(None, size, NO_ACCESS, PRIVATE_ANONYMOUS_NORESERVE, -1, 0)
        if base in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), "no address space for guard pages")
        self._mappings.append((base, size))
        if _libc.mprotect(base + ZONE_BYTES, body, READ_WRITE):
            raise OSError(ctypes.get_errno(), "guard pages cannot be set up")
        return int(base)
