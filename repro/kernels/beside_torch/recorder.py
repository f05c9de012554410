"""Stands for a CUDA graph on a CPU: records what a captured region does, and does it again without its Python code.

What is frozen is what a graph freezes: the order of the operations, the tensors that they touch, scalars, shapes, and
the grids of kernels. What a graph cannot hold is refused while recording: whatever makes the host wait for the device.
It records no stream, no memory pool and no time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten
from triton.runtime.interpreter import InterpretedFunction

Tensor: TypeAlias = Any

WAITING_CALLS = frozenset(
    {"item", "tolist", "cpu", "numpy", "nonzero", "__bool__", "__int__", "__float__", "__index__"}
)
"""Methods of a tensor that copy it to the host; those of a tensor that is on a CPU reach no operation of ATen."""
WAITING_OPERATIONS = frozenset(
    {"aten::_local_scalar_dense", "aten::item", "aten::is_nonzero", "aten::nonzero", "aten::masked_select"}
    | {"aten::equal", "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive", "aten::bincount"}
)
"""Operations whose result, or the shape of it, the host must know."""
INDEXING = frozenset({"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"})
"""These count the set bits of a mask that is used as an index."""
MAKING = frozenset({"aten::empty", "aten::empty_strided", "aten::empty_like", "aten::new_empty"})
"""Memory without contents: in a graph it is there already."""

if "run" not in vars(InterpretedFunction):
    raise ImportError("the interpreter of this Triton launches kernels otherwise than the recorder knows")


class HostSyncError(Exception):
    """Something in the captured region waits for the device."""


@dataclass
class Operation:
    """One of ATen. ``outputs`` are its tensors at capture, ``fresh`` which of them it made."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: list[Tensor]
    fresh: list[bool]

    def replay(self) -> None:
        """Again on the same tensors; what it makes goes where it went at capture."""
        again = _tensors(self.function(*self.args, **self.kwargs))
        for output, new, is_fresh in zip(self.outputs, again, self.fresh, strict=True):
            if is_fresh:
                output.copy_(new)


@dataclass
class Launch:
    """One of a Triton kernel, with its arguments and grid."""

    run: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def replay(self) -> None:
        self.run(*self.args, **self.kwargs)


@dataclass
class Recorder:
    """A context manager around the captured region, which runs while it is recorded. ``nodes`` are in their order."""

    nodes: list[Operation | Launch] = field(default_factory=list)

    def __enter__(self) -> "Recorder":
        self._run = InterpretedFunction.run
        self._modes = (_Calls(), _Operations(self.nodes))
        original, nodes = self._run, self.nodes

        def run(kernel: Any, *args: Any, grid: Any, **kwargs: Any) -> None:
            if callable(grid):
                raise NotImplementedError("a kernel has a function for its grid, which the recorder does not freeze")
            launch = Launch(run=original.__get__(kernel), args=args, kwargs={"grid": tuple(grid), **kwargs})
            with _disable_current_modes(), torch._C.DisableTorchFunction():
                launch.replay()
            nodes.append(launch)

        InterpretedFunction.run = run
        for mode in self._modes:
            mode.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(*error)
        InterpretedFunction.run = self._run

    @property
    def launches(self) -> list[Launch]:
        return [node for node in self.nodes if isinstance(node, Launch)]

    def replay(self) -> None:
        """Does everything again. The caller has put new contents into the tensors that were there before."""
        for node in self.nodes:
            node.replay()


class _Calls(TorchFunctionMode):  # type: ignore[misc]
    """Refuses methods that read a tensor's contents."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in WAITING_CALLS or (name == "to" and _is_to_host(args, kwargs or {})):
            raise HostSyncError(f"Tensor.{name}() while capturing: the host waits for the device")
        return func(*args, **(kwargs or {}))


class _Operations(TorchDispatchMode):  # type: ignore[misc]
    """Notes operations of ATen, and refuses those that the host would wait for."""

    def __init__(self, nodes: list[Operation | Launch]) -> None:
        super().__init__()
        self._nodes = nodes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func._schema.name, kwargs or {}
        given = _tensors((args, kwargs))
        if name in WAITING_OPERATIONS or (name in INDEXING and any(t.dtype == torch.bool for t in _tensors(args[1]))):
            raise HostSyncError(f"{name} while capturing: the host waits for the device")
        result = func(*args, **kwargs)
        outputs = _tensors(result)
        before = {tensor.untyped_storage().data_ptr() for tensor in given}
        fresh = [tensor.untyped_storage().data_ptr() not in before for tensor in outputs]
        if name not in MAKING and (func._schema.is_mutable or any(fresh)):  # a view is no work
            self._nodes.append(Operation(func, args, kwargs, outputs, fresh))
        return result


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def _is_to_host(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    asked = [*args[1:2], kwargs.get("device")]
    return any(str(device) == "cpu" for device in asked if isinstance(device, (str, torch.device)))
