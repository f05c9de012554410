"""What one case asks, and what a user selects. Plans are pure: the same selection gives the same cases."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from repro.errors import SpecError
from repro.model.kernels import EvidenceClass, KernelCell, KernelCheck

PINNED_SGLANG = "0.5.23"
"""The release whose kernel is meant where nothing else is asked for."""

BUDGETS = (4, 7, 8, 9, 12, 15, 16, 24, 31, 32)
QUICK_BUDGETS = (8, 9, 16)
ARCHITECTURES = ("sm_90", "sm_100", "sm_103", "sm_120")
QUICK_ARCHITECTURES = ("sm_103", "sm_120")
SHAPES = ("gqa-4-2-128", "gqa-4-2-64", "mha-2-2-192-128", "mla-2-1-576-512")
QUICK_SHAPES = ("gqa-4-2-128",)
"""Few heads: all of them run the same code, and interpreting costs seconds for each dozen."""

Parameter: TypeAlias = str | int | float | bool | tuple[str, ...] | tuple[int, ...] | None

_SHAPE = re.compile(r"(gqa|mha|mla)-([1-9][0-9]{0,2})-([1-9][0-9]{0,2})-([1-9][0-9]{0,3})(?:-([1-9][0-9]{0,3}))?")
_ARCHITECTURE = re.compile(r"sm_([1-9][0-9]{1,2})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """What the user asked for. ``quick``: the small set that CI runs. ``budgets``, ``shapes`` and ``architectures`` are
    None where the user named none: an arm then takes its own default. ``tritons``: folders that hold other versions of
    Triton; ``wheels``: a folder with wheels of SGLang's releases; ``releases``: their versions, None for all of the
    arm's own list; ``sanitizers``: tools of compute-sanitizer that a few cells on a GPU run under."""

    budgets: tuple[int, ...] | None
    shapes: tuple[str, ...] | None
    architectures: tuple[str, ...] | None
    quick: bool
    tritons: tuple[str, ...]
    wheels: str | None
    releases: tuple[str, ...] | None
    sanitizers: tuple[str, ...] = ()

    def some_budgets(self) -> tuple[int, ...]:
        return self.budgets or (QUICK_BUDGETS if self.quick else BUDGETS)

    def some_shapes(self, every: tuple[str, ...] = SHAPES, quick: tuple[str, ...] = QUICK_SHAPES) -> tuple[str, ...]:
        return self.shapes or (quick if self.quick else every)

    def some_architectures(self) -> tuple[str, ...]:
        return self.architectures or (QUICK_ARCHITECTURES if self.quick else ARCHITECTURES)


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One question to one program. ``program`` is a module of `beside_torch`; cases of one ``group`` share a process.
    ``planted`` names a fault that the program puts in and must then catch. ``limit_s`` is for this case alone."""

    check: KernelCheck
    evidence_class: EvidenceClass
    program: str
    group: str
    cell: KernelCell
    planted: str | None
    parameters: Mapping[str, Parameter]
    limit_s: float

    @property
    def key(self) -> str:
        """What tells it from every other case of a run."""
        return "/".join((self.check, self.cell.id, *((self.planted,) if self.planted else ())))


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadShape:
    """Heads and head dimensions: ``gqa-8-2-128`` has 8 query heads, 2 key heads, and 128 for keys and values."""

    query_heads: int
    key_heads: int
    key_dim: int
    value_dim: int


def head_shape(name: str) -> HeadShape:
    """What a shape's name says. Raises `SpecError` for what is no shape."""
    found = _SHAPE.fullmatch(name)
    if found is None:
        raise SpecError(f"{name!r} is no shape; give one such as gqa-64-8-128 or mla-12-1-576-512")
    query_heads, key_heads, key_dim = (int(found[group]) for group in (2, 3, 4))
    if query_heads % key_heads:
        raise SpecError(f"{name}: {query_heads} query heads cannot share {key_heads} key heads; give a multiple")
    return HeadShape(query_heads=query_heads, key_heads=key_heads, key_dim=key_dim, value_dim=int(found[5] or found[4]))


def capability(architecture: str) -> tuple[int, int]:
    """(10, 3) for ``sm_103``. Raises `SpecError` for what is no architecture."""
    found = _ARCHITECTURE.fullmatch(architecture)
    if found is None:
        raise SpecError(f"{architecture!r} is no architecture; give one such as sm_103")
    return divmod(int(found[1]), 10)


def cell(
    *parts: str,
    architecture: str | None = None,
    budget: int | None = None,
    budgets: tuple[int, ...] = (),
    shape: str | None = None,
    batch: int | None = None,
    dtype: str | None = None,
) -> KernelCell:
    """A cell whose id spells what is given, ``parts`` last. Mode and tile are None: the program says them."""
    words = [architecture, f"b{budget}" if budget else None, shape, dtype, f"bs{batch}" if batch else None, *parts]
    return KernelCell(
        id="-".join(word for word in words if word),
        architecture=architecture,
        budget=budget,
        budgets=budgets,
        shape=shape,
        batch=batch,
        mode=None,
        dtype=dtype,
        tile=None,
    )
