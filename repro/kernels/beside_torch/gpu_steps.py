"""The steps that a cell of the GPU arm goes through, on the device that it runs on, with their references."""

import random
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from . import inputs, static, tolerance

Tensor: TypeAlias = Any
Replay: TypeAlias = Callable[[], None]

BORDERS = (1, 63, 64, 65, 127, 128, 129)
"""Prefixes that end at, before and behind the border of a tile of keys."""
SHORT = 64
"""The longest prefix of what is called short."""
KEPT_STEPS = 24
"""Steps, of some megabytes each, whose references are shared by the modes of one budget and batch."""


class Device(Protocol):
    """Where the kernel runs. ``name`` and ``driver`` are for people; ``architecture`` such as ``sm_90``."""

    name: str
    driver: str
    architecture: str
    arithmetic: tolerance.Arithmetic

    def place(self, name: str, tensor: Tensor) -> Tensor:
        """A copy of the tensor there, as an allocation of its own."""

    def capture(self, run: Callable[[], object]) -> Replay:
        """What does again whatever ``run`` launches, without its Python code."""

    def synchronize(self) -> None:
        """Waits until all is done; errors of the device come out here."""

    def describe(self, compiled: Any) -> Mapping[str, Any] | None:
        """The fields of ``CompiledVariant`` but for ``query_tiles``, or None if nothing was compiled."""


@dataclass
class Steps:
    """Verify steps on the device with their references, the last of them kept."""

    device: Device
    key_tile: int
    _kept: OrderedDict[inputs.Problem, tuple[inputs.Step, tolerance.Expected]] = field(default_factory=OrderedDict)

    def step(self, asked: inputs.Problem) -> tuple[inputs.Step, tolerance.Expected]:
        """Not to be changed, but for its output."""
        if asked not in self._kept:
            self._kept[asked] = self.fresh(asked)
            while len(self._kept) > KEPT_STEPS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(asked)
        return self._kept[asked]

    def fresh(self, asked: inputs.Problem) -> tuple[inputs.Step, tolerance.Expected]:
        step = inputs.build(asked, self.device.place)
        return step, tolerance.expected(step, self.device.arithmetic, self.key_tile)

    def causal(self, step: inputs.Step) -> tolerance.Expected:
        return tolerance.expected(step, self.device.arithmetic, self.key_tile, causal=True)


def problems(cell: Mapping[str, Any], parameters: Mapping[str, Any]) -> list[inputs.Problem]:
    """The steps of a cell's rounds; the same ones in each mode, but for the two that are about lengths."""
    source = random.Random(f"{cell['budget']} {cell['batch']}")  # noqa: S311 - no secret
    longest = int(parameters["longest"])
    ranges = {"long-then-short": (1, SHORT), "short-then-long": (longest // 2, longest)}
    low, high = ranges.get(str(cell["mode"]), (1, longest))
    borders = [border for border in BORDERS if low <= border <= high]

    def drawn() -> int:
        return source.choice(borders) if borders and source.random() < 0.5 else source.randint(low, high)

    rounds = range(int(parameters["rounds"]))
    return [problem(cell, parameters, tuple(drawn() for _ in range(int(cell["batch"]))), round_) for round_ in rounds]


def problem(
    cell: Mapping[str, Any], parameters: Mapping[str, Any], prefixes: tuple[int, ...], number: int
) -> inputs.Problem:
    """One step. The last tree is smaller than its budget, so that its last rows are padding; a batch of more than two
    also has a padded slot behind it. A single request has a whole and a smaller tree in turns."""
    budget, batch = int(cell["budget"]), len(prefixes)
    whole, smaller = budget + 1, max(2, budget + 1 - max(1, budget // 4))
    if batch > 2:
        prefixes = (*prefixes[:-1], static.FILL_PREFIX)
        nodes = (*[whole] * (batch - 2), smaller, 0)
    else:
        nodes = (*[whole] * (batch - 1), smaller if batch > 1 or number % 2 else whole)
    query_heads, key_heads, key_dim, value_dim = parameters["heads"]
    return inputs.Problem(
        budget=budget,
        prefixes=prefixes,
        nodes=nodes,
        query_heads=query_heads,
        key_heads=key_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        dtype=str(cell["dtype"]),
        seed=int(parameters["seed"]) * 100 + number,
    )
