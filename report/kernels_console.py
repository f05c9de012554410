"""The kernel checks for a terminal: how the arms stand, what they say of each budget in question. Plain text."""

from collections.abc import Iterable, Sequence

from tabulate import tabulate

from report.document import Document
from report.kernels_beside import beside_table
from report.kernels_told import told
from report.kernels_words import BudgetWords
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
    lines = [line for name in found.first for line in _architecture(name, found.of(name))]
    if lines:
        parts.append("\n".join((one_line(found.claim, 600), *lines)))
    parts.append("Compiled code, buffers by release, all budgets and what stands beside no cell: findings.html.")
    return "\n\n".join(parts)


def _architecture(name: str, budgets: Sequence[BudgetWords]) -> Iterable[str]:
    """Each budget, and last what is shown of none of them."""
    for one in budgets:
        yield f"  budget {one.budget} on {name}"
        yield from (f"    {one_line(line, _LONG)}" for line in one.lines)
    for line in dict.fromkeys(line for one in budgets for line in one.unknown):
        yield f"  not shown on {name}: {one_line(line, _LONG)}"


def _table(table: Table) -> str:
    plain = [[one_line(text, _WIDE) for text in row] for row in table.rows]
    return f"{table.title}\n" + tabulate(plain, headers=table.columns, tablefmt="simple", disable_numparse=True)
