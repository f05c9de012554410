"""Everything that the report says, before it takes the form of a page, a table or a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from report.best import best_configurations, crossovers
from report.compare import NOTHING_DECLARED, Declared, against_baselines, against_runs
from report.findings import find
from report.load import Loaded, LoadedRun
from repro.model import Baseline, Comparison, Findings, Problem, ReportedRun


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """``shown``: the newest run of each target, told in full; ``older``: the others, listed."""

    record: Findings
    shown: tuple[LoadedRun, ...]
    older: tuple[ReportedRun, ...]
    baselines: Mapping[str, Baseline]

    @property
    def planted(self) -> bool:
        """Whether anything told here comes from a run with planted faults."""
        return any(run.planted for run in self.shown)

    def comparisons(self, target: str, cell: str | None = None) -> tuple[Comparison, ...]:
        """The comparisons of a target, or of one of its cells."""
        return tuple(
            item for item in self.record.comparisons if item.target == target and (cell is None or item.cell == cell)
        )


def assemble(
    results: Loaded,
    against: Loaded | None,
    baselines: Sequence[Baseline],
    *,
    tool_version: str,
    declared: Declared = NOTHING_DECLARED,
) -> Document:
    """The document about the newest run of each target. Pure."""
    shown = results.newest()
    others = against.newest() if against is not None else ()
    problems = (*results.problems, *(_there(problem) for problem in (against.problems if against is not None else ())))
    comparisons = (*against_runs(shown, others, declared), *against_baselines(shown, baselines, declared))
    best = tuple(found for run in shown for found in best_configurations(run))
    record = Findings(
        tool_version=tool_version,
        runs=tuple(run.reported() for run in results.runs),
        findings=find(shown, comparisons, best),
        comparisons=comparisons,
        best=best,
        crossovers=tuple(found for run in shown for found in crossovers(run)),
        problems=(*problems, *(_no_other_run(shown, others) if against is not None else ())),
    )
    return Document(
        record=record,
        shown=shown,
        older=tuple(run.reported() for run in results.older()),
        baselines={baseline.name: baseline for baseline in baselines},
    )


def _there(problem: Problem) -> Problem:
    return Problem(path=f"(other side) {problem.path}", problem=problem.problem)


def _no_other_run(shown: Sequence[LoadedRun], others: Sequence[LoadedRun]) -> tuple[Problem, ...]:
    there = {other.run.target for other in others}
    return tuple(
        Problem(path=f"(other side) {run.run.target}", problem="no run of this target to compare with")
        for run in shown
        if run.run.target not in there
    )
