"""From an answer to what became of it, with a sandbox that plays what it reports."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from matrix.coding.answers import judge_answers, outcome_of, stored_judgement, with_judgement
from matrix.coding.sandbox import NoSandbox, Ran, SandboxError
from matrix.coding.tasks import Case, built_in_tasks
from matrix.evidence import Evidence
from repro.model import CheckEvidence, RequestRecord

TASK = next(task for task in built_in_tasks() if task.id == "merge-intervals")
CODE = "def merge_intervals(intervals):\n    return intervals\n"
FENCED = f"Here:\n```python\n{CODE}```"


@dataclass
class Playing:
    """A sandbox that reports what it is told to, and remembers what it was given."""

    report: str = ""
    ended: Literal["exited", "signalled", "timed_out", "out_of_memory", "flooded"] = "exited"
    broken: str | None = None
    image: str | None = "sha256:1"
    reason: str | None = None
    ran: list[tuple[str, str]] = field(default_factory=list)

    def run(self, code: str, cases: Sequence[Case], label: str) -> Ran:
        self.ran.append((code, label))
        if self.broken:
            raise SandboxError(self.broken)
        return Ran(ended=self.ended, status=0, report=self.report)

    def reap_leftovers(self, prefix: str) -> int:
        return 0


def lines(*changes: dict[str, Any]) -> str:
    """The report of an answer that passes, with these entries in place of those of the same number."""
    entries: dict[object, dict[str, Any]] = {
        n: {"case": n, "value": case.expected} for n, case in enumerate(TASK.cases)
    }
    entries |= {change["case"]: change for change in changes}
    return "\n".join(json.dumps(entry) for entry in [{"loaded": True}, *entries.values()])


def asked(text: str | None, **changes: Any) -> CheckEvidence:
    facts: dict[str, Any] = {
        "prompt": TASK.id,
        "concurrency": 1,
        "repeat": 1,
        "cancelled": False,
        "asked_tokens": 1024,
        "begun_s": 0.0,
        "first_token_s": None,
        "ended_s": 1.0,
        "status": 200,
        "error": None,
        "finish_reason": "stop",
        "output_ids": (),
        "output_text": text,
        "usage_tokens": 9,
        "verify_calls": None,
        "accept_histogram": None,
        "margins": None,
        "token_times": (),
        **changes,
    }
    return CheckEvidence(
        check="coding",
        begun_s=0.0,
        ended_s=1.0,
        complete=True,
        stopped_because=None,
        requests=(RequestRecord(**facts),),
        server_accept_length=None,
        counts=(),
    )


def outcome(text: str | None, sandbox: Any, **changes: Any) -> Any:
    (found,) = judge_answers(asked(text, **changes), built_in_tasks(), sandbox, label="x/run/cell/1/coding").tasks
    return found


def test_a_right_answer_passes() -> None:
    sandbox = Playing(lines())
    found = outcome(FENCED, sandbox)
    assert (found.task, found.state, found.detail) == (TASK.id, "passed", "8 tests passed")
    assert sandbox.ran == [(CODE, "x/run/cell/1/coding/merge-intervals")]
    assert found.code_sha256 == hashlib.sha256(CODE.encode()).hexdigest()


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ("", "0 of 8 tests passed"),
        ("passed", "spoiled the report"),
        ("[]", "spoiled the report"),
        ("[" * 100_000, "spoiled the report"),
        (lines({"case": 1, "value": []}), "7 of 8 tests passed; `merge_intervals([[5, 8]])` gives [], not [[5, 8]]"),
        (lines({"case": 1, "raised": ["TypeError", "Exception"], "said": "no"}), "gives TypeError: no"),
        (lines({"case": 1}), "gives nothing"),
        (lines() + '\n{"case": 1, "value": [[5, 8]]}', "reported twice"),
        (lines({"case": 1.0, "value": [[5, 8]]}), "no result"),
        (json.dumps({"loaded": False, "raised": ["SyntaxError"], "said": "bad"}), "does not load: SyntaxError: bad"),
        (json.dumps({"loaded": False, "raised": 7}) + "\n" + lines(), "does not load"),
        (lines({"case": 7, "raised": "ValueError", "value": "passed"}), "7 of 8"),
    ],
)  # fmt: skip
def test_a_report_that_lacks_a_value_fails(report: str, words: str) -> None:
    state, detail = outcome_of(TASK, Ran(ended="exited", status=0, report=report))
    assert state == "failed"
    assert words in detail


@pytest.mark.parametrize(
    ("ended", "state"),
    [("timed_out", "timed_out"), ("out_of_memory", "out_of_memory"), ("signalled", "crashed"), ("flooded", "failed")],
)
def test_an_answer_that_does_not_end_well_fails_whatever_it_reports(ended: Any, state: str) -> None:
    assert outcome_of(TASK, Ran(ended=ended, status=11, report=lines()))[0] == state


def test_an_exception_that_is_expected_passes_by_its_base_classes_too() -> None:
    task = next(task for task in built_in_tasks() if task.id == "parse-duration")
    entries = [
        {"case": n, "value": case.expected} if case.raises is None else {"case": n, "raised": ["Mine", "ValueError"]}
        for n, case in enumerate(task.cases)
    ]
    report = "\n".join(map(json.dumps, entries))
    assert outcome_of(task, Ran(ended="exited", status=0, report=report))[0] == "passed"
    assert (
        outcome_of(task, Ran(ended="exited", status=0, report=report.replace("ValueError", "OSError")))[0] == "failed"
    )


@pytest.mark.parametrize(
    ("text", "changes", "state", "words"),
    [
        (None, {"error": "HTTP 400: no chat template"}, "no_answer", "no chat template"),
        ("", {}, "no_answer", "empty"),
        (" \n", {}, "no_answer", "empty"),
        ("I cannot.", {}, "no_code", "no code that defines merge_intervals"),
        ("Let me thi", {"finish_reason": "length"}, "no_code", "cut off at the token limit"),
        (f"<think>\n{FENCED}", {"finish_reason": "length"}, "passed", "within its reasoning"),
    ],
)
def test_what_there_is_of_an_answer(text: str | None, changes: dict[str, Any], state: str, words: str) -> None:
    found = outcome(text, Playing(lines()), **changes)
    assert found.state == state
    assert words in found.detail


def test_without_a_sandbox_nothing_is_run() -> None:
    judgement = judge_answers(asked(FENCED), built_in_tasks(), NoSandbox(reason="no Docker"), label="x")
    assert (judgement.sandbox, judgement.reason) == (None, "no Docker")
    assert [(task.state, task.detail) for task in judgement.tasks] == [("not_judged", "no Docker")]


def test_a_sandbox_that_breaks_judges_nothing() -> None:
    found = outcome(FENCED, Playing(broken="docker: the daemon went away"))
    assert (found.state, found.detail) == ("not_judged", "docker: the daemon went away")


def test_the_judgement_is_stored_beside_the_evidence(tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    evidence = Evidence(
        directory=tmp_path,
        timeline=(),
        checks={"coding": asked(FENCED)},
        power=None,
        environment=None,
        coding=None,
        rescoring=None,
        problems=(),
    )  # fmt: skip
    judged = with_judgement(evidence, Playing(lines()), label="x")
    assert judged.coding is not None
    assert stored_judgement(tmp_path) == judged.coding
    assert stored_judgement(tmp_path / "other") is None
