"""Where a cell lies on the axes of the matrix, and the words for it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from report.load import LoadedCell, LoadedRun
from repro.model import Coordinates

Axis: TypeAlias = Literal["graph", "nvls"]

_GRAPH: Mapping[str, str] = {
    "graph": "CUDA graphs",
    "eager": "eager",
    "verify-eager": "graphs for all but decode",
}
_NVLS: Mapping[str, str] = {"nvls": "NVLS requested", "nonvls": "without NVLS"}
_SHAPE: Mapping[str, str] = {"none": "no speculation", "chain": "flat chain"}
_AXES = frozenset({"graph", "nvls"})
_ID = re.compile(
    r"(?P<head>[^-]+-(?P<arm>ar|[bcn](?P<budget>\d+)(?:t\d+)?)-)(?P<graph>graph|eager|verify-eager)-"
    r"(?P<nvls>nvls|nonvls)(?P<rest>\+.*)?"
)


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Setting:
    """All that a cell is run with, its budget and top-k apart. An option in ``variant`` that has the name of an axis
    says what is known of it: it takes the place of the coordinate."""

    tier: str
    engine_source: str
    shape: str
    graph: str
    nvls: str
    variant: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, at: Coordinates) -> "Setting":
        return cls(
            tier=at.tier,
            engine_source=at.engine_source,
            shape=at.shape,
            graph=at.graph,
            nvls=at.nvls,
            variant=tuple(sorted(at.variant.items())),
        )

    def known(self, axis: Axis) -> str | None:
        """The value on the axis; None if the run does not state it."""
        if axis in dict(self.variant):
            return None
        return self.graph if axis == "graph" else self.nvls

    def with_axis(self, axis: Axis, value: str) -> "Setting":
        return replace(self, graph=value) if axis == "graph" else replace(self, nvls=value)

    @property
    def words(self) -> str:
        """Such as `CUDA graphs, NVLS requested`."""
        graph, nvls = self.known("graph"), self.known("nvls")
        said = [
            *([_SHAPE[self.shape]] if self.shape in _SHAPE else []),
            _GRAPH[graph] if graph is not None else "graph mode not stated",
            _NVLS[nvls] if nvls is not None else "NVLS not stated",
            *(f"{option}={value}" for option, value in self.variant if option not in {"graph", "nvls"}),
        ]
        return ", ".join(said)


@dataclass(frozen=True, kw_only=True, slots=True)
class Spelled:
    """What a cell id says; ``budget`` 0 is no speculation."""

    head: str
    arm: str
    budget: int
    graph: str
    nvls: str
    rest: str

    def with_axis(self, axis: Axis, value: str) -> str:
        """The id of the same cell elsewhere on an axis."""
        graph, nvls = (value, self.nvls) if axis == "graph" else (self.graph, value)
        return f"{self.head}{graph}-{nvls}{self.rest}"


def spelled(cell: str) -> Spelled | None:
    """None for an id that is not spelled as ids are."""
    found = _ID.fullmatch(cell)
    if found is None:
        return None
    return Spelled(
        head=found["head"],
        arm=found["arm"],
        budget=int(found["budget"] or 0),
        graph=found["graph"],
        nvls=found["nvls"],
        rest=found["rest"] or "",
    )


def graph_words(mode: str) -> str:
    return _GRAPH[mode]


def nvls_words(state: str) -> str:
    return _NVLS[state]


def machine(run: LoadedRun) -> str:
    """The architecture that a run was planned for; the target's name if there is no plan to say it."""
    return run.plan.architecture if run.plan is not None else run.run.target


def partner(run: LoadedRun, cell: LoadedCell, axis: Axis, value: str) -> LoadedCell | None:
    """The cell of the run that differs from this one on one axis alone."""
    wanted = Setting.of(cell.coordinates).with_axis(axis, value)
    here = (cell.coordinates.budget, cell.coordinates.topk)
    return next(
        (
            other
            for other in run.cells
            if (other.coordinates.budget, other.coordinates.topk) == here and Setting.of(other.coordinates) == wanted
        ),
        None,
    )


def selection(cell: LoadedCell, axis: Axis | None = None, value: str = "") -> str | None:
    """What to give to `--select` for a cell, or for the one at another place of an axis: a glob where a coordinate is
    not stated. None if the id is not spelled as ids are and the axis is asked for."""
    here = spelled(cell.id)
    if here is None:
        return cell.id if axis is None else None
    setting = Setting.of(cell.coordinates)
    if not _AXES & set(dict(setting.variant)):
        return here.with_axis(axis, value) if axis is not None else cell.id
    at: dict[Axis, str] = {"graph": setting.known("graph") or "*", "nvls": setting.known("nvls") or "*"}
    if axis is not None:
        at[axis] = value
    open_topk = cell.coordinates.shape == "tree" and cell.coordinates.topk is None
    return f"{here.head[:-1]}{'*' if open_topk else ''}-{at['graph']}-{at['nvls']}"


def selected(names: Iterable[str | None]) -> str:
    """The options that select cells, each once."""
    chosen = dict.fromkeys(name for name in names if name is not None)
    return " ".join(f"--select '{name}'" if "*" in name else f"--select {name}" for name in chosen)


def listed(words: Iterable[str]) -> str:
    """`8`, `8 and 12`, `8, 12 and 16`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def budgets(cells: Iterable[LoadedCell]) -> str:
    """`budget 16`, `budgets 12 and 16`, `no speculation`."""
    found = sorted({cell.coordinates.budget for cell in cells})
    if found == [0]:
        return "no speculation"
    return f"budget{'s' if len(found) > 1 else ''} {listed('0 (no speculation)' if b == 0 else str(b) for b in found)}"
