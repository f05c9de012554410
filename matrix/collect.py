"""Evidence -> result: what happened in an attempt. One of the few places where failures become outcomes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from matrix import rescoring
from matrix.engines.overlay import Overlay
from matrix.engines.proof import prove
from matrix.evidence import Evidence, evidence_files, phase_timings
from matrix.judge.acceptance import judge_acceptance
from matrix.judge.coding import judge_coding
from matrix.judge.launch import judge_launch
from matrix.judge.load import judge_load
from matrix.judge.lossless import judge_lossless, judge_reference
from matrix.judge.power import judge_power
from matrix.judge.reference import Reference, reference_from
from matrix.judge.results import check_result
from matrix.judge.throughput import judge_throughput
from matrix.runtimes.protocol import Ended
from repro.diagnose import Log, diagnose
from repro.model import (
    CheckName,
    CheckPlan,
    CheckResult,
    CodingJudgement,
    Diagnosis,
    Environment,
    Fact,
    Outcome,
    Phase,
    PhaseTiming,
    PlanStep,
    Proof,
    Rescoring,
    Result,
    TimelineEntry,
)

_USAGE = 2
"""The exit status with which a program refuses its command line."""
_BY_KIND: Mapping[str, Outcome] = {
    "oom_gpu_init": "oom",
    "oom_gpu_graph_capture": "oom",
    "oom_gpu_serving": "oom",
    "host_oom_kill": "oom",
    "argparse_error": "refused",
    "unsupported_feature_combination": "refused",
    "hang_deadlock": "hung",
    "hang_gpu_kernel": "hung",
    "killed_by_signal_9": "killed",
    "external_kill": "killed",
    "port_in_use": "runtime_error",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptContext:
    """What the harness knows about an attempt beside its evidence. ``declared`` are facts that no probe can read;
    ``suspect`` says why the host's hardware is not to be trusted, if so."""

    run_id: str
    target: str
    step: PlanStep
    attempt: int
    overlay: Overlay
    gpu_count: int
    declared: Mapping[str, Fact]
    reference: Reference | None
    coding_reference: CodingJudgement | None = None
    rescored: rescoring.Material | None = None
    explains: int | None = None
    suspect: tuple[str, ...] = ()


def was_interrupted(evidence: Evidence) -> bool:
    """True if the attempt was ended from outside before it was done: it is no result, and is run again."""
    return any(entry.event == "interrupted" for entry in evidence.timeline)


def came_to_its_end(evidence: Evidence) -> bool:
    """True if the attempt program wrote its last word."""
    return bool(evidence.timeline) and evidence.timeline[-1].event == "attempt-ended"


def collect(context: AttemptContext, evidence: Evidence, ended: Ended) -> Result:
    """The result of an attempt, whatever its evidence holds."""
    step = context.step
    phases = phase_timings(evidence.timeline)
    outcome, detail, status, diagnosis = _outcome(evidence, phases, ended)
    if context.explains is not None and outcome == "completed":
        detail, diagnosis = _explained(evidence, detail)
    if context.suspect:  # whatever happened may be the hardware's doing: the verdict is void
        why = "; ".join(context.suspect)[:300]
        outcome, detail = (
            "runtime_error",
            f"the host's hardware is suspect: {why}; the attempt itself: {outcome}: {detail}",
        )
    proof = _proof(context, evidence) if outcome == "completed" else ()
    first = evidence.timeline[0].at if evidence.timeline else None
    last = evidence.timeline[-1].at if evidence.timeline else None
    judged = rescoring.judge(context.rescored, evidence.rescoring) if context.rescored is not None else None
    return Result(
        run_id=context.run_id,
        target=context.target,
        cell=step.cell,
        coordinates=step.coordinates,
        role=step.role,
        attempt=context.attempt,
        engine=step.engine,
        planted=step.planted,
        begun_at=first or "1970-01-01T00:00:00Z",
        ended_at=last or "1970-01-01T00:00:00Z",
        wall_s=evidence.timeline[-1].at_s if evidence.timeline else 0.0,
        outcome=outcome,
        outcome_detail=detail,
        exit_status=status,
        phases=phases,
        expectation=step.expectation,
        proof=proof,
        checks=_checks(context, evidence, phases, judged),
        diagnosis=diagnosis,
        environment=_environment(context, evidence),
        evidence=evidence_files(evidence.directory),
        explains=context.explains,
        rescoring=judged,
    )


