"""Long logs are cut; what they say, and where, stays."""

import importlib.util
import re
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from repro.bundle.trim import Windows, trim
from repro.diagnose import Log, diagnose
from repro.diagnose.judge import Outside

MARK = re.compile(rb"\[cut from this log: ([\d,]+) bytes, lines (\d+) to (\d+)\]")
NARROW = Windows(head=200, tail=200, around=80, beside=40, gap=100)
BUSY = (
    b"[2026-05-04 08:02:00 TP0] Decode batch, #running-req: 16, #token: 12345, token usage: 0.42, accept len: 3.41, "
    b"accept rate: 0.21, cuda graph: True, gen throughput (token/s): 1843.11, #queue-req: 0, \n"
)


def cases() -> list[Any]:
    """The labelled logs of the diagnosis."""
    name = "diagnosis_cases"
    if name not in sys.modules:
        path = Path(__file__).parents[1] / "diagnose" / "conftest.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return list(sys.modules[name].CASES)


def says(found: Any) -> tuple[Any, ...]:
    return found.kind, found.phase, found.role, found.signature


def test_diagnosis_survives_the_cut(tmp_path: Path) -> None:
    """Every labelled log, with windows so narrow that most of them are cut."""
    cut = 0
    for case in cases():
        found = trim(case.log, Outside(status=case.exit_status, probes=case.probes), tmp_path / "s", windows=NARROW)
        (tmp_path / "cut.log").write_bytes(found.data)
        asked = {"exit_status": case.exit_status, "probes": case.probes}
        after = diagnose([Log(path=tmp_path / "cut.log", name="a.log")], **asked)
        assert says(after) == says(diagnose([Log(path=case.log, name="a.log")], **asked)), case.id
        assert found.same
        cut += found.cut is not None
    assert cut > len(cases()) / 2


def test_gaps_say_which_lines_they_were(tmp_path: Path) -> None:
    """Kept lines and stated gaps, one after the other, are the lines of the whole log."""
    log = tmp_path / "a.log"
    lines = [f"line {number}\n".encode() for number in range(1, 20_001)]
    lines[9_000] = b"torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
    log.write_bytes(b"".join(lines))
    windows = Windows(head=1000, tail=2000, around=500, beside=100, gap=200)
    found = trim(log, Outside(status=-9), tmp_path / "s", windows=windows)
    number = missing = 0
    for line in found.data.splitlines(keepends=True):
        gap = MARK.match(line)
        if gap is None:
            assert line == lines[number]
            number += 1
        else:
            first, last = int(gap[2]), int(gap[3])
            assert first == number + 1
            size = sum(map(len, lines[first - 1 : last]))
            assert int(gap[1].replace(b",", b"")) == size
            missing += size
            number = last
    assert number == len(lines)
    assert found.cut == f"{missing:,} of {log.stat().st_size:,} bytes, in 2 places"
    assert lines[9_000] in found.data


def test_short_log_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"one\ntwo")
    found = trim(log, Outside(), tmp_path / "s")
    assert (found.data, found.cut, found.same) == (b"one\ntwo", None, True)
    assert not (tmp_path / "s").exists()


def test_log_without_newlines(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"x" * 3_000_000 + b"\nSegmentation fault\n")
    found = trim(log, Outside(status=-11), tmp_path / "s")
    assert len(found.data) < 600_000
    assert MARK.search(found.data)
    assert all(line.startswith(b"[") for line in found.data.splitlines() if b"[cut from" in line)


@pytest.mark.slow
def test_memory_stays_bounded(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    with log.open("wb") as stream:
        for _ in range(80):
            stream.write(BUSY * 4000)
        stream.write(b"torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n")
        for _ in range(20):
            stream.write(BUSY * 4000)
    tracemalloc.start()
    found = trim(log, Outside(status=-9), tmp_path / "s")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.same
    assert len(found.data) < 2_000_000
    assert peak < 60_000_000


def test_windows_are_widened_until_it_says_the_same(tmp_path: Path) -> None:
    """The phase rests on a line far from all that is kept at first."""
    log = tmp_path / "a.log"
    filler = b"nothing worth telling\n" * 400
    log.write_bytes(
        b"[2026-05-04 08:00:00] server_args=ServerArgs(model_path='/models/m')\n"
        + filler
        + b"[2026-05-04 08:01:10 TP0] Capture cuda graph begin. This can take up to several minutes.\n"
        + filler
        + b"[2026-05-04 08:01:20 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        + b"RuntimeError: CUDA error: an illegal memory access was encountered\n"
    )
    whole = diagnose([Log(path=log, name="a.log")], exit_status=-9)
    assert whole.phase == "graph_capture"
    found = trim(
        log, Outside(status=-9), tmp_path / "s", windows=Windows(head=300, tail=300, around=100, beside=50, gap=50)
    )
    assert found.same
    (tmp_path / "cut.log").write_bytes(found.data)
    assert says(diagnose([Log(path=tmp_path / "cut.log", name="a.log")], exit_status=-9)) == says(whole)
