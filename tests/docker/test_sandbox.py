"""The sandbox on a real daemon: what an answer may not do, one by one, and answers that would cheat their tests."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import docker
import pytest

from matrix.clean import clean
from matrix.coding.answers import judge_answers, outcome_of
from matrix.coding.container import Limits, SandboxImage, image_volumes
from matrix.coding.docker_sandbox import DockerSandbox
from matrix.coding.sandbox import Ran, SandboxError
from matrix.coding.tasks import Case, CodingTask, built_in_tasks
from matrix.run import label_prefix
from matrix.runtimes.docker_container import LABEL as LABEL_NAME
from matrix.runtimes.docker_daemon import Daemon
from repro.model import CheckEvidence, RequestRecord

pytestmark = pytest.mark.docker
LABEL = "sandbox-tests/run/cell/1/coding/task"
TASKS = {task.id: task for task in built_in_tasks()}
MERGE = TASKS["merge-intervals"]
QUICK = Limits(answer_s=3.0)


@pytest.fixture(scope="session")
def sandbox(docker_daemon: Daemon, base_image: str) -> DockerSandbox:
    return DockerSandbox(daemon=docker_daemon, of=image_of(docker_daemon, base_image), limits=QUICK)


@pytest.fixture(autouse=True)
def _nothing_is_left(docker_daemon: Daemon) -> Iterator[None]:
    yield
    assert docker_daemon.labelled("sandbox-tests") == []


@pytest.fixture
def done(sandbox: DockerSandbox) -> Callable[[str], tuple[Ran, object]]:
    """Runs the body of a function in the sandbox: how it ended, and the value or the exception's name."""

    def run(body: str) -> tuple[Ran, object]:
        code = "def attempt():\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n"
        case = Case(value="attempt()", expected="as told")
        ran = sandbox.run(code, [case], LABEL)
        lines = [line for line in ran.report.splitlines() if line.startswith('{"case"') and line.endswith("}")]
        return ran, json.loads(lines[0]) if lines else None

    return run


Done = Callable[[str], tuple[Ran, dict[str, object]]]


def image_of(daemon: Daemon, reference: str) -> SandboxImage:
    found = daemon.api.inspect_image(reference)
    return SandboxImage(id=found["Id"], name=found["Id"], python="python3", volumes=image_volumes(found))


def answered(texts: Mapping[str, str]) -> CheckEvidence:
    requests = tuple(
        RequestRecord(
            prompt=task,
            concurrency=len(texts),
            repeat=1,
            cancelled=False,
            asked_tokens=None,
            begun_s=0.0,
            first_token_s=None,
            ended_s=1.0,
            status=200,
            error=None,
            finish_reason="stop",
            output_ids=(),
            output_text=text,
            usage_tokens=9,
            verify_calls=None,
            accept_histogram=None,
            margins=None,
            token_times=(),
        )
        for task, text in texts.items()
    )
    return CheckEvidence(
        check="coding",
        begun_s=0.0,
        ended_s=1.0,
        complete=True,
        stopped_because=None,
        requests=requests,
        server_accept_length=None,
        counts=(),
    )


def state_of(sandbox: DockerSandbox, task: CodingTask, code: str) -> str:
    return outcome_of(task, sandbox.run(code, task.cases, LABEL))[0]


# --- the tasks' own solutions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_the_reference_solution_passes_and_the_wrong_ones_fail(sandbox: DockerSandbox, name: str) -> None:
    task = TASKS[name]
    assert outcome_of(task, sandbox.run(task.reference, task.cases, LABEL)) == (
        "passed",
        f"{len(task.cases)} tests passed",
    )
    assert {wrong.why: state_of(sandbox, task, wrong.code) for wrong in task.wrong} == {
        wrong.why: "failed" for wrong in task.wrong
    }


