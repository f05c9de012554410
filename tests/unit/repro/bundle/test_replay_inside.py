"""The bundle's own replay: what a launch was, what the launches add up to, and what a machine lacks."""

import ast
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

import repro.bundle.inside
from repro import codec
from repro.bundle.inside import counting, judging, launching, machine
from repro.intervals import upper_bound
from repro.model import Replay

PAYLOAD = Path(str(resources.files("matrix"))) / "payload"
INSIDE = Path(repro.bundle.inside.__file__).parent
IMAGE = "engine@sha256:" + "cd" * 32
RULES: dict[str, Any] = {
    "record": "bundle-expectation",
    "schema_version": 1,
    "kind": "cuda_illegal_memory_access",
    "signature": {"kind": "cuda_illegal_memory_access", "phase": "serving", "subsystem": None},
    "outcomes": ["crashed"],
    "phases": ["warmup", "serving"],
    "patterns": [{"pattern": "illegal memory access", "says": "CUDA reports an illegal memory access"}],
    "differing_prompts": None,
    "acceptance_at_most": None,
    "undecided": None,
    "k": 2,
    "n": 4,
    "statement": "the server dies in serving",
}
WRONG = RULES | {
    "outcomes": ["completed"],
    "patterns": [],
    "phases": [],
    "differing_prompts": 2,
    "kind": "corrupt_output",
}
FLOOR = WRONG | {"differing_prompts": None, "acceptance_at_most": 1.01, "kind": "acceptance_at_floor"}
MUTE = WRONG | {"differing_prompts": None, "kind": "no_tokens"}
FAILING = WRONG | {"differing_prompts": None, "kind": "requests_failed"}
NEEDS: dict[str, Any] = {
    "record": "bundle-needs",
    "schema_version": 1,
    "architecture": "sim",
    "gpus": 0,
    "runtime": "local",
    "image": None,
    "image_python": None,
    "model": None,
    "draft_model": None,
    "modules": ["aiohttp"],
    "ipc": "private",
    "shm_bytes": 1 << 26,
    "ulimits": {"memlock": -1},
}
ORACLE = {"answers": [{"prompt": f"p{n}", "expected_ids": [1, 2, 3]} for n in range(4)]}


def event(name: str, phase: str | None = None, **more: object) -> dict[str, Any]:
    return {"event": name, "phase": phase, **more}


DIED = [event("phase-begun", "serving"), event("server-exited", "serving", status=-9), event("attempt-ended")]
HUNG = [event("phase-begun", "serving"), event("phase-limit", "serving", detail="more than 9 s"), *DIED[1:]]
CUT_OFF = [DIED[0], event("interrupted", "serving"), *DIED[1:]]
ENDED = [
    event("phase-begun", "serving"),
    event("phase-begun", "shutdown"),
    event("server-exited", "shutdown", status=0),
    event("attempt-ended"),
]


def answer(prompt: str = "p0", ids: tuple[int, ...] = (1, 2, 3), **more: object) -> dict[str, Any]:
    return {"prompt": prompt, "output_ids": list(ids), "error": None, "cancelled": False, "margins": None, **more}


def launch(
    place: Path,
    events: list[dict[str, Any]],
    log: str = "",
    checks: Mapping[str, list[dict[str, Any]]] | None = None,
    *,
    complete: bool = True,
) -> Path:
    (place / "evidence" / "checks").mkdir(parents=True)
    (place / "evidence" / "server.log").write_text(log)
    lines = "".join(json.dumps(entry) + "\n" for entry in events)
    (place / "evidence" / "timeline.jsonl").write_text(lines + '{"event": "cut o')
    for name, requests in (checks or {}).items():
        document = {"complete": complete, "stopped_because": "slow", "requests": requests}
        (place / "evidence" / "checks" / f"{name}.json").write_text(json.dumps(document))
    return place


LOSSLESS = {"lossless": [answer(f"p{n}", verify_calls=1) for n in range(4)]}
TWO_WRONG = {"lossless": [answer("p0", (9, 2, 3)), answer("p1", (1, 2)), answer("p2"), answer("p3")]}
AT_FLOOR = {"lossless": [answer(ids=tuple(range(12)), verify_calls=11)]}


