"""Evidence made by hand, for every way in which an attempt can end; and what is made of it."""

import dataclasses
import json
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from matrix.arguments import EngineChoice
from matrix.collect import AttemptContext, collect, was_interrupted
from matrix.engines.overlay import load_overlay
from matrix.evidence import phase_timings, read_evidence
from matrix.judge.reference import ReferenceOutput
from matrix.plan import PlanOptions, make_plan
from matrix.runtimes.protocol import Ended
from matrix.spec import load_spec
from repro import codec
from repro.model import Fact, PlanStep, PlantedRule, Result
from repro.verdict import run_verdicts

LOGS = Path(__file__).parents[2] / "data" / "sglang-0.5.23"
ENDED = Ended(status=0, detail="")
IDS = tuple(range(100, 148))


@cache
def planned(cell: str = "sim-b16t8-graph-nvls", **options: Any) -> PlanStep:
    plan = make_plan(load_spec("sim"), PlanOptions(**options), EngineChoice())
    return next(step for step in plan.steps if step.cell == cell)


class Attempt:
    """An attempt's directory under construction. Times of the timeline advance by a second for each line."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.evidence = directory / "evidence"
        (self.evidence / "checks").mkdir(parents=True)
        self._now_s = 0.0

    def event(self, event: str, **fields: Any) -> "Attempt":
        line = {
            "record": "timeline-entry",
            "schema_version": 2,
            "at_s": self._now_s,
            "at": f"2026-01-01T00:00:{self._now_s:09.6f}Z",
            "event": event,
            "phase": None,
            "check": None,
            "status": None,
            "detail": None,
            **fields,
        }
        self._now_s += 1.0
        with (self.evidence / "timeline.jsonl").open("a") as timeline:
            timeline.write(json.dumps(line) + "\n")
        return self

    def began(self, *phases: str) -> "Attempt":
        """Each phase after the first ends the one before, as the attempt program writes it."""
        self.event("attempt-begun").event("server-started")
        for number, phase in enumerate(phases):
            if number:
                self.event("phase-ended", phase=phases[number - 1])
            self.event("phase-begun", phase=phase)
        return self

    def stopped(self) -> "Attempt":
        """The orderly end of a server that is serving."""
        self.event("phase-ended", phase="serving").event("phase-begun", phase="shutdown")
        self.event("signal-sent", phase="shutdown", detail="SIGTERM to the launcher")
        self.event("server-exited", phase="shutdown", status=0).event("phase-ended", phase="shutdown")
        return self.event("attempt-ended")

    def torn_down(self) -> "Attempt":
        """The end that the attempt program makes of a server that was not well but lives."""
        self.event("phase-begun", phase="shutdown").event("server-exited", phase="shutdown", status=-9)
        return self.event("phase-ended", phase="shutdown").event("attempt-ended")

    def log(self, text: str | bytes) -> "Attempt":
        (self.evidence / "server.log").write_bytes(text.encode() if isinstance(text, str) else text)
        return self

    def check(self, name: str, *requests: dict[str, Any], **changes: Any) -> "Attempt":
        document = {
            "record": "check-evidence",
            "schema_version": 2,
            "check": name,
            "begun_s": 1.0,
            "ended_s": 3.0,
            "complete": True,
            "stopped_because": None,
            "requests": list(requests),
            "server_accept_length": 3.4,
            "counts": counts(requests) if name == "throughput" else [],
            **changes,
        }
        (self.evidence / "checks" / f"{name}.json").write_text(json.dumps(document))
        return self

    def served(self) -> "Attempt":
        """A whole life that went well, with its answers."""
        self.began("launch", "weights_load", "graph_capture", "warmup", "serving").stopped()
        self.check("lossless", *(answer(prompt) for prompt in ("p1", "p2")))
        self.check("load", *(answer("p1", concurrency=level, begun_s=2.0) for level in (3, 5) for _ in range(8)))
        alone = [answer(prompt, begun_s=1.0) for prompt in ("p1", "p2")]
        return self.check("throughput", *alone, *(answer("p1", concurrency=4, begun_s=2.0) for _ in range(8)))


def counts(requests: tuple[dict[str, Any], ...]) -> list[dict[str, int]]:
    """What the server's counters gained, by the answers that it gave."""
    levels = sorted({request["concurrency"] for request in requests})
    rounds = [[request for request in requests if request["concurrency"] == level] for level in levels]
    return [
        {
            "concurrency": level,
            "repeat": 1,
            "generated_tokens": sum(len(request["output_ids"]) for request in sent),
            "finished_requests": len(sent),
        }
        for level, sent in zip(levels, rounds, strict=True)
    ]


