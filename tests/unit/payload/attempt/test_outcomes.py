"""Each way an attempt can go, against the simulated engine. The fixture checks that nothing is left afterwards."""

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

import schemas
from repro import codec
from repro.model import CheckEvidence, Environment, PowerEvidence, TimelineEntry

HEALTHY = ["launch", "weights_load", "graph_capture", "warmup", "serving", "shutdown"]


def test_a_healthy_attempt(lab):
    lab.checks = [
        lab.checks[0] | {"concurrency": [1, 3], "margins": True},
        lab.checks[1] | {"check": "coding", "applicable": False, "reason": "not here"},
        lab.checks[1] | {"check": "acceptance", "prompts": 0},
        lab.checks[1],
    ]
    assert lab.run() == 0
    assert lab.phases() == [(phase, what) for phase in HEALTHY for what in ("begun", "ended")]
    assert lab.one("server-exited") | {"at_s": 0, "at": ""} == {
        "record": "timeline-entry",
        "schema_version": 2,
        "at_s": 0,
        "at": "",
        "event": "server-exited",
        "phase": "shutdown",
        "check": None,
        "status": 0,
        "detail": None,
    }
    assert [entry["check"] for entry in lab.timeline() if entry["event"] == "check-begun"] == ["lossless", "throughput"]
    assert lab.one("signal-sent")["detail"] == "SIGTERM to the launcher"
    assert lab.events()[0] == "attempt-begun"
    assert lab.events()[-1] == "attempt-ended"
    files = sorted(path.relative_to(lab.evidence).as_posix() for path in lab.evidence.rglob("*") if path.is_file())
    assert files == [
        "checks/lossless.json",
        "checks/throughput.json",
        "environment.json",
        "metrics.txt",
        "metrics_start.txt",
        "power.json",
        "server.log",
        "server_info.json",
        "server_info_start.json",
        "timeline.jsonl",
        "warmup.json",
    ]


def test_the_requests_of_a_healthy_attempt(lab):
    lab.checks = [lab.checks[0] | {"concurrency": [1, 3], "margins": True}]
    lab.run()
    evidence = lab.check("lossless")
    assert evidence["complete"]
    assert evidence["stopped_because"] is None
    assert [request["concurrency"] for request in evidence["requests"]] == [1, 1, 3, 3, 3, 3, 3, 3, 1, 1]
    for request in evidence["requests"]:
        assert request["error"] is None
        assert request["status"] == 200
        assert request["finish_reason"] == "length"
        assert len(request["output_ids"]) == request["usage_tokens"] == 12
        counts = request["accept_histogram"]
        assert sum(counts) == request["verify_calls"]
        assert sum(count * (correct + 1) for correct, count in enumerate(counts)) >= 11
    *streamed, first_margin, last_margin = evidence["requests"]
    for request in streamed:
        times, counts = zip(*request["token_times"], strict=True)
        assert list(times) == sorted(times)
        assert list(counts) == sorted(set(counts))
        assert counts[-1] == 12
        assert request["begun_s"] <= request["first_token_s"] == times[0] <= request["ended_s"]
        assert request["margins"] is None
    for request in (first_margin, last_margin):
        assert len(request["margins"]) == 12
        assert request["token_times"] == []
    assert {tuple(request["output_ids"]) for request in evidence["requests"] if request["prompt"] == "p0"} == {
        tuple(first_margin["output_ids"])
    }
    assert evidence["server_accept_length"] > 1


def test_the_evidence_is_what_the_records_say(lab):
    lab.run()
    for name, kind in (
        ("checks/lossless.json", CheckEvidence),
        ("warmup.json", CheckEvidence),
        ("environment.json", Environment),
        ("power.json", PowerEvidence),
    ):
        codec.read(lab.evidence / name, kind, where=name)
    lines, cut = codec.read_lines(lab.evidence / "timeline.jsonl", TimelineEntry, where="timeline.jsonl")
    assert not cut
    assert list(lines) == sorted(lines, key=lambda entry: entry.at_s)
    schemas.validate(json.loads((lab.folder / "step.json").read_text()), "step", "step.json")


def test_engine_answers_are_stored_as_they_came(lab):
    lab.run()
    for name in ("server_info_start.json", "server_info.json"):
        assert json.loads((lab.evidence / name).read_text())["speculative_num_draft_tokens"] == 17
    assert 'mode="decode_cuda_graph"' not in (lab.evidence / "metrics_start.txt").read_text()
    assert 'mode="decode_cuda_graph"' in (lab.evidence / "metrics.txt").read_text()


