"""Which kernel rows stand beside the cells of a server: only those of the same architecture and budget, asked of the
versions of SGLang and Triton that the server ran. All others stand by themselves, with the reason."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from report.kernels import CHECKS, Code, Kernels, budgets_in, code_of, code_words, codes_of, counted, tally
from report.load import LoadedAttempt, LoadedCell, LoadedRun
from repro.kernels.comparisons import Table
from repro.model.kernels import KernelResult


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """The versions that launches of a cell ran; ``triton`` None: not recorded. ``engine_source`` names the code."""

    sglang: str
    triton: str | None
    engine_source: str


def server_of(attempt: LoadedAttempt) -> Server | None:
    """What ran; None if the engine is none, or two records of the launch name different versions of it."""
    engine, packages = attempt.result.engine, attempt.result.environment.packages
    if engine.name != "sglang" or packages.get("sglang", engine.version) != engine.version:
        return None
    return Server(sglang=engine.version, triton=packages.get("triton"), engine_source=engine.source)


def servers_of(run: LoadedRun, cell: LoadedCell | None = None) -> tuple[Server, ...]:
    """Each server once that launches of the run, or of one of its cells, ran."""
    cells = (cell,) if cell is not None else run.cells
    found = {server for one in cells for attempt in one.attempts if (server := server_of(attempt)) is not None}
    return tuple(sorted(found, key=lambda one: (one.sglang, one.triton or "", one.engine_source)))


def is_same(server: Server, code: Code) -> bool:
    """Whether rows of a code speak about what a server ran. What depends on no Triton needs none to be equal."""
    sglang, triton = code
    return server.sglang == sglang and (triton is None or server.triton == triton)


def beside_cell(kernels: Kernels, run: LoadedRun, cell: LoadedCell) -> tuple[KernelResult, ...]:
    """The rows that stand beside a cell: every launch of it must have run the code that they are about."""
    if not kernels or not run.about_gpus or run.plan is None or not cell.coordinates.budget or not cell.attempts:
        return ()
    servers = {server_of(attempt) for attempt in cell.attempts}
    return tuple(
        row
        for row in kernels.rows
        if row.cell.architecture in (None, run.plan.architecture)
        and cell.coordinates.budget in budgets_in(row)
        and all(server is not None and is_same(server, code_of(row)) for server in servers)
    )


def beside_table(kernels: Kernels, run: LoadedRun) -> Table:
    """Of each budget that cells of the run have, how the rows beside them came out: those that pass as counts."""
    groups: dict[tuple[int, int], dict[int, KernelResult]] = {}
    for cell in run.cells:
        for row in beside_cell(kernels, run, cell):
            groups.setdefault((cell.coordinates.budget, CHECKS.index(row.check)), {})[id(row)] = row
    return Table(
        title="Kernel checks of the same architecture, budget, SGLang and Triton",
        columns=("budget", "check", "evidence", "came out", "first that did not pass", "code"),
        rows=tuple((str(budget), *_told(tuple(groups[budget, check].values()))) for budget, check in sorted(groups)),
    )


def _told(rows: Sequence[KernelResult]) -> tuple[str, ...]:
    bad = next((row for row in rows if row.state == "fail"), None)
    codes = "; ".join(map(code_words, codes_of(rows)))
    first = f"{bad.cell.id}: {bad.detail}" if bad is not None else ""
    return rows[0].check, rows[0].evidence_class, counted(tally(rows)), first, codes


def beside_line(kernels: Kernels, run: LoadedRun, cell: LoadedCell) -> str:
    """The rows beside a cell in one line; empty if there are none."""
    rows = beside_cell(kernels, run, cell)
    parts = [
        f"{check} ({of[0].evidence_class}) {counted(tally(of))}"
        for check in CHECKS
        if (of := [row for row in rows if row.check == check])
    ]
    return f"Kernel checks of this architecture and budget, no launches: {'; '.join(parts)}." if parts else ""


def notes_of(kernels: Kernels, run: LoadedRun) -> tuple[str, ...]:
    """What must be known of the rows beside a run's cells: that the server may have run other sources."""
    if not beside_table(kernels, run).rows:
        return ()
    patched = sorted({one.engine_source for one in servers_of(run)} - {"stock"})
    if not patched:
        return ()
    said = f"The servers ran engine source {', '.join(patched)}: same versions, and what it changes was not checked."
    return (said,)


def apart_table(kernels: Kernels, runs: Iterable[LoadedRun]) -> Table:
    """Rows that stand beside no cell, by code: how they came out, and why."""
    servers = [(run, server) for run in runs if run.about_gpus for server in servers_of(run)]
    groups: dict[tuple[Code, str, int], list[KernelResult]] = {}
    placed = {id(row) for run in {id(run): run for run, _ in servers}.values() for row in _placed(kernels, run)}
    for row in kernels.rows:
        if id(row) not in placed:
            place = (code_of(row), row.cell.architecture or "any", CHECKS.index(row.check))
            groups.setdefault(place, []).append(row)
    return Table(
        title="Kernel checks that stand beside no cell",
        columns=("code", "architecture", "check", "evidence", "budgets", "came out", "why not beside cells"),
        rows=tuple(
            (
                code_words(code),
                architecture,
                rows[0].check,
                rows[0].evidence_class,
                " ".join(str(budget) for budget in sorted({b for row in rows for b in budgets_in(row)})),
                counted(tally(rows)),
                _why(code, architecture, servers),
            )
            for (code, architecture, _), rows in sorted(groups.items(), key=lambda item: _order(item[0]))
        ),
    )


def _order(place: tuple[Code, str, int]) -> tuple[int, str, str, str]:
    (sglang, triton), architecture, check = place
    return check, sglang, triton or "", architecture


def _placed(kernels: Kernels, run: LoadedRun) -> Iterable[KernelResult]:
    for cell in run.cells:
        yield from beside_cell(kernels, run, cell)


def _why(code: Code, architecture: str, servers: Sequence[tuple[LoadedRun, Server]]) -> str:
    here = [
        (run, server)
        for run, server in servers
        if architecture == "any" or (run.plan is not None and run.plan.architecture == architecture)
    ]
    if not here:
        return "no server ran on this architecture" if architecture != "any" else "no server ran on a GPU"
    same = [(run, server) for run, server in here if is_same(server, code)]
    if same:
        return "no cell of these budgets was run with this code"
    return "; ".join(dict.fromkeys(_differs(run, server, code) for run, server in here))


def _differs(run: LoadedRun, server: Server, code: Code) -> str:
    if server.sglang == code[0] and server.triton is None:
        return f"the Triton of the server on {run.run.target} is not recorded"
    theirs = code_words((server.sglang, server.triton))
    return f"the server on {run.run.target} ran {theirs}"
