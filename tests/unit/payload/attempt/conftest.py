"""The attempt program as a runtime uses it: a folder with step.json, a process, and what both leave behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import matrix

PAYLOAD = Path(matrix.__file__).parent / "payload"
sys.path.insert(0, str(PAYLOAD))  # as running the folder does

TREE = ("--speculative-algorithm", "DDTREE", "--speculative-num-draft-tokens", "17", "--speculative-eagle-topk", "8")
MARKS = {
    "weights_load": ["Load weight begin"],
    "graph_capture": ["Capture target verify CUDA graph begin", "Capture target decode CUDA graph begin"],
    "warmup": ["Application startup complete."],
}
LIMITS = {"launch": 30.0, "weights_load": 30.0, "graph_capture": 30.0, "warmup": 30.0, "shutdown": 0.2}

STOP = {"dump_s": 20.0, "dump_signal": None, "int_s": 5.0, "term_s": 20.0, "kill_s": 20.0}


def check(name: str, **changes: Any) -> dict[str, Any]:
    plan = {
        "check": name,
        "applicable": True,
        "reason": None,
        "prompts": 2,
        "max_new_tokens": 12,
        "concurrency": [1],
        "margins": False,
        "tie_margin": 1e-3,
        "repeats": None,
        "cancel_every": None,
        "peer": None,
        "limit_s": 30.0,
    }
    return plan | changes


SILENT = {"prompts": 0, "max_new_tokens": 0, "concurrency": [], "tie_margin": None}


@dataclass(kw_only=True)
class Lab:
    """One attempt. `label` marks every process of it in its environment."""

    folder: Path
    port: int
    label: str = field(default_factory=lambda: uuid.uuid4().hex)
    fault: str | None = None
    argv: list[str] | None = None
    options: tuple[str, ...] = TREE
    script: str = "default"
    environment: dict[str, str] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=lambda: dict(LIMITS))
    checks: list[dict[str, Any]] = field(default_factory=lambda: [check("lossless"), check("throughput")])
    stop: dict[str, Any] = field(default_factory=lambda: dict(STOP))
    explains: int | None = None
    tasks: list[dict[str, Any]] = field(default_factory=list)
    texts: list[dict[str, Any]] = field(default_factory=list)
    more: dict[str, str] = field(default_factory=dict)

    def step(self) -> dict[str, Any]:
        play = ["--port", str(self.port), "--script", self.script, "--cell", "sim-b16t8", "--launch", "1"]
        fault = {"GRAPHREPRO_FAULT": self.fault} if self.fault else {}
        prompts = [{"id": f"p{n}", "text": None, "input_ids": [n + 20, n + 30, n + 40]} for n in range(2)]
        return {
            "record": "step",
            "schema_version": 2,
            "run_id": "20260101T000000Z-test",
            "target": "sim",
            "cell": "sim-b16t8",
            "attempt": 1,
            "argv": self.argv or [sys.executable, str(PAYLOAD), "simulated", *play, *self.options],
            "environment": {"LAB_LABEL": self.label, **fault, **self.environment},
            "host": "127.0.0.1",
            "port": self.port,
            "checks": self.checks,
            "prompts": prompts,
            "tasks": self.tasks,
            "chat": {},
            "texts": self.texts,
            "limits": [{"phase": phase, "limit_s": limit} for phase, limit in self.limits.items()],
            "marks": [{"phase": phase, "texts": texts} for phase, texts in MARKS.items()],
            "stop": self.stop,
            "planted": None,
            "explains": self.explains,
        }

    def start(self, **options: Any) -> "subprocess.Popen[bytes]":
        self.folder.mkdir(exist_ok=True)
        (self.folder / "step.json").write_text(json.dumps(self.step()))
        (self.folder.parent / "tmp").mkdir(exist_ok=True)
        environment = {**os.environ, "LAB_LABEL": self.label, "TMPDIR": str(self.folder.parent / "tmp"), **self.more}
        argv = [sys.executable, "-P", str(PAYLOAD), "attempt", str(self.folder)]
        return subprocess.Popen(argv, env=environment, cwd="/", **options)

    def run(self) -> int:
        with self.start() as process:
            return process.wait()

    @property
    def evidence(self) -> Path:
        return self.folder / "evidence"

    def timeline(self) -> list[dict[str, Any]]:
        path = self.evidence / "timeline.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def events(self) -> list[str]:
        return [entry["event"] for entry in self.timeline()]

    def one(self, event: str) -> dict[str, Any]:
        (entry,) = (entry for entry in self.timeline() if entry["event"] == event)
        return entry

    def phases(self) -> list[tuple[str, str]]:
        """(phase, begun or ended)"""
        kinds = {"phase-begun": "begun", "phase-ended": "ended"}
        return [(entry["phase"], kinds[entry["event"]]) for entry in self.timeline() if entry["event"] in kinds]

    def check(self, name: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.evidence / "checks" / f"{name}.json").read_text())
        return document

    def log(self) -> str:
        return (self.evidence / "server.log").read_text(errors="replace")

    def wait_for(self, event: str, **values: Any) -> None:
        wanted = {"event": event, **values}
        until(lambda: any(wanted.items() <= entry.items() for entry in self.timeline()), f"{wanted}")

    def processes(self) -> list[int]:
        """All living processes that carry the label."""
        return [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdecimal() and _carries(int(entry.name), self.label)
        ]

    def port_is_free(self) -> bool:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", self.port))
            except OSError:
                return False
            return True


def _carries(pid: int, label: str) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return label.encode() in environment and state not in "ZX"


def until(condition: Any, what: str) -> None:
    """Waits for what must come; the limit only keeps a broken test from hanging."""
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit, f"never happened: {what}"
        time.sleep(0.01)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Whatever an attempt goes through, no process, no open port and no scratch folder may be left of it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    lab = Lab(folder=tmp_path / "attempt", port=port)
    try:
        yield lab
        until(lambda: not lab.processes(), "the end of all processes")
        assert lab.port_is_free()
        scratch = tmp_path / "tmp"
        until(lambda: not scratch.exists() or not list(scratch.iterdir()), "the end of the scratch folder")
    finally:
        for pid in lab.processes():
            os.kill(pid, signal.SIGKILL)