# --- what is denied ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6"])
def test_the_network(done: Done, family: str) -> None:
    host = "1.1.1.1" if family == "AF_INET" else "2606:4700:4700::1111"
    _, told = done(
        f"""
        import socket
        socket.socket(socket.{family}, socket.SOCK_STREAM).connect(({host!r}, 53))
        """
    )
    assert told["raised"][0] == "OSError"  # type: ignore[index]
    _, told = done("import socket\nreturn [name for _, name in socket.if_nameindex() if name != 'lo']")
    assert set(told["value"]) <= {"sit0", "tunl0", "ip6tnl0", "gre0", "gretap0", "erspan0"}  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "place",
    ["/x", "/etc/passwd", "/usr/x", "/var/tmp/x", "/dev/shm/x", "/proc/sys/kernel/hostname", "/sys/x", "/root/x"],
)
def test_writing_outside_tmp(done: Done, place: str) -> None:
    _, told = done(f"open({place!r}, 'w').write('x')")
    assert "OSError" in told["raised"]  # type: ignore[operator]


def test_tmp_is_small_and_nothing_in_it_can_be_executed(done: Done) -> None:
    _, told = done(
        """
        n = 0
        try:
            for n in range(100):
                open(f"/tmp/{n}", "wb").write(bytes(1 << 20))
        except OSError:
            return n
        """
    )
    assert told["value"] <= QUICK.tmp_bytes >> 20  # type: ignore[operator]
    _, told = done(
        """
        import os, subprocess
        open("/tmp/x", "w").write("#!/bin/sh\\nexit 0")
        os.chmod("/tmp/x", 0o755)
        return subprocess.call(["/tmp/x"])
        """
    )
    assert told["raised"][0] == "PermissionError"  # type: ignore[index]


def test_a_fork_bomb(done: Done) -> None:
    ran, told = done(
        """
        import os, time
        children = 0
        try:
            while True:
                if os.fork() == 0:
                    time.sleep(1000)
                children += 1
        except OSError:
            return children
        """
    )
    assert ran.ended == "exited"
    assert told["value"] < QUICK.processes  # type: ignore[operator]
    ran, _ = done("import os\nwhile True:\n    os.fork()")
    assert ran.ended in {"exited", "timed_out", "out_of_memory"}


def test_memory(done: Done) -> None:
    assert done("held = []\nwhile True:\n    held.append(bytearray(8 << 20))")[0].ended == "out_of_memory"
    in_children = """
        import os, time
        for _ in range(20):
            if os.fork() == 0:
                held = bytearray(40 << 20)
                time.sleep(1000)
        time.sleep(2)
    """
    assert done(in_children)[0].ended == "out_of_memory"


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "import time\ntime.sleep(1000)",
        "import sys\nsys.setrecursionlimit(10**9)\nwhile True: [0] * 10**6",
    ],
)
def test_time(done: Done, body: str) -> None:
    assert done(body)[0].ended == "timed_out"


def test_time_of_processes_that_outlive_the_answer(done: Done, docker_daemon: Daemon) -> None:
    ran, told = done(
        """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(1000)
            os._exit(0)
        return "as told"
        """
    )
    assert (ran.ended, told["value"]) == ("exited", "as told")
    assert docker_daemon.labelled("sandbox-tests") == []


