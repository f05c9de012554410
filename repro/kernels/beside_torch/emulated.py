"""Capture and replay of a verify step in Triton's interpreter: static buffers, frozen launches, refreshed contents.

No CUDA graph is made. What is shown is whether the step keeps the discipline of one: nothing waits for the device while
it is captured, and its replays are right for every later step, though only the buffers' contents are new. A step writes
the drafted keys into the pool, and then runs the release's own launch code.
"""

import os

os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import torch

from . import inputs, loading, static, tolerance
from .comparison import compared
from .guarded import Guarded
from .pointers import Checked, stray
from .protocol import Channel, Fault, Row, measurement
from .recorder import HostSyncError, Recorder

Tensor: TypeAlias = Any

MOMENTS = ((13, 60), (96, 5), (96, 96), (40, 41))
"""Prefixes of the two requests at each replay: shorter and longer than before, the longest of all, and short again. A
padded slot follows them."""
EARLIER_BUDGET = 8
"""What sizes are left over from, where a fault says so."""


def main(request: Mapping[str, Any], channel: Channel) -> None:
    torch.set_num_threads(1)  # the other side shards over processes
    release = loading.find(request["sglang"], Path(request["scratch"]))
    module = loading.load(release)
    channel.subject(release.subject())
    channel.answer(request["cases"], lambda case: ask(module, release.kernel, case))


@dataclass(frozen=True)
class Plant:
    """A fault of a capture and its replays. ``mask_rows`` and ``longest`` are sizes that were left over, ``leave`` the
    buffers that are not refreshed, ``waits`` whether the captured region reads a length from the device. ``kind`` and
    ``tensor`` say how it must show; ``kind`` is None where tiles hide it."""

    tensor: str | None
    kind: Callable[[inputs.Problem, int], str | None]
    mask_rows: int | None = None
    longest: int | None = None
    leave: tuple[str, ...] = ()
    waits: bool = False


NOTHING = Plant(tensor=None, kind=lambda _, __: None)


def ask(module: Any, kernel: str, case: Mapping[str, Any]) -> Row:
    """The row of a planned case, planted or not. Its prefixes are the longest that the buffers are made for."""
    loading.emulate(module, case["cell"]["architecture"])
    asked = inputs.problem(case["cell"], case["parameters"])
    plant = PLANTED[case["planted"]] if case["planted"] else NOTHING
    tile = loading.tile(module, asked.key_dim, asked.value_dim)
    with Guarded() as guarded:
        buffers = static.make(asked, guarded.place, mask_rows=plant.mask_rows)
        capture = _Capture(module, buffers, plant, tile)
        with Checked(guarded, kernel, written={"o"}) as checked:
            row = capture.row()
        row = replace(
            row, measurements=[*row.measurements, measurement("lanes_checked", float(checked.lanes), "lanes")]
        )
    if case["planted"]:
        row = planted_row(plant.kind(asked, int(tile.partition("x")[0])), plant.tensor, capture.disturbed, row)
    return replace(row, cell={"tile": tile})


class _Capture:
    """One captured step and its replays. ``disturbed``: rows that the fault in it makes wrong at the last replay."""

    def __init__(self, module: Any, buffers: static.Static, plant: Plant, tile: str) -> None:
        self.disturbed: frozenset[int] = frozenset()
        self._module = module
        self._buffers = buffers
        self._plant = plant
        self._tile = tile
        self._graph = Recorder()

    def row(self) -> Row:
        """The first replay that is wrong, or what all of them were like."""
        where = "at capture"
        worst: dict[str, float] = {}
        try:
            self._capture()
            for turn, prefixes in enumerate(MOMENTS, 1):
                where = f"replay {turn} of {len(MOMENTS)} (prefixes {prefixes[0]} and {prefixes[1]})"
                row = self._replay(turn, (*prefixes, static.FILL_PREFIX))
                if row.state != "pass":
                    return replace(row, detail=f"{where}: {row.detail}")
                for number in row.measurements:
                    worst[number["name"]] = max(worst.get(number["name"], 0.0), number["value"])
        except HostSyncError as problem:
            return _failed(Fault("host_sync", f"{where}: {problem}"))
        except Exception as error:
            found = stray(error)
            if found is None:
                raise
            said = f"{where}: {found}"
            return _failed(
                Fault("out_of_bounds", said, source=found.source, tensor=found.tensor, element=found.element)
            )
        return self._passed(worst)

    def _capture(self) -> None:
        asked = self._buffers.problem
        first = (static.FILL_PREFIX,) * len(asked.prefixes)
        self._buffers.refresh(inputs.build(static.with_prefixes(asked, first, asked.seed)))
        given = self._buffers.step()
        with self._graph:
            forward(self._module, given, longest=self._plant.longest, waits=self._plant.waits)

    def _replay(self, turn: int, prefixes: tuple[int, ...]) -> Row:
        asked, buffers = self._buffers.problem, self._buffers
        step = inputs.build(static.with_prefixes(asked, prefixes, asked.seed + 100 * turn))
        buffers.refresh(step, leave=self._plant.leave)
        self.disturbed = static.misread_rows(buffers, step) if self._plant.mask_rows is None else frozenset()
        if self._plant.longest is not None:
            self.disturbed |= rows_outside_grid(asked, self._plant.longest, int(self._tile.partition("x")[0]))
        self._graph.replay()
        right = tolerance.expected(step, tolerance.INTERPRETER, int(self._tile.partition("x")[2]))
        total = len(right.output)
        fault = self._outside(step, total)
        return compared(step, buffers.tensors["o"][:total], right, self._tile) if fault is None else _failed(fault)

    def _outside(self, step: inputs.Step, total: int) -> Fault | None:
        """What is wrong beside the output's own rows."""
        at = self._buffers.tensors
        if not bool(at["o"][total:].isnan().all()):
            return Fault("out_of_bounds", f"rows behind the step's {total} are written", tensor="o", row=total)
        drafted = self._buffers.drafted_slots(step)
        for pool, keys in (("k_buffer", "k_extend"), ("v_buffer", "v_extend")):
            differ = (at[pool][drafted] != step.tensors[keys]).flatten(1).any(1)
            if bool(differ.any()):
                slot = int(drafted[differ][0])
                said = f"{int(differ.sum())} drafted keys are not in their slots of {pool}, the first slot is {slot}"
                return Fault("wrong_values", said, tensor=pool, element=slot * at[pool][0].numel())
        return None

    def _passed(self, worst: Mapping[str, float]) -> Row:
        launches, nodes = len(self._graph.launches), len(self._graph.nodes)
        numbers = (
            measurement("max_error", worst["max_error"], "1"),
            measurement("max_error_of_bound", worst["max_error_of_bound"], "bound"),
            measurement("rows_checked", worst["rows_checked"] * len(MOMENTS), "rows"),
            measurement("replays", float(len(MOMENTS)), "replays"),
            measurement("operations_recorded", float(nodes), "operations"),
        )
        said = (
            f"{len(MOMENTS)} replays of {launches} launch and {nodes - launches} other operations; the largest error "
            f"is {worst['max_error_of_bound']:.2f} of its bound"
        )
        return Row(state="pass", detail=said, measurements=numbers)


