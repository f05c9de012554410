"""Modules of a release, loaded unmodified, with what surrounds them replaced by objects that answer nothing.

A server's module imports half of the server. Of a release only the named modules are loaded from its files; every
other module of the packages in `STOOD_IN_FOR` is a stand-in, which is false, may be called, and has any attribute.
Where the release's code needs a real answer, it is given by name.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STOOD_IN_FOR = frozenset({"sglang", "sgl_kernel", "flashinfer", "sgl_kernel_npu", "torch_npu", "torch_memory_saver"})


class StandIn:
    """An object of a module that is not loaded."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *passed: object, **named: object) -> Any:
        """Used as a decorator it leaves the function as it is."""
        if len(passed) == 1 and not named and isinstance(passed[0], (types.FunctionType, type)):
            return passed[0]
        return StandIn(f"{self.__name__}()")

    def __getattr__(self, name: str) -> "StandIn":
        if name.startswith("__"):
            raise AttributeError(f"{self.__name__}.{name}")
        return StandIn(f"{self.__name__}.{name}")

    def __getitem__(self, _: object) -> "StandIn":
        return StandIn(f"{self.__name__}[]")

    def __mro_entries__(self, _: object) -> tuple[type, ...]:
        return ()

    def __bool__(self) -> bool:
        return False

    def __or__(self, other: object) -> "StandIn":
        return self

    __ror__ = __or__


class _Module(types.ModuleType):
    """A stand-in's module: ``answers`` are what it has, everything else is a `StandIn`."""

    def __init__(self, name: str, answers: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        vars(self).update(answers)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self.__name__}.{name}")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, root: Path, real: frozenset[str], answers: Mapping[str, Any]) -> None:
        self.root, self.real, self.answers = root, real, answers

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if fullname.partition(".")[0] not in STOOD_IN_FOR:
            return None
        file = self.root.joinpath(*fullname.split(".")).with_suffix(".py")
        if fullname in self.real and file.is_file():
            return importlib.util.spec_from_file_location(fullname, file)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Module(spec.name, self.answers)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing: its attributes are made when they are asked for."""


@contextmanager
def release(root: Path, real: frozenset[str], answers: Mapping[str, Any]) -> Iterator[None]:
    """While this lasts, modules of the release at ``root`` can be imported; afterwards none of them is left.

    ``answers`` are attributes that every stand-in module has, by name.
    """
    finder = _Finder(root, real, answers)
    kept = _taken()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _taken()
        sys.modules.update(kept)


def _taken() -> dict[str, types.ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] in STOOD_IN_FOR]
    return {name: sys.modules.pop(name) for name in names}
