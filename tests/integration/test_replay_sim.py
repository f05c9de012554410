"""Bundles of planted faults on the simulated engine, replayed as a stranger would: with Python and aiohttp alone."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from repro import codec
from repro.bundle.inside.verify import Archive, extract
from repro.bundle.replay import Asked, replay
from repro.errors import BundleError, SpecError
from repro.intervals import upper_bound
from repro.model import Replay

SPEC = Path(__file__).with_name("small.toml")
SHOWN = {
    "crash": ("sim-b16t8-graph-nonvls", "scheduler-exception"),
    "hang": ("sim-b8t4-graph-nonvls", "host-hang"),
    "wrong": ("sim-b16t8-eager-nonvls", "wrong-token:50"),
    "floor": ("sim-b8t4-eager-nonvls", "useless-trees"),
    "silent": ("sim-b12t4-eager-nonvls", "exit"),
    "capture": ("sim-b12t4-graph-nonvls", "crash-capture"),
    "mute": ("sim-b32t8-graph-nonvls", "no-tokens"),
    "load": ("sim-b32t8-eager-nonvls", "wrong-at-concurrency"),
}
HEALTHY = "sim-ar-graph-nonvls"
Pack = Callable[[Path, str, Path], Path]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run with a cell for each fault."""
    place = tmp_path_factory.mktemp("sim")
    spec = place / "spec.toml"
    budgets = '"ar", "b8t4", "b12t4", "b16t8", "b32t8"'
    spec.write_text(SPEC.read_text().replace('"ar", "b8t4", "b16t8"', budgets))
    command = [sys.executable, "-m", "matrix", "run", "--spec", str(spec), "--results", str(place / "results")]
    for cell, fault in SHOWN.values():
        command += ["--inject", f"{cell}={fault}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return place / "results"


@dataclass
class Stranger:
    """An unpacked bundle on another machine: its own HOME and TMPDIR, and nothing of this checkout on any path."""

    folder: Path

    def __post_init__(self) -> None:
        for name in ("home", "tmp"):
            (self.folder / name).mkdir()

    @property
    def bundle(self) -> Path:
        return self.folder / "bundle"

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    def environment(self) -> dict[str, str]:
        return {"PATH": os.defpath, "HOME": str(self.folder / "home"), "TMPDIR": str(self.temporary)}

    def start(self, *options: str, program: str = "replay.py") -> "subprocess.Popen[str]":
        command = [sys.executable, "-I", str(self.bundle / program), "--out", str(self.folder / "out"), *options]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=self.environment(), cwd="/", text=True, stdout=pipe, stderr=pipe)

    def replay(self, *options: str) -> tuple[int, str, Replay]:
        process = self.start(*options)
        out, err = process.communicate(timeout=200)
        assert (self.folder / "out" / "replay.json").is_file(), err
        return process.returncode, out.strip(), codec.read(self.folder / "out" / "replay.json", Replay)

    def edit(self, name: str, change: Callable[[dict[str, Any]], None]) -> None:
        path = self.bundle / name
        document = json.loads(path.read_bytes())
        change(document)
        path.write_text(json.dumps(document))

    def processes(self) -> list[str]:
        return running(self.folder / "home")


def running(home: Path) -> list[str]:
    """The processes that have this HOME, as an attempt and its server do."""
    mark = f"HOME={home}".encode()
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            alive = (place / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
            if alive and mark in (place / "environ").read_bytes().split(b"\0"):
                found.append(place.name)
        except OSError:
            continue
    return found


@pytest.fixture
def stranger(results: Path, tmp_path: Path, pack: Pack) -> Callable[[str], Stranger]:
    def unpacked(cell: str) -> Stranger:
        there = Stranger(tmp_path)
        extract(pack(results, cell, tmp_path), there.bundle)
        return there

    return unpacked


@pytest.mark.parametrize("name", SHOWN)
def test_a_planted_fault_is_reproduced_at_its_rate(name: str, stranger: Callable[[str], Stranger]) -> None:
    there = stranger(SHOWN[name][0])
    status, said, record = there.replay("--launches", "2")
    assert (status, said) == (1, "reproduced 2 of 2"), record
    assert record.runs[0].signature is not None
    assert there.processes() == []
    assert [path.name for path in there.temporary.iterdir()] == []
    assert verify_folder(there) == 0  # it is still what its manifest says


def verify_folder(there: Stranger) -> int:
    return subprocess.run([sys.executable, "-I", str(there.bundle / "verify.py")], check=False).returncode


def test_a_healthy_bundle_is_not_reproduced_within_a_bound(stranger: Callable[[str], Stranger]) -> None:
    status, said, record = stranger(HEALTHY).replay()
    assert record.launches == 3
    assert record.upper == pytest.approx(upper_bound(0, 3))
    assert (status, said) == (0, "not reproduced (0 of 3: below 63.2 % at 95 %)")


@pytest.mark.parametrize("name", ["crash", "wrong", "floor", "capture"])
def test_an_engine_without_the_fault_does_not_show_it(name: str, stranger: Callable[[str], Stranger]) -> None:
    there = stranger(SHOWN[name][0])
    there.edit("step.json", lambda step: step["environment"].pop("GRAPHREPRO_FAULT"))
    status, said, record = there.replay("--launches", "2")
    assert (status, record.reproduced, record.launches) == (0, 0, 2), record
    assert said.startswith("not reproduced (0 of 2: below 77.6 %")


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("crash", "segfault"),
        ("crash", "no-tokens"),
        ("crash", "stale-mask"),
        ("capture", "oom-capture"),
        ("hang", "scheduler-exception"),
        ("wrong", "sigkill"),
        ("wrong", "useless-trees"),
        ("floor", "stale-mask"),
        ("mute", "crash-launch"),
    ],
)
def test_another_fault_is_another_failure(name: str, fault: str, stranger: Callable[[str], Stranger]) -> None:
    there = stranger(SHOWN[name][0])
    there.edit("step.json", lambda step: step["environment"].update(GRAPHREPRO_FAULT=fault))
    status, said, record = there.replay("--launches", "1")
    assert [run.state for run in record.runs] == ["another_failure"], record
    assert (status, record.launches) == (125, 0)
    assert said.startswith("not reproduced: the launch ended in another failure")


