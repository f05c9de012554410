"""The reader of deaths, on recordings of the real server and on logs that are made to hurt it."""

from pathlib import Path

import pytest

from repro import codec, diagnose
from repro.diagnose.patterns import PATTERNS
from repro.model import Diagnosis

LOGS = Path(__file__).parents[2] / "data" / "sglang-0.5.23"


def read(
    log: Path, *, status: int | None = -9, phase: str = "serving", timed_out: bool = False, unasked: bool = True
) -> Diagnosis:
    events, _ = diagnose.read_log(log)
    found = diagnose.judge(events, exit_status=status, phase=phase, timed_out=timed_out, unasked=unasked)  # type: ignore[arg-type]
    codec.encode(found)
    return found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


@pytest.mark.parametrize(
    ("name", "status", "kind", "role", "phase", "says"),
    [
        ("b16t8-scheduler-exception", -9, "cuda_illegal_memory_access", "root", "serving", "illegal memory access"),
        ("b16t8-segfault", -9, "segfault", "root", "serving", "Fatal Python error"),
        ("b16t8-sigkill", -9, "killed_by_signal_9", "symptom", "serving", "crashed with exit code -9"),
        ("b16t8-exit", -9, "unknown", "symptom", "serving", "crashed with exit code 3"),
        ("b16t8-host-hang", -9, "hang_deadlock", "symptom", "serving", "watchdog timeout"),
    ],
)
def test_deaths_of_the_real_server(name: str, status: int, kind: str, role: str, phase: str, says: str) -> None:
    """The launcher's status was -9 each time: only the log tells them apart."""
    found = read(LOGS / f"{name}-server.log", status=status)
    assert (found.kind, found.role, found.phase) == (kind, role, phase)
    assert found.signature.kind == kind
    assert found.signature.phase == "serving"
    assert says in found.evidence[0].text
    assert found.next_step


@pytest.mark.parametrize(
    ("name", "status", "kind"),
    [
        ("refused-unknown-flag", 2, "argparse_error"),
        ("refused-unknown-algorithm", 1, "unsupported_feature_combination"),
        ("refused-port-in-use", 3, "port_in_use"),
    ],
)
def test_refused_starts_of_the_real_server(name: str, status: int, kind: str) -> None:
    found = read(LOGS / f"{name}.log", status=status, phase="launch")
    assert (found.kind, found.role, found.signature.phase) == (kind, "root", "start")


@pytest.mark.parametrize("name", ["ar", "b16t8"])
def test_a_healthy_server_has_nothing_wrong_for_all_its_tracebacks(name: str) -> None:
    log = LOGS / f"{name}-server.log"
    assert "Traceback" in log.read_text()
    events, phase = diagnose.read_log(log)
    assert phase == "serving"
    assert [event.pattern.kind for event in events if event.pattern.cause] == []
    found = read(log, status=0, unasked=False)
    assert (found.kind, found.role, found.confidence) == ("ok", "none", "high")


def test_lines_are_found_where_they_are_said_to_be() -> None:
    log = LOGS / "b16t8-scheduler-exception-server.log"
    raw = log.read_bytes()
    events, _ = diagnose.read_log(log, name="evidence/server.log")
    assert events
    for event in events:
        line = raw[event.line.offset_bytes :].split(b"\n")[0].decode()
        assert raw[: event.line.offset_bytes].count(b"\n") == event.line.line - 1
        assert line.startswith(event.line.text[:40])
        assert event.line.file == "evidence/server.log"


# --- cause and consequence --------------------------------------------------------------------------------------------

ILLEGAL = "RuntimeError: CUDA error: an illegal memory access was encountered"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
SIGQUIT = "[2026-01-01] SIGQUIT received. signum=None"
WATCHDOG = "Scheduler watchdog timeout (self.watchdog_timeout=10.0)"
READY = "The server is fired up and ready to roll!"