@pytest.mark.parametrize(
    ("rules", "events", "log", "checks", "state", "outcome"),
    [
        (RULES, DIED, "x\nCUDA: an illegal memory access\n", {}, "reproduced", "crashed"),
        (RULES, HUNG, "an \x1b[31millegal\x1b[0m memory access\n", {}, "reproduced", "crashed"),
        (RULES, DIED, "Segmentation fault\n", {}, "another_failure", "crashed"),
        (RULES | {"phases": ["graph_capture"]}, DIED, "illegal memory access\n", {}, "another_failure", "crashed"),
        (RULES | {"patterns": []}, DIED, "", {}, "reproduced", "crashed"),
        (RULES | {"patterns": []}, HUNG, "", {}, "another_failure", "hung"),
        (RULES | {"patterns": [], "outcomes": ["hung"]}, HUNG, "", {}, "reproduced", "hung"),
        (RULES | {"patterns": [], "outcomes": ["hung"]}, DIED, "", {}, "another_failure", "crashed"),
        (RULES, ENDED, "", LOSSLESS, "clean", "completed"),
        (RULES, ENDED, "", TWO_WRONG, "another_failure", "completed"),
        (RULES, ENDED, "", {"lossless": [answer(ids=())]}, "another_failure", "completed"),
        (RULES, ENDED, "", {"lossless": [answer(), answer(ids=(), error="500")]}, "another_failure", "completed"),
        (RULES, ENDED, "", AT_FLOOR, "another_failure", "completed"),
        (RULES, DIED[:2], "illegal memory access", {}, "reproduced", "crashed"),
        (RULES, [], "", {}, "void", "runtime_error"),
        (RULES, [event("port-taken", detail="port 1")], "", {}, "void", "runtime_error"),
        (RULES, CUT_OFF, "illegal memory access", {}, "void", "runtime_error"),
        (RULES, ENDED[:3], "", {}, "void", "runtime_error"),
        (WRONG, ENDED, "", TWO_WRONG, "reproduced", "completed"),
        (WRONG | {"differing_prompts": 3}, ENDED, "", TWO_WRONG, "clean", "completed"),
        (WRONG, ENDED, "", LOSSLESS, "clean", "completed"),
        (WRONG, ENDED, "", {}, "void", "completed"),
        (WRONG, DIED, "", {}, "another_failure", "crashed"),
        (WRONG, ENDED, "", AT_FLOOR | TWO_WRONG, "reproduced", "completed"),
        (WRONG | {"differing_prompts": None, "undecided": "no"}, ENDED, "", LOSSLESS, "void", "completed"),
        (FLOOR, ENDED, "", AT_FLOOR, "reproduced", "completed"),
        (FLOOR, ENDED, "", {"lossless": [answer("q", (1, 2), verify_calls=1)]}, "clean", "completed"),
        (FLOOR, ENDED, "", {"lossless": [answer("q", tuple(range(40)), verify_calls=11)]}, "clean", "completed"),
        (MUTE, ENDED, "", {"lossless": [answer(ids=())]}, "reproduced", "completed"),
        (FAILING, ENDED, "", {"load": [answer(error="x")]}, "reproduced", "completed"),
        (WRONG, ENDED, "", {"load": [answer("p0", (1, 2)), answer("p1", (1,), cancelled=True)]}, "clean", "completed"),
    ],
)  # fmt: skip
def test_what_a_launch_was(
    rules: dict[str, Any],
    events: list[dict[str, Any]],
    log: str,
    checks: dict[str, list[dict[str, Any]]],
    state: str,
    outcome: str,
    tmp_path: Path,
) -> None:
    found = judging.judge(launch(tmp_path / "1", events, log, checks), rules, ORACLE)
    assert (found.state, found.outcome) == (state, outcome), found
    assert found.detail