@pytest.mark.parametrize(
    ("fault", "phase", "status"),
    [
        ("crash-launch", "launch", -9),
        ("crash-weights", "weights_load", -9),
        ("crash-capture", "graph_capture", -9),
        ("oom-capture", "graph_capture", -9),
        ("crash-warmup", "warmup", -9),
        ("port-in-use", "warmup", 1),
        ("refuse", "launch", 1),
    ],
)
def test_a_server_that_ends_before_it_is_ready(lab, fault, phase, status):
    lab.fault = fault
    assert lab.run() == 0
    exited = lab.one("server-exited")
    assert (exited["phase"], exited["status"]) == (phase, status)
    assert lab.phases()[-1] == (phase, "begun")
    assert "check-begun" not in lab.events()
    assert "signal-sent" not in lab.events()


def test_options_that_the_engine_does_not_know(lab):
    lab.options = ("--speculative-ddtree-budget", "16")
    assert lab.run() == 0
    assert lab.one("server-exited")["status"] == 2
    assert "error: unrecognized arguments: --speculative-ddtree-budget" in lab.log()


@pytest.mark.parametrize(
    "fault",
    ["scheduler-exception", "illegal-access", "pool-leak", "oom-serving", "sigkill", "segfault", "exit"],
)
def test_a_server_that_dies_while_serving(lab, fault):
    lab.fault = f"{fault}:3"
    assert lab.run() == 0
    exited = lab.one("server-exited")
    assert (exited["phase"], exited["status"]) == ("serving", -9)
    assert ("serving", "ended") not in lab.phases()
    evidence = lab.check("lossless")
    assert not evidence["complete"]
    assert evidence["stopped_because"] == "the server exited with status -9"
    assert len(evidence["requests"]) <= 1
    assert all(request["error"] for request in evidence["requests"])
    assert lab.check("throughput")["stopped_because"] == "not begun: the server exited before"
    assert not (lab.evidence / "server_info.json").exists()


@pytest.mark.parametrize(
    ("fault", "phase"),
    [
        ("hang-launch", "launch"),
        ("hang-weights", "weights_load"),
        ("hang-capture", "graph_capture"),
        ("hang-warmup", "warmup"),
    ],
)
def test_a_start_that_hangs(lab, fault, phase):
    lab.fault = fault
    lab.limits[phase] = 1.5 if phase == "launch" else 0.3
    assert lab.run() == 0
    assert lab.one("phase-limit")["phase"] == phase
    assert (phase, "ended") not in lab.phases()
    assert lab.events().index("phase-limit") < lab.events().index("signal-sent") < lab.events().index("server-exited")


def test_a_server_that_hangs_while_serving(lab):
    lab.fault = "host-hang:3"
    lab.checks[0]["limit_s"] = 0.5
    assert lab.run() == 0
    limit = lab.one("phase-limit")
    assert (limit["phase"], limit["check"]) == ("serving", "lossless")
    assert ("serving", "ended") not in lab.phases()
    assert lab.check("lossless")["stopped_because"] == "the limit of 0.5 s was reached; the server hangs"
    assert lab.check("throughput")["stopped_because"] == "not begun: the server hung before"


def test_the_watchdog_of_a_hanging_server_is_waited_for(lab):
    lab.fault = "host-hang:3"
    lab.options = (*lab.options, "--watchdog-timeout", "1")
    lab.checks[0]["limit_s"] = 0.5
    lab.limits["shutdown"] = 60.0
    assert lab.run() == 0
    assert lab.one("server-exited")["status"] == -9
    assert "signal-sent" not in lab.events()
    assert "Scheduler watchdog timeout" in lab.log()


def script(tmp_path: Path, **changes: Any) -> str:
    from simulated.script import SCRIPTS

    document = json.loads((SCRIPTS / "default.json").read_text())
    document["defaults"]["speed"] |= changes.pop("speed", {})
    path = tmp_path / "script.json"
    path.write_text(json.dumps(document | changes))
    return str(path)


def test_a_slow_server_is_not_a_hanging_one(lab, tmp_path):
    lab.script = script(tmp_path, speed={"step_s": 0.05})
    lab.checks[0] |= {"limit_s": 2.0, "max_new_tokens": 1000}
    assert lab.run() == 0
    evidence = lab.check("lossless")
    assert evidence["stopped_because"] == "the limit of 2 s was reached; the server still answers"
    assert [request["error"] for request in evidence["requests"]] == [evidence["stopped_because"]]
    assert evidence["requests"][0]["output_ids"]
    assert "phase-limit" not in lab.events()
    assert lab.check("throughput")["complete"]