def test_a_flag_that_the_engine_does_not_know(stranger: Callable[[str], Stranger]) -> None:
    there = stranger(SHOWN["crash"][0])
    there.edit("step.json", lambda step: step["argv"].append("--no-such-flag"))
    status, said, record = there.replay("--launches", "3")
    assert status == 125
    assert said.startswith("could not run, because this engine does not know a flag of the bundle's: ")
    assert "--no-such-flag" in said
    assert len(record.runs) == 1


def test_until_seen_stops_at_the_first(stranger: Callable[[str], Stranger]) -> None:
    status, said, record = stranger(SHOWN["crash"][0]).replay("--launches", "5", "--until-seen")
    assert (status, said, len(record.runs)) == (1, "reproduced 1 of 1", 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_killed_replay_leaves_nothing(number: signal.Signals, stranger: Callable[[str], Stranger]) -> None:
    there = stranger(SHOWN["hang"][0])
    process = there.start("--launches", "5")
    timeline = there.folder / "out" / "launches" / "1" / "evidence" / "timeline.jsonl"
    _until(lambda: timeline.is_file() and "check-begun" in timeline.read_text(), "no check was begun")
    port = json.loads((timeline.parents[1] / "step.json").read_bytes())["port"]
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == (-9 if number == signal.SIGKILL else 130)
    _until(lambda: there.processes() == [], "something still runs")
    _until(lambda: list(there.temporary.iterdir()) == [], "a scratch folder is left")
    with socket.create_server(("127.0.0.1", port)):
        pass  # nobody listens there any more


def test_repro_sh_starts_the_server_and_asks_it(stranger: Callable[[str], Stranger]) -> None:
    there = stranger(SHOWN["wrong"][0])
    port = "31987"
    environment = {**there.environment(), "PORT": port, "PYTHON": sys.executable}
    server = subprocess.Popen(["sh", str(there.bundle / "repro.sh"), "server"], env=environment)
    try:

        def asked() -> "subprocess.CompletedProcess[str]":
            command = ["sh", str(there.bundle / "repro.sh"), "request"]
            return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

        if shutil.which("curl") is None:
            pytest.skip("curl is not installed")
        _until(lambda: asked().returncode == 0, "the server gives no answer")
        assert json.loads(asked().stdout)["output_ids"]
    finally:
        server.terminate()
        server.wait(30)


def test_from_outside_it_is_verified_run_and_diagnosed(results: Path, pack: Pack, tmp_path: Path) -> None:
    bundle = pack(results, SHOWN["crash"][0], tmp_path)
    told: list[str] = []
    record = replay(bundle, Asked(launches=2), out=tmp_path / "out", tell=told.append)
    assert (record.reproduced, record.launches, record.statement) == (2, 2, "reproduced 2 of 2")
    assert record.facts["code"] == "it is the code of this graphrepro"
    assert record.runs[0].signature is not None
    assert record.runs[0].signature.subsystem == "host"  # from the diagnosis, not from the bundle's claim
    assert any("code out of the bundle now runs" in line for line in told)


def command(world: Path, *words: str) -> "subprocess.Popen[str]":
    """`python -m repro replay` as a user starts it, HOME and TMPDIR in a world of its own."""
    for name in ("home", "tmp"):
        (world / name).mkdir(exist_ok=True)
    environment = {**os.environ, "HOME": str(world / "home"), "TMPDIR": str(world / "tmp"), "A_TOKEN": "hunter2"}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-m", "repro", "replay", *words], env=environment, text=True, stdout=pipe, stderr=pipe
    )


