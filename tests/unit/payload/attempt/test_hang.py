"""A server that hangs: what is taken before its end, in which order it is ended, and what a healthy one is spared."""

import asyncio
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from attempt import processes, stacks
from attempt.evidence import Evidence

LADDER = ["SIGINT to the launcher: it hangs", "SIGTERM to the launcher", "SIGKILL to 1 remaining process"]

DEAF = """
import signal, sys, time
print("Load weight begin", flush=True)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: print("heard", number, flush=True))
signal.signal(signal.SIGQUIT, lambda number, frame: (print("dumped", flush=True), sys.exit(3)))
def stuck_here():
    while True:
        time.sleep(600)
stuck_here()
"""


def program(lab, tmp_path, text=DEAF):
    path = tmp_path / "deaf.py"
    path.write_text(textwrap.dedent(text))
    lab.argv = [sys.executable, str(path)]
    lab.limits["weights_load"] = 0.3
    lab.stop |= {"int_s": 0.2, "term_s": 0.2}


def signals(lab) -> list[str]:
    return [entry["detail"] for entry in lab.timeline() if entry["event"] == "signal-sent"]


def taken(lab) -> list[str]:
    return [entry["detail"] for entry in lab.timeline() if entry["event"] == "evidence-taken"]


def test_every_rung_of_a_start_that_hangs(lab, tmp_path):
    program(lab, tmp_path)
    assert lab.run() == 0
    assert signals(lab) == LADDER
    assert lab.one("server-exited")["status"] == -9
    assert lab.log().splitlines()[1:] == ["heard 2", "heard 15"]
    events = lab.events()
    assert events.index("phase-limit") < events.index("evidence-taken") < events.index("signal-sent")
    assert taken(lab)[1] == "the engine's own dumps: none that could be asked for"
    (view,) = (lab.evidence / "stacks").glob("*.proc.txt")
    text = view.read_text()
    assert "deaf.py" in text
    assert "State:" in text
    assert f"thread {view.name.partition('.')[0]} " in text
    assert lab.label not in text, "the environment may hold secrets"


def test_the_engine_is_asked_for_its_own_dump(lab, tmp_path):
    program(lab, tmp_path)
    lab.stop["dump_signal"] = "SIGQUIT"
    assert lab.run() == 0
    assert signals(lab) == ["SIGQUIT to the launcher: the engine's own dump"]
    assert lab.one("server-exited")["status"] == 3
    assert "dumped" in lab.log()
    assert taken(lab)[1] == "the engine's own dumps: on SIGQUIT to the launcher, which comes next"


def test_the_server_obeys_sigint_though_the_attempt_program_ignores_it(lab, tmp_path):
    program(lab, tmp_path, "import time\nprint('Load weight begin', flush=True)\ntime.sleep(600)\n")
    lab.stop["int_s"] = 60.0
    assert lab.run() == 0
    assert signals(lab) == LADDER[:1]
    assert "KeyboardInterrupt" in lab.log()


def test_stacks_of_a_server_that_hangs_while_serving(lab):
    lab.fault = "host-hang:3"
    lab.checks[0]["limit_s"] = 0.5
    assert lab.run() == 0
    assert list((lab.evidence / "stacks").glob("*.proc.txt"))
    assert lab.events().index("evidence-taken") < lab.events().index("signal-sent")


@pytest.mark.parametrize("fault", ["ignore-sigterm", "scheduler-exception:3"])
def test_no_ladder_for_a_server_that_does_not_hang(lab, fault):
    lab.fault, lab.stop["term_s"] = fault, 0.2
    assert lab.run() == 0
    assert not taken(lab)
    assert not any("SIGINT" in signal for signal in signals(lab))
    assert not (lab.evidence / "stacks").exists()


def test_stacks_by_py_spy(lab, tmp_path):
    """A stand-in: what it prints is stored, and what it says about a process that it cannot read."""
    program(lab, tmp_path)
    tool = tmp_path / "py-spy"
    tool.write_text('#!/bin/sh\necho "$@"\n')
    tool.chmod(0o755)
    lab.environment["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    assert lab.run() == 0
    (dump,) = (lab.evidence / "stacks").glob("*.py-spy.txt")
    pid = dump.name.partition(".")[0]
    assert dump.read_text() == f"dump --nonblocking --pid {pid}\n"
    assert taken(lab)[0] == "host stacks of 1 process from /proc; by py-spy of 1 of 1"


def spied(tmp_path: Path, script: str, pids: list[int], limit_s: float) -> tuple[str, Evidence]:
    tool = tmp_path / "py-spy"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    evidence = Evidence(tmp_path / "evidence")
    return asyncio.run(stacks.take(pids, evidence, str(tool), limit_s)), evidence


def test_a_py_spy_that_may_not_or_is_stuck_or_finds_nobody(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        told, evidence = spied(tmp_path, "echo 'Permission denied' >&2; exit 1", [process.pid], 60.0)
        assert told.endswith("by py-spy of 0 of 1")
        assert (evidence.folder / "stacks" / f"{process.pid}.py-spy.txt").read_text() == "Permission denied\n"
        told, _ = spied(tmp_path, "exec sleep 600", [process.pid], 0.4)
        assert told.endswith("by py-spy of 0 of 1")
        process.kill()
    told, _ = spied(tmp_path, "exit 0", [], 1.0)
    assert told == "host stacks of 0 processes from /proc; by py-spy of 0 of 0"


def test_where_py_spy_is_looked_for(tmp_path, monkeypatch):
    for name in ("beside", "search"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "py-spy").write_text("")
        (tmp_path / name / "py-spy").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none" / "python"))
    beside, search = f"{tmp_path}/beside", f"{tmp_path}/search"
    assert stacks.find_py_spy(f"{beside}/python", search) == f"{beside}/py-spy"
    assert stacks.find_py_spy("python", search) == f"{search}/py-spy"
    assert stacks.find_py_spy(f"{tmp_path}/none/python", f"{tmp_path}/none") is None


def test_what_cannot_be_killed_is_listed():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        told = processes.describe([process.pid])
        assert told.startswith(f"{process.pid} python")
        assert "(state " in told
        process.kill()
    assert processes.describe([process.pid]) == f"{process.pid} (ended)"
