"""Rules are made of what was seen, hold for it, and not for launches in which nothing failed."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repro import codec
from repro.bundle.contents import Contents, GatheredAttempt
from repro.bundle.expectation import expectation
from repro.bundle.patterns import common_pattern, pattern_of
from repro.model import (
    BundleOracle,
    CheckResult,
    Diagnosis,
    Difference,
    LogLine,
    OracleAnswer,
    Outcome,
    Result,
    Signature,
    Step,
    Subject,
    Verdict,
)

DATA = Path(__file__).parents[3] / "data"
RESULT = codec.read(DATA / "records" / "result-v2.json", Result)
STEP = codec.read(DATA / "records" / "step-v2.json", Step)
IDS = (5, 6, 7, 8)
ILLEGAL = "[2026-11-30 08:07:26 TP3] RuntimeError: CUDA error: an illegal memory access was encountered"
LINES = (
    ILLEGAL,
    "[2026-11-30 08:07:24] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
    "[2026-11-30 08:07:24 TP0] Subprocess scheduler_0 (pid=1234) crashed with exit code -9.",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.1 GiB.",
    '  File "/home/jane/sglang/python/sglang/srt/managers/scheduler.py", line 123, in run_batch',
    "gpu-17:4711:4822 [2] NCCL WARN Cuda failure 802 'system not yet initialized' from gpu-17 at 10.0.0.3",
    "Fatal Python error: Segmentation fault",
    "launch_server.py: error: unrecognized arguments: --no-such-flag",
    "RuntimeError: (a+)+$ [brackets] {braces} \\d and a | pipe at 0x7f12ab34",
)


def redact(line: str) -> str:
    """As a redactor would: names of the place give way to words of other lengths."""
    for secret, name in (("jane", "user-1"), ("gpu-17", "host-1 (of 3)"), ("10.0.0.3", "ip-1")):
        line = line.replace(secret, name)
    return line


def elsewhere(line: str) -> str:
    """The same line of another machine, at another time, from another rank."""
    for old, new in (
        ("2026-11-30 08:07:2", "2027-01-02 23:59:5"),
        ("TP3", "TP11"),
        ("pid=1234", "pid=987654"),
        ("scheduler_0", "scheduler_7"),
        ("2.00 GiB. GPU 3", "512.00 GiB. GPU 11"),
        ("/home/jane/sglang", "/opt/venv"),
        ("line 123", "line 4567"),
        ("0x7f12ab34", "0xdeadbeef0000"),
        ("gpu-17", "another"),
        ("4711:4822", "1:22"),
    ):
        line = line.replace(old, new)
    return line


@pytest.mark.parametrize("line", LINES)
def test_a_pattern_matches_its_line_redacted_and_elsewhere(line: str) -> None:
    found = pattern_of(line, redact)
    assert found is not None
    for text in (line, redact(line), elsewhere(line)):
        assert re.search(found.pattern, text), (found.pattern, text)
    assert "jane" not in found.pattern + found.says
    assert "gpu-17" not in found.pattern + found.says


@pytest.mark.parametrize("line", LINES)
def test_a_pattern_matches_no_other_line(line: str) -> None:
    found = pattern_of(line, redact)
    assert found is not None
    assert [other for other in LINES if re.search(found.pattern, other)] == [line]


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("crashed with exit code -9.", "crashed with exit code 3."),
        ("NCCL WARN Cuda failure 802 here", "NCCL WARN Cuda failure 999 here"),
        ("process received signal 11 from the kernel", "process received signal 6 from the kernel"),
    ],
)
def test_a_number_that_says_which_failure_it_is_stays(line: str, other: str) -> None:
    found = pattern_of(line, str)
    assert found is not None
    assert re.search(found.pattern, line)
    assert not re.search(found.pattern, other)


@pytest.mark.parametrize("line", ["", "12:30:11 404", "x", "[2026-11-30 08:07:26] 1 2 3"])
def test_too_little_gives_no_pattern(line: str) -> None:
    assert pattern_of(line, str) is None


def test_a_line_that_healthy_logs_have_too_gives_no_pattern(tmp_path: Path) -> None:
    bad, good = tmp_path / "bad.log", tmp_path / "good.log"
    bad.write_text("Ignore import error when loading model.foo\n")
    good.write_text("Ignore import error when loading model.foo\n")
    assert common_pattern(["Ignore import error when loading model.foo"], [bad], [], str) is not None
    assert common_pattern(["Ignore import error when loading model.foo"], [bad], [good], str) is None


def test_logs_that_say_it_differently_give_either(tmp_path: Path) -> None:
    first, second = tmp_path / "1.log", tmp_path / "2.log"
    first.write_text("Fatal Python error: Segmentation fault\n")
    second.write_text("the process died of SIGSEGV at last\n")
    lines = ["Fatal Python error: Segmentation fault", "the process died of SIGSEGV at last"]
    found = common_pattern(lines, [first, second], [], str)
    assert found is not None
    assert all(re.search(found.pattern, line) for line in lines)


def make(
    place: Path,
    number: int,
    *,
    outcome: Outcome = "crashed",
    log: str = ILLEGAL,
    phase: str = "graph_capture",
    wrong: int = 0,
    verdict: str = "fail",
    fails: bool = True,
    diagnosed: bool = True,
) -> GatheredAttempt:
    """An attempt on disk that died in the phase, or came to its end with so many prompts answered otherwise."""
    folder = place / str(number)
    (folder / "evidence" / "checks").mkdir(parents=True)
    (folder / "evidence" / "server.log").write_text(f"server starts\n{log}\n")
    events: list[dict[str, Any]] = [{"event": "phase-begun", "phase": phase}]
    if outcome == "completed":
        events.append({"event": "phase-begun", "phase": "shutdown"})
    events += [{"event": "server-exited", "phase": phase, "status": -9}, {"event": "attempt-ended"}]
    (folder / "evidence" / "timeline.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    if outcome == "completed":
        answers = [{"prompt": f"p{n}", "output_ids": [9, *IDS[1:]] if n < wrong else list(IDS)} for n in range(4)]
        requests = [{**answer, "error": None, "verify_calls": None, "margins": None} for answer in answers]
        check = {"complete": True, "requests": requests}
        (folder / "evidence" / "checks" / "lossless.json").write_text(json.dumps(check))
    diagnosis = Diagnosis(
        kind="cuda_illegal_memory_access",
        phase="graph_capture",
        role="root",
        component=RESULT.diagnosis.component if RESULT.diagnosis else None,  # type: ignore[arg-type]
        confidence="high",
        evidence=(LogLine(file="evidence/server.log", line=2, offset_bytes=14, text=log),),
        follow_ons=(),
        signature=Signature(kind="cuda_illegal_memory_access", phase="capture", subsystem=None),
        next_step="look",
        known=None,
    )
    result = replace(
        RESULT,
        attempt=number,
        outcome=outcome,
        diagnosis=diagnosis if outcome != "completed" and diagnosed else None,
        checks=(),
    )
    judged = Verdict(
        run_id=result.run_id,
        cell=result.cell,
        attempt=number,
        verdict=verdict,  # type: ignore[arg-type]
        reasons=("content_wrong",) if outcome == "completed" else (outcome,),
        statement="said",
    )
    return GatheredAttempt(
        directory=folder, place=str(number), result=result, verdict=judged, step=STEP, health=None, fails=fails
    )


def gathered(attempts: Sequence[GatheredAttempt], *, kind: str, phase: Any = "capture") -> Contents:
    first = attempts[0].result
    answer = OracleAnswer(
        prompt="p0",
        check="lossless",
        concurrency=1,
        text="hello",
        input_ids=None,
        expected_ids=IDS,
        got_ids=(),
        first_difference=None,
        margin=None,
    )
    oracle = BundleOracle(
        reference_cell="ar",
        reference_attempt=1,
        cell=first.cell,
        attempt=first.attempt,
        answers=tuple(replace(answer, prompt=f"p{n}") for n in range(4)),
    )
    subject = Subject(
        finding=None,
        target=first.target,
        architecture="sm_103",
        cells=(first.cell,),
        attempts=(),
        signature=Signature(kind=kind, phase=phase, subsystem=None),
        engine="sglang",
        engine_version=None,
        engine_source="stock",
        image=None,
        planted=False,
    )
    return Contents(
        subject=subject,
        finding=None,
        healthy=not any(attempt.fails for attempt in attempts),
        runs={},
        plans={},
        attempts=tuple(attempts),
        more=(),
        launches=tuple((a.result, a.verdict) for a in attempts if a.verdict is not None),
        reference=None,
        others=(),
        oracle=oracle,
        notes=(),
    )


def test_a_crash_is_told_by_outcome_phase_and_line(tmp_path: Path) -> None:
    attempts = [
        make(tmp_path, 1),
        make(tmp_path, 2, log=elsewhere(ILLEGAL)),
        make(tmp_path, 3, outcome="completed", log="all is well", verdict="pass", fails=False),
    ]
    rules = expectation(gathered(attempts, kind="cuda_illegal_memory_access"), redact=redact)
    assert (rules.outcomes, rules.phases, rules.undecided) == (("crashed",), ("graph_capture",), None)
    assert (rules.k, rules.n) == (2, 3)
    (pattern,) = rules.patterns
    assert re.search(pattern.pattern, ILLEGAL)
    assert rules.statement.endswith("seen in 2 of 3 launches")
    codec.encode(rules)


def test_a_silent_death_is_told_by_outcome_and_phase(tmp_path: Path) -> None:
    attempt = make(tmp_path, 1, log="...", diagnosed=False, phase="weights_load")
    rules = expectation(gathered([attempt], kind="crashed", phase="none"))
    assert (rules.patterns, rules.phases, rules.undecided) == ((), ("launch", "weights_load"), None)


def test_wrong_content_is_told_by_prompts_beyond_the_healthy_launches(tmp_path: Path) -> None:
    attempts = [
        make(tmp_path, 1, outcome="completed", wrong=4, verdict="corrupt"),
        make(tmp_path, 2, outcome="completed", wrong=1, verdict="pass", fails=False),
    ]
    contents = gathered(attempts, kind="corrupt_output", phase="serving")
    rules = expectation(contents)
    assert (rules.outcomes, rules.undecided) == (("completed",), None)
    assert rules.differing_prompts == 3  # half way from 1 to 4, since nothing says that numbers are exact
    assert "numbers are not exact" in rules.statement
    exact = [replace(a, step=replace(STEP, argv=(*STEP.argv, "--dtype", "float32"))) for a in attempts]
    rules = expectation(gathered(exact, kind="corrupt_output", phase="serving"))
    assert rules.differing_prompts == 2
    assert "not exact" not in rules.statement


def test_what_only_rescoring_sees_is_undecided(tmp_path: Path) -> None:
    attempts = [
        make(tmp_path, 1, outcome="completed", wrong=2, verdict="corrupt"),
        make(tmp_path, 2, outcome="completed", wrong=2, verdict="pass", fails=False),
    ]
    rules = expectation(gathered(attempts, kind="corrupt_output", phase="serving"))
    assert rules.differing_prompts is None
    assert rules.undecided is not None
    assert "only rescoring" in rules.undecided


def test_what_only_the_coding_tasks_see_is_undecided(tmp_path: Path) -> None:
    attempt = make(tmp_path, 1, outcome="completed", verdict="corrupt")
    wrong = CheckResult(
        check="coding", state="fail", reason="coding_lost", detail="x", measurements=(), differences=(), histogram=None
    )
    attempt = replace(attempt, result=replace(attempt.result, checks=(wrong,)))
    rules = expectation(gathered([attempt], kind="corrupt_output", phase="serving"))
    assert rules.undecided is not None
    assert "sandbox" in rules.undecided


def test_withheld_prompts_leave_content_undecided(tmp_path: Path) -> None:
    attempt = make(tmp_path, 1, outcome="completed", wrong=4, verdict="corrupt")
    rules = expectation(gathered([attempt], kind="corrupt_output", phase="serving"), hidden=True)
    assert rules.undecided is not None
    assert "withheld" in rules.undecided


def test_healthy_results_elsewhere_in_the_run_count_too(tmp_path: Path) -> None:
    attempt = make(tmp_path, 1, outcome="completed", wrong=4, verdict="corrupt")
    contents = gathered([attempt], kind="corrupt_output", phase="serving")
    differences = tuple(
        Difference(prompt=f"p{n}", concurrency=4, at=1, expected=1, got=2, margin=0.0) for n in range(3)
    )
    lossless = CheckResult(
        check="lossless", state="pass", reason=None, detail="", measurements=(), differences=differences, histogram=None
    )
    passed = (replace(RESULT, checks=(lossless,)), replace(contents.launches[0][1], verdict="pass"))
    assert expectation(replace(contents, others=(passed,))).differing_prompts == 4


def test_a_working_cell_shows_a_failure_by_any(tmp_path: Path) -> None:
    attempt = make(tmp_path, 1, outcome="completed", verdict="pass", fails=False)
    rules = expectation(gathered([attempt], kind="ok", phase="none"))
    assert (rules.k, rules.n) == (0, 1)
    assert "crashed" in rules.outcomes
    assert "completed" not in rules.outcomes
    assert rules.statement == f"no failure was seen in 1 launch of {RESULT.cell}"
