"""The smaller parts of the attempt program: step, marks, timeline, power, processes."""

import json
import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
from attempt import processes
from attempt.evidence import Evidence, Timeline
from attempt.phases import CHUNK_BYTES, MarkReader, Phases
from attempt.power import PowerSampler
from attempt.step import BadStepError, read_step

from repro import codec
from repro.model import PowerEvidence

MARKS = {
    "weights_load": ("Load weight begin",),
    "graph_capture": ("graph begin", "Capture draft "),
    "warmup": ("startup complete",),
    "serving": ("fired up",),
}


@pytest.fixture
def step_file(lab, tmp_path):
    path = tmp_path / "step.json"

    def write(**changes):
        path.write_text(json.dumps(lab.step() | changes))
        return path

    return write


def test_a_step(step_file):
    step = read_step(step_file(host="0.0.0.0"))
    assert step.url.startswith("http://127.0.0.1:")
    assert step.limit_s("warmup") == 30.0
    assert step.limit_s("image_build") == float("inf")
    assert [check.name for check in step.checks] == ["lossless", "throughput"]


def test_a_step_on_ipv6(step_file):
    assert read_step(step_file(host="::", port=7)).url == "http://[::1]:7"


@pytest.mark.parametrize(
    "changes",
    [
        {"record": "plan"},
        {"schema_version": 3},
        {"argv": []},
        {"port": None},
        {"checks": [{}]},
        {"prompts": [{"id": "a", "text": None, "input_ids": None}]},
        {"prompts": [{"id": "a", "text": "b", "input_ids": [1]}]},
        {"stop": None},
    ],
)
def test_a_step_that_cannot_be_used(step_file, changes):
    with pytest.raises(BadStepError):
        read_step(step_file(**changes))


def looked(path: Path, current: str = "launch") -> list[str]:
    with MarkReader(path, MARKS) as marks:
        found = []
        while marks.behind():
            found += marks.look((found or [current])[-1])
        return found


def test_marks_in_order(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"Load weight begin\nCapture graph begin\nApplication startup complete.\nfired up\n")
    assert looked(log) == ["weights_load", "graph_capture", "warmup"]
    assert looked(log, "graph_capture") == ["warmup"]


def test_a_mark_may_be_left_out_and_none_leads_back(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"startup complete\nLoad weight begin\ngraph begin\n")
    assert looked(log) == ["warmup"]


def test_a_second_mark_of_a_phase_is_nothing_new(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"Capture draft\ngraph begin\nCapture draft \ngraph begin\n")
    assert looked(log) == ["graph_capture"]


@pytest.mark.parametrize("before", [CHUNK_BYTES - 5, 8 * CHUNK_BYTES - 5, 9 * CHUNK_BYTES])
def test_a_mark_across_the_pieces_that_are_read(tmp_path, before):
    log = tmp_path / "log"
    log.write_bytes(b"\x00" * before + b"Load weight begin")
    assert looked(log) == ["weights_load"]


def test_a_mark_that_is_written_in_pieces(tmp_path):
    log = tmp_path / "log"
    with log.open("wb", buffering=0) as writer, MarkReader(log, MARKS) as marks:
        found = []
        for byte in b"\xff\rLoad weight begin\r\ngraph begin":
            writer.write(bytes([byte]))
            found.append(marks.look((["launch"] + [phase for some in found for phase in some])[-1]))
    assert [phase for some in found for phase in some] == ["weights_load", "graph_capture"]


def test_memory_does_not_grow_with_the_log(tmp_path):
    log = tmp_path / "log"
    with log.open("wb") as writer:
        writer.truncate(1 << 30)
    with MarkReader(log, MARKS) as marks:
        marks.look("launch")
        assert marks.behind() == (1 << 30) - 8 * CHUNK_BYTES
        assert len(marks._tail) < 20


def test_no_marks_at_all(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"Load weight begin")
    with MarkReader(log, {}) as marks:
        assert marks.look("launch") == []


