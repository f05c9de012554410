"""Answers to coding tasks -> what became of each: code is found, run in the sandbox, and its values compared here."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from matrix.coding.extraction import find_code
from matrix.coding.sandbox import Ran, Sandbox, SandboxError
from matrix.coding.tasks import Case, CodingTask, built_in_tasks
from matrix.evidence import Evidence
from repro import codec, store
from repro.errors import RecordError
from repro.model import CheckEvidence, CodingJudgement, RequestRecord, TaskOutcome

State: TypeAlias = Literal["passed", "failed", "timed_out", "out_of_memory", "crashed"]

SHOWN = 80
"""Characters of a value that an outcome quotes."""
_ENDS: Mapping[str, tuple[State, str]] = {
    "out_of_memory": ("out_of_memory", "the kernel ended it for want of memory"),
    "timed_out": ("timed_out", "it did not end in time"),
    "flooded": ("failed", "it wrote more than it may"),
}


def with_judgement(evidence: Evidence, sandbox: Sandbox, *, label: str) -> Evidence:
    """The evidence of an attempt with what became of its answers, which is stored beside it; as it is if no task was
    asked. ``label`` marks the containers."""
    asked = evidence.checks.get("coding")
    if asked is None or not asked.requests:
        return evidence
    judgement = judge_answers(asked, built_in_tasks(), sandbox, label=f"{label}/coding")
    store.write_record(evidence.directory / "evidence" / "coding.json", judgement)
    return replace(evidence, coding=judgement)


def stored_judgement(attempt: Path) -> CodingJudgement | None:
    """What became of the answers of an earlier attempt; None if nobody judged them."""
    try:
        return codec.read(attempt / "evidence" / "coding.json", CodingJudgement)
    except RecordError:
        return None


def judge_answers(
    evidence: CheckEvidence, tasks: Sequence[CodingTask], sandbox: Sandbox, *, label: str
) -> CodingJudgement:
    """What became of the answers in ``evidence``, in the order of the tasks; a task that was not asked is left out.
    ``label`` marks the containers."""
    answers = {request.prompt: request for request in evidence.requests}
    asked = [task for task in tasks if task.id in answers]
    outcomes = [_outcome(task, answers[task.id], sandbox, label=f"{label}/{task.id}") for task in asked]
    return CodingJudgement(sandbox=sandbox.image, reason=sandbox.reason, tasks=tuple(outcomes))


def _outcome(task: CodingTask, answer: RequestRecord, sandbox: Sandbox, *, label: str) -> TaskOutcome:
    if answer.error is not None or not (answer.output_text or "").strip():
        why = f"the request failed: {answer.error}"[:200] if answer.error is not None else "the answer is empty"
        return TaskOutcome(task=task.id, state="no_answer", detail=why, code_sha256=None)
    found = find_code(answer.output_text or "", task.entry_point)
    notes = [*found.notes, *(["the answer was cut off at the token limit"] if answer.finish_reason == "length" else [])]
    if found.code is None:
        detail = "; ".join([f"no code that defines {task.entry_point}", *notes])
        return TaskOutcome(task=task.id, state="no_code", detail=detail, code_sha256=None)
    digest = hashlib.sha256(found.code.encode()).hexdigest()
    if sandbox.image is None:
        return TaskOutcome(task=task.id, state="not_judged", detail=sandbox.reason or "", code_sha256=digest)
    try:
        ran = sandbox.run(found.code, task.cases, label)
    except SandboxError as problem:
        return TaskOutcome(task=task.id, state="not_judged", detail=str(problem), code_sha256=digest)
    state, words = outcome_of(task, ran)
    return TaskOutcome(task=task.id, state=state, detail="; ".join([words, *notes]), code_sha256=digest)


def outcome_of(task: CodingTask, ran: Ran) -> tuple[State, str]:
    """(state, words) for what the sandbox reported. The report may be forged: it passes only if it gives every value
    that the tests expect, each once, and these the sandbox was never told."""
    if ran.ended == "signalled":
        return "crashed", f"its process was ended by signal {ran.status}"
    if ran.ended != "exited":
        return _ENDS[ran.ended]
    reports = _reports(ran.report)
    if reports is None:
        return "failed", "it spoiled the report of the tests"
    unloaded = next((entry for entry in reports if entry.get("loaded") is False), None)
    if unloaded is not None:
        return "failed", f"it does not load: {_raised(unloaded)}"
    wrong = [why for number, case in enumerate(task.cases) if (why := _wrong(number, case, reports)) is not None]
    if wrong:
        return "failed", f"{len(task.cases) - len(wrong)} of {len(task.cases)} tests passed; {wrong[0]}"
    return "passed", f"{len(task.cases)} tests passed"


def _wrong(number: int, case: Case, reports: Sequence[Mapping[str, object]]) -> str | None:
    """Why the case did not pass, None if it did."""
    mine = [entry for entry in reports if _number(entry) == number]
    if len(mine) != 1:
        return f"`{case.value}`: " + ("no result: the answer ended the program" if not mine else "reported twice")
    (entry,) = mine
    if case.raises is not None:
        if case.raises in _names(entry):
            return None
        return f"`{case.value}` does not raise {case.raises} but gives {_shown(entry)}"
    if "value" in entry and entry["value"] == case.expected:
        return None
    return f"`{case.value}` gives {_shown(entry)}, not {json.dumps(case.expected)[:SHOWN]}"


def _reports(text: str) -> list[Mapping[str, object]] | None:
    """The lines of a report; None if one of them is no JSON object."""
    found: list[Mapping[str, object]] = []
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(entry, dict):
            return None
        found.append(entry)
    return found


def _number(entry: Mapping[str, object]) -> int | None:
    number = entry.get("case")
    return number if type(number) is int else None


def _names(entry: Mapping[str, object]) -> tuple[str, ...]:
    names = entry.get("raised")
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def _raised(entry: Mapping[str, object]) -> str:
    return f"{(*_names(entry), 'nothing')[0]}: {entry.get('said', '')}"[:SHOWN]


def _shown(entry: Mapping[str, object]) -> str:
    return json.dumps(entry["value"])[:SHOWN] if "value" in entry else _raised(entry)
