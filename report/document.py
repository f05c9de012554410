"""Everything that the report says, before it takes the form of a page, a table or a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from report.answers import Answers, answers
from report.best import best_configurations, crossovers
from report.compare import NOTHING_DECLARED, Declared, against_baselines, against_runs
from report.crashes import Crash, read_crashes
from report.findings import find
from report.kernels import NO_KERNELS, Kernels
from report.kernels_findings import Near, kernel_findings, near_findings
from report.known import known_findings
from report.load import Loaded, LoadedRun
from repro.model import Baseline, BestConfiguration, Comparison, Crossover, Findings, Ledger, Problem, ReportedRun

NO_LEDGER = Ledger(entries=())


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """``shown``: the newest run of each target, told in full; ``older``: the others, listed. ``crashes``: what evidence
    adds to failed launches, by the anchor of the attempt. ``known``: what a ledger says of findings, by their id.
    ``kernels``: the kernel checks; ``near``: what of them stands by a finding about a server, by its id."""

    record: Findings
    shown: tuple[LoadedRun, ...]
    older: tuple[ReportedRun, ...]
    baselines: Mapping[str, Baseline]
    crashes: Mapping[str, Crash]
    known: Mapping[str, str]
    kernels: Kernels
    near: Mapping[str, Near]

    @property
    def planted(self) -> bool:
        """Whether anything told here comes from a run with planted faults."""
        return any(run.planted for run in self.shown)

    @property
    def nothing(self) -> str:
        """What stands in place of findings if there are none."""
        if self.shown or not self.kernels:
            return "Nothing: no launch has a result yet."
        return "Nothing: no case of the kernel checks failed, and no server was run."

    def answers(self, run: LoadedRun) -> Answers:
        """What the first screen says of a run."""
        return answers(run, self.comparisons(run.run.target), self.baselines)

    def gains(self, target: str) -> tuple[tuple[BestConfiguration, ...], tuple[Crossover, ...]]:
        """The best stable configurations of a target, and where its trees stop being faster."""
        return (
            tuple(one for one in self.record.best if one.target == target),
            tuple(one for one in self.record.crossovers if one.target == target),
        )

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
    ledger: Ledger = NO_LEDGER,
    kernels: Kernels = NO_KERNELS,
) -> Document:
    """The document about the newest run of each target, and about the kernel checks. Reads the evidence of failed
    launches, and nothing else."""
    shown = results.newest()
    others = against.newest() if against is not None else ()
    problems = (
        *results.problems,
        *kernels.problems,
        *(_there(problem) for problem in (against.problems if against is not None else ())),
    )
    comparisons = (*against_runs(shown, others, declared), *against_baselines(shown, baselines, declared))
    best = tuple(found for run in shown for found in best_configurations(run))
    crashes, unusable = read_crashes(shown)
    record = Findings(
        tool_version=tool_version,
        runs=results.reported(),
        findings=find(shown, comparisons, best, kernel_findings(kernels)),
        comparisons=comparisons,
        best=best,
        crossovers=tuple(found for run in shown for found in crossovers(run)),
        problems=(*problems, *unusable, *(_no_other_run(shown, others) if against is not None else ())),
    )
    return Document(
        record=record,
        shown=shown,
        older=results.older(),
        baselines={baseline.name: baseline for baseline in baselines},
        crashes=crashes,
        known=known_findings(record.findings, shown, ledger),
        kernels=kernels,
        near=near_findings(record.findings, shown, kernels),
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
