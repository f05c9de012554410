"""Ctrl-C, a hang-up and SIGTERM: the attempt in flight ends cleanly and is no result, and the same command goes on."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from typing import Any

import pytest

ONE = ("--select", "*-b8t4-eager*")
"""Three launches: the reference, this cell, the reference again."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

pytestmark = pytest.mark.slow


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit status and the lines on stderr."""
    _, err = process.communicate(timeout=120)
    return process.returncode, err


def assert_clean(harness: Any, process: subprocess.Popen[str], finished: int) -> None:
    """Exit status 130, one clear last line, so many results, and nothing running."""
    status, err = ended(process)
    last = err.strip().splitlines()[-1]
    assert status == 130, err
    assert "Traceback" not in err
    assert last.startswith("matrix: interrupted"), err
    assert len(harness.bytes_of_results()) == finished
    if finished or harness.runs():
        assert f"{finished} finished attempts are kept" in last
        assert "the same command goes on" in last
    harness.assert_nothing_left()


def assert_resumes(harness: Any, before: dict[Any, bytes], total: int = 3) -> None:
    run = harness.run(*ONE)
    assert run.returncode == 0, run.stderr
    assert len(harness.runs()) == 1
    assert f"{total} launches, {len(before)} done before" in run.stderr
    after = harness.bytes_of_results()
    assert {path: after[path] for path in before} == before
    assert len(after) == total
    assert {result["outcome"] for result in harness.records("result").values()} == {"completed"}


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_ends_the_attempt_cleanly(harness: Any, number: signal.Signals) -> None:
    process = harness.start(*ONE)
    harness.until_event("check-begun", check="lossless")
    process.send_signal(number)
    assert_clean(harness, process, finished=0)


def test_ctrl_c_of_a_terminal_reaches_the_whole_group(harness: Any) -> None:
    """The attempt program is out of its reach, so that it can stop its server in order."""
    process = harness.start(*ONE)
    harness.until_event("check-begun", check="lossless")
    os.killpg(process.pid, signal.SIGINT)
    assert_clean(harness, process, finished=0)
    assert_resumes(harness, {})


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("attempt-begun", {}),
        ("phase-begun", {"phase": "launch"}),
        ("phase-begun", {"phase": "serving"}),
        ("check-begun", {"check": "throughput"}),
    ],
    ids=["start", "launch", "serving", "throughput"],
)
def test_interrupted_in_each_phase(harness: Any, event: str, fields: dict[str, str]) -> None:
    process = harness.start(*ONE)
    harness.until_event(event, **fields)
    process.send_signal(signal.SIGINT)
    assert_clean(harness, process, finished=0)


def test_interrupted_while_the_server_stops(harness: Any) -> None:
    """The attempt has done all it had to do by then, so it may count; whichever it is, the run resumes."""
    process = harness.start(*ONE)
    harness.until_event("phase-begun", phase="shutdown")
    process.send_signal(signal.SIGINT)
    status, err = ended(process)
    assert status == 130, err
    before = harness.bytes_of_results()
    assert len(before) <= 1
    assert_resumes(harness, before)


def test_interrupted_between_attempts(harness: Any, until: Callable[..., None]) -> None:
    """The moment is not exact: it falls between two attempts, or early in the second."""
    process = harness.start(*ONE)
    until(harness.bytes_of_results, "no result")
    process.send_signal(signal.SIGINT)
    assert_clean(harness, process, finished=1)
    assert_resumes(harness, harness.bytes_of_results())


def test_interrupted_before_the_first_attempt(harness: Any, until: Callable[..., None]) -> None:
    process = harness.start(*ONE)
    until(harness.runs, "no run")
    process.send_signal(signal.SIGINT)
    assert_clean(harness, process, finished=0)


def test_interrupted_while_it_still_imports(harness: Any) -> None:
    command = [sys.executable, "-X", "importtime", *harness.command(*ONE)[1:]]
    process = subprocess.Popen(
        command,
        cwd=harness.folder,
        env=harness.environment(),
        text=True,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    harness.started.append(process)
    assert process.stderr is not None
    while "repro.errors" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    status, err = ended(process)
    assert status == 130, err
    assert "Traceback" not in err
    assert "matrix: interrupted" in err
    assert harness.runs() == []


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_second_signal_kills(harness: Any, number: signal.Signals, until: Callable[..., None]) -> None:
    """The server ignores SIGTERM, so the first signal alone would take the whole ladder of limits."""
    process = harness.start(*ONE, "--inject", "*=ignore-sigterm")
    harness.until_event("check-begun", check="lossless")
    process.send_signal(number)
    harness.until_event("signal-sent")
    process.send_signal(number)
    assert_clean(harness, process, finished=0)
    assert not any("SIGKILL" in (entry["detail"] or "") for entry in harness.events())


def test_on_a_terminal_there_is_a_live_table_and_the_terminal_is_left_sane(harness: Any) -> None:
    main, side = pty.openpty()
    before = termios.tcgetattr(side)
    terminal = {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
    process = subprocess.Popen(
        harness.command(*ONE),
        cwd=harness.folder,
        env=harness.environment(terminal),
        stdin=side,
        stdout=subprocess.PIPE,
        stderr=side,
        start_new_session=True,
        text=True,
    )
    harness.started.append(process)
    said = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while b"serving" not in said and b"lossless" not in said:
            said += os.read(main, 4096)
    assert b"\x1b[?25l" in said, "the cursor is hidden while the table is drawn"
    assert b"of 3 launches" in said
    process.send_signal(signal.SIGINT)
    os.set_blocking(main, False)
    while process.poll() is None or b"go" not in said.rpartition(b"matrix: interrupted")[2]:
        with contextlib.suppress(BlockingIOError):
            said += os.read(main, 4096)
    assert process.returncode == 130
    assert said.rfind(b"\x1b[?25h") > said.rfind(b"\x1b[?25l"), "the cursor is shown again"
    assert b"matrix: interrupted: 0 finished attempts are kept" in said
    assert termios.tcgetattr(side) == before
    os.close(main)
    os.close(side)


def test_without_a_terminal_there_are_plain_lines(harness: Any) -> None:
    run = harness.run(*ONE)
    assert run.returncode == 0, run.stderr
    assert "\x1b" not in run.stderr + run.stdout
    lines = run.stderr.splitlines()
    assert sum(line.startswith(("[1/3] ", "[2/3] ", "[3/3] ")) for line in lines) == 6
    assert run.stdout.startswith("cell ")
