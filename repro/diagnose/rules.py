"""Events -> one diagnosis: causes before consequences, and the first cause before later ones."""

import re
from collections.abc import Sequence
from typing import Literal

from repro.diagnose.reader import Event
from repro.model import Component, Diagnosis, LogLine, Phase, Signature

_COARSE: dict[Phase, Literal["start", "capture", "serving", "shutdown", "none"]] = {
    "image_build": "start",
    "container_start": "start",
    "launch": "start",
    "weights_load": "start",
    "graph_capture": "capture",
    "warmup": "serving",
    "serving": "serving",
    "shutdown": "shutdown",
    "none": "none",
}
_OUR_SIGQUIT = re.compile(r"SIGQUIT received|[Rr]eceived sigquit")
"""What SGLang says when it is asked for its own dump, as a hanging server may be."""
_BY_STATUS: dict[int, tuple[str, str]] = {
    -9: ("killed_by_signal_9", "look in the kernel log for the OOM killer"),
    -11: ("segfault", "get a core dump: the log has no stack"),
    -15: ("external_kill", "find who stopped it"),
    -2: ("external_kill", "find who stopped it"),
}


def judge(
    events: Sequence[Event], *, exit_status: int | None, phase: Phase, timed_out: bool, unasked: bool = False
) -> Diagnosis:
    """What the log and the exit status say together.

    ``exit_status`` is the launcher's, negative for a signal, None if it was alive; ``phase`` the phase it was in;
    ``timed_out`` whether a phase or a check ran into its limit; ``unasked`` whether it ended though nobody had asked it
    to, so that even status 0 is no good end. The launcher of SGLang ends by SIGKILL after any death of a scheduler, so
    status -9 is a cause only when the log has none.
    """
    causes = [event for event in events if event.pattern.cause]
    root = next((event for event in causes if not event.pattern.lowest), causes[0] if causes else None)
    if root is not None:
        return _from_event(root, events, "root" if root.pattern.kind != "unknown" else "symptom")
    if timed_out:  # then we stopped the server ourselves, and its word on who killed it is about us
        events = [e for e in events if e.pattern.kind != "external_kill" and not _OUR_SIGQUIT.search(e.line.text)]
    consequences = [event for event in events if event.pattern.kind != "unknown"] or list(events)
    if consequences:
        return _from_event(consequences[0], events, "symptom")
    if timed_out:
        return _plain("hang_deadlock", phase, "symptom", "take stacks of every rank (py-spy dump) before it is stopped")
    if exit_status in {None, 0} and not unasked:
        return _plain("ok", "none", "none", "nothing to do")
    kind, step = _BY_STATUS.get(exit_status or 0, ("unknown", "read the end of the log"))
    return _plain(kind, phase, "symptom", step)


def _from_event(event: Event, events: Sequence[Event], role: Literal["root", "symptom"]) -> Diagnosis:
    kind = _memory_kind(event) if event.pattern.kind == "oom_gpu" else event.pattern.kind
    others = tuple(other.line for other in events if other is not event)
    return _diagnosis(kind, event.phase, role, event.pattern.next_step, evidence=(event.line,), follow_ons=others)


def _memory_kind(event: Event) -> str:
    by_phase = {"start": "oom_gpu_init", "capture": "oom_gpu_graph_capture"}
    return by_phase.get(_COARSE[event.phase], "oom_gpu_serving")


def _plain(kind: str, phase: Phase, role: Literal["symptom", "none"], next_step: str) -> Diagnosis:
    return _diagnosis(kind, phase, role, next_step, evidence=(), follow_ons=())


def _diagnosis(
    kind: str,
    phase: Phase,
    role: Literal["root", "symptom", "none"],
    next_step: str,
    *,
    evidence: tuple[LogLine, ...],
    follow_ons: tuple[LogLine, ...],
) -> Diagnosis:
    return Diagnosis(
        kind=kind,
        phase=phase,
        role=role,
        component=Component(kernel=None, function=None, file=None, rank=None),
        confidence="high" if role in {"root", "none"} else "low",
        evidence=evidence,
        follow_ons=follow_ons,
        signature=Signature(kind=kind, phase=_COARSE[phase], subsystem=None),
        next_step=next_step,
        known=None,
    )
