"""Names that SGLang imports on a CPU but must never call there."""

from collections.abc import Callable
from typing import Any


def absent_names(module: str) -> Callable[[str], type]:
    """A module-level `__getattr__`: any public name is a class that refuses to be called, with a telling error."""

    def make(name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")

        def refuse(self: object, *arguments: Any, **named: Any) -> None:
            raise NotImplementedError(f"{module}.{name} has no CPU stand-in")

        return type(name, (), {"__init__": refuse, "__doc__": f"Stand-in that refuses: {module}.{name}."})

    return make
