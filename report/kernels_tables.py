"""Tables of the kernel checks that every format has: the arms, budgets at a glance, and the rows that did not pass."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from report.kernels import CHECKS, SURVEYS, Kernels, ShownArm, Tally, budgets_in, code_words, counted, tally
from report.words import figure, sign, spoken
from repro.kernels.comparisons import Table, about_code, buffers_table, compiled_table
from repro.model.kernels import KernelCheck, KernelResult

MOST_ROWS = 200
"""Rows that did not pass and are told one by one; of more, their number is told."""
_MOST_CODES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class GridSquare:
    """The cases of one arm, architecture and budget; ``counts`` False: the arm is broken."""

    tally: Tally
    counts: bool

    @property
    def word(self) -> str:
        return self.tally.word if self.counts else "broken"


@dataclass(frozen=True, kw_only=True, slots=True)
class GridLine:
    """``squares`` by budget; a budget that was not asked has none."""

    check: KernelCheck
    architecture: str | None
    squares: dict[int, GridSquare]

    @property
    def label(self) -> str:
        return f"{self.check.removeprefix('kernel-')} {self.architecture or 'any'}"


def arms_table(kernels: Kernels) -> Table:
    """One row for each arm of a run."""
    return Table(
        title="Kernel checks",
        columns=(
            "arm", "state", "evidence", "cases", "passed", "failed", "undecided", "not applicable", "planted caught",
            "cost (s)", "code", "run",
        ),
        rows=tuple(map(_arm_row, kernels.arms)),
    )  # fmt: skip


def _arm_row(arm: ShownArm) -> tuple[str, ...]:
    found, (caught, tried) = arm.tally, arm.planted
    codes = arm.codes
    more = f" and {len(codes) - _MOST_CODES} more" if len(codes) > _MOST_CODES else ""
    return (
        arm.check,
        spoken(arm.state),
        arm.evidence_class,
        str(found.cases),
        str(found.passed),
        str(found.failed),
        str(found.undecided),
        str(found.refused),
        f"{caught} of {tried}",
        figure(round(arm.cost_s, 1)),
        "; ".join(map(code_words, codes[:_MOST_CODES])) + more,
        arm.run_id,
    )


def grid_lines(kernels: Kernels) -> tuple[GridLine, ...]:
    """A line for each arm and architecture. Rows of a broken arm are there, and say that they do not count."""
    groups: dict[tuple[int, str], dict[int, list[tuple[ShownArm, KernelResult]]]] = {}
    for arm in kernels.arms:
        for row in arm.rows:
            if row.planted is None:
                line = groups.setdefault((CHECKS.index(arm.check), row.cell.architecture or ""), {})
                for budget in budgets_in(row):
                    line.setdefault(budget, []).append((arm, row))
    return tuple(
        GridLine(
            check=CHECKS[check],
            architecture=architecture or None,
            squares={budget: _square(found) for budget, found in sorted(line.items())},
        )
        for (check, architecture), line in sorted(groups.items(), key=lambda item: _line_order(item[0]))
    )


def _line_order(place: tuple[int, str]) -> tuple[int, int, str]:
    check, architecture = place
    return check, int(architecture.removeprefix("sm_") or 0), architecture


def _square(found: Sequence[tuple[ShownArm, KernelResult]]) -> GridSquare:
    """Of the runs whose arm counts, if there is one."""
    counting = [row for arm, row in found if arm.counts]
    return GridSquare(tally=tally(counting or [row for _, row in found]), counts=bool(counting))


def grid_table(kernels: Kernels) -> Table:
    """Arms and architectures by budget, in words: the data of the picture."""
    lines = grid_lines(kernels)
    budgets = sorted({budget for line in lines for budget in line.squares})
    return Table(
        title="Kernel checks by budget",
        columns=("arm", "architecture", *(f"budget {budget}" for budget in budgets)),
        rows=tuple(
            (
                line.check,
                line.architecture or "any",
                *(_square_words(line.squares[budget]) if budget in line.squares else "" for budget in budgets),
            )
            for line in lines
        ),
    )


def _square_words(square: GridSquare) -> str:
    if not square.counts:
        return "broken: does not count"
    found = square.tally
    told = replace(found, refused=0) if found.decided or found.undecided else found
    return f"{sign(square.word)} {counted(told)}".strip()


def bad_rows(kernels: Kernels) -> tuple[KernelResult, ...]:
    """Rows of arms that count and that failed or decided nothing, failures first; those of surveys have their table."""
    found = [row for row in kernels.rows if row.state in ("fail", "inconclusive", "not_run")]
    told = [row for row in found if row.check not in SURVEYS or row.state == "inconclusive"]
    return tuple(sorted(told, key=lambda row: (row.state != "fail", CHECKS.index(row.check), row.cell.id)))


def bad_table(kernels: Kernels) -> Table:
    """Rows that did not pass, one by one, up to `MOST_ROWS`."""
    return Table(
        title="Rows that did not pass",
        columns=("check", "case", "state", "reason", "where", "what", "code"),
        rows=tuple(
            (
                row.check,
                row.cell.id,
                spoken(row.state),
                spoken(row.reason or ""),
                _where(row),
                row.detail,
                code_words((row.subject.sglang, row.subject.triton)),
            )
            for row in bad_rows(kernels)[:MOST_ROWS]
        ),
    )


def _where(row: KernelResult) -> str:
    fault = row.faults[0] if row.faults else None
    return ", ".join(part for part in (fault.source, fault.tensor) if part) if fault is not None else ""


def code_tables(kernels: Kernels) -> tuple[Table, ...]:
    """Compiled code, and buffers by release; a table without rows is left out."""
    return tuple(table for table in (compiled_table(kernels.rows), buffers_table(kernels.rows)) if table.rows)


def code_lines(kernels: Kernels) -> tuple[str, ...]:
    """What architectures, modes and versions of Triton have in common and where they part, in sentences."""
    return tuple(
        f"{', '.join(one.sglang)}{f', Triton {one.triton}' if one.triton else ''}: {one.text}"
        for one in about_code(kernels.rows)
    )


def left_over(rows: Iterable[object]) -> int:
    """How many rows a table of at most `MOST_ROWS` leaves out."""
    return max(0, sum(1 for _ in rows) - MOST_ROWS)
