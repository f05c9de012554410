"""Cells: the coordinates of one point, their spelling as a file-safe id, and the arms that a spec may name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from repro.errors import SpecError
from repro.model import Cell, Coordinates, Graph, Nvls, Shape, Tier

_ARM = re.compile(r"ar|b(?P<tree>[1-9]\d*)(?:t(?P<topk>[1-9]\d*))?|c(?P<chain>[1-9]\d*)|n(?P<ngram>[1-9]\d*)")
_OPTION = re.compile(r"[a-z]+")
_VALUE = re.compile(r"[a-z0-9][a-z0-9.]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """What a budget token such as `b16t8` stands for. ``variant`` is what the token itself adds (`n8`: NGRAM)."""

    budget: int
    topk: int | None
    shape: Shape
    variant: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Defaults:
    """What a cell id leaves out when a cell does not differ from it."""

    architecture: str
    tier: Tier
    engine_source: str


def parse_arm(text: str) -> Arm:
    """`ar`, `b8` or `b8t4` (tree of 8 nodes, top-k 4), `c7` (flat chain of 7), `n8` (NGRAM of the same verify width as
    b8).

    Raises SpecError for anything else.
    """
    found = _ARM.fullmatch(text)
    if found is None:
        raise SpecError(
            f"unknown budget {text!r}: write ar, b<budget>t<top-k> (b16t8), b<budget>, c<length> or n<budget>"
        )
    if text == "ar":
        return Arm(budget=0, topk=None, shape="none", variant={})
    if found["chain"]:
        return Arm(budget=int(found["chain"]), topk=1, shape="chain", variant={})
    if found["ngram"]:
        return Arm(budget=int(found["ngram"]), topk=None, shape="tree", variant={"algorithm": "ngram"})
    return Arm(budget=int(found["tree"]), topk=int(found["topk"]) if found["topk"] else None, shape="tree", variant={})


def spell_arm(coordinates: Coordinates) -> str:
    """The budget token of a cell: the inverse of :func:`parse_arm`."""
    if coordinates.shape == "none":
        return "ar"
    if coordinates.shape == "chain":
        return f"c{coordinates.budget}"
    if _is_ngram(coordinates):
        return f"n{coordinates.budget}"
    return f"b{coordinates.budget}" + (f"t{coordinates.topk}" if coordinates.topk else "")


def _is_ngram(coordinates: Coordinates) -> bool:
    """Whether the token `n8` says all of shape, top-k and algorithm."""
    algorithm = coordinates.variant.get("algorithm")
    return (coordinates.shape, coordinates.topk, algorithm) == ("tree", None, "ngram")


def cell_id(coordinates: Coordinates, defaults: Defaults) -> str:
    """File-safe id, a function of the coordinates and the spec's defaults alone: `sm_103-b16t8-graph-nonvls+tp1`.

    Raises SpecError if a variant's option or value cannot be spelled.
    """
    parts = [f"{defaults.architecture}-{spell_arm(coordinates)}-{coordinates.graph}-{coordinates.nvls}"]
    if coordinates.tier != defaults.tier:
        parts.append(coordinates.tier)
    if coordinates.engine_source != defaults.engine_source:
        parts.append(coordinates.engine_source)
    for option, value in sorted(coordinates.variant.items()):
        if not _OPTION.fullmatch(option) or not _VALUE.fullmatch(value):
            raise SpecError(
                f"variant {option}={value!r} cannot be part of a cell id: use lower-case letters for the option, and "
                "letters, digits and dots for the value"
            )
        if option != "algorithm" or not _is_ngram(coordinates):
            parts.append(f"{option}{value}" if value[0].isdigit() else f"{option}-{value}")
    return "+".join(parts)


def make_cell(
    arm: str,
    *,
    graph: Graph,
    nvls: Nvls,
    defaults: Defaults,
    tier: Tier | None = None,
    engine_source: str | None = None,
    variant: Mapping[str, str] | None = None,
) -> Cell:
    """The cell of a budget token at a graph mode and an NVLS state; what is not given is the spec's default."""
    parsed = parse_arm(arm)
    coordinates = Coordinates(
        budget=parsed.budget,
        topk=parsed.topk,
        shape=parsed.shape,
        graph=graph,
        nvls=nvls,
        tier=tier or defaults.tier,
        engine_source=engine_source or defaults.engine_source,
        variant=dict(sorted({**parsed.variant, **(variant or {})}.items())),
    )
    return Cell(id=cell_id(coordinates, defaults), coordinates=coordinates)