@pytest.mark.parametrize(
    ("lines", "kind", "role"),
    [
        ((SIGQUIT, WATCHDOG, ILLEGAL), "cuda_illegal_memory_access", "root"),  # a cause wins over what came before it
        ((ILLEGAL, OOM), "cuda_illegal_memory_access", "root"),  # the first cause wins
        (("Scheduler hit an exception: Traceback", ILLEGAL), "cuda_illegal_memory_access", "root"),
        (("Scheduler hit an exception: Traceback", SIGQUIT), "unknown", "symptom"),
        ((SIGQUIT, WATCHDOG), "hang_deadlock", "symptom"),
        ((SIGQUIT,), "unknown", "symptom"),
        (("scheduler_0 crashed with exit code -11.", SIGQUIT), "segfault", "root"),
        (("scheduler_0 crashed with exit code -15.",), "external_kill", "symptom"),
        (("scheduler_0 crashed with exit code -110.",), "unknown", "symptom"),
        ((OOM,), "oom_gpu_init", "root"),
        (("Load weight begin", OOM), "oom_gpu_init", "root"),
        (("Capture cuda graph begin. This can take minutes", OOM), "oom_gpu_graph_capture", "root"),
        ((READY, OOM), "oom_gpu_serving", "root"),
        (("ValueError: DDTREE does not support page size 16",), "unsupported_feature_combination", "root"),
        (("ValueError: this option is unsupported",), "unsupported_feature_combination", "root"),
        (("[0] NCCL WARN NVLS multicast bind failed",), "nccl_nvls", "root"),
        (("[0] NCCL INFO NVLS multicast support is available",), "killed_by_signal_9", "symptom"),
        (("ptxas fatal : Value 'sm_103a' is not defined for option 'gpu-name'",), "ptxas_arch_unsupported", "root"),
    ],
)
def test_causes_come_before_consequences(log: Path, lines: tuple[str, ...], kind: str, role: str) -> None:
    log.write_text("\n".join(lines))
    found = read(log)
    assert (found.kind, found.role) == (kind, role)
    matched = len(found.evidence) + len(found.follow_ons)
    assert matched == len(diagnose.read_log(log)[0])


@pytest.mark.parametrize(
    "line",
    [
        "Capture cuda graph begin. This can take up to several minutes.",
        "Capture draft extend cuda graph begin.",
        "Capture piecewise CUDA graph begin.",
        "Capture target decode CUDA graph begin. backend=full",
        "Capture target prefill CUDA graph begin. backend=full",
        "Capture target verify CUDA graph begin. num_tokens_per_req=17",
        "Capture draft decode CUDA graph begin.",
    ],
)
def test_every_releases_capture_line_begins_the_capture(log: Path, line: str) -> None:
    log.write_text(f"Load weight begin\n{line}\n{ILLEGAL}\n")
    found = read(log, phase="launch")
    assert (found.phase, found.signature.phase) == ("graph_capture", "capture")


@pytest.mark.parametrize(
    ("status", "kind"),
    [(-9, "killed_by_signal_9"), (-11, "segfault"), (-15, "external_kill"), (-2, "external_kill"), (1, "unknown")],
)
def test_with_a_silent_log_the_status_speaks(log: Path, status: int, kind: str) -> None:
    log.write_text("nothing of note\n")
    found = read(log, status=status, phase="weights_load")
    assert (found.kind, found.role, found.confidence) == (kind, "symptom", "low")
    assert found.signature.phase == "start"


def test_a_server_that_ends_by_itself_with_status_0_is_not_well(log: Path) -> None:
    log.write_text("bye\n")
    assert read(log, status=0).kind == "unknown"
    assert read(log, status=0, unasked=False).kind == "ok"