def answer(prompt: str, ids: tuple[int, ...] = IDS, **changes: Any) -> dict[str, Any]:
    return {
        "prompt": prompt,
        "concurrency": 1,
        "repeat": 1,
        "cancelled": False,
        "asked_tokens": len(IDS),
        "begun_s": 1.0,
        "first_token_s": 1.1,
        "ended_s": 3.0,
        "status": 200,
        "error": None,
        "finish_reason": "length",
        "output_ids": list(ids),
        "output_text": None,
        "usage_tokens": len(ids),
        "verify_calls": 14,
        "accept_histogram": [4, 4, 3, 3],
        "margins": None,
        "token_times": [[1.1, 1], [3.0, len(ids)]],
        **changes,
    }


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    return Attempt(tmp_path / "1")


@pytest.fixture
def collected() -> Callable[..., Result]:
    """The result, which must be a valid record whatever the evidence holds."""

    def make(attempt: Attempt, *, step: PlanStep | None = None, ended: Ended = ENDED, **changes: Any) -> Result:
        known = ReferenceOutput(ids=IDS, margins=tuple(2.0 for _ in IDS))
        facts: dict[str, Any] = {
            "run_id": "20260101T000000Z-abc123",
            "target": "sim",
            "step": step or planned(),
            "attempt": 1,
            "overlay": load_overlay("simulated"),
            "gpu_count": 0,
            "declared": {},
            "reference": {"p1": known, "p2": known},
            **changes,
        }
        context = AttemptContext(**facts)
        result = collect(context, read_evidence(attempt.directory), ended)
        assert codec.decode(codec.encode(result), Result, where="result") == result
        return result

    return make


Collected = Callable[..., Result]


def verdict(result: Result) -> tuple[str, tuple[str, ...]]:
    found = run_verdicts([result])[0]
    codec.encode(found)
    return found.verdict, found.reasons


def phases(result: Result) -> list[tuple[str, str]]:
    return [(timing.phase, timing.state) for timing in result.phases]


def state(result: Result, check: str) -> tuple[str, str | None]:
    return next((found.state, found.reason) for found in result.checks if found.check == check)


# --- what can happen --------------------------------------------------------------------------------------------------


def test_completed(attempt: Attempt, collected: Collected) -> None:
    result = collected(attempt.served().log("all is well\n"))
    assert (result.outcome, result.exit_status, result.diagnosis) == ("completed", 0, None)
    assert phases(result) == [
        (phase, "completed") for phase in ("launch", "weights_load", "graph_capture", "warmup", "serving", "shutdown")
    ]
    assert {check.check: check.state for check in result.checks} == {
        "launch": "pass",
        "lossless": "pass",
        "acceptance": "pass",
        "throughput": "pass",
        "load": "pass",
        "power": "not_applicable",
        "coding": "not_run",
    }
    assert result.begun_at == "2026-01-01T00:00:00.000000Z"
    assert result.wall_s == 16.0
    assert [file.path for file in result.evidence] == [
        "evidence/checks/load.json",
        "evidence/checks/lossless.json",
        "evidence/checks/throughput.json",
        "evidence/server.log",
        "evidence/timeline.jsonl",
    ]
    # Nothing in this evidence proves that graphs were replayed.
    assert verdict(result) == ("inconclusive", ("configuration_not_proven",))


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        ("b16t8-scheduler-exception", "cuda_illegal_memory_access"),
        ("b16t8-segfault", "segfault"),
        ("b16t8-exit", "unknown"),
    ],
)
def test_crashed(attempt: Attempt, collected: Collected, log: str, kind: str) -> None:
    attempt.began("launch", "weights_load", "serving")
    attempt.event("server-exited", phase="serving", status=-9).event("attempt-ended")
    attempt.check("lossless", answer("p1", error="closed"), complete=False, stopped_because="the server exited")
    shutil.copy(LOGS / f"{log}-server.log", attempt.evidence / "server.log")
    result = collected(attempt)
    assert (result.outcome, result.exit_status) == ("crashed", -9)
    assert result.diagnosis is not None
    assert result.diagnosis.kind == kind
    assert phases(result)[-1] == ("serving", "failed")
    assert result.outcome_detail.startswith("ended in serving: ")
    assert verdict(result)[0] == "fail"


