"""Every address that a kernel touches in Triton's interpreter, checked against the tensors that it was given.

This rests on private names of Triton: they are looked at when this module is imported, and a must-detect fault belongs
into every run that relies on it.
"""

import inspect
import sys
from collections.abc import Collection
from types import FrameType
from typing import Any

import numpy
from triton.runtime import interpreter

from .guarded import Guarded

BUILDER: Any = type(interpreter.interpreter_builder)
LOAD, STORE = "create_masked_load", "create_masked_store"
UNCHECKED = ("create_atomic_rmw", "create_atomic_cas")
"""Memory accesses that are not checked, so that a kernel that has one is refused. The kernel has none."""

for _name, _parameters in ((LOAD, ["self", "ptrs", "mask"]), (STORE, ["self", "ptrs", "value", "mask"])):
    _found = list(inspect.signature(getattr(BUILDER, _name)).parameters)
    if _found[: len(_parameters)] != _parameters:
        raise ImportError(f"{_name} of this Triton takes {_found}; the pointer checker knows {_parameters}")


class OutOfBoundsError(Exception):
    """An access outside of all tensors, or a store into one that is only read. ``element`` is the first one."""

    def __init__(self, detail: str, *, source: str | None, tensor: str, element: int) -> None:
        super().__init__(detail)
        self.source = source
        self.tensor = tensor
        self.element = element


class Checked:
    """While it is entered, accesses of any kernel are checked before they are made; the first bad one raises.

    ``lanes`` and ``accesses`` count what was checked. ``kernel`` is the file whose lines are named, ``written`` the
    tensors that may be stored to.
    """

    def __init__(self, guarded: Guarded, kernel: str, written: Collection[str]) -> None:
        self.lanes = 0
        self.accesses = 0
        self._guarded = guarded
        self._kernel = kernel
        self._written = written
        self._originals: dict[str, Any] = {}

    def __enter__(self) -> "Checked":
        self._originals = {name: getattr(BUILDER, name) for name in (LOAD, STORE, *UNCHECKED)}
        load, store = self._originals[LOAD], self._originals[STORE]

        def checked_load(builder: Any, ptrs: Any, mask: Any, *rest: Any) -> Any:
            self._check("load", ptrs, mask)
            return load(builder, ptrs, mask, *rest)

        def checked_store(builder: Any, ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
            self._check("store", ptrs, mask)
            return store(builder, ptrs, value, mask, *rest)

        def refused(*_: Any) -> Any:
            raise NotImplementedError("the kernel has an atomic access, which the pointer checker does not know")

        setattr(BUILDER, LOAD, checked_load)
        setattr(BUILDER, STORE, checked_store)
        for name in UNCHECKED:
            setattr(BUILDER, name, refused)
        return self

    def __exit__(self, *_: object) -> None:
        for name, original in self._originals.items():
            setattr(BUILDER, name, original)

    def _check(self, kind: str, ptrs: Any, mask: Any) -> None:
        """All unmasked lanes of one access. Raises `OutOfBoundsError`."""
        addresses = numpy.asarray(ptrs.data).astype(numpy.uint64)
        if mask is not None:
            addresses = addresses[numpy.broadcast_to(numpy.asarray(mask.data).astype(bool), addresses.shape)]
        addresses = addresses.ravel()
        self.accesses += 1
        self.lanes += addresses.size
        inside = numpy.zeros(addresses.size, bool)
        width = numpy.uint64(max(1, ptrs.get_element_ty().primitive_bitwidth // 8))
        for extent in self._guarded.extents:
            if kind == "load" or extent.name in self._written:
                inside |= (addresses >= numpy.uint64(extent.start)) & (addresses + width <= numpy.uint64(extent.end))
        if not inside.all():
            raise self._refusal(kind, addresses[~inside], addresses.size)

    def _refusal(self, kind: str, outside: Any, lanes: int) -> OutOfBoundsError:
        first, last = int(outside.min()), int(outside.max())
        tensor = self._guarded.nearest(first)
        element = tensor.element(first)
        source = kernel_line(sys._getframe(), self._kernel)
        program = interpreter.interpreter_builder.grid_idx
        into = f"into {tensor.name}, which is only read" if 0 <= element < tensor.elements else f"outside {tensor.name}"
        detail = (
            f"{kind} of {outside.size} of {lanes} lanes {into}[{tensor.elements}], elements {element} to "
            f"{tensor.element(last)}, program {program}, {source or 'unknown line'}"
        )
        return OutOfBoundsError(detail, source=source, tensor=tensor.name, element=element)


def stray(error: BaseException | None) -> OutOfBoundsError | None:
    """The stray access that is behind an error: the interpreter wraps what a kernel raises."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        if isinstance(error, OutOfBoundsError):
            return error
        chain.append(error)
        error = error.__cause__ or error.__context__
    return None


def kernel_line(frame: FrameType | None, kernel: str) -> str | None:
    """``extend_attention.py:740``: the innermost line of the kernel's file on the stack."""
    while frame is not None:
        if frame.f_code.co_filename.endswith(kernel):
            return f"{kernel.rpartition('/')[2]}:{frame.f_lineno}"
        frame = frame.f_back
    return None
