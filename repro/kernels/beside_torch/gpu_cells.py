"""One cell of the GPU arm: the kernel launched or replayed in one mode over rounds of new prefixes, trees and slots.

Nothing here knows CUDA. A `Device` places tensors, captures a launch and says how exactly it computes, so that all of
this runs on a CPU too, with another device. Outputs are NaN before every launch.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch

from . import disturb, inputs, loading, static
from .gpu_rounds import Round, caught, powered, round_of, together
from .gpu_steps import SHORT, Device, Steps, problems
from .protocol import Row, measurement

Tensor: TypeAlias = Any

EARLIER_BUDGET = 8
"""What sizes are left over from, where a planted fault says so."""


@dataclass(frozen=True)
class Plant:
    """A fault. ``before`` changes a step before an eager launch; ``mask_rows`` and ``longest`` are sizes left over from
    another budget; ``leave`` names the static buffers that are not refreshed, ``blank`` one that never was."""

    before: str | None = None
    mask_rows: int | None = None
    longest: int | None = None
    leave: tuple[str, ...] = ()
    blank: str | None = None


PLANTED: Mapping[str, Plant] = {
    "causal_mask": Plant(before="causal_mask"),
    "slot_of_another_request": Plant(before="slot_of_another_request"),
    "stale_mask": Plant(leave=("mask",)),
    "stale_mask_indptr": Plant(leave=("mask_indptr",)),
    "stale_kv_indices": Plant(leave=("kv_indices",)),
    "mask_sized_for_budget_8": Plant(mask_rows=EARLIER_BUDGET + 1),
    "grid_of_budget_8": Plant(longest=EARLIER_BUDGET + 1),
    "mask_never_written": Plant(leave=("mask",), blank="mask"),
}


@dataclass
class Launches:
    """What the release's launch code asks for from now on: the last grid, and what Triton had compiled for it."""

    kernel: Any
    grid: tuple[int, ...] = ()
    compiled: Any = None

    def __post_init__(self) -> None:
        kernel = self.kernel

        def run(*args: Any, grid: Sequence[int], **kwargs: Any) -> Any:
            self.compiled = type(kernel).run(kernel, *args, grid=grid, **kwargs)
            self.grid = tuple(grid)
            return self.compiled

        kernel.run = run


@dataclass(frozen=True)
class _Asked:
    """What one case asks. ``tight``: buffers that are too small are not given any room behind them."""

    module: Any
    device: Device
    steps: Steps
    mode: str
    plant: Plant | None
    tile: str
    tight: bool

    @property
    def row_tile(self) -> int:
        return int(self.tile.partition("x")[0])


class Cells:
    """Asks cells on one device with one release's module."""

    def __init__(self, module: Any, device: Device) -> None:
        self._module = module
        self._device = device
        self._launches = Launches(module._fwd_kernel)
        self._steps: dict[int, Steps] = {}
        self._described: dict[int, Mapping[str, Any] | None] = {}

    def ask(self, case: Mapping[str, Any]) -> Row:
        """The row of a planned case, planted or not."""
        cell, parameters = case["cell"], case["parameters"]
        if cell["architecture"] not in (None, self._device.architecture):
            said = f"{cell['architecture']} is asked for; here is {self._device.architecture} ({self._device.name})"
            return Row(state="not_run", reason="other_gpu", detail=said)
        loading.emulate(self._module, self._device.architecture)
        tile = loading.tile(self._module, *parameters["heads"][2:])
        keys = int(tile.partition("x")[2])
        asked = _Asked(
            module=self._module,
            device=self._device,
            steps=self._steps.setdefault(keys, Steps(self._device, keys)),
            mode=str(cell["mode"]),
            plant=PLANTED[case["planted"]] if case["planted"] else None,
            tile=tile,
            tight=bool(parameters.get("tight")),
        )
        steps = problems(cell, parameters)
        if asked.plant and asked.plant.longest and not _outside_grid(asked, steps[0]):
            said = f"a tile of {asked.row_tile} rows covers all {steps[0].rows}: the grid would be the same"
            return Row(state="not_run", reason="not_visible", detail=said, cell={"tile": tile})
        rounds = _eager(asked, steps) if asked.mode.startswith("eager") else _replayed(asked, steps)
        return self._with_launch((caught if asked.plant else together)(rounds, steps[0].rows), tile, steps[0].budget)

    def _with_launch(self, row: Row, tile: str, budget: int) -> Row:
        """With the GPU, the grid, and the code that ran."""
        device, grid, compiled = self._device, self._launches.grid, self._launches.compiled
        if id(compiled) not in self._described:
            self._described[id(compiled)] = device.describe(compiled)
        described = self._described[id(compiled)]
        numbers = [measurement(f"grid_{axis}", float(size), "programs") for axis, size in zip("xyz", grid, strict=True)]
        return replace(
            row,
            detail=f"{row.detail} ({device.name}, driver {device.driver})",
            cell={"tile": tile, "architecture": device.architecture},
            measurements=[*row.measurements, *numbers],
            compiled=None if described is None else {**described, "query_tiles": [[budget, grid[2]]]},
        )