def test_crashed_before_it_served(attempt: Attempt, collected: Collected) -> None:
    attempt.began("launch", "weights_load", "graph_capture").log("Load weight begin\nCapture cuda graph begin\nboom\n")
    attempt.event("server-exited", phase="graph_capture", status=1).event("attempt-ended")
    result = collected(attempt)
    assert result.outcome == "crashed"
    assert state(result, "launch") == ("fail", "not_ready")
    assert state(result, "lossless") == ("not_run", "no_evidence")
    assert state(result, "acceptance") == ("not_run", "no_evidence")
    assert result.diagnosis is not None
    assert result.diagnosis.phase == "graph_capture"


def test_a_server_that_ends_by_itself_with_status_0_crashed(attempt: Attempt, collected: Collected) -> None:
    attempt.began("launch", "serving").log("bye\n").event("server-exited", phase="serving", status=0)
    result = collected(attempt.event("attempt-ended"))
    assert (result.outcome, result.exit_status) == ("crashed", 0)
    assert result.diagnosis is not None
    assert (result.diagnosis.kind, result.diagnosis.role) == ("unknown", "symptom")
    assert verdict(result) == ("fail", ("crashed",))


@pytest.mark.parametrize("phase", ["launch", "weights_load", "graph_capture", "warmup"])
def test_hung_by_a_phase_limit(attempt: Attempt, collected: Collected, phase: str) -> None:
    attempt.began("launch", *([phase] if phase != "launch" else [])).log("Load weight begin\n")
    attempt.event("phase-limit", phase=phase, detail="more than 20 s").torn_down()
    (attempt.evidence / "server.log").open("a").write("Received SIGTERM\n")
    result = collected(attempt)
    assert (result.outcome, result.exit_status) == ("hung", None)
    assert result.outcome_detail.startswith(f"hung in {phase} (more than 20 s): hang_deadlock")
    assert (phase, "timed_out") in phases(result)
    assert phases(result)[-1] == ("shutdown", "completed")
    assert verdict(result) == ("fail", ("hung", "hang_deadlock"))


def test_hung_in_a_check(attempt: Attempt, collected: Collected) -> None:
    attempt.began("launch", "serving").log("").event("check-begun", phase="serving", check="lossless")
    attempt.event("phase-limit", phase="serving", check="lossless", detail="the server hangs").torn_down()
    attempt.check("lossless", answer("p1", (), error="cut"), complete=False, stopped_because="the server hangs")
    result = collected(attempt)
    assert result.outcome == "hung"
    assert phases(result) == [("launch", "completed"), ("serving", "timed_out"), ("shutdown", "completed")]
    assert state(result, "lossless") == ("inconclusive", "no_output")


def test_hung_by_the_engines_own_watchdog(attempt: Attempt, collected: Collected) -> None:
    attempt.began("launch", "serving").event("server-exited", phase="serving", status=-9).event("attempt-ended")
    shutil.copy(LOGS / "b16t8-host-hang-server.log", attempt.evidence / "server.log")
    result = collected(attempt)
    assert (result.outcome, result.exit_status) == ("hung", -9)
    assert verdict(result) == ("fail", ("hung", "hang_deadlock"))


def test_a_limit_whose_log_holds_the_cause_is_put_down_to_the_cause(attempt: Attempt, collected: Collected) -> None:
    attempt.began("launch", "serving").log("RuntimeError: CUDA error: an illegal memory access was encountered\n")
    attempt.event("phase-limit", phase="serving", check="lossless", detail="the server hangs").torn_down()
    result = collected(attempt)
    assert result.outcome == "crashed"
    assert result.diagnosis is not None
    assert result.diagnosis.kind == "cuda_illegal_memory_access"


@pytest.mark.parametrize(("log", "status"), [("refused-unknown-flag", 2), ("refused-unknown-algorithm", 1)])
def test_refused(attempt: Attempt, collected: Collected, log: str, status: int) -> None:
    attempt.began("launch").event("server-exited", phase="launch", status=status).event("attempt-ended")
    shutil.copy(LOGS / f"{log}.log", attempt.evidence / "server.log")
    result = collected(attempt)
    assert (result.outcome, result.exit_status) == ("refused", status)
    assert verdict(result)[0] == "unsupported"


