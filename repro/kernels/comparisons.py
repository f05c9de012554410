"""Compiled code and buffers beside each other: architectures, modes, Tritons, releases. Pure, from rows only."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from repro.kernels.statements import Statement, arrangement_words, version_key
from repro.model.kernels import CompiledVariant, KernelResult


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """``columns`` name the cells of each of ``rows``."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Code:
    """A compiled row that counts, with what it compiled."""

    row: KernelResult
    made: CompiledVariant

    @property
    def compiler(self) -> str:
        return f"sglang {self.row.subject.sglang}, Triton {self.row.subject.triton}"

    @property
    def architecture(self) -> str:
        return str(self.row.cell.architecture)


def codes(results: Iterable[KernelResult]) -> list[Code]:
    """Rows of the compiler arm that were not planted. Those of a GPU say what ran there, of one cell each."""
    compiled = [row for row in results if row.check == "kernel-compile" and row.planted is None]
    return [
        Code(row, row.compiled) for row in compiled if row.compiled is not None and row.cell.architecture is not None
    ]


def compiled_table(results: Iterable[KernelResult]) -> Table:
    """One row for each different machine code, with the launches that run it."""
    groups: dict[tuple[object, ...], list[Code]] = defaultdict(list)
    for code in codes(results):
        cell = code.row.cell
        groups[code.compiler, str(cell.shape), code.architecture, str(cell.mode), code.made.cubin_sha256].append(code)
    return Table(
        title="Compiled code",
        columns=(
            "compiler", "shape", "target", "mode", "batch", "budgets", "tile", "warps", "stages", "registers",
            "stack B", "shared B", "limit B", "tensor memory", "matrix instructions", "query tiles", "cubin",
        ),
        rows=tuple(_code_row(group) for group in groups.values()),
    )  # fmt: skip


def _code_row(group: Sequence[Code]) -> tuple[str, ...]:
    first, cell = group[0].made, group[0].row.cell
    budgets = sorted({budget for code in group for budget in code.row.cell.budgets})
    return (
        group[0].compiler,
        str(cell.shape),
        first.ptx_target,
        str(cell.mode),
        " ".join(str(batch) for batch in sorted({code.row.cell.batch or 0 for code in group})),
        " ".join(map(str, budgets)),
        str(cell.tile),
        str(first.warps),
        str(first.stages),
        str(first.registers),
        str(first.stack_bytes),
        str(first.shared_bytes),
        str(first.shared_limit_bytes),
        str(first.tensor_memory_columns),
        first.mma,
        _tiles(first),
        first.cubin_sha256[:12],
    )


def _tiles(made: CompiledVariant) -> str:
    """``1; 2 from budget 16``: the number of programs over the query rows, and where it grows."""
    said: list[str] = []
    last = 0
    for budget, count in sorted(made.query_tiles):
        if count != last:
            said.append(f"{count} from budget {budget}" if said else str(count))
        last = count
    return "; ".join(said)


def about_code(results: Iterable[KernelResult]) -> tuple[Statement, ...]:
    """Sentences that hold for no one budget: where tiles end, what modes and architectures have in common."""
    groups: dict[tuple[str, str], list[Code]] = defaultdict(list)
    for code in codes(results):
        groups[code.compiler, str(code.row.cell.shape)].append(code)
    statements = [
        statement
        for (_, shape), group in groups.items()
        for statement in (*_boundaries(shape, group), *_modes(shape, group), *_architectures(shape, group))
    ]
    return (*statements, *_compilers([code for group in groups.values() for code in group]))


def _compilers(group: Sequence[Code]) -> Iterable[Statement]:
    """The same launch by more than one Triton: how far their code for graphs differs."""
    launches: dict[tuple[str, str, str], list[Code]] = defaultdict(list)
    for code in group:
        if code.row.cell.mode == "graph":
            launches[code.row.subject.sglang, code.architecture, str(code.row.cell.shape)].append(code)
    for (sglang, architecture, shape), found in launches.items():
        tritons = sorted({str(code.row.subject.triton) for code in found}, key=version_key)
        if len(tritons) > 1:
            parts = [_registers("graph", [code for code in found if code.row.subject.triton == one]) for one in tritons]
            said = ", ".join(
                f"Triton {one} {part.removeprefix('graph ')}" for one, part in zip(tritons, parts, strict=True)
            )
            text = f"sglang {sglang} on {architecture}, for {shape} in graphs: {said}"
            yield _statement("alike" if len(set(parts)) == 1 else "apart", found, text, architecture)