def test_a_hang_is_not_put_down_to_our_own_signal(log: Path) -> None:
    log.write_text("Load weight begin\nReceived SIGTERM, exiting\n")
    assert read(log, status=None, timed_out=True, unasked=False, phase="weights_load").kind == "hang_deadlock"
    assert read(log, status=-15).kind == "external_kill"
    log.write_text(f"{ILLEGAL}\nReceived SIGTERM, exiting\n")
    assert read(log, status=None, timed_out=True, unasked=False).kind == "cuda_illegal_memory_access"


# --- hostile logs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00\x00" + ILLEGAL.encode() + b"\x00",
        b"\x1b[31m" + ILLEGAL.replace("memory", "\x1b[1mmem\x1b[0mory").encode() + b"\x1b[0m\n",
        b"\x1b]0;title\x07" + ILLEGAL.encode(),
        b"\x1b]8;;http://x\x1b\\" + ILLEGAL.encode(),
        b"\x1b]0;never ended " + ILLEGAL.encode() + b"\n" + ILLEGAL.encode(),
        b"\xff\xfe\x80 " + ILLEGAL.encode() + b" \xc3\x28",
        ILLEGAL.encode() + b"\r\n",
        b"a" * 200_000 + b"\n" + ILLEGAL.encode() + b"\n",
        b"\n" * 10_000 + ILLEGAL.encode(),
    ],
)
def test_a_cause_is_found_among_noise(log: Path, raw: bytes) -> None:
    log.write_bytes(raw)
    found = read(log)
    assert found.kind == "cuda_illegal_memory_access"
    text = found.evidence[0].text
    assert len(text) <= 500
    assert not any(ord(mark) < 32 and mark not in "\t\n" for mark in text)
    assert raw[found.evidence[0].offset_bytes :][:1] not in {b"\n", b""}


@pytest.mark.parametrize("raw", [b"", b"\n", b"\x00" * 1000, b"\xff" * 1000, b"x" * 3_000_000])
def test_logs_that_say_nothing(log: Path, raw: bytes) -> None:
    log.write_bytes(raw)
    assert diagnose.read_log(log) == ((), "launch")
    assert read(log, status=1).kind == "unknown"


def test_no_log_is_an_empty_log(tmp_path: Path) -> None:
    assert diagnose.read_log(tmp_path / "none.log") == ((), "launch")
    assert diagnose.read_log(tmp_path) == ((), "launch")


def test_a_line_that_repeats_for_ever_is_kept_a_few_times(log: Path) -> None:
    log.write_text(f"{ILLEGAL}\n" * 50_000)
    assert len(read(log).follow_ons) == 4


@pytest.mark.parametrize(
    "unit",
    [
        "nccl nvls ",
        "ValueError: ",
        "OSError GatedRepoError ",
        "ptxas ",
        "\x1b]",
        "\x1b[",
        "Capture target ",
        "port 1",
        "crashed with exit code -",
        "error: ",
    ],
)
def test_lines_made_to_be_slow_are_read_in_linear_time(log: Path, unit: str) -> None:
    """With `a.*b.*c` one such line takes minutes; that this ends within the suite's time limit is the test."""
    log.write_text((unit * (1 << 14))[: 1 << 14] + "\n")
    for _ in range(3):
        diagnose.read_log(log)


def test_patterns_have_a_next_step_and_a_kind_that_can_be_stored() -> None:
    for pattern in PATTERNS:
        assert pattern.next_step
        assert pattern.kind.replace("_", "").isalnum()


def test_our_own_sigquit_to_a_server_that_hangs_is_not_its_story(log: Path) -> None:
    asked = "SIGQUIT received. signum=None, frame=None. It usually means one child failed.\n"
    log.write_text(f"Load weight begin\n{asked}")
    assert read(log, timed_out=True, unasked=False).kind == "hang_deadlock"
    assert read(log).kind == "unknown"
    log.write_text(
        f"Subprocess scheduler_0 (pid=7) crashed with exit code -9. Triggering SIGQUIT for cleanup...\n{asked}"
    )
    assert read(log, timed_out=True, unasked=False).kind == "killed_by_signal_9"