def _eager(asked: _Asked, steps: Sequence[inputs.Problem]) -> list[Round]:
    """Each step launched by itself, with tensors of its own."""
    rounds: list[Round] = []
    for number, problem_ in enumerate(steps):
        step, right = asked.steps.fresh(problem_) if asked.plant else asked.steps.step(problem_)
        disturbed = disturb.PLANTED[asked.plant.before](step) if asked.plant and asked.plant.before else frozenset()
        step.tensors["o"].fill_(math.nan)
        inputs.launch(asked.module, inputs.eager(step) if asked.mode == "eager" else step)
        asked.device.synchronize()
        found = round_of(step, step.tensors["o"], right, asked.tile, disturbed)
        rounds.append(powered(found, step, right, asked.steps.causal(step)) if _looks(asked, number) else found)
    return rounds


def _replayed(asked: _Asked, steps: Sequence[inputs.Problem]) -> list[Round]:
    """Captured once on static buffers, then replayed for each step."""
    plant = asked.plant or Plant()
    first = steps[0]
    longest = max(8 * SHORT if asked.mode == "long-then-short" else 1, *(max(step.prefixes) for step in steps))
    sized = static.with_prefixes(first, (longest,) * len(first.prefixes), first.seed)
    buffers = _buffers(asked, sized, plant)
    fill = (static.FILL_PREFIX,) * len(first.prefixes)
    at_capture = {"replay-same": first.prefixes, "long-then-short": sized.prefixes}.get(asked.mode, fill)
    captured, _ = asked.steps.step(static.with_prefixes(first, at_capture, first.seed))
    buffers.refresh(captured, leave=() if plant.blank is None else (plant.blank,))
    given = buffers.step()
    replay = asked.device.capture(lambda: inputs.launch(asked.module, given, longest=plant.longest))
    rounds: list[Round] = []
    for number, problem_ in enumerate([first] * len(steps) if asked.mode == "replay-same" else steps):
        step, right = asked.steps.step(problem_)
        if asked.mode == "replay-same":
            buffers.tensors["o"].fill_(math.nan)
        else:
            buffers.refresh(step, leave=plant.leave)
        disturbed = _disturbed(asked, buffers, step)
        asked.device.synchronize()
        replay()
        asked.device.synchronize()
        found = round_of(step, buffers.tensors["o"], right, asked.tile, disturbed)
        rounds.append(powered(found, step, right, asked.steps.causal(step)) if _looks(asked, number) else found)
    return rounds


def _looks(asked: _Asked, number: int) -> bool:
    """Whether this round also says what it could have seen: one of each cell, which costs a second reference."""
    return number == 0 and asked.plant is None


def _buffers(asked: _Asked, sized: inputs.Problem, plant: Plant) -> static.Static:
    """Static buffers. Behind a mask that is too short lie bytes that show every key, unless ``tight``: a stray read
    then changes values, and does not end the process."""
    place = asked.device.place

    def with_room(name: str, tensor: Tensor) -> Tensor:
        if name != "mask" or plant.mask_rows is None or asked.tight:
            return place(name, tensor)
        room = len(sized.prefixes) * sized.rows * (max(sized.prefixes) + sized.rows)
        return place(name, torch.cat([tensor, torch.full((room,), static.VISIBLE, dtype=tensor.dtype)]))[: len(tensor)]

    buffers = static.make(sized, with_room, mask_rows=plant.mask_rows)
    if plant.blank is None:
        return buffers
    return replace(buffers, tensors={**buffers.tensors, plant.blank: torch.empty_like(buffers.tensors[plant.blank])})


def _outside_grid(asked: _Asked, step: inputs.Problem) -> frozenset[int]:
    """Rows of the output that the grid left over from another budget does not reach."""
    longest = asked.plant.longest if asked.plant and asked.plant.longest else step.rows
    covered = -(-longest // asked.row_tile) * asked.row_tile
    return frozenset(row for row in range(len(step.prefixes) * step.rows) if row % step.rows >= covered)


def _disturbed(asked: _Asked, buffers: static.Static, step: inputs.Step) -> frozenset[int]:
    """Rows that the planted fault makes wrong in this replay."""
    if asked.plant is None:
        return frozenset()
    if asked.plant.leave == ("kv_indices",):
        return frozenset(range(len(step.problem.prefixes) * step.problem.rows))
    return static.misread_rows(buffers, step) | _outside_grid(asked, step.problem)