def test_reading_the_host(done: Done, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    _, told = done(f"return open({str(secret)!r}).read()")
    assert told["raised"][0] == "FileNotFoundError"  # type: ignore[index]
    _, told = done(
        "import os\nreturn [os.path.exists('/var/run/docker.sock'), os.listdir('/proc').count('1'), sorted(os.environ)]"
    )
    there, ones, names = told["value"]  # type: ignore[misc]
    assert not there
    assert ones == 1  # its own process 1: the host's are not seen
    assert not set(names) & set(os.environ) - {"HOME", "PATH", "HOSTNAME", "LC_CTYPE"}
    _, told = done("return sorted(p for p in __import__('os').listdir('/proc') if p.isdecimal() and int(p) > 100)")
    assert told["value"] == []
    _, told = done("return open('/proc/kcore', 'rb').read(64).hex()")
    assert "OSError" in told.get("raised", ()) or told["value"] == ""  # type: ignore[operator]
    _, told = done(
        "return [d for d in __import__('os').listdir('/dev') if d.startswith(('sd', 'vd', 'nvme', 'nvidia'))]"
    )
    assert told["value"] == []


def test_privileges(done: Done) -> None:
    _, told = done(
        """
        import os
        status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
        names = ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp")
        return [os.getuid(), os.getgid(), *(status[name] for name in names)]
        """
    )
    assert told["value"] == [65534, 65534, "0" * 16, "0" * 16, "0" * 16, "1", "2"]
    for call in ("os.setuid(0)", "os.chroot('/tmp')", "os.mknod('/tmp/d', 0o600 | 0o060000, os.makedev(8, 0))"):
        _, told = done(f"import os\n{call}")
        assert told["raised"][0] == "PermissionError", call  # type: ignore[index]
    _, told = done("import ctypes\nreturn ctypes.CDLL(None).mount(b'none', b'/tmp', b'tmpfs', 0, None)")
    assert told["value"] == -1


def test_signals_to_the_runner(done: Done) -> None:
    ran, told = done(
        """
        import os, signal
        for number in sorted(signal.valid_signals()):
            os.kill(1, number)
        return "as told"
        """
    )
    assert (ran.ended, told["value"]) == ("exited", "as told")


@pytest.mark.parametrize("place", ["/proc/1/mem", "/proc/1/fd/1", "/proc/1/environ", "/proc/1/maps"])
def test_the_runners_memory_and_files(done: Done, place: str) -> None:
    _, told = done(f"open({place!r}, 'rb').read(1)")
    assert told["raised"][0] == "PermissionError"  # type: ignore[index]


def test_floods(done: Done) -> None:
    ran, told = done("for _ in range(2000):\n    print('x' * 65536)\nreturn 'as told'")
    assert (ran.ended, told["value"]) == ("exited", "as told")  # what it prints goes nowhere
    ran, _ = done("import os\nwhile True:\n    os.write(3, b'x' * 65536)")
    assert ran.ended == "flooded"
    assert len(ran.report) <= QUICK.report_bytes
    ran, told = done("return 'x' * (1 << 22)")
    assert ran.ended == "flooded"


def test_no_volume_of_the_image_can_be_written(
    docker_api: docker.APIClient, docker_daemon: Daemon, base_image: str
) -> None:
    container = docker_api.create_container(base_image, command=["true"])["Id"]
    made = docker_api.commit(container, changes='VOLUME ["/data"]')["Id"]
    docker_api.remove_container(container)
    try:
        sandbox = DockerSandbox(daemon=docker_daemon, of=image_of(docker_daemon, made), limits=QUICK)
        before = {volume["Name"] for volume in docker_api.volumes()["Volumes"] or []}
        ran = sandbox.run("", [Case(value="open('/data/x', 'w')")], LABEL)
        assert "PermissionError" in ran.report or "Read-only" in ran.report
        assert {volume["Name"] for volume in docker_api.volumes()["Volumes"] or []} == before
    finally:
        docker_api.remove_image(made, force=True)


# --- answers that would cheat -----------------------------------------------------------------------------------------

HEAD = "import builtins, json, os, sys, atexit, signal\n"
STUB = "\ndef merge_intervals(intervals):\n    return []\n"
CHEATS = {
    "prints what a runner might": HEAD
    + """
print('passed')
print('8 tests passed')
print(json.dumps({'ended': 'exited', 'status': 0, 'oom_kills': 0}))
"""
    + STUB,
    "exits at once with 0": HEAD
    + STUB
    + """
sys.exit(0)
""",
    "ends the process with 0": HEAD
    + STUB
    + """
os._exit(0)
""",
    "ends the process when it is called": HEAD
    + """
def merge_intervals(intervals):
    os._exit(0)
""",
    "raises SystemExit when it is called": HEAD
    + """
def merge_intervals(intervals):
    raise SystemExit(0)
""",
    "gives what equals everything": """
class Any(list):
    def __eq__(self, other): return True
    def __hash__(self): return 0
def merge_intervals(intervals):
    return Any()
""",
    "replaces builtins": HEAD
    + STUB
    + """
builtins.eval = lambda *a: [[5, 8]]
builtins.exec = lambda *a: None
builtins.compile = lambda *a, **k: None
""",
    "replaces json": HEAD
    + STUB
    + """
json.dumps = lambda fields: '{"case": 0, "value": []}'
""",
    "replaces what reports": HEAD
    + STUB
    + """
write = os.write
os.write = lambda fd, data: len(data)
""",
    "reports by itself that all is well": HEAD
    + STUB
    + """
os.write(3, b''.join(json.dumps({'case': n, 'value': True, 'passed': True}).encode() + b'\\n' for n in range(8)))
""",
    "reports twice": HEAD
    + STUB
    + """
os.write(3, b'{"case": 1, "value": [[5, 8]]}\\n')
""",
    "reports what is not JSON": HEAD
    + STUB
    + """
os.write(3, b'passed\\n')
""",
    "reports a depth": HEAD
    + STUB
    + """
os.write(3, b'[' * 100000 + b'\\n')
""",
    "changes the runner's frames": """
import sys
frame = sys._getframe()
while frame:
    for held in list(frame.f_locals.values()):
        if isinstance(held, dict) and 'cases' in held:
            held['cases'] = []
    frame = frame.f_back
"""
    + STUB,
    "looks for what is expected": """
import sys
def merge_intervals(intervals):
    frame = sys._getframe()
    while frame:
        for held in frame.f_locals.values():
            if isinstance(held, dict) and 'cases' in held:
                return [case.get('expected') for case in held['cases']]
        frame = frame.f_back
""",
    "forks and lets the child answer": HEAD
    + STUB
    + """
if os.fork():
    os._exit(0)
""",
    "forks and both go on": HEAD
    + """
def merge_intervals(intervals):
    return sorted(intervals)
os.fork()
""",
    "stops the runner": HEAD
    + STUB
    + """
os.kill(1, signal.SIGSTOP)
os.kill(1, signal.SIGKILL)
os.killpg(0, signal.SIGKILL)
""",
    "closes every file": HEAD
    + STUB
    + """
os.closerange(0, 256)
""",
    "an exception with a lying name": """
class AssertionError(Exception): pass
def merge_intervals(intervals):
    raise AssertionError('passed')
""",
    "hooks the end of the program": HEAD
    + STUB
    + """
atexit.register(lambda: os.write(3, b'{}'))
sys.excepthook = lambda *a: None
""",
    "changes its own source on disk": """
open('/proc/self/exe', 'r+')
"""
    + STUB,
}


@pytest.mark.parametrize("name", CHEATS)
def test_no_cheat_passes(sandbox: DockerSandbox, name: str) -> None:
    assert state_of(sandbox, MERGE, CHEATS[name]) != "passed"


def test_what_is_expected_never_enters(sandbox: DockerSandbox) -> None:
    """Not even in the memory of the process: an answer that searches all of it for the text finds nothing."""
    task = CodingTask(
        id="secret",
        title="t",
        entry_point="find",
        prompt="p",
        reference="r",
        cases=(Case(value="find()", expected="needle-" + "in-a-haystack"),),
        wrong=(),
    )
    search = """
import ctypes

def find():
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # else its own memory is closed to it
    needle, found = b"in-a-" + b"haystack", 0
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            place, rights = line.split()[:2]
            begin, end = (int(part, 16) for part in place.split("-"))
            if "w" in rights and end - begin < 1 << 28:
                memory.seek(begin)
                try:
                    found += memory.read(end - begin).count(b"needle-" + needle)
                except OSError:
                    continue
    return found
"""
    ran = sandbox.run(search, task.cases, LABEL)
    assert outcome_of(task, ran)[0] == "failed"
    assert '"value": 0' in ran.report


# --- what goes wrong around it ----------------------------------------------------------------------------------------


def test_an_image_without_python_is_said(docker_daemon: Daemon, base_image: str) -> None:
    image = image_of(docker_daemon, base_image)
    other = SandboxImage(id=image.id, name=image.name, python="/no/such/python", volumes=())
    with pytest.raises(SandboxError, match=r"no such file|not found"):
        DockerSandbox(daemon=docker_daemon, of=other, limits=QUICK).run("", MERGE.cases, LABEL)


def test_a_program_that_is_no_python_is_said(docker_daemon: Daemon, base_image: str) -> None:
    image = image_of(docker_daemon, base_image)
    other = SandboxImage(id=image.id, name=image.name, python="/bin/false", volumes=())
    with pytest.raises(SandboxError, match="the sandbox did not start"):
        DockerSandbox(daemon=docker_daemon, of=other, limits=QUICK).run("", MERGE.cases, LABEL)


def test_a_harness_that_is_killed_leaves_nothing_running(docker_daemon: Daemon, base_image: str) -> None:
    """The container ends by itself, and what is left of it is found by its label."""
    program = f"""
import os
from matrix.coding.container import *; from matrix.coding.docker_sandbox import *
from matrix.coding.tasks import Case; from matrix.runtimes.docker_daemon import connect
image = SandboxImage(id={docker_daemon.api.inspect_image(base_image)["Id"]!r}, name="x", python="python3", volumes=())
print("going", flush=True)
DockerSandbox(daemon=connect(os.environ), of=image, limits=Limits(answer_s=300.0)).run(
    "import time\\ntime.sleep(1000)", [Case(value="1")], {LABEL!r})
"""
    harness = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        until = time.monotonic() + 60
        while not [c for c in docker_daemon.labelled("sandbox-tests") if c["State"] == "running"]:
            assert time.monotonic() < until
            time.sleep(0.1)
        harness.send_signal(signal.SIGKILL)
        harness.wait()
        while [c for c in docker_daemon.labelled("sandbox-tests") if c["State"] == "running"]:
            assert time.monotonic() < until
            time.sleep(0.1)
        sandbox = DockerSandbox(daemon=docker_daemon, of=image_of(docker_daemon, base_image))
        assert sandbox.reap_leftovers("sandbox-tests") == 1
    finally:
        with contextlib.suppress(ProcessLookupError):
            harness.kill()


def test_answers_come_to_a_judgement(sandbox: DockerSandbox) -> None:
    wrong = MERGE.wrong[0].code
    evidence = answered(
        {"merge-intervals": f"```python\n{wrong}```", "lru-cache": f"```\n{TASKS['lru-cache'].reference}```"}
    )
    judgement = judge_answers(evidence, built_in_tasks(), sandbox, label="sandbox-tests/run/cell/1")
    assert judgement.sandbox == sandbox.image
    assert [(task.task, task.state) for task in judgement.tasks] == [
        ("lru-cache", "passed"),
        ("merge-intervals", "failed"),
    ]


# --- from the command line --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_judges_its_answers_and_sees_wrong_programs(
    docker_api: docker.APIClient, base_image: str, tmp_path: Path
) -> None:
    cell = "sim-b16t8-eager-nonvls"
    command = [
        "run",
        "--spec",
        "sim",
        "--select",
        cell,
        "--sandbox-image",
        base_image,
        "--inject",
        f"{cell}=wrong-code",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "matrix", *command, "--results", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    results = [json.loads(path.read_bytes()) for path in sorted(tmp_path.glob("sim/*/cells/*/*/result.json"))]
    seen = {
        (result["cell"], result["attempt"]): {
            check["check"]: (check["state"], check["reason"]) for check in result["checks"]
        }
        for result in results
    }
    assert seen["sim-ar-eager-nonvls", 1]["coding"] == ("pass", None)
    assert seen["sim-ar-eager-nonvls", 2]["coding"] == ("pass", None)
    assert seen[cell, 1]["coding"] == ("fail", "coding_lost")
    assert seen[cell, 1]["lossless"] == ("pass", None)
    assert [
        result["evidence"] for result in results if "evidence/coding.json" in {e["path"] for e in result["evidence"]}
    ]
    verdict = json.loads(next(tmp_path.glob(f"sim/*/cells/{cell}/1/verdict.json")).read_bytes())
    assert (verdict["verdict"], verdict["reasons"]) == ("corrupt", ["coding_lost"])
    (directory,) = (path.parent for path in tmp_path.glob("sim/*/run.json"))
    left = docker_api.create_container(
        base_image, ["true"], labels={LABEL_NAME: f"{label_prefix(directory)}/{cell}/1/coding/x"}
    )
    assert clean(tmp_path, os.environ).containers == 1
    assert left["Id"] not in {container["Id"] for container in docker_api.containers(all=True)}


def test_an_image_that_is_not_here_is_not_pulled(docker_api: docker.APIClient, tmp_path: Path) -> None:
    command = ["run", "--spec", "sim", "--results", str(tmp_path), "--sandbox-image", "graphrepro-test-no-such-image"]
    done = subprocess.run([sys.executable, "-m", "matrix", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "graphrepro-test-no-such-image" in done.stderr
