"""A log that floods: its head and tail stay, marks are still found, and neither disk nor memory grows with it."""

import errno
import os
import re
import sys
import time
from pathlib import Path

import pytest
from attempt import log_limit
from attempt.evidence import Timeline
from attempt.log_limit import BLOCK, LogLimit
from attempt.phases import MarkReader, Phases

KEEP = 4 * BLOCK


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "server.log"
    path.touch()
    return path


def flood(path: Path, blocks: int, mark: bytes = b"") -> None:
    with path.open("ab") as file:
        file.write(mark)
        for number in range(blocks):
            file.write(bytes([65 + number % 26]) * BLOCK)


def on_disk(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_a_short_log_is_left_alone(log):
    flood(log, 12)
    before = log.read_bytes()
    limit = LogLimit(log, keep=KEEP)
    limit.punch()
    limit.cut()
    assert (log.read_bytes() == before) is True  # so that pytest does not explain megabytes


def test_head_and_tail_of_a_long_log(log):
    limit = LogLimit(log, keep=KEEP)
    whole = b""
    for _ in range(20):
        flood(log, 5)
        limit.punch()
        whole = log.read_bytes() if not whole else whole + log.read_bytes()[-5 * BLOCK :]
        assert on_disk(log) <= 3 * KEEP + 6 * BLOCK
    limit.cut()
    kept = log.read_bytes()
    assert (kept[:KEEP] == whole[:KEEP], kept[-KEEP:] == whole[-KEEP:]) == (True, True)
    missing = len(whole) - 2 * KEEP
    assert kept[KEEP:-KEEP] == f"\n[graphrepro left out {missing} bytes of this log here]\n".encode()


def test_what_is_not_read_yet_stays(log):
    limit = LogLimit(log, keep=KEEP, unread=100 * BLOCK)
    flood(log, 40)
    assert limit.punch(read_to=2 * KEEP - 1) == KEEP
    assert limit.punch(read_to=20 * BLOCK) == 20 * BLOCK
    assert limit.punch(read_to=log.stat().st_size) == 36 * BLOCK


def test_a_reader_too_far_behind_loses_what_it_has_not_read(log, tmp_path, monkeypatch):
    monkeypatch.setattr("attempt.phases.UNREAD_BYTES", 10 * BLOCK)
    limit = LogLimit(log, keep=KEEP, unread=10 * BLOCK)
    phases = Phases(Timeline(tmp_path / "timeline"))
    phases.begin("launch")
    with MarkReader(log, {"warmup": ("startup complete",)}) as marks:
        phases.follow(marks)
        flood(log, 60)
        phases.limit(limit)
        assert marks.read_to() == 46 * BLOCK
        flood(log, 0, b"startup complete")
        phases.look_to_the_end()
    assert phases.current == "warmup"


def test_a_file_system_without_holes(log, monkeypatch):
    def refuse(_fd: int, _offset: int, _length: int) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(log_limit, "_punch", refuse)
    flood(log, 40)
    limit = LogLimit(log, keep=KEEP)
    with pytest.raises(OSError, match="not supported"):
        limit.punch()
    limit.cut()
    assert log.stat().st_size < 2 * KEEP + 100


FLOOD = """
import sys
out = sys.stdout.buffer
out.write(b"Load weight begin\\n")
piece = (b"x" * 127 + b"\\n") * 8192
for number in range({megabytes}):
    out.write(piece)
    if number == {megabytes} // 2:
        out.write(b"Capture target verify CUDA graph begin\\n")
out.write(b"Application startup complete.\\nthe end\\n")
"""


def test_phases_through_a_flood(lab, tmp_path):
    """At full speed, as a server can that does nothing else."""
    path = tmp_path / "flood.py"
    path.write_text(FLOOD.format(megabytes=256))
    lab.argv = [sys.executable, str(path)]
    lab.more = {"GRAPHREPRO_LOG_KEEP_BYTES": str(4 << 20)}
    assert lab.run() == 0
    begun = [phase for phase, what in lab.phases() if what == "begun"]
    assert begun == ["launch", "weights_load", "graph_capture", "warmup"]
    assert lab.one("server-exited")["phase"] == "warmup"
    stored = (lab.evidence / "server.log").read_bytes()
    assert len(stored) < 9 << 20
    assert (stored[:18], stored[-8:]) == (b"Load weight begin\n", b"the end\n")
    (missing,) = re.findall(rb"left out (\d+) bytes", stored)
    note = len(b"\n[graphrepro left out  bytes of this log here]\n") + len(missing)
    whole = (256 << 20) + len("Load weight begin\nCapture target verify CUDA graph begin\n")
    assert len(stored) - note + int(missing) == whole + len("Application startup complete.\nthe end\n")


def test_the_log_of_an_attempt_whose_program_was_killed(lab, tmp_path):
    path = tmp_path / "flood.py"
    path.write_text(FLOOD.format(megabytes=32) + "import time; out.flush(); time.sleep(600)\n")
    lab.argv = [sys.executable, str(path)]
    lab.more = {"GRAPHREPRO_LOG_KEEP_BYTES": str(1 << 20)}
    with lab.start() as process:
        lab.wait_for("phase-begun", phase="warmup")
        process.kill()
    lab.wait_for("server-exited")
    while lab.processes():
        time.sleep(0.01)
    assert (lab.evidence / "server.log").stat().st_size < 3 << 20
