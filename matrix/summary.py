"""A finished run as a table, and the exit code that it ends with."""

from collections.abc import Mapping, Sequence

from tabulate import tabulate

from repro.model import Plan, Result, Verdict
from repro.verdict import CellVerdict, cell_verdict, verdicts_by_cell


def cell_verdicts(results: Sequence[Result], verdicts: Sequence[Verdict]) -> tuple[CellVerdict, ...]:
    """One verdict for each cell that was run, in order of its id, over the attempts that count."""
    return tuple(cell_verdict(cell, found) for cell, found in verdicts_by_cell(results, verdicts).items())


def exit_code(cells: Sequence[CellVerdict]) -> int:
    """0 all pass, 1 something failed or is corrupt, 7 something stayed open. Unsupported cells do not count."""
    names = {cell.verdict for cell in cells}
    if names & {"fail", "corrupt"}:
        return 1
    return 7 if names & {"inconclusive", "void", "not_run"} else 0


def table(
    plan: Plan,
    results: Sequence[Result],
    cells: Sequence[CellVerdict],
    known: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """The cells in the plan's order: verdict, k failures of n launches, acceptance, rates, and why. ``known`` is what a
    ledger says of the failures of a cell; it stands beside them, and changes nothing."""
    order = {step.cell: index for index, step in reversed(list(enumerate(plan.steps)))}
    latest = {result.cell: result for result in results if result.role != "self-test"}
    why = {cell.cell: cell.reasons for cell in cells}
    rows = []
    for cell in sorted(cells, key=lambda c: order.get(c.cell, len(order))):
        result = latest[cell.cell]
        rows.append(
            [
                cell.cell + (f" [planted: {result.planted.fault}]" if result.planted else ""),
                cell.verdict,
                f"{cell.k}/{cell.n}",
                _number(result, "acceptance", 2),
                _number(result, "output_rate", 0) if cell.verdict == "pass" else "withheld",
                ", ".join(why[cell.cell]) + "".join(f" [{line}]" for line in (known or {}).get(cell.cell, ())),
            ]
        )
    headers = ["cell", "verdict", "failed", "tokens/step", "tok/s at 1", "why"]
    return tabulate(rows, headers=headers, tablefmt="simple", disable_numparse=True)


def _number(result: Result, name: str, digits: int) -> str:
    for check in result.checks:
        for measurement in check.measurements:
            if measurement.name == name and measurement.at.get("concurrency", 1) == 1 and measurement.value is not None:
                return f"{measurement.value:.{digits}f}"
    return "-"