def _outcome(
    evidence: Evidence, phases: tuple[PhaseTiming, ...], ended: Ended
) -> tuple[Outcome, str, int | None, Diagnosis | None]:
    """(outcome, detail, the launcher's exit status, diagnosis)."""
    timeline = evidence.timeline
    unread = _unread(evidence, ended)
    if unread is not None:
        return *unread, None, None
    for entry in timeline:
        if entry.event in {"port-taken", "not-started"}:
            return "runtime_error", entry.detail or entry.event, None, None
    undisturbed = _undisturbed(timeline)
    limit = next((entry for entry in undisturbed if entry.event == "phase-limit"), None)
    death = _death(undisturbed)
    if limit is not None or death is not None:
        return _failure(evidence, phases, limit, death, ended)
    cut_off = _cut_off(timeline, ended)
    if cut_off is not None:
        return *cut_off, None, None
    return "completed", "the server started, answered and stopped", _last_status(timeline), None


def _explained(evidence: Evidence, detail: str) -> tuple[str, Diagnosis | None]:
    """What an attempt with evidence hooks armed shows although it came to its end: non-finite values, which its check
    of logits writes into the log."""
    found = diagnose([Log(path=evidence.log, name="evidence/server.log")], exit_status=0, phase="serving")
    if found.kind != "nan_logits":
        return detail, None
    said = f": {found.evidence[0].text.strip()[:200]}" if found.evidence else ""
    return f"{detail}; its log says nan_logits{said}", found


def _unread(evidence: Evidence, ended: Ended) -> tuple[Outcome, str] | None:
    """What is known without asking the evidence what happened: the runtime says so, or there is none to ask."""
    outside = _from_outside(evidence, ended)
    if outside is not None:
        return outside, ended.detail
    if evidence.problems:
        return "bad_evidence", "; ".join(evidence.problems)[:500]
    if not evidence.timeline:
        return "runtime_error", f"the attempt program left no evidence: {ended.detail or ended.status}"
    return None


def _from_outside(evidence: Evidence, ended: Ended) -> Outcome | None:
    """The outcome if the runtime decides it: where the evidence breaks off, or what ended it was not the engine."""
    own_end = came_to_its_end(evidence)
    if ended.reason is None or (own_end and not was_interrupted(evidence)):
        return None  # what came after its end changes nothing
    if ended.reason == "abandoned":
        seen = any(entry.event == "phase-limit" for entry in evidence.timeline) or _death(evidence.timeline) is not None
        return None if seen else "hung"
    if ended.reason == "oom":
        return None if own_end else "oom"
    return ended.reason


def _host_oom(diagnosis: Diagnosis) -> Diagnosis:
    """The kernel killed for want of memory, which an engine's own log cannot know."""
    return replace(
        diagnosis,
        kind="host_oom_kill",
        signature=replace(diagnosis.signature, kind="host_oom_kill"),
        next_step="give the container more memory, or let the engine hold less in it",
    )


def _undisturbed(timeline: tuple[TimelineEntry, ...]) -> tuple[TimelineEntry, ...]:
    """The timeline up to where the attempt was ended from outside: what the server did after that was not its doing."""
    places = [index for index, entry in enumerate(timeline) if entry.event == "interrupted"]
    return timeline[: places[0]] if places else timeline


def _cut_off(timeline: tuple[TimelineEntry, ...], ended: Ended) -> tuple[Outcome, str] | None:
    events = {entry.event for entry in timeline}
    if "attempt-ended" not in events:
        if ended.status is not None and ended.status > 0:  # it was not killed: it failed, as without its packages
            return "runtime_error", f"the attempt program failed with status {ended.status}: {ended.detail}"
        return "killed", f"the attempt program ended early, with status {ended.status}"
    if "interrupted" in events:
        return "killed", "the attempt was ended from outside, and not by this run"
    if "server-exited" not in events:
        return "killed", "nobody saw the server end: what held it was killed, or it could not be ended"
    return None


