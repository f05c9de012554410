"""The kernel checks for a terminal: how the arms stand, what they say of each budget in question. Plain text."""

from collections.abc import Iterable

from tabulate import tabulate

from report.document import Document
from report.kernels_beside import beside_table
from report.kernels_told import told
from repro.escape import one_line
from repro.kernels.comparisons import Table

_WIDE, _LONG = 60, 400


def kernel_text(document: Document) -> str:
    """The section, without a final newline; empty if there are no kernel checks."""
    if not document.kernels:
        return ""
    found = told(document.kernels, document.shown)
    parts = ["\n".join(one_line(line, _LONG) for line in found.overview), _table(found.arms), _table(found.grid)]
    parts += [_table(table) for run in document.shown if (table := beside_table(document.kernels, run)).rows]
    parts += [_table(found.bad)] if found.bad.rows else []
    lines = [line for name in found.first for one in found.of(name) for line in _budget(one.budget, name, one.lines)]
    if lines:
        parts.append("\n".join((one_line(found.claim, 600), *lines)))
    parts.append("Compiled code, buffers by release and all budgets stand in findings.html.")
    return "\n\n".join(parts)


def _budget(budget: int, architecture: str | None, lines: Iterable[str]) -> Iterable[str]:
    yield f"  budget {budget} on {architecture}"
    yield from (f"    {one_line(line, _LONG)}" for line in lines)


def _table(table: Table) -> str:
    plain = [[one_line(text, _WIDE) for text in row] for row in table.rows]
    return f"{table.title}\n" + tabulate(plain, headers=table.columns, tablefmt="simple", disable_numparse=True)
