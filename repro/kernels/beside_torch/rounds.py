"""Steps of one case, one after the other, in the way that was asked for: eagerly, or captured once and replayed."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import torch

from . import disturb, inputs, static, tiers

Tensor: TypeAlias = Any

EAGER = ("eager", "eager-graph-dtypes")
SAME = ("graph", "replay-same")
REFRESHED = ("replay-refreshed", "long-then-short", "short-then-long")
STALE: Mapping[str, str] = {"stale_mask": "mask", "stale_mask_indptr": "mask_indptr"}
"""Faults of a replay: the buffer that is not refreshed."""


def problem_of(
    budget: int, heads: Sequence[int], batch: int, prefixes: Sequence[int] | None, *, dtype: str, seed: int
) -> inputs.Problem:
    """Sizes of a case. Of several trees the last is smaller than the budget; without ``prefixes`` the last of three or
    more requests is a padded slot. Raises `ContentsError`."""
    query_heads, key_heads, key_dim, value_dim = heads
    if min(batch, budget, *heads, *(prefixes or (1,))) < 1 or query_heads % key_heads:
        raise tiers.ContentsError("sizes must be 1 or more, and query heads a multiple of key heads")
    rows = budget + 1
    smaller = max(2, rows - max(1, budget // 4))
    is_padded = prefixes is None and batch > 2
    chosen = tuple(prefixes) if prefixes is not None else (37, *[130] * (batch - 1 - is_padded))
    nodes = (*[rows] * (len(chosen) - 1), smaller if len(chosen) > 1 else rows)
    return inputs.Problem(
        budget=budget,
        prefixes=(*chosen, static.FILL_PREFIX) if is_padded else chosen,
        nodes=(*nodes, 0) if is_padded else nodes,
        query_heads=query_heads,
        key_heads=key_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        dtype=dtype,
        seed=seed,
    )


class Source:
    """Where steps come from: ``recorded`` is one that is always taken as it is, ``statistics`` what made-up ones match.
    ``problem`` has the sizes of the first one."""

    def __init__(
        self, problem: inputs.Problem, statistics: Mapping[str, Any] | None, recorded: inputs.Step | None
    ) -> None:
        self.problem = problem if recorded is None else recorded.problem
        self._statistics = statistics
        self._recorded = recorded

    @property
    def said(self) -> str:
        if self._recorded is not None:
            return "recorded contents"
        return "synthetic contents" if self._statistics is None else "contents that match statistics"

    @property
    def pool(self) -> int:
        """Slots of the pool that a step brings along."""
        if self._recorded is not None:
            return len(self._recorded.tensors["k_buffer"])
        return 0 if self._statistics is None else int(self._statistics["pool_slots"]) + 1

    def step(self, prefixes: tuple[int, ...], turn: int) -> inputs.Step:
        """That of a round."""
        if self._recorded is not None:
            return self._recorded
        problem = static.with_prefixes(self.problem, prefixes, self.problem.seed + 100 * turn)
        return inputs.build(problem) if self._statistics is None else tiers.matched(problem, self._statistics)

    def earlier_step(self, prefixes: tuple[int, ...]) -> inputs.Step:
        """What the buffers hold at capture: other contents than those of any round."""
        if self._recorded is not None:
            prefixes = self.problem.prefixes
        return inputs.build(static.with_prefixes(self.problem, prefixes, self.problem.seed + 1))


def prefixes_of(mode: str, asked: inputs.Problem, rounds: int) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Prefixes at capture, and at each round. A padded slot keeps its own."""
    longest = max(asked.prefixes)
    chance = random.Random(asked.seed)  # noqa: S311 - sizes, no secret

    def others(low: int, high: int) -> tuple[int, ...]:
        pairs = zip(asked.prefixes, asked.nodes, strict=True)
        return tuple(chance.randint(low, high) if nodes else prefix for prefix, nodes in pairs)

    short = (static.FILL_PREFIX,) * len(asked.prefixes)
    if mode in SAME:
        return asked.prefixes, [asked.prefixes] * rounds
    if mode == "long-then-short":
        return asked.prefixes, [others(1, max(1, longest // 4)) for _ in range(rounds)]
    if mode == "short-then-long":
        return short, [others((longest + 1) // 2, max(1, longest)) for _ in range(rounds)]
    return short, [asked.prefixes, *(others(1, max(1, longest)) for _ in range(rounds - 1))]


class Runner:
    """Runs the rounds of a case in its mode. ``prefixes`` at capture, and then at each round."""

    def __init__(
        self, module: Any, mode: str, source: Source, device: str, prefixes: Sequence[tuple[int, ...]]
    ) -> None:
        self._module = module
        self._mode = mode
        self._source = source
        self._device = device
        if mode in EAGER:
            return
        longest = max(map(max, (source.problem.prefixes, *prefixes)))
        sizes = replace(source.problem, prefixes=(longest,) * len(source.problem.prefixes))
        self._buffers = static.make(sizes, lambda _, tensor: tensor.to(device), pool=source.pool)
        self._buffers.refresh(source.step(prefixes[0], 0) if mode in SAME else source.earlier_step(prefixes[0]))
        self._replay = captured_launch(module, self._buffers.step(), device)

    def run(self, prefixes: tuple[int, ...], turn: int, plant: str | None) -> tuple[inputs.Step, Tensor]:
        """The step of a round and the kernel's output for it, on the host. ``plant``: the fault that is put in."""
        step = self._source.step(prefixes, 0 if self._mode in SAME else turn)
        output = self._launched(step, plant) if self._mode in EAGER else self._replayed(step, plant)
        return step, output.cpu()

    def _launched(self, step: inputs.Step, plant: str | None) -> Tensor:
        typed = inputs.eager(step) if self._mode == "eager" else step
        given = replace(typed, tensors=_copies(typed, self._device))
        _put_in(given, plant)
        return inputs.launch(self._module, given)

    def _replayed(self, step: inputs.Step, plant: str | None) -> Tensor:
        buffers = self._buffers
        if self._mode in SAME:
            buffers.tensors["o"].fill_(float("nan"))
        else:
            buffers.refresh(step, leave=[name for fault, name in STALE.items() if fault == plant])
        _put_in(replace(buffers.step(), problem=step.problem, trees=step.trees), plant)
        self._replay()
        return buffers.tensors["o"][: len(step.tensors["o"])]


def captured_launch(module: Any, given: inputs.Step, device: str) -> Callable[[], None]:
    """A launch that can be done again: a CUDA graph, or on a CPU the same call with the same tensors."""

    def launch() -> None:
        inputs.launch(module, given)

    if device == "cpu":
        return launch
    launch()  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()

    def replay() -> None:
        graph.replay()
        torch.cuda.synchronize()

    return replay


def _copies(step: inputs.Step, device: str) -> dict[str, Tensor]:
    """On the device; values of latent attention stay a view of the keys' buffer."""
    at = {name: tensor.to(device, copy=True) for name, tensor in step.tensors.items()}
    if step.problem.is_latent:
        at["v_buffer"] = at["k_buffer"][..., : step.problem.value_dim]
    return at


def _put_in(given: inputs.Step, plant: str | None) -> None:
    """Changes the step. Raises `ContentsError` if that would change nothing."""
    if plant is None or plant not in disturb.PLANTED:
        return
    try:
        disturbed = disturb.PLANTED[plant](given)
    except IndexError:  # there is no other request
        disturbed = frozenset()
    if not disturbed:
        raise tiers.ContentsError(f"--plant {plant} changes nothing in this case; give a larger budget or batch")