def test_a_refusal_while_serving_is_a_crash(attempt: Attempt, collected: Collected) -> None:
    attempt.began("launch", "serving").log("ValueError: NaN is not supported here\n")
    attempt.event("server-exited", phase="serving", status=-9).event("attempt-ended")
    assert collected(attempt).outcome == "crashed"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory.", "oom_gpu_init"),
        ("Capture target verify CUDA graph begin.\nRuntimeError: CUDA out of memory.", "oom_gpu_graph_capture"),
        ("The server is fired up and ready to roll!\nCUDA out of memory", "oom_gpu_serving"),
    ],
)
def test_oom(attempt: Attempt, collected: Collected, text: str, kind: str) -> None:
    attempt.began("launch").log(text).event("server-exited", phase="launch", status=-9).event("attempt-ended")
    result = collected(attempt)
    assert result.outcome == "oom"
    assert verdict(result) == ("fail", ("oom", kind))


def test_killed_from_outside(attempt: Attempt, collected: Collected) -> None:
    attempt.began("launch", "serving").event("server-exited", phase="serving", status=-9).event("attempt-ended")
    shutil.copy(LOGS / "b16t8-sigkill-server.log", attempt.evidence / "server.log")
    result = collected(attempt)
    assert result.outcome == "killed"
    assert verdict(result) == ("inconclusive", ("killed", "killed_by_signal_9"))


def test_killed_with_its_attempt_program(attempt: Attempt, collected: Collected) -> None:
    attempt.began("launch", "serving")
    result = collected(attempt, ended=Ended(status=-9, detail=""))
    assert (result.outcome, result.diagnosis) == ("killed", None)
    assert "status -9" in result.outcome_detail
    assert phases(result) == [("launch", "completed"), ("serving", "interrupted")]
    assert verdict(result) == ("inconclusive", ("killed",))


def test_a_server_whose_end_nobody_saw_is_not_completed(attempt: Attempt, collected: Collected) -> None:
    """The guardian that held it was killed: no exit, no phase limit, and yet the attempt program ended in order."""
    attempt.began("launch", "weights_load").event("signal-sent", detail="SIGKILL to all: the guardian is gone")
    attempt.event("attempt-ended")
    result = collected(attempt)
    assert result.outcome == "killed"
    assert verdict(result)[0] == "inconclusive"


@pytest.mark.parametrize("event", ["port-taken", "not-started"])
def test_runtime_error_before_the_start(attempt: Attempt, collected: Collected, event: str) -> None:
    attempt.event("attempt-begun").event(event, detail="port 30000: Address already in use").event("attempt-ended")
    result = collected(attempt)
    assert (result.outcome, result.outcome_detail) == ("runtime_error", "port 30000: Address already in use")
    assert verdict(result)[0] == "void"


def test_runtime_error_by_the_engines_log(attempt: Attempt, collected: Collected) -> None:
    attempt.began("launch").event("server-exited", phase="launch", status=3).event("attempt-ended")
    shutil.copy(LOGS / "refused-port-in-use.log", attempt.evidence / "server.log")
    assert collected(attempt).outcome == "runtime_error"


def test_runtime_error_without_any_evidence(attempt: Attempt, collected: Collected) -> None:
    shutil.rmtree(attempt.evidence)
    result = collected(attempt, ended=Ended(status=1, detail="ModuleNotFoundError: No module named 'aiohttp'"))
    assert result.outcome == "runtime_error"
    assert "No module named 'aiohttp'" in result.outcome_detail
    assert (result.begun_at, result.wall_s, result.evidence) == ("1970-01-01T00:00:00Z", 0.0, ())
    assert verdict(result)[0] == "void"


# --- evidence that cannot be used -------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def overwrite(data: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(data) and None


@pytest.mark.parametrize("name", ["timeline.jsonl", "checks/lossless.json", "power.json", "environment.json"])
@pytest.mark.parametrize(
    "spoil",
    [
        cut,
        overwrite(b"\x00\xff\xfe hostile \x1b[31m\n"),
        overwrite(b'{"record": "check-evidence", "schema_version": 99}\n'),
        overwrite(b"[" * 20_000 + b"\n"),
        overwrite(b'{"record": "x\\ud800"}\n'),
        overwrite(b'{"a": NaN}\n'),
    ],
    ids=["cut", "bytes", "newer", "deep", "surrogate", "nan"],
)
def test_bad_evidence_names_the_file_and_loses_nothing(
    attempt: Attempt, collected: Collected, name: str, spoil: Callable[[Path], None]
) -> None:
    attempt.served().log("all is well\n")
    path = attempt.evidence / name
    if not path.exists():
        path.write_text('{"record": "power-evidence", "schema_version": 1, "reason": "none", "samples": []}')
    spoil(path)
    before = path.read_bytes()
    result = collected(attempt)
    assert result.outcome == "bad_evidence"
    assert f"evidence/{name}" in result.outcome_detail
    assert "\n" not in result.outcome_detail
    assert verdict(result)[0] == "inconclusive"
    assert path.read_bytes() == before
    assert f"evidence/{name}" in [file.path for file in result.evidence]


