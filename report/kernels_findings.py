"""Failing kernel rows -> findings, one for each cause; and what stands beside the findings about a server."""

import contextlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from report.findings import finding_id
from report.kernels import SURVEYS, Kernels, budgets_in, budgets_of, code_of, code_words, codes_of, counted, tally
from report.kernels_beside import is_same, server_of
from report.kernels_words import FAILURE, budget_anchor
from report.load import LoadedCell, LoadedRun
from report.words import spoken
from repro.causes import Severity, unlocated
from repro.errors import SpecError
from repro.escape import one_line
from repro.kernels.reproducer import asked_by_id
from repro.kernels.statements import OUTCOMES, WORKS, about_budget, arrangement_words
from repro.model import Finding
from repro.model.kernels import EvidenceClass, KernelResult

SEVERITY: Mapping[EvidenceClass, Severity] = {
    "gpu": "high",
    "interpreted": "medium",
    "compiled": "medium",
    "emulated": "low",
}
"""The nearer to the real thing, the more it weighs."""
_ALONE = ("kernel-reference", "kernel-gpu")
_MOST_CELLS, _MOST_LINES, _LONGEST = 60, 8, 600


@dataclass(frozen=True, kw_only=True, slots=True)
class Near:
    """A line for a finding about a server, and the places on the page that it links to, with their names."""

    text: str
    links: tuple[tuple[str, str], ...]


def kernel_findings(kernels: Kernels) -> tuple[tuple[Finding, int, int], ...]:
    """One for each cause: what was seen, in which line, on which tensor; of releases, in which arrangement. With the k
    of n decided cases that rank it."""
    directories = {id(row): arm.directory for arm in kernels.arms for row in arm.rows}
    groups: dict[tuple[str, ...], list[KernelResult]] = {}
    for row in kernels.rows:
        if row.state == "fail":
            groups.setdefault(_cause(row), []).append(row)
    return tuple(_finding(cause, rows, kernels, directories) for cause, rows in sorted(groups.items()))


def _cause(row: KernelResult) -> tuple[str, ...]:
    """What makes two failing rows one: never the budget, the shape or the version, which say where it shows."""
    fault = row.faults[0] if row.faults else None
    where = arrangement_words(row) if row.check in SURVEYS else ""
    seen = (fault.kind, fault.source or "", fault.tensor or "") if fault is not None and not where else ("", "", "")
    return row.check, row.reason or "failed", where, *seen


def _finding(
    cause: tuple[str, ...], rows: Sequence[KernelResult], kernels: Kernels, directories: Mapping[int, str]
) -> tuple[Finding, int, int]:
    check, reason, where, _, source, tensor = cause
    kind = f"{check.replace('-', '_')}_{reason}"
    asked = [row for row in kernels.rows if row.check == check and (not where or arrangement_words(row) == where)]
    found = tally(row for row in asked if code_of(row) in {code_of(bad) for bad in rows})
    place = ", ".join(part for part in (source, tensor) if part)
    first = rows[0]
    what = f"{where}: {OUTCOMES.get(reason, spoken(reason))}" if where else spoken(reason) + (place and f" at {place}")
    statement = (
        f"Kernel check {check.removeprefix('kernel-')} ({first.evidence_class}), {_codes(rows)}: {what}: "
        f"{len(rows)} of {found.decided} decided cases, {_budgets(budgets_of(rows))}"
        f"{_architectures(rows)}. It means that {FAILURE[first.evidence_class]}, and not that a launch fails."
    )
    finding = Finding(
        id=finding_id(
            "kernels",
            kind,
            unlocated(kind),
            planted=False,
            tier="kernel",
            engine_source="kernel",
            subject="/".join(cause),
        ),
        statement=one_line(statement),
        kind=kind,
        severity=SEVERITY[first.evidence_class],
        planted=False,
        cells=tuple(dict.fromkeys(row.cell.id for row in rows))[:_MOST_CELLS],
        scope=tuple(_scope(rows, directories)),
        not_tested=(),
        evidence=(),
        hypotheses=(),
        settle=None,
        bundle=_reproducer(rows),
        next=_command(rows),
    )
    return finding, len(rows), found.decided


def _codes(rows: Sequence[KernelResult]) -> str:
    codes = codes_of(rows)
    if all(triton is None for _, triton in codes):
        return f"sglang {', '.join(dict.fromkeys(sglang for sglang, _ in codes))}"
    return "; ".join(map(code_words, codes))


def _architectures(rows: Sequence[KernelResult]) -> str:
    found = sorted({row.cell.architecture for row in rows if row.cell.architecture is not None})
    return f", {', '.join(found)}" if found else ""