def forward(module: Any, given: inputs.Step, *, longest: int | None = None, waits: bool = False) -> None:
    """The captured region. ``waits``: it asks the device how many rows a request has."""
    at = given.tensors
    slots = at["out_cache_loc"]
    at["k_buffer"][slots] = at["k_extend"][: len(slots)]
    if not given.problem.is_latent:
        at["v_buffer"][slots] = at["v_extend"][: len(slots)]
    if waits:
        longest = int(at["qo_indptr"].diff().max().item())
    inputs.launch(module, given, longest=longest)


def rows_outside_grid(asked: inputs.Problem, longest: int, row_tile: int) -> frozenset[int]:
    """Rows of the output that no program of a grid for ``longest`` rows a request writes."""
    covered = -(-longest // row_tile) * row_tile
    requests = range(len(asked.prefixes))
    return frozenset(request * asked.rows + row for request in requests for row in range(covered, asked.rows))


def _grid_shows(asked: inputs.Problem, row_tile: int) -> str | None:
    return "rows_not_written" if rows_outside_grid(asked, EARLIER_BUDGET + 1, row_tile) else None


def _always(kind: str) -> Callable[[inputs.Problem, int], str]:
    return lambda _, __: kind


PLANTED: Mapping[str, Plant] = {
    "mask_sized_for_budget_8": Plant("mask", _always("out_of_bounds"), mask_rows=EARLIER_BUDGET + 1),
    "grid_of_budget_8": Plant("o", _grid_shows, longest=EARLIER_BUDGET + 1),
    "stale_mask_indptr": Plant("o", _always("wrong_values"), leave=("mask_indptr",)),
    "stale_mask": Plant("o", _always("wrong_values"), leave=("mask",)),
    "stale_out_cache_loc": Plant("k_buffer", _always("wrong_values"), leave=("out_cache_loc",)),
    "host_sync": Plant(None, _always("host_sync"), waits=True),
}


def _failed(fault: Fault) -> Row:
    return Row(state="fail", reason=fault.kind, detail=fault.detail, faults=(fault,))


def planted_row(kind: str | None, tensor: str | None, disturbed: frozenset[int], seen: Row) -> Row:
    """A pass if the fault showed as it must: in this way and tensor, and only in rows that it disturbs; or nowhere, if
    ``kind`` is None."""
    if kind is None:
        if seen.state == "pass":
            return replace(seen, detail=f"no effect, as expected of this tile: {seen.detail}")
        return replace(seen, state="fail", reason="not_caught", detail=f"no effect was expected: {seen.detail}")
    found = [fault for fault in seen.faults if fault.kind == kind and fault.tensor == tensor]
    if not found:
        said = f"expected {kind}{f' in {tensor}' if tensor else ''}: {seen.detail}"
        return replace(seen, state="fail", reason="not_caught", detail=said)
    named = {fault.row for fault in found if fault.tensor == "o" and fault.row is not None}
    if not disturbed.issuperset(named):
        said = f"caught, but in rows {sorted(named)}, which the fault leaves alone: {seen.detail}"
        return replace(seen, state="fail", reason="not_caught", detail=said)
    return replace(seen, state="pass", reason=None, detail=f"caught: {seen.detail}")
