"""Run directories -> a model of what was run, with every record that could not be used named. Reads, never writes."""

import contextlib
import gc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from repro import codec, oracle_lines
from repro.canonical import sha256_of
from repro.errors import RecordError
from repro.escape import one_line
from repro.forked import Shared, cores
from repro.model import AttemptScore, Coordinates, Plan, PlanStep, Problem, ReportedRun, Result, Run, Skip, Verdict
from repro.store import Finished, RunDirectory, scan
from repro.verdict import CellVerdict, cell_verdict, run_verdicts

VOID_RETRIES = 2
"""A void launch is planned again at most twice; a cell with more void launches is not waited for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedAttempt:
    """``path`` is the attempt's directory, relative to the results directory; ``score`` what rescoring said of it."""

    result: Result
    verdict: Verdict
    path: str
    score: AttemptScore | None = None

    @property
    def anchor(self) -> str:
        return f"{self.result.target}--{self.result.cell}--{self.result.attempt}"


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedCell:
    """A cell of a run, planned or found. ``planned`` 0: the plan does not name it, or cannot be read."""

    id: str
    target: str
    coordinates: Coordinates
    step: PlanStep | None
    planned: int
    attempts: tuple[LoadedAttempt, ...]
    summary: CellVerdict
    planted: bool

    @property
    def anchor(self) -> str:
        return f"{self.target}--{self.id}"

    @property
    def missing(self) -> int:
        """Launches that are still to come: planned, and neither finished nor given up."""
        names = [attempt.verdict.verdict for attempt in self.attempts]
        if names.count("void") > VOID_RETRIES or "unsupported" in names:
            return 0
        return max(0, self.planned - len(names) + names.count("void"))


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedRun:
    """``directory`` is relative to the results directory; ``place`` is where it lies on this host, which is never told:
    its evidence can be read there. ``armed`` holds the attempts with evidence hooks armed and
    their directories: they explain others, and count nowhere. ``self_tests`` are launches that test the tool, and
    ``oracles`` says in lines what the run's oracles found; ``earlier`` has how many results are of each earlier
    version of the record. ``begun``: launches that are missing and have a directory: they run, or were killed."""

    run: Run
    directory: str
    plan: Plan | None
    cells: tuple[LoadedCell, ...]
    planted: bool
    armed: tuple[tuple[Result, str], ...] = ()
    self_tests: tuple[LoadedAttempt, ...] = ()
    oracles: tuple[str, ...] = ()
    earlier: tuple[tuple[int, int], ...] = ()
    place: Path | None = None
    begun: int = 0

    @property
    def skips(self) -> tuple[Skip, ...]:
        return self.plan.skips if self.plan is not None else ()

    @property
    def about_gpus(self) -> bool:
        """Whether anything here can be evidence about a GPU: not on a CPU, and not from the simulated engine."""
        engines = {attempt.result.engine.name for cell in self.cells for attempt in cell.attempts}
        if "simulated" in engines or self.run.target in {"cpu", "sim"}:
            return False
        return self.plan is None or self.plan.architecture.startswith("sm_")

    @property
    def planned(self) -> int:
        return sum(cell.planned for cell in self.cells)

    @property
    def missing(self) -> int:
        return sum(cell.missing for cell in self.cells)

    @property
    def finished(self) -> int:
        return sum(attempt.verdict.verdict != "void" for cell in self.cells for attempt in cell.attempts)

    def reported(self) -> ReportedRun:
        return ReportedRun(
            run_id=self.run.run_id,
            target=self.run.target,
            created_at=self.run.created_at,
            state="unfinished" if self.missing or self.plan is None else "complete",
            planned=self.planned,
            finished=self.finished,
            planted=self.planted,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """``runs``: the newest run of each target, by target. ``tallied``: what the others come to, by target, newest
    first: nothing else of them is told."""

    runs: tuple[LoadedRun, ...]
    tallied: tuple[ReportedRun, ...]
    problems: tuple[Problem, ...]

    def newest(self) -> tuple[LoadedRun, ...]:
        """The newest run of each target."""
        return self.runs

    def older(self) -> tuple[ReportedRun, ...]:
        """The runs that are not the newest of their target."""
        return self.tallied

    def reported(self) -> tuple[ReportedRun, ...]:
        """Every run, by target, newest first."""
        return tuple(sorted((*(run.reported() for run in self.runs), *self.tallied), key=lambda run: run.target))

    def since(self, moment: datetime) -> "Loaded":
        """Without the runs that began before the moment."""
        return replace(
            self,
            runs=tuple(run for run in self.runs if datetime.fromisoformat(run.run.created_at) >= moment),
            tallied=tuple(run for run in self.tallied if datetime.fromisoformat(run.created_at) >= moment),
        )


def load(roots: Sequence[Path], target: str | None = None, meanwhile: Callable[[], None] | None = None) -> Loaded:
    """All runs under the results directories ``roots``, or those of one target.

    What cannot be read becomes a problem; the order of ``roots`` and of files on disk makes no difference. Where there
    are several cores, other processes read older runs; ``meanwhile`` is called once they are at work. Raises SpecError
    if one of ``roots`` is no directory.
    """
    found: list[RunDirectory] = []
    problems: list[Problem] = []
    for root in sorted(roots):
        directories, unreadable = scan(root, target)
        found += directories
        problems += unreadable
    newest, older, twice = _by_age(found)
    others = Shared([*older, *twice], _tally)
    with _without_collector():
        others.begin(min(cores() - 1, len(others.items) // 2))
        whole = [_load_run(directory) for directory in newest]
        if meanwhile is not None:
            meanwhile()
        tallies = others.found()
    for _, unusable in (*whole, *tallies):
        problems += unusable
    said = "the same run is in two of the given results directories; it is shown once"
    problems += [Problem(path=f"{run.target}/{run.run_id}", problem=said) for run, _ in tallies[len(older) :]]
    harmless = {Problem(path=one_line(p.path), problem=one_line(p.problem)) for p in problems}
    return Loaded(
        runs=tuple(run for run, _ in whole),
        tallied=tuple(run for run, _ in tallies[: len(older)]),
        problems=tuple(sorted(harmless, key=lambda problem: (problem.path, problem.problem))),
    )


def _by_age(found: Sequence[RunDirectory]) -> tuple[list[RunDirectory], list[RunDirectory], list[RunDirectory]]:
    """The newest run of each target, the others, and those that are there twice: by target, newest first."""
    dated = [(run.target, run.created_at, run.run_id, directory) for directory in found for run in [directory.run()]]
    dated.sort(key=lambda item: item[1:3], reverse=True)
    dated.sort(key=lambda item: item[0])
    newest: dict[str, RunDirectory] = {}
    older: list[RunDirectory] = []
    twice: list[RunDirectory] = []
    seen: set[tuple[str, str]] = set()
    for target, _, run_id, directory in dated:
        if (target, run_id) in seen:
            twice.append(directory)
        elif newest.setdefault(target, directory) is not directory:
            older.append(directory)
        seen.add((target, run_id))
    return list(newest.values()), older, twice


def _tally(directory: RunDirectory) -> tuple[ReportedRun, list[Problem]]:
    """What a run comes to, each of its records read and checked as if it were told in full."""
    run, problems = _load_run(directory)
    return run.reported(), problems


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Records have no cycles: the search for some, again and again among all that was read, takes a fifth of the
    time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _load_run(directory: RunDirectory) -> tuple[LoadedRun, list[Problem]]:
    run = directory.run()
    relative = f"{run.target}/{run.run_id}"
    problems: list[Problem] = []
    plan: Plan | None = None
    try:
        plan = directory.plan()
        if sha256_of(codec.encode(plan)) != run.plan_sha256:
            edited = "does not match the digest in run.json: it was edited after the run began"
            problems.append(Problem(path=f"{relative}/plan.json", problem=edited))
    except RecordError as error:
        problems.append(Problem(path=f"{relative}/plan.json", problem=str(error)))
    finished = directory.read_results()
    problems += finished.problems
    agreed = _agreeing(finished.measured, plan)
    problems += [
        Problem(
            path=f"{relative}/cells/{result.cell}/{result.attempt}/result.json",
            problem="its coordinates are not those that the plan gives this cell: it is not counted",
        )
        for result, agrees in agreed
        if not agrees
    ]
    results = tuple(result for result, agrees in agreed if agrees)
    armed = tuple((result, f"{relative}/cells/{result.cell}/{result.attempt}") for result in finished.armed)
    verdicts = run_verdicts(results)
    attempts = _attempts(relative, results, verdicts)
    cells = _cells(run, plan, [attempt for attempt in attempts if attempt.result.role != "self-test"])
    loaded = LoadedRun(
        run=run,
        directory=relative,
        plan=plan,
        cells=cells,
        planted=bool(run.planted) or any(cell.planted for cell in cells),
        armed=armed,
        self_tests=tuple(attempt for attempt in attempts if attempt.result.role == "self-test"),
        oracles=oracle_lines.lines(results, verdicts),
        earlier=_earlier(finished, results),
        place=directory.path,
    )
    return (replace(loaded, begun=_begun(directory)) if loaded.missing else loaded), problems


def _begun(directory: RunDirectory) -> int:
    attempts, _ = directory.attempts()
    return sum(not (directory.attempt(cell, number) / "result.json").exists() for cell, number in attempts)


def _earlier(finished: Finished, results: Sequence[Result]) -> tuple[tuple[int, int], ...]:
    """(version, count) of the results that an earlier graphrepro wrote: reading brings them up to the present one."""
    versions = (finished.earlier.get((result.cell, result.attempt)) for result in results)
    return tuple(sorted(Counter(version for version in versions if version is not None).items()))


def _agreeing(results: Sequence[Result], plan: Plan | None) -> list[tuple[Result, bool]]:
    """Whether the plan gives the cell these coordinates; a cell that it does not name has none to disagree with."""
    planned: dict[str, list[Coordinates]] = {}
    for step in plan.steps if plan is not None else ():
        planned.setdefault(step.cell, []).append(step.coordinates)
    return [(result, result.coordinates in planned.get(result.cell, (result.coordinates,))) for result in results]


def _attempts(relative: str, results: Sequence[Result], verdicts: Sequence[Verdict]) -> list[LoadedAttempt]:
    scores = {(s.cell, s.attempt): s for r in results if r.rescoring is not None for s in r.rescoring.scores}
    return [
        LoadedAttempt(
            result=result,
            verdict=verdict,
            path=f"{relative}/cells/{result.cell}/{result.attempt}",
            score=scores.get((result.cell, result.attempt)),
        )
        for result, verdict in zip(results, verdicts, strict=True)
    ]


def _cells(run: Run, plan: Plan | None, loaded: Sequence[LoadedAttempt]) -> tuple[LoadedCell, ...]:
    """Cells in the order of the plan, then those that it does not name."""
    attempts: dict[str, list[LoadedAttempt]] = {}
    for attempt in loaded:
        attempts.setdefault(attempt.result.cell, []).append(attempt)
    steps: dict[str, list[PlanStep]] = {}
    for step in plan.steps if plan is not None else ():
        if step.role != "self-test":
            steps.setdefault(step.cell, []).append(step)
    order = dict.fromkeys([*steps, *sorted(attempts)])
    return tuple(_cell(run, name, steps.get(name, []), attempts.get(name, [])) for name in order)


def _cell(run: Run, name: str, steps: Sequence[PlanStep], attempts: Sequence[LoadedAttempt]) -> LoadedCell:
    return LoadedCell(
        id=name,
        target=run.target,
        coordinates=steps[0].coordinates if steps else attempts[0].result.coordinates,
        step=steps[0] if steps else None,
        planned=sum(step.launches for step in steps),
        attempts=tuple(sorted(attempts, key=lambda attempt: attempt.result.attempt)),
        summary=cell_verdict(name, [attempt.verdict for attempt in attempts]),
        planted=(bool(steps) and steps[0].planted is not None) or any(a.result.planted is not None for a in attempts),
    )
