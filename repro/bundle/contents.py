"""What a bundle is made of: from a finding or a cell and a results directory to the attempts that show the failure."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from repro import codec
from repro.bundle.oracle import oracle_of
from repro.bundle.subject import FAILED, Launch, chosen, failing_cells, signature_of
from repro.errors import RecordError, SpecError
from repro.model import (
    BundleOracle,
    Finding,
    Findings,
    GpuHealth,
    Plan,
    Result,
    Run,
    Step,
    Subject,
    Verdict,
)
from repro.shares import launches
from repro.store import RunDirectory, scan, verify_evidence
from repro.verdict import run_verdicts

MOST_ATTEMPTS = 12
"""More failing attempts say nothing new; they are named in the manifest."""
_FINDING = re.compile(r"[fF]-[0-9a-f]{6,}")
_LARGEST_RECORD_BYTES = 64_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class GatheredAttempt:
    """One attempt as it lies on disk, its evidence verified. ``directory`` holds `result.json` and what
    ``result.evidence`` names; ``place`` is that directory relative to the results directory. ``step`` is what the
    attempt program was told; None where `step.json` is not there. ``health``: of its GPUs, where they were asked.
    ``fails``: it shows the failure of the subject."""

    directory: Path
    place: str
    result: Result
    verdict: Verdict | None
    step: Step | None
    health: GpuHealth | None
    fails: bool

    @property
    def name(self) -> str:
        """`<run id>/<cell>/<number>`."""
        return f"{self.result.run_id}/{self.result.cell}/{self.result.attempt}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Contents:
    """All that was gathered for one bundle. Nothing in it is redacted yet.

    ``attempts`` are what the bundle holds, failing ones first: the first one is what `step.json` and `repro.sh` start.
    Those with evidence hooks armed come last, without a verdict. ``more`` are failing attempts beyond `MOST_ATTEMPTS`,
    which it does not hold. ``launches`` are all measured attempts of the subject's cells in its run: their verdicts
    give k of n. ``runs`` and ``plans`` are by run id. ``reference`` is the arm without speculation of the same run,
    where there is one; ``others`` are results and verdicts of the other cells of the run: what is good, what was ruled
    out. ``healthy``: no attempt fails, the bundle holds a working cell. ``notes`` are for the person who packs.
    """

    subject: Subject
    finding: Finding | None
    healthy: bool
    runs: dict[str, Run]
    plans: dict[str, Plan]
    attempts: tuple[GatheredAttempt, ...]
    more: tuple[Result, ...]
    launches: tuple[tuple[Result, Verdict], ...]
    reference: GatheredAttempt | None
    others: tuple[tuple[Result, Verdict], ...]
    oracle: BundleOracle | None
    notes: tuple[str, ...]

    @property
    def first(self) -> GatheredAttempt:
        """The attempt that the bundle replays."""
        return self.attempts[0]

    @property
    def k_of_n(self) -> tuple[int, int]:
        """Launches that failed, and launches that decided, among ``launches``."""
        decided = [verdict.verdict for _, verdict in self.launches if verdict.verdict in {"pass", *FAILED}]
        return sum(name in FAILED for name in decided), len(decided)


def gather(asked: str, results_root: Path, *, run_id: str | None = None, findings: Path | None = None) -> Contents:
    """The contents of a bundle about ``asked``, a finding of ``findings`` (by default that of the last report) or a
    cell of a run (by default the newest that has it).

    Raises `SpecError` if there is no such finding, cell or run, or nothing failed in it that could be reproduced;
    `RecordError` if a record is invalid, or evidence is no longer what its result says.
    """
    directories, problems = scan(results_root, None)
    finding = None
    if _FINDING.fullmatch(asked):
        finding = _finding(asked, findings or results_root / "report" / "findings.json")
        directory = _run_of(finding, directories, run_id)
    else:
        directory = _run_with(asked, directories, run_id)
    notes = [f"{problem.path}: {problem.problem}" for problem in problems]
    return _Gathering(directory, finding, asked, notes).contents()


class _Gathering:
    """One run, and what of it belongs into the bundle."""

    def __init__(self, directory: RunDirectory, finding: Finding | None, asked: str, notes: list[str]) -> None:
        self._directory = directory
        self._finding = finding
        self._asked = asked
        self._run = directory.run()
        self._plan = _plan(directory)
        found = directory.read_results()
        self._explaining = found.armed
        self._launches = tuple(
            Launch(result=result, verdict=verdict)
            for result, verdict in zip(found.measured, run_verdicts(found.measured), strict=True)
            if result.role != "self-test"
        )
        self._notes = [*notes, *(f"{problem.path}: {problem.problem}" for problem in found.problems)]

    def contents(self) -> Contents:
        cells = self._finding.cells if self._finding is not None else (self._asked,)
        own = [launch for launch in self._launches if launch.result.cell in cells]
        failing = chosen(own, self._finding)
        if self._finding is not None and not failing:
            raise SpecError(
                f"finding {self._asked} ({self._finding.kind}) is not about launches that failed in run "
                f"{self._run.run_id}: there is nothing to reproduce; give one of its cells to pack that all the same"
            )
        if not own:
            raise RecordError(
                f"no launch of {self._asked} in run {self._run.run_id} has a usable result"
                f"{f': {self._notes[0]}' if self._notes else ''}; restore it, or name another run with --run"
            )
        healthy = not failing
        if healthy:
            self._notes.append(f"no launch of {self._asked} failed: the bundle holds a working cell")
        held = (failing or own)[:MOST_ATTEMPTS]
        attempts = [self._attempt(launch.result, launch.verdict, fails=not healthy) for launch in held]
        attempts += self._armed(attempts)
        reference = self._reference()
        names = {launch.result.cell for launch in (failing or own)}
        return Contents(
            subject=self._subject(attempts, failing_cells(failing) or (self._asked,), held[0]),
            finding=self._finding,
            healthy=healthy,
            runs={self._run.run_id: self._run},
            plans={self._run.run_id: self._plan} if self._plan is not None else {},
            attempts=tuple(attempts),
            more=tuple(launch.result for launch in failing[MOST_ATTEMPTS:]),
            launches=tuple((launch.result, launch.verdict) for launch in own if launch.result.cell in names),
            reference=reference,
            others=tuple((item.result, item.verdict) for item in self._launches if item.result.cell not in names),
            oracle=self._oracle(attempts[0], reference),
            notes=tuple(self._notes),
        )

    def _attempt(self, result: Result, verdict: Verdict | None, *, fails: bool) -> GatheredAttempt:
        directory = self._directory.attempt(result.cell, result.attempt)
        problems = verify_evidence(result, directory)
        if problems:
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            raise RecordError(
                f"{problems[0].path}: {problems[0].problem}{more}; bring the evidence back, or pack another attempt"
            )
        step, health = directory / "step.json", directory / "evidence" / "gpu-health.json"
        return GatheredAttempt(
            directory=directory,
            place=self._directory.relative(directory),
            result=result,
            verdict=verdict,
            step=_read(step, Step, self._directory.relative(step)),
            health=_read(health, GpuHealth, self._directory.relative(health)),
            fails=fails,
        )

    def _armed(self, attempts: Sequence[GatheredAttempt]) -> list[GatheredAttempt]:
        """The attempts with evidence hooks armed that explain one of these."""
        explained = {(attempt.result.cell, attempt.result.attempt) for attempt in attempts}
        armed = [result for result in self._explaining if (result.cell, result.explains or 0) in explained]
        return [self._attempt(result, None, fails=False) for result in armed[:MOST_ATTEMPTS]]

    def _reference(self) -> GatheredAttempt | None:
        """The reference arm, best if it passed; None if it left nothing to compare with."""
        found = [
            launch
            for launch in self._launches
            if launch.result.role == "reference" and launch.result.outcome == "completed"
        ]
        found.sort(key=lambda launch: (launch.verdict.verdict != "pass", launch.result.cell, launch.result.attempt))
        return self._attempt(found[0].result, found[0].verdict, fails=False) if found else None

    def _subject(self, attempts: Sequence[GatheredAttempt], cells: tuple[str, ...], first: Launch) -> Subject:
        result = first.result
        held = {attempt.result.cell for attempt in attempts}
        step = next((s for s in self._plan.steps if s.cell == result.cell), None) if self._plan is not None else None
        return Subject(
            finding=self._finding.id if self._finding is not None else None,
            target=self._run.target,
            architecture=self._plan.architecture if self._plan is not None else None,
            cells=tuple(cell for cell in cells if cell in held),
            attempts=tuple(attempt.name for attempt in attempts),
            signature=signature_of(first),
            engine=result.engine.name,
            engine_version=result.engine.version,
            engine_source=result.engine.source,
            image=step.image if step is not None else None,
            planted=bool(self._run.planted) or result.planted is not None,
        )

    def _oracle(self, first: GatheredAttempt, reference: GatheredAttempt | None) -> BundleOracle | None:
        if reference is None:
            self._notes.append(f"run {self._run.run_id} has no reference that came to its end: no oracle.json")
            return None
        if reference.result.cell == first.result.cell:
            return None
        return oracle_of(first.result, first.directory, first.step, reference.result, reference.directory)


def _finding(asked: str, path: Path) -> Finding:
    if not path.is_file():
        raise SpecError(
            f"{path}: is not there; name the report's findings.json with --findings, or make it with "
            f"`python -m report build --results {path.parents[1]} --out {path.parent}`"
        )
    findings = codec.read(path, Findings).findings
    found = next((item for item in findings if item.id.lower() == asked.lower()), None)
    if found is None:
        raise SpecError(f"{path}: has no finding {asked}{_near(asked, [item.id for item in findings])}")
    return found


def _run_of(finding: Finding, directories: Sequence[RunDirectory], run_id: str | None) -> RunDirectory:
    """The newest run that the finding has evidence in."""
    linked = {tuple(link.path.split("/")[:2]) for link in finding.evidence if link.path is not None}
    named = [directory for directory in directories if (directory.path.parent.name, directory.path.name) in linked]
    if run_id is not None:
        named = [directory for directory in named if directory.path.name == run_id]
    if not named:
        runs = ", ".join(sorted("/".join(pair) for pair in linked)) or "none"
        raise SpecError(
            f"the runs of finding {finding.id} ({runs}) are not below the results directory"
            f"{'' if run_id is None else f', or {run_id} is none of them'}; name the right one with --results"
        )
    return max(named, key=lambda directory: directory.path.name)


def _run_with(cell: str, directories: Sequence[RunDirectory], run_id: str | None) -> RunDirectory:
    """The newest run with an attempt of the cell, or the one that was named."""
    if run_id is not None:
        named = [directory for directory in directories if directory.path.name == run_id]
        if not named:
            known = [directory.path.name for directory in directories]
            raise SpecError(f"there is no run {run_id} in the results directory{_near(run_id, known)}")
        directories = named
    known_cells: set[str] = set()
    passed_over: list[str] = []
    for directory in sorted(directories, key=lambda item: item.path.name, reverse=True):
        attempts, strays = directory.attempts()
        if any((directory.attempt(*attempt) / "result.json").is_file() for attempt in attempts if attempt[0] == cell):
            return directory
        known_cells |= {name for name, _ in attempts}
        begun = sum(name == cell for name, _ in attempts)
        passed_over += [f"{directory.path.name} has {launches(begun)} of it without a result"] if begun else []
        passed_over += [f"{stray.path} {stray.problem}" for stray in strays if stray.path.endswith(f"/cells/{cell}")]
    if passed_over:
        raise SpecError(
            f"no run has a finished launch of a cell {cell!r}: {'; '.join(passed_over[:3])}; what was killed or still "
            "runs has none, and links are not followed"
        )
    raise SpecError(
        f"no run{'' if run_id is None else f' {run_id}'} has a finished launch of a cell {cell!r}"
        f"{_near(cell, sorted(known_cells))}; a finding has an id such as f-3a91c07d42"
    )


def _near(asked: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(asked, sorted(set(known)), n=3, cutoff=0.5)
    if near:
        return f"; near it: {', '.join(near)}"
    return f"; there are: {', '.join(sorted(set(known))[:5])}" if known else "; there is none at all"


def _plan(directory: RunDirectory) -> Plan | None:
    """The run's plan; a run without one can be packed all the same."""
    return directory.plan() if (directory.path / "plan.json").exists() else None


def _read(path: Path, kind: type[codec.T], where: str) -> codec.T | None:
    """A record beside a result, if it is there. Links are not followed."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise RecordError(f"{where}: is not a regular file, and links are not followed; put the file itself there")
    if not path.exists():
        return None
    if path.stat().st_size > _LARGEST_RECORD_BYTES:
        raise RecordError(f"{where}: is too large to be that record; restore the file")
    return codec.read(path, kind, where=where)
