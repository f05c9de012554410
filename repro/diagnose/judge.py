"""What was read, measured and seen from outside -> one diagnosis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from repro.diagnose.causality import LIVE, Case, fatal_events, roots, symptoms, torn_by
from repro.diagnose.collectives import laggard
from repro.diagnose.component import locate, subsystem_of
from repro.diagnose.events import Event, Observed
from repro.diagnose.kinds import KIND_STEPS
from repro.diagnose.matcher import SUSPICIOUS
from repro.diagnose.prefixes import without_lead
from repro.diagnose.probes import ProbeVerdict, judge_probes
from repro.diagnose.statuses import by_status, plain_status
from repro.diagnose.timeline import Placed, Timeline, proven_by_traceback, timeline
from repro.diagnose.wording import coarse, conclude, known_report, next_step
from repro.model import Component, Diagnosis, LogLine, Phase, Scalar

_MOST_EVIDENCE = 6
_MOST_FOLLOW_ONS = 20
_MOST_SUSPICIOUS = 5
_FEW_GAUGES = 5
_FLOOR = 1.02
_HIGHEST_AT_FLOOR = 1.1
_NOWHERE = Component(kernel=None, function=None, file=None, rank=None)
_OF_OUTPUT = LIVE - {"client_error", "perf_regression"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Outside:
    """What is known beside the logs. ``status``: as the parent saw it, negative for a signal, None if alive or unknown;
    ``limit``: a time limit was reached; ``unasked``: it ended though nobody had asked it to, so that status 0 is no
    good end; ``phase``: the phase that the harness saw it in."""

    status: int | None = None
    limit: bool = False
    unasked: bool = False
    phase: Phase | None = None
    probes: Mapping[str, Scalar] | None = None


def judge(logs: Sequence[Observed], kernel: Observed | None, outside: Outside) -> Diagnosis:
    """The diagnosis of a server whose logs were read. ``kernel`` is the kernel's log."""
    status, limited = plain_status(outside.status)
    outside = replace(outside, status=status, limit=outside.limit or limited)
    time = timeline(logs)
    placed = (*time.placed, *_of_kernel(kernel, time))
    number = _deciding(placed, time, outside)
    probes = judge_probes(outside.probes)
    case = Case(
        placed=tuple(item for item in placed if item.launch == number),
        launch=time.launches[min(number, len(time.launches) - 1)],
        status=1 if outside.unasked and status in {None, 0} else status,
        well=probes.well,
        limit=outside.limit,
    )
    return _Judge(case, logs, time, outside, probes).diagnosis()


def _of_kernel(kernel: Observed | None, time: Timeline) -> list[Placed]:
    """The kernel's events belong to the launch that failed."""
    if kernel is None:
        return []
    number = next((n for n, launch in enumerate(time.launches) if launch.failed), len(time.launches) - 1)
    deaths = [p.phase for p in time.placed if p.launch == number and "fatal" in p.event.pattern.tags and not p.stopping]
    phase = deaths[0] if deaths else time.launches[number].phase
    return [
        Placed(event=event, launch=number, phase=event.pattern.phase or phase, stopping=False)
        for event in kernel.events
    ]


def _deciding(placed: Sequence[Placed], time: Timeline, outside: Outside) -> int:
    """The launch that decides: the first that failed; of several that did not, the last."""
    for number, launch in enumerate(time.launches):
        events = tuple(item for item in placed if item.launch == number)
        last = number == len(time.launches) - 1
        case = Case(
            placed=events, launch=launch, status=outside.status if last else None, well=None, limit=outside.limit
        )
        if launch.failed and (roots(case) or (not last and (symptoms(case) or fatal_events(case)))):
            return number
    return len(time.launches) - 1