def test_a_launch_that_was_not_seen_through_is_void(tmp_path: Path) -> None:
    place = launch(tmp_path / "1", ENDED, "", LOSSLESS, complete=False)
    assert judging.judge(place, WRONG, ORACLE).state == "void"
    wrong = launch(tmp_path / "2", ENDED, "", TWO_WRONG, complete=False)
    assert judging.judge(wrong, WRONG, ORACLE).state == "reproduced"


def test_ids_that_were_withheld_are_no_reference(tmp_path: Path) -> None:
    zeros = {"answers": [{"prompt": "p0", "expected_ids": [0, 0, 0]}]}
    assert judging.judge(launch(tmp_path / "1", ENDED, "", TWO_WRONG), WRONG, zeros).state == "void"


def test_a_refusal_is_told_from_a_crash(tmp_path: Path) -> None:
    events = [event("phase-begun", "launch"), event("server-exited", "launch", status=2), event("attempt-ended")]
    found = judging.judge(launch(tmp_path / "1", events, "error: unrecognized arguments: --x\n"), RULES, None)
    assert (found.state, found.outcome) == ("another_failure", "refused")
    assert "unrecognized arguments: --x" in found.detail


def tally(*states: str) -> counting.Tally:
    return counting.Tally([{"state": state, "detail": "it says so"} for state in states])


@pytest.mark.parametrize(
    ("states", "blocked", "said"),
    [
        (("reproduced", "clean", "void"), None, "reproduced 1 of 2"),
        (("clean",) * 10, None, "not reproduced (0 of 10: below 25.9 % at 95 %)"),
        (("clean", "another_failure"), None, "not reproduced (0 of 1: below 95.0 % at 95 %); 1 ended in another"),
        (("another_failure",) * 2, None, "not reproduced: both launches ended in another failure, the first: it"),
        ((), "no weights", "could not run, because no weights"),
        (("reproduced",), "it stopped", "reproduced 1 of 1"),
    ],
)  # fmt: skip
def test_what_the_launches_say(states: tuple[str, ...], blocked: str | None, said: str) -> None:
    assert counting.statement(tally(*states), blocked).startswith(said)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 59, 1000])
def test_the_bound_is_the_exact_one(n: int) -> None:
    assert counting.upper_bound(n) == pytest.approx(upper_bound(0, n))


@pytest.mark.parametrize(
    ("k", "n", "launches"), [(0, 0, 3), (1, 1, 3), (4, 4, 3), (1, 2, 5), (1, 5, 14), (1, 100, 20), (9, 10, 3)]
)
def test_as_many_launches_as_the_rate_asks_for(k: int, n: int, launches: int) -> None:
    assert counting.default_launches({"k": k, "n": n}) == launches
    if 0 < k < n and launches < counting.MOST:
        assert 1 - (1 - k / n) ** launches >= 0.95


def test_void_launches_in_a_row_end_it() -> None:
    assert tally("void", "void", "clean").problem() is None
    assert tally("clean", "void", "void").problem() is None
    assert "could not be judged" in str(tally("clean", "void", "void", "void").problem())


@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        ([], "it needs a GPU of sm_103, and nvidia-smi shows none (not found)"),
        ([("NVIDIA H200", "sm_90")], "it needs a GPU of sm_103, and here is sm_90 (NVIDIA H200): --any-gpu"),
        ([("NVIDIA B300", "sm_103")], "it needs 2 GPUs of sm_103, and here are 1"),
        ([("NVIDIA B300", "sm_103")] * 2, None),
    ],
)
def test_which_gpus_will_do(gpus: list[tuple[str, str]], said: str | None) -> None:
    found = machine.gpu_problem(NEEDS | {"architecture": "sm_103", "gpus": 2}, gpus, "not found")
    assert found is None if said is None else str(found).startswith(said)


def test_a_mount_holds_under_commas_and_quotes() -> None:
    assert launching.mount(Path("/a b"), "/x") == "type=bind,source=/a b,target=/x,readonly"
    assert launching.mount(Path('/a,"b'), "/x", writable=True) == 'type=bind,"source=/a,""b",target=/x'