def test_phases_without_a_log_to_follow(tmp_path):
    phases = Phases(Timeline(tmp_path / "timeline"))
    phases.look()
    phases.look_to_the_end()
    phases.begin("launch")
    assert phases.elapsed_s() >= 0
    phases.begin_shutdown(orderly=False)
    phases.end()
    events = [json.loads(line) for line in (tmp_path / "timeline").read_text().splitlines()]
    assert [(event["event"], event["phase"]) for event in events] == [
        ("phase-begun", "launch"),
        ("phase-begun", "shutdown"),
        ("phase-ended", "shutdown"),
    ]


def test_a_document_is_whole_or_absent(tmp_path):
    evidence = Evidence(tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        evidence.write("a.json", "x", {"value": float("nan")})
    assert [path.name for path in tmp_path.iterdir()] == ["checks"]
    evidence.write("a.json", "x", {"value": 1})
    assert json.loads((tmp_path / "a.json").read_text()) == {"record": "x", "schema_version": 1, "value": 1}


def test_power_without_nvml(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with PowerSampler(lambda: 0.0) as sampler:
        pass
    assert sampler.fields()["samples"] == []
    assert sampler.fields()["reason"].startswith("NVML is not available: ModuleNotFoundError")


def test_power_before_the_checks():
    assert PowerSampler(lambda: 0.0).fields() == {"reason": "the checks were not reached", "samples": []}


class FakeNvml(types.ModuleType):
    NVMLError = KeyError

    def __init__(self, broken: str = "") -> None:
        super().__init__("pynvml")
        self._broken = broken

    def __getattr__(self, name: str):
        values = {
            "nvmlInit": None,
            "nvmlDeviceGetCount": 2,
            "nvmlDeviceGetHandleByIndex": object(),
            "nvmlDeviceGetPowerUsage": 250_500,
            "nvmlDeviceGetTemperature": 61,
            "nvmlDeviceGetClockInfo": 1980,
            "nvmlDeviceGetMemoryInfo": types.SimpleNamespace(used=3 << 20),
        }
        if name not in values:
            raise AttributeError(name)

        def call(*_):
            if name == self._broken:
                raise KeyError("gone")
            return values[name]

        return call


def test_power_with_nvml(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml("nvmlDeviceGetTemperature"))
    with PowerSampler(lambda: 1.5) as sampler:
        while not sampler.fields()["samples"]:
            time.sleep(0.01)
    Evidence(tmp_path).write("power.json", "power-evidence", sampler.fields())
    power = codec.read(tmp_path / "power.json", PowerEvidence, where="power.json")
    assert power.reason is None
    first, second = power.samples[:2]
    assert (first.gpu, second.gpu) == (0, 1)
    assert (first.power_w, first.temperature_c, first.sm_clock_mhz, first.memory_used_mib) == (250.5, None, 1980.0, 3.0)


@pytest.mark.parametrize("broken", ["nvmlInit", "nvmlDeviceGetCount"])
def test_power_with_a_broken_driver(monkeypatch, broken):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(broken))
    with PowerSampler(lambda: 0.0) as sampler:
        pass
    assert sampler.fields()["reason"].startswith("NVML is not available")


def test_descendants_and_their_end():
    """In a process of its own, since it becomes a subreaper and kills all below it."""
    program = (
        "import os, subprocess, sys, time\n"
        "from attempt import processes\n"
        "assert processes.become_subreaper()\n"
        "forks = 'import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.setsid();"
        "[os.fork() for _ in range(2)]; time.sleep(600)'\n"
        "launcher = subprocess.Popen([sys.executable, '-c', forks], start_new_session=True)\n"
        "while len(processes.descendants(os.getpid())) < 4: time.sleep(0.01)\n"
        "os.kill(launcher.pid, 9)\n"
        "while launcher.pid in processes.descendants(os.getpid()): time.sleep(0.01)\n"
        "assert len(processes.descendants(os.getpid())) == 3\n"
        "left, ended = processes.kill_descendants(os.getpid(), 30)\n"
        "assert left == [], left\n"
        "assert ended[launcher.pid] == -9 and len(ended) == 4, ended\n"
        "assert processes.descendants(os.getpid()) == []\n"
        "launcher.returncode = 0\n"
    ).replace("os.setsid();", "")
    payload = Path(processes.__file__).parents[1]
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": str(payload)})


def test_killing_what_is_gone():
    process = subprocess.Popen(["true"])
    process.wait()
    processes.kill([process.pid], signal.SIGTERM)