def _failure(
    evidence: Evidence,
    phases: tuple[PhaseTiming, ...],
    limit: TimelineEntry | None,
    death: TimelineEntry | None,
    ended: Ended,
) -> tuple[Outcome, str, int | None, Diagnosis]:
    phase: Phase = next((p.phase for p in reversed(phases) if p.phase != "shutdown"), "launch")
    status = death.status if death is not None else None
    diagnosis = diagnose(
        [Log(path=evidence.log, name="evidence/server.log")],
        exit_status=status,
        phase=phase,
        timed_out=limit is not None,
        unasked=death is not None,
    )
    out_of_memory = ended.reason == "oom" or evidence.text("oom_kills.txt") is not None
    if out_of_memory and diagnosis.role != "root":
        diagnosis = _host_oom(diagnosis)
    outcome: Outcome = _BY_KIND.get(diagnosis.kind, "crashed")
    if status == _USAGE and phase == "launch" and diagnosis.kind == "unknown":
        outcome = "refused"  # how argument parsers end; nothing of the engine has run
    if limit is not None and diagnosis.role != "root" and outcome != "oom":
        outcome = "hung"
    if outcome == "refused" and phase not in {"launch", "weights_load"}:
        outcome = "crashed"
    silent = "the log does not say why" if status is None else f"exit status {status}"
    said = diagnosis.evidence[0].text if diagnosis.evidence else silent
    if diagnosis.kind == "host_oom_kill" and out_of_memory:
        said = ended.detail or "the kernel killed a process of the attempt for want of memory"
    during = f"hung in {phase} ({limit.detail})" if limit is not None else f"ended in {phase}"
    return outcome, f"{during}: {diagnosis.kind}: {said.strip()[:200]}", status, diagnosis


def _death(timeline: tuple[TimelineEntry, ...]) -> TimelineEntry | None:
    """The server's own end, before it was asked to stop."""
    for entry in timeline:
        if entry.event == "phase-begun" and entry.phase == "shutdown":
            return None
        if entry.event == "server-exited":
            return entry
    return None


def _last_status(timeline: tuple[TimelineEntry, ...]) -> int | None:
    return next((entry.status for entry in reversed(timeline) if entry.event == "server-exited"), None)


def _checks(
    context: AttemptContext, evidence: Evidence, phases: tuple[PhaseTiming, ...], judged: Rescoring | None
) -> tuple[CheckResult, ...]:
    return tuple(
        rescoring.rescoring_check(judged, context.rescored)
        if plan.check == "rescoring"
        else _check(plan, context, evidence, phases)
        for plan in context.step.checks
    )


def _check(
    plan: CheckPlan, context: AttemptContext, evidence: Evidence, phases: tuple[PhaseTiming, ...]
) -> CheckResult:
    rounds = evidence.checks
    lossless, throughput = rounds.get("lossless"), rounds.get("throughput")
    real_weights = context.step.coordinates.tier != "dummy"
    judges: Mapping[CheckName, Callable[[], CheckResult]] = {
        "launch": lambda: judge_launch(phases, tuple(rounds.values())),
        "acceptance": lambda: judge_acceptance(plan, lossless, width=context.step.expectation.width),
        "power": lambda: judge_power(plan, evidence.power),
        "lossless": lambda: (
            judge_reference(lossless, real_weights=real_weights)
            if context.step.role == "reference"
            else judge_lossless(plan, lossless, throughput, context.reference, real_weights=real_weights)
        ),
        "coding": lambda: judge_coding(
            plan,
            rounds.get("coding"),
            evidence.coding,
            context.coding_reference,
            is_reference=context.step.role == "reference",
        ),
        "throughput": lambda: judge_throughput(plan, throughput, gpu_count=context.gpu_count, raw=evidence.text),
        "load": lambda: judge_load(
            plan,
            rounds.get("load"),
            reference_from(lossless) if context.step.role == "reference" else context.reference,
        ),
    }
    if not plan.applicable and plan.check not in {"acceptance", "power"}:
        return check_result(plan.check, "not_applicable", "not_applicable", plan.reason or "not applicable")
    if plan.check not in judges:
        return check_result(plan.check, "not_run", "no_judge", f"this version has no judge for {plan.check}")
    return judges[plan.check]()


def _proof(context: AttemptContext, evidence: Evidence) -> tuple[Proof, ...]:
    histograms = [r.accept_histogram for c in evidence.checks.values() for r in c.requests if r.accept_histogram]
    return prove(
        context.step.expectation,
        overlay=context.overlay,
        server_info=evidence.document("server_info.json"),
        metrics_start=evidence.text("metrics_start.txt"),
        metrics_end=evidence.text("metrics.txt"),
        log_lines=evidence.telling_lines(),
        histograms=histograms,
        argv=context.step.argv,
        version=context.step.engine.version,
        environment=context.step.environment,
    )


def _environment(context: AttemptContext, evidence: Evidence) -> Environment:
    """What the probe read beside the engine; and, where it could not, what the spec declares."""
    probed = evidence.environment
    facts = dict(probed.facts) if probed else {}
    for name, fact in context.declared.items():
        if name not in facts or facts[name].value is None:
            facts[name] = fact
    return Environment(facts=dict(sorted(facts.items())), packages=dict(probed.packages) if probed else {})