def test_weights_bring_what_their_links_lead_to(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "1").write_text("")
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "model.safetensors").symlink_to("../blobs/1")
    found = launching.weight_folders(str(tmp_path / "snapshot"))
    assert found == (str(tmp_path / "snapshot"), str(tmp_path / "blobs"))
    assert launching.weight_folders("Qwen/Qwen3-8B") == ()


STEP: dict[str, Any] = {
    "record": "step",
    "schema_version": 2,
    "run_id": "r",
    "target": "sim",
    "cell": "sim-b16t8-graph-nonvls",
    "attempt": 1,
    "argv": [
        *("{python}", "{payload}", "simulated", "--port", "{port}", "--script", "default", "--launch", "{attempt}"),
        *("--cell", "sim-b16t8-graph-nonvls", "--speculative-algorithm", "DDTREE"),
        *("--speculative-num-draft-tokens", "17", "--speculative-eagle-topk", "8", "--watchdog-timeout", "60"),
    ],
    "environment": {"GRAPHREPRO_FAULT": "scheduler-exception:5"},
    "host": "127.0.0.1",
    "port": 31000,
    "checks": [
        {
            "check": "lossless",
            "applicable": True,
            "reason": None,
            "prompts": 1,
            "max_new_tokens": 32,
            "concurrency": [1],
            "margins": False,
            "tie_margin": None,
            "repeats": None,
            "cancel_every": None,
            "peer": None,
            "limit_s": 60.0,
        }
    ],
    "prompts": [{"id": "p0", "text": "Say something.", "input_ids": None}],
    "tasks": [],
    "chat": {},
    "texts": [],
    "limits": [{"phase": "launch", "limit_s": 60.0}],
    "marks": [],
    "stop": {"dump_s": 1.0, "dump_signal": None, "int_s": 1.0, "term_s": 5.0, "kill_s": 5.0},
    "planted": {"fault": "scheduler-exception", "number": 5},
    "explains": None,
}
FAKE_DOCKER = """#!{python}
# Stands in for docker: a "container" is a process here, which sees its mounts at their own paths.
import json, os, pathlib, signal, subprocess, sys
words, state = sys.argv[1:], pathlib.Path({state!r})
with (state / "calls").open("a") as calls:
    calls.write(json.dumps(words) + "\\n")
if words[0] == "version":
    sys.exit(print("28.0") if not (state / "no-daemon").exists() else "Cannot connect to the Docker daemon")
if words[:2] == ["image", "inspect"]:
    sys.exit(print("sha256:1") if words[-1] == {image!r} else "Error: No such image")
if words[0] == "rm":
    sys.exit(0)
flags = [word for word in words[1:] if word.startswith("--")]
mounts = dict(reversed([part.split("=", 1)[1] for part in flag.split(",") if part[:6] in ("source", "target")])
              for flag in flags if flag.startswith("--mount="))
environment = dict(flag[6:].split("=", 1) for flag in flags if flag.startswith("--env="))
at = words.index({image!r})
step = pathlib.Path(mounts["/attempt"], "step.json")
step.write_text(step.read_text().replace("/opt/graphrepro/payload", mounts["/opt/graphrepro/payload"])
                .replace('"/opt/engine/python"', json.dumps(sys.executable))
                .replace('"python3"', json.dumps(sys.executable)))
command = [sys.executable, *(mounts.get(word, word) for word in words[at + 1:])]
os.execve(command[0], command, {{**environment, "PATH": os.environ["PATH"], "HOME": os.environ["HOME"],
                                "TMPDIR": os.environ["TMPDIR"]}})
"""