@pytest.mark.parametrize(
    ("cell", "options", "status", "said"),
    [
        (SHOWN["crash"][0], ("--launches", "1"), 1, "reproduced 1 of 1"),
        (HEALTHY, ("--launches", "1"), 0, "not reproduced (0 of 1: below 95.0 % at 95 %)"),
        (SHOWN["crash"][0], ("--engine-env", "/no/such"), 2, ""),
        (SHOWN["crash"][0], ("--digest", "0" * 64), 6, ""),
        (SHOWN["crash"][0], ("--launches", "0"), 2, ""),
    ],
)
def test_the_command(
    cell: str, options: tuple[str, ...], status: int, said: str, results: Path, pack: Pack, tmp_path: Path
) -> None:
    process = command(tmp_path, str(pack(results, cell, tmp_path)), *options)
    out, err = process.communicate(timeout=200)
    assert process.returncode == status, err
    assert out.startswith(said)
    assert "hunter2" not in err
    assert list((tmp_path / "tmp").iterdir()) == []  # nothing is kept unless --out says where


def test_the_code_of_a_bundle_gets_places_and_no_secrets(
    results: Path, pack: Pack, with_file: Callable[[Path, str, bytes], Path], tmp_path: Path
) -> None:
    spy = b"import json, os, sys\nprint('replay:', json.dumps(dict(os.environ)), sys.flags.isolated, file=sys.stderr)\n"
    bundle = with_file(pack(results, SHOWN["crash"][0], tmp_path), "replay.py", spy + b"sys.exit(129)\n")
    process = command(tmp_path, str(bundle))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 4
    assert "it is not the code of this graphrepro (replay.py)" in err
    line = next(line for line in err.splitlines() if '"PATH"' in line)
    assert set(json.loads(line[line.index("{") : line.rindex("}") + 1])) <= {
        *("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME"),
        "GRAPHREPRO_OWNER_FD",
    }
    assert line.endswith(" 1")


def test_a_killed_command_leaves_nothing_running(results: Path, pack: Pack, tmp_path: Path) -> None:
    process = command(tmp_path, str(pack(results, SHOWN["hang"][0], tmp_path)), "--out", str(tmp_path / "out"))
    timeline = tmp_path / "out" / "replay" / "launches" / "1" / "evidence" / "timeline.jsonl"
    _until(lambda: timeline.is_file() and "check-begun" in timeline.read_text(), "no check was begun")
    assert running(tmp_path / "home")
    process.kill()
    process.communicate()
    _until(lambda: running(tmp_path / "home") == [], "something still runs")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_command_asked_to_end_leaves_no_folder(results: Path, pack: Pack, tmp_path: Path) -> None:
    process = command(tmp_path, str(pack(results, SHOWN["hang"][0], tmp_path)))
    _until(lambda: len(running(tmp_path / "home")) > 3, "nothing was launched")
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert running(tmp_path / "home") == []
    assert list((tmp_path / "tmp").iterdir()) == []


def test_where_rules_and_diagnosis_disagree_both_are_told(
    results: Path, pack: Pack, with_file: Callable[[Path, str, bytes], Path], tmp_path: Path
) -> None:
    bundle = pack(results, SHOWN["crash"][0], tmp_path)
    rules = json.loads(Archive.read(bundle).content("expectation.json"))
    rules["signature"]["kind"] = "oom_gpu_serving"
    record = replay(with_file(bundle, "expectation.json", json.dumps(rules).encode()), Asked(launches=1))
    assert record.reproduced == 1
    assert record.facts["diagnosed_otherwise"] == 1
    assert record.statement.startswith("reproduced 1 of 1; graphrepro diagnoses 1 of these launches otherwise")
    assert record.runs[0].detail.endswith("diagnosis: cuda_illegal_memory_access in serving, another failure")


def test_strange_code_is_named(
    results: Path, pack: Pack, with_file: Callable[[Path, str, bytes], Path], tmp_path: Path
) -> None:
    bundle = pack(results, SHOWN["crash"][0], tmp_path)
    record = replay(with_file(bundle, "payload/attempt/more.py", b"x = 1\n"), Asked(launches=1))
    assert record.facts["code"] == "it is not the code of this graphrepro (payload/attempt/more.py)"


def test_what_does_not_verify_never_runs(results: Path, pack: Pack, tmp_path: Path) -> None:
    bundle = pack(results, SHOWN["crash"][0], tmp_path)
    with pytest.raises(BundleError, match="digest"):
        replay(bundle, digest="0" * 64, out=tmp_path / "out")
    data = bytearray(bundle.read_bytes())
    data[len(data) // 2] ^= 1
    bundle.write_bytes(data)
    with pytest.raises(BundleError):
        replay(bundle, out=tmp_path / "again")
    assert not (tmp_path / "again" / "bundle").exists()


def test_a_used_folder_is_refused(results: Path, pack: Pack, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="is not empty"):
        replay(pack(results, SHOWN["crash"][0], tmp_path), out=tmp_path)


def _until(holds: Callable[[], object], otherwise: str) -> None:
    end = time.monotonic() + 60
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(otherwise)
        time.sleep(0.02)
