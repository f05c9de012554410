"""A bundle's replay from outside: its code is somebody else's, and may do anything but keep us."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import repro.bundle.replay as host
from repro.bundle.replay import Asked, usable
from repro.cli import main
from repro.errors import InterruptedRunError, SpecError, UnavailableError

STUBBORN = """
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    time.sleep(600)  # it holds our pipe open
"""
NOISY = "import os\nfor _ in range(300):\n    os.write(2, b'x' * 100_000)\n"


def place_with(folder: Path, program: str) -> Path:
    (folder / "bundle").mkdir()
    (folder / "bundle" / "replay.py").write_text(program)
    return folder


@pytest.mark.parametrize("last", ["time.sleep(600)", ""])
def test_a_replay_that_will_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str) -> None:
    place = place_with(tmp_path, STUBBORN + last)
    monkeypatch.setattr(host, "_PATIENCE_S", 0.5)

    class Interrupted(subprocess.Popen):  # type: ignore[type-arg]
        asked = 0

        def wait(self, timeout: float | None = None) -> int:
            Interrupted.asked += 1
            if Interrupted.asked == 1 and last:
                time.sleep(0.5)
                raise KeyboardInterrupt
            return int(super().wait(timeout))

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises((UnavailableError, InterruptedRunError)):
        host._run(place, Asked(), lambda _: None)
    assert not of(place)


def of(place: Path) -> list[str]:
    """Processes that run the bundle in the place."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.fsencode(place) in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


def test_a_line_without_an_end_is_not_kept_in_memory(tmp_path: Path) -> None:
    heard: list[str] = []
    with pytest.raises(UnavailableError, match="ended with status 0"):
        host._run(place_with(tmp_path, NOISY), Asked(), heard.append)
    assert sum(map(len, heard)) == 30_000_000
    assert max(map(len, heard)) <= 4000


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (Asked(engine_env=Path("nowhere")), "has no bin/python"),
        (Asked(script=Path("nowhere.json")), "cannot be read"),
        (Asked(script=Path()), "cannot be read"),
        (Asked(script=Path("broken.json")), "broken.json"),
        (Asked(script=Path("other.json")), "is no 'simulation' record"),
    ],
)
def test_what_is_not_there_is_no_failure_of_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Asked, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.json").write_text("{")
    Path("other.json").write_text('{"record": "step"}')
    with pytest.raises(SpecError, match=said):
        usable(asked)


def test_what_is_there_is_usable(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text('{"record": "simulation"}')
    usable(Asked(script=tmp_path / "script.json", engine_env=Path(sys.prefix)))


def test_places_are_looked_at_before_anything_is_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    good = ["pack", "sim-ar-graph-nvls", "--results", str(tmp_path)]
    for options in (
        ["--out", str(tmp_path / "nowhere" / "b.zip")],
        ["--out", str(tmp_path / "b.zip"), "--ledger", str(tmp_path / "nowhere" / "ledger.json")],
        ["--out", str(tmp_path / "b.zip"), "--engine-env", str(tmp_path / "nowhere")],
    ):
        assert main([*good, *options]) == 2
        said = capfd.readouterr().err.splitlines()
        assert len(said) == 1
        assert "nowhere" in said[0]
    assert not list(tmp_path.iterdir())


def test_a_module_beside_the_programs_is_code_too(tmp_path: Path) -> None:
    """`import csv` in one of ours would take it."""
    for file in Path(host.__file__).with_name("inside").glob("*.py"):
        if file.name != "__init__.py":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    for name in ("step.json", "ISSUE.md", "repro.sh", "manifest.json", "results/c/1/result.json", "kernel/a.ptx"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert host.code_of(tmp_path, None) == "it is the code of this graphrepro"
    for name in ("csv.py", "glob/__init__.py", "socket.cpython-311-x86_64-linux-gnu.so"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
        assert name in host.code_of(tmp_path, None)
        (tmp_path / name).unlink()
