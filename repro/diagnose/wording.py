"""Kinds in words, and the last step to a record."""

from typing import Literal, cast

from repro.diagnose.catalogue import Pattern, compiled
from repro.diagnose.events import Event
from repro.diagnose.kinds import KIND_STEPS
from repro.model import Component, Diagnosis, LogLine, Phase, Signature

Coarse = Literal["start", "capture", "serving", "shutdown", "none"]

_COARSE: dict[Phase, Coarse] = {
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


def coarse(phase: Phase) -> Coarse:
    """The phase as signatures have it."""
    return _COARSE[phase]


def next_step(pattern: Pattern, kind: str, role: str) -> str:
    """What to do: a symptom asks for the evidence that its cause would be in."""
    step = pattern.next_step or KIND_STEPS.get(kind, KIND_STEPS["unknown"])
    if role == "root" or pattern.ask_for is None or pattern.ask_for in step:
        return step
    return f"ask for {pattern.ask_for}; {step}"


def known_report(event: Event, engine: str | None) -> str | None:
    """A public report of the same failure, with the date of what is said about it."""
    texts = (event.text, *event.near)
    for known in event.pattern.known:
        if known.engine is not None and engine is not None and known.engine != engine:
            continue
        if known.regex is None or any(compiled(known.regex).search(text) for text in texts):
            return f"{known.where} (as of {known.dated}): {known.says}"
    return None


def conclude(
    *,
    kind: str,
    phase: Phase,
    role: str,
    component: Component,
    confidence: str,
    evidence: tuple[LogLine, ...],
    follow_ons: tuple[LogLine, ...],
    subsystem: str | None,
    step: str,
    known: str | None,
) -> Diagnosis:
    """The record; ``role`` and ``confidence`` are words of its schema."""
    return Diagnosis(
        kind=kind,
        phase=phase,
        role=cast("Literal['root', 'symptom', 'none']", role),
        component=component,
        confidence=cast("Literal['high', 'medium', 'low']", confidence),
        evidence=evidence,
        follow_ons=follow_ons,
        signature=Signature(kind=kind, phase=coarse(phase), subsystem=subsystem),
        next_step=step,
        known=known,
    )
