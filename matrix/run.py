"""Execute a plan: launch after launch, each leaving a result. A cell that crashes is a valid result here."""

import contextlib
import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from matrix import armed, rescoring
from matrix.arguments import EngineChoice
from matrix.coding.answers import stored_judgement, with_judgement
from matrix.coding.sandbox import NoSandbox, Sandbox
from matrix.collect import AttemptContext, came_to_its_end, collect, was_interrupted
from matrix.evidence import Evidence, read_evidence
from matrix.host.production import NoProduction, Production
from matrix.interrupts import Interrupts
from matrix.judge.reference import Reference, reference_from
from matrix.preflight.health import Health, NoGpus
from matrix.progress import Progress
from matrix.resolve import asks_tasks, resolve_step
from matrix.runtimes.protocol import AttemptOrder, Ended, Handle, Runtime
from matrix.schedule import Launch, launches, next_attempt, unfinished
from matrix.spec import Spec
from matrix.timeline import current_phase
from repro import canonical, codec, store
from repro.atomic import unwritable
from repro.errors import InterruptedRunError, RecordError, UnavailableError
from repro.model import (
    CodingJudgement,
    Fact,
    GpuHealth,
    Plan,
    PlanStep,
    PlantedRule,
    Prompt,
    Result,
    Run,
    Step,
    Verdict,
)
from repro.verdict import run_verdicts

POLL_S = 0.1
OVERTIME_S = 120.0
"""What an attempt may take beyond its limits: to collect evidence, and for its processes to die."""
SUSPECT_LAUNCHES = 3
"""After so many launches in a row that the host's hardware made void, the next one would be too: the run stops."""
ROOM_BYTES = 64 << 10
"""With less free space than this, a disk counts as full: the least that an attempt's evidence takes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outside:
    """What a run takes from the world around it, passed in so that tests can pass in something else."""

    runtime: Runtime
    now: Callable[[], datetime]
    progress: Progress
    tool_version: str
    free_port: Callable[[], int]
    production: Production = field(default_factory=NoProduction)
    health: Health = field(default_factory=NoGpus)
    sandbox: Sandbox = field(default_factory=NoSandbox)


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What is to be run. ``declared`` are facts about the machine and the model that only the host knows; ``armed``:
    failing cells are launched once more, for their evidence."""

    spec: Spec
    plan: Plan
    prompts: tuple[Prompt, ...]
    planted: tuple[PlantedRule, ...]
    engines: EngineChoice
    declared: Mapping[str, Fact]
    port: int
    armed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """A run that came to its end: its directory, and all its results with their verdicts, in order of cell and
    attempt."""

    directory: store.RunDirectory
    results: tuple[Result, ...]
    verdicts: tuple[Verdict, ...]


def execute(job: Job, results_root: Path, outside: Outside) -> Finished:
    """Run what is left of the newest unfinished run of this plan, or else a new run.

    Raises InterruptedRunError after a Ctrl-C (what was finished is kept), UnavailableError if nothing can be started or
    written, RecordError if a record of the run it would resume is invalid.
    """
    with contextlib.ExitStack() as held:
        interrupts = held.enter_context(Interrupts())
        directory = _resumable(job, results_root, outside.runtime.name) or _create(job, results_root, outside)
        held.enter_context(store.lock(directory.path))
        outside.runtime.reap_leftovers(label_prefix(directory.path))
        outside.sandbox.reap_leftovers(label_prefix(directory.path))
        execution = _Execution(job, directory, outside, interrupts)
        held.enter_context(outside.production.paused(_name(directory), lambda: interrupts.count))
        try:
            return execution.run_all()
        finally:
            outside.progress.close()


