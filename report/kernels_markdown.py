"""The kernel checks as Markdown: the arms and each budget in lines, and tables, of which rows may be left out."""

from report.document import Document
from report.kernels_beside import beside_table, notes_of
from report.kernels_told import Told, told
from report.kernels_words import NO_LAUNCH, NOT_MEASURED, BudgetWords
from report.load import LoadedRun
from report.markdown_words import block, rows, said
from report.shortened import Part
from repro.kernels.comparisons import Table

_LINE, _BUDGET, _ROW = "kernels", "kernel_budget", "kernel_row"
_LONGEST_LINE, _LONGEST_CELL = 900, 300


def kernel_answers(document: Document) -> tuple[Part, ...]:
    """The first lines about them."""
    if not document.kernels:
        return ()
    first, *others = told(document.kernels, document.shown).overview
    lines = [f"- {said(first, _LONGEST_LINE)}", *(f"  - {said(line, _LONGEST_LINE)}" for line in others)]
    return (Part(text="\n".join(lines), kind="answers"),)


def beside_parts(document: Document, run: LoadedRun) -> tuple[Part, ...]:
    """The rows beside the cells of a run, with what they are worth; empty lists where there are none."""
    table = beside_table(document.kernels, run)
    notes = [said(line) for line in (f"{NO_LAUNCH} {NOT_MEASURED}", *notes_of(document.kernels, run))]
    return (rows(notes if table.rows else (), _LINE, run.run.target), _table(table, _LINE, run.run.target))


def kernel_part(document: Document) -> tuple[Part, ...]:
    """The section about them; nothing if there are no kernel checks."""
    if not document.kernels:
        return ()
    found = told(document.kernels, document.shown)
    older = [[said(one.run_id), one.created_at, said(one.arms)] for one in found.older]
    left = [said(f"{found.unlisted} more rows that did not pass are in rows.jsonl.")] if found.unlisted else []
    sections = (
        ("", (_table(found.arms, _LINE), _table(found.classes, _LINE))),
        ("### What they say of each budget", (_claim(found), *_budgets(found))),
        ("### Kernel checks by budget", (_table(found.grid, _ROW),)),
        ("### Rows that did not pass", (_table(found.bad, _ROW), rows(left, _ROW))),
        *((f"### {said(table.title)}", (_table(table, _ROW),)) for table in found.code),
        (
            "### What code has in common",
            (rows([f"- {said(line, _LONGEST_LINE)}." for line in found.code_lines], _ROW),),
        ),
        ("### Beside no cell", (_table(found.apart, _ROW),)),
        ("### Older kernel checks", (block(("run", "created", "arms replaced by newer rows"), older, _ROW),)),
    )
    below = tuple(Part(text=title, below=parts) for title, parts in sections)
    return (Part(text="## Kernel checks", below=below),)


def _claim(found: Told) -> Part:
    return Part(text=said(found.claim, _LONGEST_LINE), kind=_BUDGET)


def _budgets(found: Told) -> tuple[Part, ...]:
    """Those of the architectures in question before all others."""
    return tuple(
        Part(text=_budget(one), kind=_BUDGET if architecture in found.first else _ROW, turn=architecture or "")
        for architecture in found.architectures
        for one in found.of(architecture)
    )


def _budget(one: BudgetWords) -> str:
    where = f" on {one.architecture}" if one.architecture else ""
    lines = [f"Budget {one.budget}{where}:", *(f"- {said(line, _LONGEST_LINE)}." for line in one.lines)]
    if one.unknown:
        lines.append(f"- not shown: {said('; '.join(one.unknown), _LONGEST_LINE)}.")
    return "\n".join(lines)


def _table(table: Table, kind: str, turn: str = "") -> Part:
    return block(table.columns, ([said(text, _LONGEST_CELL) for text in line] for line in table.rows), kind, turn)
