"""What every format tells of the kernel checks, before it takes the form of a page, a table or a file."""

from collections.abc import Sequence
from dataclasses import dataclass

from report.kernels import Kernels, OlderRun
from report.kernels_beside import apart_table
from report.kernels_tables import arms_table, bad_rows, bad_table, code_lines, code_tables, grid_table, left_over
from report.kernels_words import CLAIM, BudgetWords, by_budget, classes_table, overview
from report.load import LoadedRun
from repro.kernels.comparisons import Table
from repro.kernels.statements import WORKS

REPORTED = "sm_103"
"""The architecture on which the failure was reported."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """``first``: architectures whose budgets are told at once, because a server ran there or the failure was reported
    of them. ``unlisted``: rows that did not pass and are not in ``bad``."""

    overview: tuple[str, ...]
    claim: str
    arms: Table
    classes: Table
    grid: Table
    bad: Table
    unlisted: int
    budgets: tuple[BudgetWords, ...]
    first: tuple[str, ...]
    code: tuple[Table, ...]
    code_lines: tuple[str, ...]
    apart: Table
    older: tuple[OlderRun, ...]

    def of(self, architecture: str | None) -> tuple[BudgetWords, ...]:
        return tuple(one for one in self.budgets if one.architecture == architecture)

    @property
    def architectures(self) -> tuple[str | None, ...]:
        """The first ones, then the others; None last, for what depends on none."""
        found = list(dict.fromkeys(one.architecture for one in self.budgets))
        return tuple(sorted(found, key=lambda name: (name is None, name not in self.first)))


def told(kernels: Kernels, runs: Sequence[LoadedRun]) -> Told:
    """Pure, and the same for the same rows; ``runs`` are those that the report shows."""
    served = {run.plan.architecture for run in runs if run.plan is not None and run.about_gpus}
    return Told(
        overview=overview(kernels),
        claim=CLAIM.format(works=WORKS),
        arms=arms_table(kernels),
        classes=classes_table(kernels),
        grid=grid_table(kernels),
        bad=bad_table(kernels),
        unlisted=left_over(bad_rows(kernels)),
        budgets=by_budget(kernels),
        first=tuple(name for name in kernels.architectures if name in served or name == REPORTED),
        code=code_tables(kernels),
        code_lines=code_lines(kernels),
        apart=apart_table(kernels, runs),
        older=kernels.older,
    )
