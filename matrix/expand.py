"""Spec -> cells: the full matrix, the cells beside it, and the rules that take some out."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from matrix.cell import make_cell
from matrix.selector import matcher
from matrix.spec import Rule, Spec
from repro.errors import SpecError
from repro.model import Cell, Depth, Role

NO_NVSWITCH = Rule(
    match="*-nvls*",
    reason="NVLS needs an NVSwitch, and this machine is declared to have none: NCCL would quietly run as with NVLS off",
    source="NCCL user guide, NCCL_NVLS_ENABLE: NVLink SHARP is available on third-generation NVSwitch systems",
)
SINGLE_RANK = Rule(
    match="*-nvls*+tp1",
    reason="NVLS is an all-reduce over several GPUs; with tensor parallel size 1 there is none",
    source="NCCL user guide, NCCL_NVLS_ENABLE",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class SpecCell:
    """A cell of the spec. ``depth`` is the shallowest depth that runs it; ``why``: for cells beside the matrix."""

    cell: Cell
    role: Role
    depth: Depth
    why: str | None
    excluded: Rule | None
    unsupported: Rule | None


def expand(spec: Spec) -> tuple[SpecCell, ...]:
    """All cells of a spec in the order in which they are run: the matrix, budgets outermost, then the cells beside it.

    Raises SpecError for a duplicate cell, and for a rule that matches nothing.
    """
    excluded = _RuleSet(spec, "exclude", spec.exclude)
    unsupported = _RuleSet(spec, "unsupported", spec.unsupported)
    seen: dict[str, str] = {}
    cells = []
    for cell, role, depth, why, pointer in _candidates(spec):
        if cell.id in seen:
            raise SpecError(f"spec {spec.origin}: {pointer}: duplicate cell {cell.id}, first made by {seen[cell.id]}")
        seen[cell.id] = pointer
        cells.append(
            SpecCell(
                cell=cell,
                role=role,
                depth=depth,
                why=why,
                excluded=excluded.first(cell.id),
                unsupported=unsupported.first(cell.id) or _by_hardware(spec, cell),
            )
        )
    excluded.demand_all_used()
    unsupported.demand_all_used()
    return tuple(cells)


def reference_cell(spec: Spec) -> Cell:
    """The `ar` cell that every output of the spec is compared with."""
    at = spec.reference
    return make_cell("ar", graph=at.graph, nvls=at.nvls, defaults=spec.cell_defaults, tier=spec.tier)


class _RuleSet:
    """Rules by glob, that remember whether they matched."""

    def __init__(self, spec: Spec, name: str, rules: tuple[Rule, ...]) -> None:
        self._where = f"spec {spec.origin}: /{name}"
        self._rules = [(rule, matcher((rule.match,))) for rule in rules]
        self._used = [False] * len(rules)

    def first(self, cell: str) -> Rule | None:
        found = None
        for index, (rule, matches) in enumerate(self._rules):
            if matches(cell):
                self._used[index] = True
                found = found or rule
        return found

    def demand_all_used(self) -> None:
        for index, used in enumerate(self._used):
            if not used:
                raise SpecError(
                    f"{self._where}/{index}/match: {self._rules[index][0].match!r} matches no cell: correct or delete "
                    "the rule (`python -m matrix list` shows the ids)"
                )


def _candidates(spec: Spec) -> Iterator[tuple[Cell, Role, Depth, str | None, str]]:
    defaults = spec.cell_defaults
    for budget, graph, nvls in product(spec.axes.budget, spec.axes.graph, spec.axes.nvls):
        cell = make_cell(budget, graph=graph, nvls=nvls, defaults=defaults, tier=spec.tier)
        yield cell, "cell", "screen", None, "/axes"
    for index, entry in enumerate(spec.include):
        pointer = f"/include/{index}"
        graphs = entry.graph or (spec.defaults.graph,)
        states = entry.nvls or (spec.defaults.nvls,)
        for budget, graph, nvls in product(entry.budget, graphs, states):
            try:
                cell = make_cell(
                    budget,
                    graph=graph,
                    nvls=nvls,
                    defaults=defaults,
                    tier=entry.tier or spec.tier,
                    engine_source=entry.engine_source,
                    variant=entry.variant,
                )
            except SpecError as problem:
                raise SpecError(f"spec {spec.origin}: {pointer}: {problem}") from problem
            yield cell, "extra", entry.depth, entry.why, pointer


def _by_hardware(spec: Spec, cell: Cell) -> Rule | None:
    if cell.coordinates.nvls == "nonvls":
        return None
    if not spec.hardware.nvswitch:
        return NO_NVSWITCH
    return SINGLE_RANK if cell.coordinates.variant.get("tp") == "1" else None