def test_a_server_that_ignores_sigterm(lab):
    lab.fault, lab.stop["term_s"] = "ignore-sigterm", 0.2
    assert lab.run() == 0
    assert lab.one("server-exited")["status"] == -9
    signals = [entry["detail"] for entry in lab.timeline() if entry["event"] == "signal-sent"]
    assert signals == ["SIGTERM to the launcher", "SIGKILL to 1 remaining process"]
    assert lab.phases()[-1] == ("shutdown", "ended")


def test_processes_that_outlive_the_server(lab):
    lab.fault = "orphan:3"
    assert lab.run() == 0
    assert lab.one("server-exited")["status"] == 0
    signals = [entry["detail"] for entry in lab.timeline() if entry["event"] == "signal-sent"]
    assert signals == ["SIGTERM to the launcher", "SIGKILL to 3 remaining processes"]


def test_processes_that_outlive_a_crash(lab, tmp_path):
    faults = [{"name": "orphan"}, {"name": "crash-capture"}]
    lab.script = script(tmp_path, rules=[{"cells": "*", "faults": faults}])
    assert lab.run() == 0
    assert lab.one("server-exited")["status"] == -9
    assert lab.one("signal-sent")["detail"] == "SIGKILL to 2 remaining processes"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_interrupted_while_serving(lab, number):
    lab.checks[0] |= {"max_new_tokens": 100_000}
    with lab.start() as process:
        lab.wait_for("check-begun")
        process.send_signal(number)
        assert process.wait() == 130
    assert lab.one("interrupted")["detail"] == number.name
    assert lab.one("server-exited")["status"] == 0
    assert lab.events()[-1] == "attempt-ended"
    assert lab.check("lossless")["stopped_because"] == "the attempt was interrupted"
    assert not (lab.evidence / "checks" / "throughput.json").exists()


def test_interrupted_while_starting(lab):
    lab.fault = "hang-capture"
    with lab.start() as process:
        lab.wait_for("phase-begun", phase="graph_capture")
        process.terminate()
        assert process.wait() == 130
    assert lab.one("interrupted")["phase"] == "graph_capture"
    assert lab.one("server-exited")["status"] == -15


def test_interrupted_at_once(lab):
    with lab.start() as process:
        lab.wait_for("attempt-begun")
        process.terminate()
        assert process.wait() == 130
    assert lab.events()[-1] == "attempt-ended"


def test_the_owner_goes_away(lab):
    read_end, write_end = os.pipe()
    lab.fault, lab.more = "hang-capture", {"GRAPHREPRO_OWNER_FD": str(read_end)}
    with lab.start(pass_fds=(read_end,)) as process:
        os.close(read_end)
        lab.wait_for("phase-begun", phase="graph_capture")
        os.close(write_end)
        assert process.wait() == 130
    assert lab.one("interrupted")["detail"] == "the owner is gone"


def test_an_owner_that_stays(lab):
    read_end, write_end = os.pipe()
    lab.more = {"GRAPHREPRO_OWNER_FD": str(read_end)}
    with lab.start(pass_fds=(read_end,)) as process:
        assert process.wait() == 0
    os.close(read_end)
    os.close(write_end)


def test_an_owner_that_is_none(lab):
    lab.more = {"GRAPHREPRO_OWNER_FD": "3000"}
    assert lab.run() == 3


@pytest.mark.parametrize("faults", [[], ["ignore-sigterm", "orphan"]])
def test_the_attempt_program_is_killed(lab, tmp_path, faults):
    lab.script = script(tmp_path, rules=[{"cells": "*", "faults": [{"name": name} for name in faults]}])
    lab.checks[0] |= {"max_new_tokens": 100_000}
    lab.stop["term_s"] = 0.3 if faults else 20.0
    with lab.start() as process:
        lab.wait_for("check-begun")
        process.kill()
    lab.wait_for("server-exited", status=-9 if faults else 0)
    assert lab.one("interrupted")["detail"] == "the attempt program is gone"
    assert "attempt-ended" not in lab.events()
    lines, cut = codec.read_lines(lab.evidence / "timeline.jsonl", TimelineEntry, where="timeline.jsonl")
    assert len(lines) == len(lab.timeline())
    assert not cut


def test_the_whole_process_group_is_killed(lab):
    lab.checks[0] |= {"max_new_tokens": 100_000}
    with lab.start(start_new_session=True) as process:
        lab.wait_for("check-begun")
        os.killpg(process.pid, signal.SIGKILL)
    lab.wait_for("server-exited", status=0)