def _boundaries(shape: str, group: Sequence[Code]) -> Iterable[Statement]:
    """At which number of query rows the grid gains its second tile, where the rows show it."""
    ends: dict[int, list[Code]] = defaultdict(list)
    for code in group:
        rows = str(code.row.cell.tile).partition("x")[0]
        tile = int(rows) if rows.isdecimal() and len(rows) < 10 else 0  # a file may say anything
        if tile and all(count == -(-(budget + 1) // tile) for budget, count in code.made.query_tiles):
            ends[tile].append(code)
    parts = [f"at {tile + 1} on {_names(found)}" for tile, found in sorted(ends.items())]
    if parts:
        highest = max((budget for code in group for budget, _ in code.made.query_tiles), default=0) + 1
        text = f"for {shape} the grid gains a second tile of query rows {', '.join(parts)} (seen up to {highest} rows)"
        yield _statement("apart" if len(parts) > 1 else "alike", group, text, None)


def _modes(shape: str, group: Sequence[Code]) -> Iterable[Statement]:
    """Whether a graph runs the code of an eager step."""
    for architecture in dict.fromkeys(code.architecture for code in group):
        here = [code for code in group if code.architecture == architecture]
        graph = {code.made.cubin_sha256 for code in here if code.row.cell.mode == "graph"}
        eager = {code.made.cubin_sha256 for code in here if code.row.cell.mode == "eager"}
        if not graph or not eager:
            continue
        shared = bool(graph & eager)
        words = (
            "the same compiled code" if shared else "other compiled code: that eager works does not clear the graph's"
        )
        registers = " and ".join(_registers(mode, here) for mode in ("graph", "eager"))
        text = f"on {architecture}, for {shape}, eager steps and graphs run {words} ({registers})"
        yield _statement("alike" if shared else "apart", here, text, architecture)


def _registers(mode: str, group: Sequence[Code]) -> str:
    numbers = sorted({(code.made.registers, code.made.stack_bytes) for code in group if code.row.cell.mode == mode})
    return f"{mode} " + " or ".join(f"{registers} registers and {stack} B of stack" for registers, stack in numbers)


def _architectures(shape: str, group: Sequence[Code]) -> Iterable[Statement]:
    """Architectures whose PTX is the same in every launch but for the target that it names; and how each multiplies."""
    ptx: dict[str, dict[tuple[object, ...], str]] = defaultdict(dict)
    for code in group:
        cell = code.row.cell
        ptx[code.architecture][cell.mode, cell.batch, cell.dtype, cell.budgets] = code.made.ptx_sha256
    names = sorted(ptx, key=lambda name: int(name.removeprefix("sm_")))
    for index, first in enumerate(names):
        for second in names[index + 1 :]:
            here = [code for code in group if code.architecture in {first, second}]
            if ptx[first] == ptx[second]:
                text = f"for {shape}, PTX of {first} and {second} differs only in the target that it names"
                yield _statement("alike", here, text, None)
    families: dict[tuple[str, bool], list[Code]] = defaultdict(list)
    for code in group:
        families[code.made.mma, bool(code.made.tensor_memory_columns)].append(code)
    parts = [
        f"{_names(found)} by {mma}{' in tensor memory' if memory else ''}"
        for (mma, memory), found in sorted(families.items(), key=_first_architecture)
    ]
    yield _statement(
        "apart" if len(parts) > 1 else "alike",
        group,
        f"for {shape}, matrices are multiplied on {'; '.join(parts)}",
        None,
    )


def buffers_table(results: Iterable[KernelResult]) -> Table:
    """One row for each release and arrangement: formulas of the mask, and with which budgets it goes wrong how."""
    groups: dict[tuple[str, str], list[KernelResult]] = defaultdict(list)
    for row in results:
        if row.check == "kernel-buffers" and row.planted is None:
            groups[row.subject.sglang, arrangement_words(row)].append(row)
    return Table(
        title="Buffers of graph capture, and what the verify of a tree needs",
        columns=("sglang", "arrangement", "mask allocated", "mask needed", "query rows stated", "outcome"),
        rows=tuple(
            _buffer_row(version, name, groups[version, name])
            for version, name in sorted(groups, key=lambda key: (version_key(key[0]), key[1]))
        ),
    )


def _buffer_row(version: str, arrangement: str, rows: Sequence[KernelResult]) -> tuple[str, ...]:
    outcomes: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        outcomes[row.reason or "enough"].append(str(row.cell.budget))
    known = {buffer.buffer: buffer for row in rows for buffer in row.buffers}
    mask, stated = known.get("tree_mask") or known.get("tree_mask_bytes"), known.get("stated_query_rows")
    return (
        version,
        arrangement,
        mask.allocated_formula if mask else "not executed",
        mask.needed_formula if mask else "not executed",
        stated.allocated_formula if stated else "not executed",
        "; ".join(f"{outcome.replace('_', ' ')}: budget {' '.join(budgets)}" for outcome, budgets in outcomes.items()),
    )


def _first_architecture(family: tuple[object, Sequence[Code]]) -> tuple[int, str]:
    return min((len(code.architecture), code.architecture) for code in family[1])


def _names(group: Sequence[Code]) -> str:
    return ", ".join(sorted({code.architecture for code in group}, key=lambda name: int(name.removeprefix("sm_"))))


def _statement(sense: str, group: Sequence[Code], text: str, architecture: str | None) -> Statement:
    rows = [code.row for code in group]
    return Statement(
        sense="alike" if sense == "alike" else "apart",
        evidence_class="compiled",
        sglang=tuple(dict.fromkeys(row.subject.sglang for row in rows)),
        triton=rows[0].subject.triton if len({row.subject.triton for row in rows}) == 1 else None,
        architecture=architecture,
        text=text,
        cells=tuple(dict.fromkeys(row.cell.id for row in rows)),
    )