def test_evidence_that_is_missing_does_not_pass(attempt: Attempt, collected: Collected) -> None:
    attempt.served().log("")
    (attempt.evidence / "checks" / "lossless.json").unlink()
    result = collected(attempt)
    assert state(result, "lossless") == ("not_run", "no_evidence")
    assert verdict(dataclasses.replace(result, proof=()))[0] == "inconclusive"


@pytest.mark.parametrize(
    "raw", [b"\x00" * 100_000, b"\xff\x1b[2J" * 5000, b"a" * 2_000_000, "\u202e\u2028\n".encode() * 1000]
)
def test_a_hostile_log_is_only_a_log(attempt: Attempt, collected: Collected, raw: bytes) -> None:
    assert collected(attempt.served().log(raw)).outcome == "completed"
    crashed = Attempt(attempt.directory.with_name("2"))
    crashed.began("launch", "serving").log(raw).event("server-exited", phase="serving", status=1)
    assert collected(crashed.event("attempt-ended")).outcome == "crashed"


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[1, 2]", b"\xff", b"null", b"[" * 20_000, b'{"speculative_algorithm": [[]]}']
)
def test_hostile_answers_prove_nothing(attempt: Attempt, collected: Collected, raw: bytes) -> None:
    attempt.served().log("")
    for name in ("server_info.json", "metrics.txt", "metrics_start.txt"):
        (attempt.evidence / name).write_bytes(raw)
    result = collected(attempt)
    assert result.outcome == "completed"
    assert "proven" not in {proof.state for proof in result.proof if proof.fact in {"algorithm", "width", "topk"}}