def test_the_guardian_is_killed(lab):
    lab.checks[0] |= {"max_new_tokens": 100_000}
    with lab.start() as process:
        lab.wait_for("check-begun")
        (guardian,) = (pid for pid in lab.processes() if _parent(pid) == process.pid)
        os.kill(guardian, signal.SIGKILL)
        process.wait()
    assert not lab.check("lossless")["complete"]
    assert lab.events()[-1] == "attempt-ended"
    for left in (lab.folder.parent / "tmp").iterdir():  # the one thing that the guardian alone knows to remove
        left.rmdir()


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_port_that_is_taken(lab):
    with socket.socket() as other:
        other.bind(("127.0.0.1", lab.port))
        other.listen()
        assert lab.run() == 3
    assert lab.events() == ["attempt-begun", "port-taken", "attempt-ended"]


def test_a_program_that_cannot_be_started(lab):
    lab.argv = ["/nonexistent/python", "-m", "sglang"]
    assert lab.run() == 3
    assert lab.events() == ["attempt-begun", "not-started", "attempt-ended"]
    assert "No such file" in lab.one("not-started")["detail"]


def test_a_program_that_ends_well_but_serves_nothing(lab):
    lab.argv = [sys.executable, "-c", "print('done')"]
    assert lab.run() == 0
    assert (lab.one("server-exited")["phase"], lab.one("server-exited")["status"]) == ("launch", 0)
    assert lab.log() == "done\n"


def test_the_server_sees_only_the_environment_of_the_step(lab):
    lab.argv = [sys.executable, "-I", "-c", "import json, os; print(json.dumps([os.getcwd(), dict(os.environ)]))"]
    lab.environment = {"SGLANG_X": "1", "HOME": "/other"}
    lab.more = {"LEAKED": "1", "HF_TOKEN": "secret", "LD_LIBRARY_PATH": "/opt/lib"}
    lab.run()
    folder, seen = json.loads(lab.log())
    assert seen.pop("PATH") == os.environ["PATH"]
    assert seen.pop("TMPDIR") == folder
    seen.pop("LC_CTYPE", None)  # Python's own coercion of the C locale
    assert seen == {"HOME": "/other", "LAB_LABEL": lab.label, "LD_LIBRARY_PATH": "/opt/lib", "SGLANG_X": "1"}


def test_a_step_that_cannot_be_read(lab):
    lab.checks[0].pop("limit_s")
    assert lab.run() == 3
    assert lab.events() == []


def right_ids(prompt: list[int], count: int) -> list[int]:
    from simulated.language import choose

    text = list(prompt)
    for _ in range(count):
        text.append(choose(text).first)
    return text[len(prompt) :]


@pytest.mark.parametrize("options", [(), ("--incremental-streaming-output",)])
@pytest.mark.parametrize("fault", [None, "bundled:3", "missing-done", "duplicate-final"])
def test_ways_of_streaming_that_change_nothing(lab, fault, options):
    lab.fault, lab.options = fault, (*lab.options, *options)
    lab.checks = lab.checks[:1]
    lab.run()
    requests = lab.check("lossless")["requests"]
    assert [request["error"] for request in requests] == [None, None]
    for prompt, request in zip(lab.step()["prompts"], requests, strict=True):
        assert request["output_ids"] == right_ids(prompt["input_ids"], 12)
        assert request["output_text"].count(" ") == 12


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("error-body", "the engine answered an error: Internal server error"),
        ("early-close:2", "ClientPayloadError"),
    ],
)
def test_replies_that_are_none(lab, fault, error):
    lab.fault = fault
    assert lab.run() == 0
    evidence = lab.check("lossless")
    assert evidence["complete"]
    assert all(error in request["error"] for request in evidence["requests"])


def test_successes_without_tokens(lab):
    lab.fault = "no-tokens"
    lab.run()
    for request in lab.check("lossless")["requests"]:
        assert (request["error"], request["status"], request["output_ids"]) == (None, 200, [])
        assert request["first_token_s"] is None


def test_another_server_at_the_port(lab):
    program = (
        "import http.server, sys\n"
        "class Other(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200 if self.path == '/health' else 404); self.end_headers()\n"
        "    def do_POST(self):\n"
        "        self.rfile.read(int(self.headers['Content-Length'] or 0))\n"
        "        self.send_response(200); self.end_headers(); self.wfile.write(b'{\"choices\": []}')\n"
        f"http.server.ThreadingHTTPServer(('127.0.0.1', {lab.port}), Other).serve_forever()\n"
    )
    lab.argv = [sys.executable, "-c", program]
    assert lab.run() == 0
    evidence = lab.check("lossless")
    assert evidence["complete"]
    assert all("is this the engine that was started?" in request["error"] for request in evidence["requests"])
    assert evidence["server_accept_length"] is None


def test_a_log_like_no_other(lab):
    lab.fault = "log-flood:24"
    assert lab.run() == 0
    assert lab.phases() == [(phase, what) for phase in HEALTHY for what in ("begun", "ended")]
    assert (lab.evidence / "server.log").stat().st_size > 23 << 20