class _Execution:
    """One pass over the launches of a run."""

    def __init__(self, job: Job, directory: store.RunDirectory, outside: Outside, interrupts: Interrupts) -> None:
        self._job = job
        self._directory = directory
        self._outside = outside
        self._interrupts = interrupts
        self._run_id = directory.run().run_id
        results, problems = directory.results()
        if problems:
            raise RecordError(f"{problems[0].path}: {problems[0].problem}; move the attempt away to run it again")
        self._results: dict[str, list[Result]] = {}
        for result in sorted(results, key=lambda r: r.attempt):
            self._results.setdefault(result.cell, []).append(result)
        self._armed: dict[str, list[Result]] = {}
        for result in directory.armed_results():
            self._armed.setdefault(result.cell, []).append(result)
        self._reference = self._read_reference()
        self._stored: set[Verdict] = set()
        self._suspect = 0
        """How many attempts in a row ended on suspect hardware."""

    def run_all(self) -> Finished:
        planned = launches(self._job.plan)
        done = sum(self._next(launch) is None for launch in planned)
        hours = self._job.plan.forecast.hours * (len(planned) - done) / max(len(planned), 1)
        self._outside.progress.begin(run=_name(self._directory), launches=len(planned), done=done, hours=hours)
        if self._outside.sandbox.image is None and any(asks_tasks(launch.step) for launch in planned):
            self._outside.progress.note(f"answers to coding tasks are not judged: {self._outside.sandbox.reason}")
        for launch in planned:
            while (number := self._next(launch)) is not None:
                if self._interrupts.count:
                    raise self._interrupted()
                self._one(launch, number)
                if self._suspect >= SUSPECT_LAUNCHES:
                    raise self._unsound(self._results[launch.step.cell][-1])
            self._explain(launch.step)
        return self._finish()

    def _next(self, launch: Launch) -> int | None:
        cell = launch.step.cell
        left = next_attempt(launch, self._results.get(cell, []))
        return None if left is None else self._number(cell)

    def _number(self, cell: str) -> int:
        """The next number that no attempt of the cell has."""
        taken = (*self._results.get(cell, ()), *self._armed.get(cell, ()))
        return max((result.attempt for result in taken), default=0) + 1

    def _one(self, launch: Launch, number: int) -> None:
        self._outside.progress.attempt(launch.step, number)
        result, evidence = self._attempt(launch.step, number)
        self._results.setdefault(result.cell, []).append(result)
        if result.role == "reference" and self._reference is None:
            self._reference = reference_from(evidence.checks.get("lossless"))
        verdict = run_verdicts([result])[0]
        self._store(verdict)
        self._outside.progress.ended(result, verdict)

    def _explain(self, step: PlanStep) -> None:
        """Launches a cell that failed once more with evidence hooks armed, if that is wanted and was not done yet."""
        cell = step.cell
        first = armed.due(self._results.get(cell, ()), self._armed.get(cell, ())) if self._job.armed else None
        if first is None:
            return
        if self._interrupts.count:
            raise self._interrupted()
        number, gpus = self._number(cell), self._job.spec.hardware.gpu_count
        note = f"{cell}: attempt {number}, with evidence hooks armed, explains attempt {first.attempt}"
        self._outside.progress.note(note)
        release = self._job.engines.release(self._job.spec, step.coordinates)
        result, _ = self._attempt(armed.arm(step, release=release, gpus=gpus), number, explains=first.attempt)
        self._armed.setdefault(cell, []).append(result)
        self._outside.progress.note(f"{note}: {result.outcome}: {result.outcome_detail}")

    def _attempt(self, step: PlanStep, number: int, explains: int | None = None) -> tuple[Result, Evidence]:
        attempt_dir = self._directory.attempt(step.cell, number)
        shutil.rmtree(attempt_dir, ignore_errors=True)  # an attempt without a result was cut off in the middle
        _demand_room(self._directory.path)
        try:
            attempt_dir.mkdir(parents=True)
        except OSError as problem:
            raise unwritable(attempt_dir, problem) from None
        material = self._material(step) if explains is None else None
        resolved = resolve_step(
            step,
            run_id=self._run_id,
            target=self._job.spec.target,
            attempt=number,
            port=self._job.port or self._outside.free_port(),
            prompts=self._job.prompts,
            placeholders=self._outside.runtime.placeholders(),
            spec=self._job.spec,
            release=self._job.engines.release(self._job.spec, step.coordinates),
            explains=explains,
            texts=material.texts if material is not None else (),
        )
        label = f"{label_prefix(self._directory.path)}/{step.cell}/{number}"
        runtimes = self._outside.runtime.environment(step.image)
        resolved = replace(resolved, environment={**runtimes, **resolved.environment, "GRAPHREPRO_LABEL": label})
        store.write_record(attempt_dir / "step.json", resolved)
        order = AttemptOrder(directory=attempt_dir, label=label, image=step.image, limit_s=worst_s(step))
        look_again = self._outside.health.begin()
        with self._outside.runtime.start(order) as handle:
            ended = self._watch(handle, attempt_dir)
        return self._keep(resolved, step, ended, look_again(), material)

    def _material(self, step: PlanStep) -> rescoring.Material | None:
        """What the last launch rescores; None for any other."""
        if not any(check.check == "rescoring" and check.applicable for check in step.checks):
            return None
        results = [result for cell in sorted(self._results) for result in self._results[cell]]
        heard = (
            (result, read_evidence(self._directory.attempt(result.cell, result.attempt)))
            for result in results
            if result.role != "reference-again"
        )
        return rescoring.material(heard, self._reference, rescoring.scales_of(self._job.spec))

    def _watch(self, handle: Handle, attempt_dir: Path) -> Ended:
        asked = 0
        while True:
            ended = handle.wait(POLL_S)
            if ended is not None:
                return ended
            self._outside.production.hold()
            if self._interrupts.count > asked:
                asked = self._interrupts.count
                if asked == 1:
                    self._outside.progress.note("interrupted: stopping the server; interrupt again to kill it")
                    handle.stop()
                else:
                    handle.kill()
            self._outside.progress.phase(current_phase(attempt_dir))

    def _keep(
        self,
        resolved: Step,
        step: PlanStep,
        ended: Ended,
        health: GpuHealth | None,
        material: rescoring.Material | None,
    ) -> tuple[Result, Evidence]:
        attempt_dir = self._directory.attempt(step.cell, resolved.attempt)
        if health is not None:
            (attempt_dir / "evidence").mkdir(exist_ok=True)
            store.write_record(attempt_dir / "evidence" / "gpu-health.json", health)
        evidence = read_evidence(attempt_dir)
        if self._interrupts.count and (was_interrupted(evidence) or not came_to_its_end(evidence)):
            raise self._interrupted()  # what else interrupted it is an outcome, and the run goes on
        _demand_room(attempt_dir)  # what a full disk did to the attempt says nothing about the engine
        label = resolved.environment["GRAPHREPRO_LABEL"]
        evidence = with_judgement(evidence, self._outside.sandbox, label=label)
        context = AttemptContext(
            run_id=self._run_id,
            target=self._job.spec.target,
            step=step,
            attempt=resolved.attempt,
            explains=resolved.explains,
            overlay=self._job.engines.overlay_for(self._job.spec, step.coordinates),
            gpu_count=self._job.spec.hardware.gpu_count,
            declared=self._job.declared,
            reference=self._reference,
            coding_reference=self._coding_reference(),
            rescored=material,
            suspect=health.suspect if health is not None else (),
        )
        result = collect(context, evidence, ended)
        store.write_record(attempt_dir / "result.json", result)
        self._suspect = self._suspect + 1 if context.suspect else 0
        return result, evidence

    def _unsound(self, result: Result) -> UnavailableError:
        finished = sum(len(results) for results in self._results.values())
        why, _, _ = result.outcome_detail.partition("; the attempt itself: ")
        return UnavailableError(
            f"{SUSPECT_LAUNCHES} launches in a row are void: {why}: reset or replace it (`python -m matrix preflight` "
            f"looks again); {finished} finished attempts are kept in {self._directory.path}, and the same command goes "
            "on after them"
        )

    def _interrupted(self) -> InterruptedRunError:
        finished = sum(len(results) for results in self._results.values())
        return InterruptedRunError(
            f"interrupted: {finished} finished attempts are kept in {self._directory.path}; the same command goes on "
            "after them"
        )

    def _read_reference(self) -> Reference | None:
        for results in self._results.values():
            for result in results:
                if result.role == "reference":
                    evidence = read_evidence(self._directory.attempt(result.cell, result.attempt))
                    found = reference_from(evidence.checks.get("lossless"))
                    if found is not None:
                        return found
        return None

    def _coding_reference(self) -> CodingJudgement | None:
        for result in (result for results in self._results.values() for result in results):
            if result.role == "reference":
                found = stored_judgement(self._directory.attempt(result.cell, result.attempt))
                if found is not None:
                    return found
        return None

    def _store(self, verdict: Verdict) -> None:
        store.write_record(self._directory.attempt(verdict.cell, verdict.attempt) / "verdict.json", verdict)
        self._stored.add(verdict)

    def _finish(self) -> Finished:
        """All verdicts again, now that the second launch of the reference is known."""
        results = tuple(result for cell in sorted(self._results) for result in self._results[cell])
        verdicts = run_verdicts(results)
        for verdict in verdicts:
            if verdict not in self._stored:
                self._store(verdict)
        return Finished(directory=self._directory, results=results, verdicts=verdicts)