class _Judge:
    def __init__(
        self, case: Case, logs: Sequence[Observed], time: Timeline, outside: Outside, probes: ProbeVerdict
    ) -> None:
        self._case = case
        self._logs = logs
        self._time = time
        self._outside = outside
        self._probes = probes

    def diagnosis(self) -> Diagnosis:
        causes = roots(self._case)
        if causes and not (causes[0].event.pattern.weak and self._probes.kind in _OF_OUTPUT):
            return self._from_event(causes[0], "root")
        clean = self._outside.status in {None, 0} and not self._outside.unasked and not self._outside.limit
        if self._probes.kind is not None and (clean or not self._case.placed):
            return self._from_probes()
        if clean and (live := self._from_gauges()) is not None:
            return live
        effects = self._effects()
        if effects:
            return self._from_effect(effects)
        return self._from_outside(clean)

    def _effects(self) -> list[Placed]:
        found = symptoms(self._case)
        if self._outside.limit:  # then we ended it ourselves: its word on who did is about us
            found = [item for item in found if item.event.pattern.kind != "external_kill"]
        return found

    def _from_event(self, decisive: Placed, role: str, kind: str | None = None, rank: str | None = None) -> Diagnosis:
        kind = _memory_kind(kind or decisive.event.pattern.kind or "unknown", decisive.phase)
        component = locate(decisive, self._case.placed)
        if rank is not None:
            component = replace(component, rank=rank)
        evidence = self._evidence(decisive)
        return conclude(
            kind=kind,
            phase=decisive.phase,
            role="root" if role == "root" else "symptom",
            component=component,
            confidence=self._confidence(decisive, role),
            evidence=evidence,
            follow_ons=self._follow_ons(evidence),
            subsystem=subsystem_of(kind, decisive.event.pattern.subsystem, component),
            step=next_step(decisive.event.pattern, kind, role) + self._repeats(),
            known=known_report(decisive.event, self._time.engine),
        )

    def _confidence(self, decisive: Placed, role: str) -> str:
        if role != "root":
            return "medium" if decisive.event.pattern.kind != "unknown" else "low"
        if decisive.event.pattern.kind == "oom_gpu" and not self._phase_shown(decisive.event):
            return "low"  # its kind says a phase that nothing shows
        unsure = decisive.event.pattern.weak or decisive.event.pattern.kind == "unknown"
        return "medium" if unsure else "high"

    def _phase_shown(self, event: Event) -> bool:
        proven = event.pattern.phase or proven_by_traceback(event)
        return proven is not None or self._case.launch.phase_shown(event)

    def _evidence(self, decisive: Placed) -> tuple[LogLine, ...]:
        kind = decisive.event.pattern.kind
        same = [item.event.line for item in self._case.placed if item.event.pattern.kind == kind and not item.stopping]
        tags = set(decisive.event.pattern.needs)
        needed = [item.event.line for item in self._case.placed if tags & set(item.event.pattern.tags)]
        xids = [
            item.event.line
            for item in self._case.placed
            if "xid" in item.event.groups and item.event.pattern.role == "root"
        ]
        torn = [item.event.line for item in torn_by(decisive, self._case)]  # without those it is a stop in good order
        lines = dict.fromkeys([decisive.event.line, *needed, *torn, *same, *xids])
        return tuple(lines)[:_MOST_EVIDENCE]

    def _follow_ons(self, evidence: Sequence[LogLine]) -> tuple[LogLine, ...]:
        roles = {"root", "symptom", "follow_on"}
        lines = [item.event.line for item in self._case.placed if item.event.pattern.role in roles]
        return tuple(line for line in dict.fromkeys(lines) if line not in evidence)[:_MOST_FOLLOW_ONS]

    def _repeats(self) -> str:
        failed = sum(1 for launch in self._time.launches if launch.failed)
        return f" (the log holds {failed} launches that failed; this is the first of them)" if failed > 1 else ""

    def _from_effect(self, effects: Sequence[Placed]) -> Diagnosis:
        late = laggard(self._case.placed)
        first = effects[0]
        if late is not None and first.event.pattern.kind in {"hang_gpu_kernel", "hang_deadlock", "peer_lost"}:
            timeout = late.events[0]
            if late.rank is not None:
                found = self._from_event(timeout, "symptom", kind="hang_gpu_kernel", rank=late.rank)
                return replace(found, next_step=_ask_rank(late.rank, late.waiting) + self._repeats())
            first = timeout
        if first.event.pattern.kind == "unknown":
            return self._unknown(first.phase, first)
        return self._from_event(first, "symptom")

    def _from_probes(self) -> Diagnosis:
        kind = self._probes.kind or "unknown"
        line = self._gauge_line() if kind.startswith("accept") else None
        gauges = (line.line,) if line is not None else ()
        return conclude(
            kind=kind,
            phase="serving",
            role="root",
            component=_NOWHERE,
            confidence="high" if kind != "client_error" else "medium",
            evidence=gauges,
            follow_ons=self._follow_ons(gauges),
            subsystem=subsystem_of(kind, None, _NOWHERE),
            step=f"{KIND_STEPS[kind]} (probes: {self._probes.said})",
            known=None,
        )

    def _gauge_line(self) -> Event | None:
        return next((log.gauges.accept_line for log in self._logs if log.gauges.accept_line is not None), None)

    def _from_gauges(self) -> Diagnosis | None:
        """What the server says of itself shows a draft that helps nothing, or graphs that are not used."""
        lengths = [length for log in self._logs for length in log.gauges.accept_lengths]
        eager = sum(log.gauges.without_graph for log in self._logs)
        replayed = sum(log.gauges.with_graph for log in self._logs)
        captured = any(p.marker.phase == "graph_capture" for p in self._case.launch.passages)
        if len(lengths) >= _FEW_GAUGES and median(lengths) <= _FLOOR and max(lengths) <= _HIGHEST_AT_FLOOR:
            return self._live("accept_length_collapse", self._gauge_line())
        if captured and eager >= _FEW_GAUGES and not replayed:
            line = next((log.gauges.eager_line for log in self._logs if log.gauges.eager_line is not None), None)
            return self._live("graph_not_replayed", line)
        return None

    def _live(self, kind: str, event: Event | None) -> Diagnosis:
        lines = () if event is None else (event.line,)
        return conclude(
            kind=kind,
            phase="serving",
            role="root",
            component=_NOWHERE,
            confidence="medium",
            evidence=lines,
            follow_ons=self._follow_ons(lines),
            subsystem=subsystem_of(kind, None, _NOWHERE),
            step=KIND_STEPS[kind],
            known=None,
        )

    def _from_outside(self, clean: bool) -> Diagnosis:
        died = fatal_events(self._case)
        if clean and not died:
            return self._fine()
        phase = self._outside.phase or self._case.launch.phase
        if self._outside.limit:
            return self._plain("hang_deadlock", phase, "low")
        kind = by_status(self._outside.status)
        raised = any(
            _is_exception(item.event.text)
            for item in self._case.placed
            if item.event.pattern is SUSPICIOUS or item.event.pattern.role in {"root", "symptom"}
        )
        if kind is None or (kind == "killed_by_signal_9" and (died or raised)):  # launchers kill what has failed
            return self._unknown(died[0].phase if died else phase, died[0] if died else None)
        return self._plain(kind, phase, "low")

    def _fine(self) -> Diagnosis:
        launch = self._case.launch
        suspicious = self._suspicious()
        if self._outside.status is None and self._probes.well is None:
            after = [item for item in suspicious if not launch.goes_on_after(item.event)]
            if after and not launch.stopped:
                return self._unknown(after[0].phase, None)
            if launch.phase != "serving" and not launch.stopped:
                return self._unknown(launch.phase, None)
        if not any(log.size_bytes for log in self._logs) and self._probes.well is None:
            return self._unknown(self._outside.phase or "launch", None)
        sure = self._time.marked or bool(self._probes.well)
        return conclude(
            kind="ok",
            phase="none",
            role="none",
            component=_NOWHERE,
            confidence="high" if sure and (self._outside.status == 0 or self._probes.well) else "low",
            evidence=(),
            follow_ons=(),
            subsystem=None,
            step=KIND_STEPS["ok"] if sure else KIND_STEPS["ok_unmarked"],
            known=None,
        )

    def _plain(self, kind: str, phase: Phase, confidence: str) -> Diagnosis:
        lines = tuple(item.event.line for item in self._suspicious())[:_MOST_SUSPICIOUS]
        return conclude(
            kind=kind,
            phase=phase,
            role="symptom",
            component=_NOWHERE,
            confidence=confidence,
            evidence=(),
            follow_ons=self._follow_ons(()) or lines,
            subsystem=subsystem_of(kind, None, _NOWHERE),
            step=KIND_STEPS[kind],
            known=None,
        )

    def _suspicious(self) -> list[Placed]:
        """Lines that a person would look at: exceptions first, then the rest, each group in its order."""
        found = [item for item in self._case.placed if item.event.pattern is SUSPICIOUS]
        return sorted(found, key=lambda item: (not _is_exception(item.event.text), item.event.order))

    def _unknown(self, phase: Phase, decisive: Placed | None) -> Diagnosis:
        suspicious = self._suspicious()
        first = suspicious[0] if suspicious and _is_exception(suspicious[0].event.text) else decisive
        place = first or (suspicious[0] if suspicious else None)
        component = locate(first, self._case.placed) if first is not None else _NOWHERE
        lines = [item.event.line for item in suspicious]
        if decisive is not None and (decisive.event.pattern.role == "symptom" or not lines):
            lines.insert(0, decisive.event.line)
        lines = lines[:_MOST_SUSPICIOUS]
        step = KIND_STEPS["unknown"]
        if decisive is not None and decisive.event.pattern.role == "symptom":
            step = next_step(decisive.event.pattern, "unknown", "symptom")
        if not lines:
            step = KIND_STEPS["unknown_silent"]
        return conclude(
            kind="unknown",
            phase=place.phase if place is not None else phase,
            role="symptom",
            component=component,
            confidence="low",
            evidence=tuple(lines),
            follow_ons=self._follow_ons(lines),
            subsystem=subsystem_of("unknown", None, component) if coarse(phase) != "none" else None,
            step=step + self._repeats(),
            known=None,
        )


def _is_exception(text: str) -> bool:
    bare = without_lead(text).strip()
    name = bare.split(":", 1)[0].split("(", 1)[0]
    named = name.replace(".", "").replace("_", "").isalnum() and name.endswith(
        ("Error", "Exception", "Interrupt", "Exit")
    )
    return named or bare.startswith(("Fatal", "fatal", "FATAL", "panic"))


def _memory_kind(kind: str, phase: Phase) -> str:
    if kind != "oom_gpu":
        return kind
    by_phase = {"start": "oom_gpu_init", "capture": "oom_gpu_graph_capture"}
    return by_phase.get(coarse(phase), "oom_gpu_serving")


def _ask_rank(rank: str, waiting: Sequence[str]) -> str:
    others = ", ".join(waiting)
    return (
        f"take a dump of rank {rank} (py-spy dump --native, cuda-gdb) while it hangs: ranks {others} wait for it, and "
        "it never came to the collective, so an earlier kernel or call of its own does not end"
    )