def _budgets(budgets: Sequence[int]) -> str:
    return f"budget{'s' if len(budgets) > 1 else ''} {', '.join(map(str, budgets)) or 'not stated'}"


def _scope(rows: Sequence[KernelResult], directories: Mapping[int, str]) -> Iterable[str]:
    """Cases one by one, and the file that has the rest: a row has no attempt that could be linked to."""
    for row in rows[:_MOST_LINES]:
        yield one_line(f"{directories[id(row)]}/rows.jsonl, {row.cell.id}: {row.detail}", _LONGEST)
    if len(rows) > _MOST_LINES:
        yield f"and {len(rows) - _MOST_LINES} more cases in the same files"


def _command(rows: Sequence[KernelResult]) -> str:
    """Asks the same again, and nothing else."""
    words = ["--arm", rows[0].check.removeprefix("kernel-"), "--budget", *map(str, budgets_of(rows))]
    shapes = sorted({row.cell.shape for row in rows if row.cell.shape is not None})
    architectures = sorted({row.cell.architecture for row in rows if row.cell.architecture is not None})
    words += ["--shape", *shapes] if shapes else []
    words += ["--architecture", *architectures] if architectures else []
    if rows[0].check in SURVEYS:
        words += ["--release", *dict.fromkeys(sglang for sglang, _ in codes_of(rows))]
    return one_line(f"nox -s kernels -- {' '.join(map(shlex.quote, words))}")


def _reproducer(rows: Sequence[KernelResult]) -> str | None:
    """The command that writes one case as a file which runs alone; None where no such file can be made."""
    for row in rows:
        if row.check in _ALONE:
            with contextlib.suppress(SpecError):
                asked_by_id(row.cell.id)
                return f"python -m repro kernels --reproducer verify_attention_repro.py --cell {row.cell.id}"
    return None


def near_findings(findings: Iterable[Finding], runs: Sequence[LoadedRun], kernels: Kernels) -> Mapping[str, Near]:
    """Finding id -> what kernel rows there are of the budgets that fail on that architecture. It supports or weakens
    explanations, and is no verdict."""
    found = {finding.id: _near(finding, runs, kernels) for finding in findings if kernels}
    return {name: near for name, near in found.items() if near is not None}


def _near(finding: Finding, runs: Sequence[LoadedRun], kernels: Kernels) -> Near | None:
    if finding.planted or finding.severity == "info":
        return None
    for run in runs:
        cells = [cell for cell in run.cells if cell.id in finding.cells and cell.summary.k and cell.coordinates.budget]
        if cells and run.plan is not None and run.about_gpus:
            near = _of_cells(kernels, run.plan.architecture, cells)
            if near is not None:
                return near
    return None


def _of_cells(kernels: Kernels, architecture: str, cells: Sequence[LoadedCell]) -> Near | None:
    """The rows of the budgets that fail; what ran the code of those cells, and what did not, apart."""
    rows = [row for row in kernels.rows if row.cell.architecture == architecture]
    budgets = sorted({cell.coordinates.budget for cell in cells} & set(budgets_of(rows)))
    if not budgets:
        return None
    own: list[str] = []
    other: list[str] = []
    for budget in budgets:
        servers = {
            server_of(attempt) for cell in cells for attempt in cell.attempts if cell.coordinates.budget == budget
        }
        for code in codes_of(row for row in rows if budget in budgets_in(row)):
            same = all(server is not None and is_same(server, code) for server in servers)
            of = [row for row in rows if code_of(row) == code]
            told = f"budget {budget}, {code_words(code)}: {_told(of, architecture, budget)}"
            (own if same else other).append(told)
    parts = [f"Of the code that the server ran: {'; '.join(own)}."] if own else []
    parts += [f"Of other code, which stands beside no such cell: {'; '.join(other)}."] if other else []
    text = f"Kernel checks of the same budgets on {architecture}, which decide nothing here. {' '.join(parts)}"
    links = tuple((budget_anchor(architecture, budget), f"budget {budget} on {architecture}") for budget in budgets)
    return Near(text=one_line(text, 1500), links=links)


def _told(rows: Sequence[KernelResult], architecture: str, budget: int) -> str:
    """How the cases came out, and whether compiled code sets this budget apart from the one that works."""
    parts = []
    for name in dict.fromkeys(row.evidence_class for row in rows):
        of = [row for row in rows if row.evidence_class == name and budget in budgets_in(row)]
        if of:
            parts.append(f"{name} {counted(tally(of))}")
    senses = {one.sense for one in about_budget(rows, architecture, budget) if one.evidence_class == "compiled"}
    if "apart" in senses:
        parts.append(f"compiled code or grid differs from budget {WORKS} in part")
    elif "alike" in senses:
        parts.append(f"compiled code and grid are those of budget {WORKS}")
    return ", ".join(parts)