def test_symbolic_links_in_the_evidence_are_not_followed(
    attempt: Attempt, collected: Collected, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret")
    (attempt.served().evidence / "link").symlink_to(tmp_path / "secret")
    assert "evidence/link" not in [file.path for file in collected(attempt).evidence]


# --- what goes into the result besides --------------------------------------------------------------------------------


def test_wrong_tokens_are_the_verdicts_business(attempt: Attempt, collected: Collected) -> None:
    attempt.served().log("").check("lossless", answer("p1", (*IDS[:20], 1, *IDS[21:])), answer("p2"))
    result = collected(attempt)
    assert result.outcome == "completed"
    assert state(result, "lossless") == ("fail", "content_wrong")
    proven = tuple(dataclasses.replace(proof, state="proven") for proof in result.proof)
    assert verdict(dataclasses.replace(result, proof=proven)) == ("corrupt", ("content_wrong",))


def test_without_a_reference_lossless_is_inconclusive(attempt: Attempt, collected: Collected) -> None:
    assert state(collected(attempt.served(), reference=None), "lossless") == ("inconclusive", "no_reference")


def test_without_references_asked_for_lossless_does_not_apply(attempt: Attempt, collected: Collected) -> None:
    step = planned(references=False)
    assert state(collected(attempt.served(), step=step, reference=None), "lossless")[0] == "not_applicable"


def test_the_reference_is_judged_against_itself(attempt: Attempt, collected: Collected) -> None:
    margins = [2.0] * len(IDS)
    attempt.served().check("lossless", answer("p1"), answer("p1", margins=margins, token_times=[], first_token_s=None))
    result = collected(attempt, step=planned("sim-ar-eager-nonvls"), reference=None)
    assert result.role == "reference"
    assert state(result, "lossless") == ("pass", None)
    assert state(result, "acceptance")[0] == "not_applicable"


def test_a_planted_fault_stays_with_the_result(attempt: Attempt, collected: Collected) -> None:
    step = planned(planted=(PlantedRule(cells="*", fault="stale-mask", number=3),))
    planted = collected(attempt.served(), step=step).planted
    assert planted is not None
    assert (planted.fault, planted.number) == ("stale-mask", 3)


def test_what_was_probed_wins_over_what_is_declared(attempt: Attempt, collected: Collected) -> None:
    probed = {
        "record": "environment",
        "schema_version": 1,
        "facts": {
            "gpu_name": {"value": "seen", "status": "verified", "reason": None},
            "driver": {"value": None, "status": "unknown", "reason": "no nvidia-smi"},
        },
        "packages": {"sglang": "0.5.23"},
    }
    (attempt.served().evidence / "environment.json").write_text(json.dumps(probed))
    said = {
        name: Fact(value=f"said {name}", status="declared", reason=None) for name in ("gpu_name", "driver", "model")
    }
    environment = collected(attempt, declared=said).environment
    assert {name: fact.value for name, fact in environment.facts.items()} == {
        "gpu_name": "seen",
        "driver": "said driver",
        "model": "said model",
    }
    assert environment.packages == {"sglang": "0.5.23"}


def test_an_interrupted_attempt_is_no_result(attempt: Attempt) -> None:
    attempt.began("launch").event("interrupted", detail="SIGINT").torn_down()
    assert was_interrupted(read_evidence(attempt.directory))


def test_phases_without_their_ends(attempt: Attempt) -> None:
    """Timelines of programs that were killed: what nothing ended was interrupted, what was followed is completed."""
    attempt.event("attempt-begun").event("phase-begun", phase="launch").event("phase-begun", phase="serving")
    timings = phase_timings(read_evidence(attempt.directory).timeline)
    assert [(t.phase, t.state, t.begun_s, t.ended_s) for t in timings] == [
        ("launch", "completed", 1.0, 2.0),
        ("serving", "interrupted", 2.0, None),
    ]
    assert phase_timings(()) == ()


# --- any evidence at all ----------------------------------------------------------------------------------------------

EVENTS = (
    "attempt-begun",
    "server-started",
    "phase-begun",
    "phase-ended",
    "phase-limit",
    "check-begun",
    "check-ended",
    "server-exited",
    "signal-sent",
    "port-taken",
    "not-started",
    "attempt-ended",
)
PHASES = (None, "launch", "weights_load", "graph_capture", "warmup", "serving", "shutdown")
lines = st.tuples(st.sampled_from(EVENTS), st.sampled_from(PHASES), st.sampled_from([None, 0, 1, -9, -15]), st.text())
tokens = st.lists(st.integers(-1, 9), max_size=4).map(tuple)
numbers_or_none = st.none() | st.integers(0, 10**6)
answers = st.builds(
    answer,
    st.sampled_from(["p1", "p2", "elsewhere"]),
    tokens,
    concurrency=st.integers(1, 5),
    error=st.none() | st.text(min_size=1),
    verify_calls=numbers_or_none,
    usage_tokens=numbers_or_none,
    accept_histogram=st.none() | st.lists(st.integers(0, 9), max_size=30),
    margins=st.none() | st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5),
    begun_s=st.floats(0, 1e6),
    ended_s=st.floats(0, 1e6),
    first_token_s=st.none() | st.floats(0, 1e6),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    timeline=st.lists(lines, max_size=12),
    log=st.binary(max_size=200),
    replies=st.lists(answers, max_size=6),
    complete=st.booleans(),
    raw=st.binary(max_size=60),
)
def test_whatever_lies_there_there_is_a_valid_result_and_a_verdict(
    collected: Collected,
    timeline: list[tuple[str, str | None, int | None, str]],
    log: bytes,
    replies: list[dict[str, Any]],
    complete: bool,
    raw: bytes,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        attempt = Attempt(Path(folder) / "1").log(log)
        for event, phase, status, detail in timeline:
            attempt.event(event, phase=phase, status=status, detail=detail)
        because = None if complete else "cut off"
        for name in ("lossless", "throughput"):
            attempt.check(name, *replies, complete=complete, stopped_because=because)
        for name in ("server_info.json", "metrics.txt"):
            (attempt.evidence / name).write_bytes(raw)
        result = collected(attempt)
        verdict(result)
        assert (result.outcome == "completed") <= {"attempt-ended", "server-exited"}.issubset({e for e, *_ in timeline})


# --- non-finite values ------------------------------------------------------------------------------------------------

NAN = "[21:43:20 TP0] Detected errors during sampling! NaN in the logits.\n"


@pytest.mark.parametrize(("text", "explains", "kind"), [(NAN, 1, "nan_logits"), ("fine\n", 1, None), (NAN, None, None)])
def test_an_armed_attempt_that_ended_well_still_tells_of_non_finite_values(
    attempt: Attempt, collected: Collected, text: str, explains: int | None, kind: str | None
) -> None:
    result = collected(attempt.log(text).served(), explains=explains)
    assert result.outcome == "completed"
    assert (result.diagnosis.kind if result.diagnosis else None) == kind
    assert ("nan_logits: [21:43:20" in result.outcome_detail) == (kind is not None)