class Unpacked:
    """A bundle's folder made by hand, in a world of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.bundle, self.bin, self.temporary = place / "bundle", place / "bin", place / "tmp"
        for folder in (self.bundle, self.bin, self.temporary):
            folder.mkdir()
        for file in INSIDE.glob("*.py"):
            (self.bundle / file.name).symlink_to(file)
        (self.bundle / "payload").symlink_to(PAYLOAD)
        (self.bundle / "replay.py").unlink()
        (self.bundle / "replay.py").write_bytes((INSIDE / "replay.py").read_bytes())
        self.write("step", STEP)
        self.write("expectation", RULES)
        self.write("needs", NEEDS)

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        (self.bundle / f"{name}.json").write_text(json.dumps(document))

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def fake_docker(self) -> None:
        self.program("docker", FAKE_DOCKER.format(python=sys.executable, state=str(self.place), image=IMAGE))
        self.write("needs", NEEDS | {"runtime": "docker", "image": IMAGE, "image_python": "/opt/engine/python"})

    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.place / "calls").read_text().splitlines()]

    def start(self, *options: str) -> "subprocess.Popen[str]":
        environment = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.place), "TMPDIR": str(self.temporary)}
        command = [sys.executable, "-I", str(self.bundle / "replay.py"), "--out", str(self.place / "out"), *options]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd="/"
        )

    def run(self, *options: str) -> tuple[int, str]:
        process = self.start(*options)
        out, err = process.communicate(timeout=120)
        return process.returncode, out.strip() or err.strip()

    def record(self) -> Replay:
        return codec.read(self.place / "out" / "replay.json", Replay)

    def alive(self) -> list[str]:
        mark = f"TMPDIR={self.temporary}".encode()
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                state = (place / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z" and mark in (place / "environ").read_bytes().split(b"\0"):
                    found.append(place.name)
            except OSError:
                continue
        return found


@pytest.fixture
def unpacked(tmp_path: Path) -> Unpacked:
    return Unpacked(tmp_path)


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_folder_without_a_package_replays(unpacked: Unpacked) -> None:
    assert unpacked.run("--launches", "2") == (1, "reproduced 2 of 2")
    record = unpacked.record()
    assert record.bundle_digest == "0" * 64
    assert record.facts["engine_version"]
    assert unpacked.alive() == []
    assert not list(unpacked.bundle.rglob("__pycache__"))


def test_in_a_container_it_replays_too(unpacked: Unpacked) -> None:
    unpacked.fake_docker()
    assert unpacked.run("--launches", "1") == (1, "reproduced 1 of 1")
    record = unpacked.record()
    assert (record.runtime, record.image, record.facts["image_id"]) == ("docker", IMAGE, "sha256:1")
    (words,) = [call for call in unpacked.calls() if call[0] == "run"]
    for wanted in (
        *("--rm", "--interactive", "--pull=never", "--init", "--cap-drop=ALL", "--security-opt=no-new-privileges"),
        *("--ulimit=memlock=-1:-1", f"--shm-size={1 << 26}", f"--user={os.getuid()}:{os.getgid()}"),
        f"--mount=type=bind,source={(unpacked.bundle / 'payload')},target=/opt/graphrepro/payload,readonly",
        "--entrypoint=/opt/engine/python",
    ):
        assert wanted in words
    assert not any(word.startswith("--gpus") for word in words)
    name = next(word for word in words if word.startswith("--name=")).removeprefix("--name=")
    assert unpacked.calls()[-1] == ["rm", "--force", "--volumes", name]
    assert unpacked.alive() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("docker", [False, True])
def test_a_killed_replay_leaves_nothing(number: signal.Signals, docker: bool, unpacked: Unpacked) -> None:
    unpacked.write("step", STEP | {"environment": {"GRAPHREPRO_FAULT": "host-hang:5"}})
    if docker:
        unpacked.fake_docker()
    process = unpacked.start("--launches", "3")
    timeline = unpacked.place / "out" / "launches" / "1" / "evidence" / "timeline.jsonl"
    until(lambda: timeline.is_file() and "check-begun" in timeline.read_text())
    port = json.loads((timeline.parents[1] / "step.json").read_bytes())["port"]
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == (-9 if number == signal.SIGKILL else 130)
    until(lambda: unpacked.alive() == [])
    until(lambda: list(unpacked.temporary.iterdir()) == [])
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_a_launch_past_its_own_limits_is_ended(unpacked: Unpacked) -> None:
    text = (INSIDE / "launching.py").read_text().replace("SPARE_S = 120.0", "SPARE_S = -12.0")
    (unpacked.bundle / "launching.py").unlink()
    (unpacked.bundle / "launching.py").write_text(text)
    hangs = STEP | {
        "environment": {"GRAPHREPRO_FAULT": "host-hang:5"},
        "limits": [{"phase": "launch", "limit_s": 4.0}],
        "checks": [{**STEP["checks"][0], "limit_s": 0.5}],
        "stop": {"dump_s": 0.0, "dump_signal": None, "int_s": 0.0, "term_s": 0.5, "kill_s": 1.0},
    }
    unpacked.write("step", hangs)
    unpacked.write("expectation", RULES | {"outcomes": ["hung"], "patterns": []})
    status, said = unpacked.run("--launches", "1", "--until-seen")
    assert unpacked.alive() == []
    assert (status, said) == (1, "reproduced 1 of 1")  # it hung, and was ended from outside
    timeline = judging.read_timeline(unpacked.place / "out" / "launches" / "1" / "evidence" / "timeline.jsonl")
    assert "interrupted" in [entry["event"] for entry in timeline]


@pytest.mark.parametrize(
    ("needs", "options", "said"),
    [
        ({"architecture": "sm_103", "gpus": 1}, (), "it needs a GPU of sm_103, and nvidia-smi shows none"),
        ({"model": "Kimi-K2.6"}, (), "no weights: the bundle needs Kimi-K2.6; give their folder with --model"),
        ({"model": "Kimi"}, ("--model", "/no/such"), "--model /no/such: there is no such folder"),
        ({"draft_model": "a draft"}, (), "no weights: the bundle needs a draft; give their folder with --draft-model"),
        ({"modules": ["aiohttp", "no_such_engine"]}, (), "python has no no_such_engine: give the interpreter"),
        ({"modules": ["no_a", "no_b"]}, (), "has no no_a and no no_b"),
        ({}, ("--python", "/no/python"), "/no/python is no Python that runs (No such file or directory)"),
        ({}, ("--runtime", "docker"), "there is no docker here"),
    ],
)
def test_why_it_could_not_run(
    needs: dict[str, Any], options: tuple[str, ...], said: str, unpacked: Unpacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked.write("needs", NEEDS | needs)
    process = unpacked.start(*options) if "docker" not in options else None
    if process is None:
        environment = {"PATH": str(unpacked.bin), "HOME": "/", "TMPDIR": str(unpacked.temporary)}
        command = [sys.executable, "-I", str(unpacked.bundle / "replay.py"), *options]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    out = process.communicate()[0]
    assert process.returncode == 125
    assert out.startswith("could not run, because ")
    assert said in out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--image", "other:latest"), "the image other:latest is not on this machine: docker pull other:latest"),
        ((), "no docker daemon answers (Cannot connect to the Docker daemon)"),
    ],
)
def test_why_docker_could_not_run(options: tuple[str, ...], said: str, unpacked: Unpacked) -> None:
    unpacked.fake_docker()
    if not options:
        (unpacked.place / "no-daemon").touch()
    assert unpacked.run(*options) == (125, f"could not run, because {said}")


def test_what_is_given_says_which_runtime(unpacked: Unpacked) -> None:
    unpacked.fake_docker()
    assert unpacked.run("--launches", "1", "--python", sys.executable) == (1, "reproduced 1 of 1")
    assert (unpacked.record().runtime, unpacked.record().image) == ("local", None)
    unpacked.write("needs", NEEDS)
    shutil.rmtree(unpacked.place / "out")
    assert unpacked.run("--launches", "1", "--image", IMAGE) == (1, "reproduced 1 of 1")
    assert (unpacked.record().runtime, unpacked.record().image) == ("docker", IMAGE)


def test_an_image_must_be_named(unpacked: Unpacked) -> None:
    unpacked.fake_docker()
    unpacked.write("needs", NEEDS | {"runtime": "docker"})
    status, said = unpacked.run()
    assert status == 125
    assert "the bundle names no image: give one with --image" in said


def test_the_gpu_is_looked_at(unpacked: Unpacked) -> None:
    unpacked.program("nvidia-smi", '#!/bin/sh\necho "NVIDIA B300, 10.3, 580.1"\n')
    unpacked.write("needs", NEEDS | {"architecture": "sm_103", "gpus": 1})
    assert unpacked.run("--launches", "1") == (1, "reproduced 1 of 1")
    facts = unpacked.record().facts
    assert (facts["gpu"], facts["gpu_architecture"], facts["driver"]) == ("NVIDIA B300", "sm_103", "580.1")


def test_another_gpu_only_when_asked(unpacked: Unpacked) -> None:
    unpacked.program("nvidia-smi", '#!/bin/sh\necho "NVIDIA H200, 9.0, 580.1"\n')
    unpacked.write("needs", NEEDS | {"architecture": "sm_103", "gpus": 1})
    assert unpacked.run("--launches", "1", "--any-gpu") == (1, "reproduced 1 of 1")


def test_what_the_rules_cannot_decide_is_not_tried(unpacked: Unpacked) -> None:
    unpacked.write("expectation", WRONG | {"differing_prompts": None, "undecided": "only rescoring sees it"})
    assert unpacked.run() == (125, "could not run, because only rescoring sees it")


def test_usage_is_no_answer_for_a_bisection(unpacked: Unpacked) -> None:
    assert unpacked.run("--no-such-option")[0] == 129
    assert unpacked.run("--launches", "0")[0] == 129
    (unpacked.bundle / "step.json").write_text("[]")
    assert unpacked.run()[0] == 129


def test_it_needs_the_standard_library_and_python_3_10() -> None:
    files = [path for path in INSIDE.glob("*.py") if path.name != "__init__.py"]
    for path in files:
        tree = ast.parse(path.read_text(), feature_version=(3, 10))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
        names |= {str(node.module) for node in imports if isinstance(node, ast.ImportFrom)}
        assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names | {file.stem for file in files}


def test_it_prints_the_record(unpacked: Unpacked) -> None:
    status, said = unpacked.run("--launches", "1", "--json")
    assert status == 1
    assert json.loads(said) == json.loads((unpacked.place / "out" / "replay.json").read_bytes())


@pytest.mark.parametrize("pattern", [r"^(([a-z ])+)+\d$", "(", "a{99999999999}"])
def test_a_pattern_that_takes_for_ever_or_is_none_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    """It is somebody else's, and so is the log."""
    monkeypatch.setattr(judging, "MATCHING_S", 0.1)
    handler, alarm = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    rules = RULES | {"patterns": [{"pattern": pattern, "says": "x"}]}
    found = judging.judge(launch(tmp_path / "1", DIED, "an illegal memory access was encountered here\n"), rules, None)
    assert found.state == "void"
    assert "a pattern of the bundle" in found.detail
    assert signal.getsignal(signal.SIGALRM) is handler
    assert bool(signal.getitimer(signal.ITIMER_REAL)[0]) == bool(alarm[0])


@pytest.mark.parametrize("name", ["step", "expectation", "needs"])
@pytest.mark.parametrize("text", ["[]", "[" * 100_000, '{"record": 1}', '{"record": "step", "argv": [1]}', "{"])
def test_documents_that_are_none_are_said_on_one_line(tmp_path: Path, name: str, text: str) -> None:
    for file in INSIDE.glob("*.py"):
        shutil.copy(file, tmp_path)
    for other in ("step", "expectation", "needs"):
        (tmp_path / f"{other}.json").write_text(text if other == name else json.dumps({"record": f"bundle-{other}"}))
    (tmp_path / "step.json").write_text(text if name == "step" else json.dumps({"record": "step", "argv": ["x"]}))
    command = [sys.executable, "-I", str(tmp_path / "replay.py"), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 129
    assert len(done.stderr.splitlines()) == 1
    assert "unpack the whole bundle" in done.stderr
