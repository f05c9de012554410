"""Work shared by processes: the same results in the same order, whatever becomes of the other processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from repro import forked
from repro.forked import Shared

SCRIPT = """
import os, signal, sys, time
from repro.forked import Shared

parent = os.getpid()

def work(number):
    if os.getpid() != parent:
        MISHAP
    elif FIRST:
        time.sleep(0.2)  # the others get some
    return number * number, os.getpid()

shared = Shared(list(range(40)), work)
began = shared.begin(2)
found = shared.found()
assert [square for square, _ in found] == [number * number for number in range(40)]
print(began, len({pid for _, pid in found} - {parent}) > 0)
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("nobody left")
"""


def told(mishap: str) -> list[str]:
    """What a process without threads says."""
    script = SCRIPT.replace("MISHAP", mishap).replace("FIRST", "number < 3")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.split("\n")


@pytest.mark.skipif(sys.platform != "linux", reason="other processes are made on Linux alone")
@pytest.mark.parametrize(
    ("mishap", "helped"),
    [
        ("pass", "True True"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "True False"),
        ("raise ValueError(number)", "True False"),
        ("os._exit(0)", "True False"),
    ],
)
def test_results_are_whole_and_in_order(mishap: str, helped: str) -> None:
    assert told(mishap) == [helped, "nobody left", ""]


def test_without_other_processes_it_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "_can_fork", lambda: False)
    shared = Shared([1, 2, 3], lambda number: (number, os.getpid()))
    assert not shared.begin(4)
    assert shared.found() == tuple((number, os.getpid()) for number in (1, 2, 3))


def test_what_the_work_raises_is_raised() -> None:
    def work(number: int) -> int:
        raise ValueError(f"no {number}")

    shared = Shared([7], work)
    shared.begin(1)
    with pytest.raises(ValueError, match="no 7"):
        shared.found()


def test_a_process_with_threads_is_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "iterdir", lambda path: iter([path / "1", path / "2"]))
    assert not Shared([1], abs).begin(1)