def _demand_room(directory: Path) -> None:
    """Raises UnavailableError if the disk is as good as full: then evidence is cut off, and servers die of it."""
    if shutil.disk_usage(directory).free < ROOM_BYTES:
        raise unwritable(directory, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


def worst_s(step: PlanStep) -> float:
    """After how long an attempt has outlived all its own limits, the engine's grace after a hang included. Then it is
    the runtime's to end it."""
    phases = sum(limit.limit_s for limit in step.limits)
    checks = sum(check.limit_s for check in step.checks if check.prompts)
    return phases + checks + 2 * max((limit.limit_s for limit in step.limits), default=0.0) + OVERTIME_S


def plan_digest(plan: Plan) -> str:
    """SHA-256 over the plan's canonical form: what makes two invocations the same run."""
    return canonical.sha256_of(codec.encode(plan))


def _resumable(job: Job, results_root: Path, runtime: str) -> store.RunDirectory | None:
    """The newest run of the same plan, runtime and planted faults that has launches left."""
    if not results_root.is_dir():
        return None
    digest = plan_digest(job.plan)
    directories, problems = store.scan(results_root, job.spec.target)
    unreadable = [problem for problem in problems if problem.path.endswith("/run.json")]
    if unreadable:  # it may be the run to go on with, and a new one would hide that
        raise RecordError(f"{unreadable[0].path}: {unreadable[0].problem}; or move that run away")
    for directory in reversed(directories):
        run = directory.run()
        same = (run.plan_sha256, run.runtime, run.planted, run.armed_relaunch)
        if same == (digest, runtime, job.planted, job.armed):
            results, broken = directory.results()
            if broken or unfinished(job.plan, results):
                return directory
            return None
    return None


def _create(job: Job, results_root: Path, outside: Outside) -> store.RunDirectory:
    now = outside.now()
    digest = plan_digest(job.plan)
    name = f"{now:%Y%m%dT%H%M%SZ}-{digest[:6]}"
    taken = {path.name for path in (results_root / job.spec.target).glob(f"{name}*")}
    run_id = next(name + suffix for suffix in ("", *(f"-{n}" for n in range(2, 1000))) if name + suffix not in taken)
    run = Run(
        run_id=run_id,
        target=job.spec.target,
        created_at=f"{now:%Y-%m-%dT%H:%M:%SZ}",
        tool_version=outside.tool_version,
        runtime=outside.runtime.name,
        depth=job.plan.depth,
        plan_sha256=digest,
        planted=job.planted,
        armed_relaunch=job.armed,
    )
    return store.create(results_root, run, job.plan)


def _name(directory: store.RunDirectory) -> str:
    return f"{directory.path.parent.name}/{directory.path.name}"


def label_prefix(directory: Path) -> str:
    """What the label of every process of a run starts with: no two run directories on a host share it."""
    place = hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:12]
    return f"{place}/{directory.name}"
