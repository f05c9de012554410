"""Bundles of planted faults on the real SGLang server: packed, moved to another user, verified there, and replayed with
nothing but Python and the engine's environment."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from repro import codec
from repro.bundle.inside.verify import extract
from repro.model import Replay

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(3600)]

CRASH, WRONG, HEALTHY = "cpu-b32t8-eager-nonvls", "cpu-b16t8-eager-nonvls", "cpu-ar-eager-nonvls"
Pack = Callable[[Path, str, Path], Path]


@dataclass(frozen=True)
class Elsewhere:
    """A folder of another user, if this one may change users; their only programs are Python and the engine's."""

    folder: Path
    engine: Path
    user: int | None

    def run(self, bundle: Path, program: str, *options: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [str(self.engine / "bin" / "python"), "-I", str(bundle / program), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            env={"PATH": os.defpath, "HOME": str(self.folder), "TMPDIR": str(self.folder)},
            user=self.user,
            group=self.user,
            extra_groups=[] if self.user is not None else None,
        )

    def replay(self, bundle: Path, name: str, *options: str) -> tuple[int, str, Replay]:
        out = self.folder / name
        process = self.run(bundle, "replay.py", "--out", str(out), *options)
        said, err = process.communicate(timeout=1800)
        assert (out / "replay.json").is_file(), err
        return process.returncode, said.strip(), codec.read(out / "replay.json", Replay)

    def unpacked(self, bundle: Path) -> Path:
        """The bundle, moved here and unpacked by this user with Python's own `zipfile`."""
        moved = self.folder / bundle.name
        shutil.copy(bundle, moved)
        place = self.folder / bundle.stem
        extract(moved, place)
        for path in (moved, place, *place.rglob("*")):
            if self.user is not None:
                os.chown(path, self.user, self.user)
        return place

    def processes(self) -> list[int]:
        mark = f"HOME={self.folder}".encode()
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                alive = (place / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
                if alive and mark in (place / "environ").read_bytes().split(b"\0"):
                    found.append(int(place.name))
            except OSError:
                continue
        return found


thorough = pytest.mark.skipif(
    os.environ.get("GRAPHREPRO_THOROUGH") != "1", reason="set GRAPHREPRO_THOROUGH=1: launches of the real server more"
)


@pytest.fixture
def elsewhere(cpu_engine: Path) -> Iterator[Elsewhere]:
    engine = cpu_engine
    with tempfile.TemporaryDirectory(prefix="b-", dir="/tmp") as name:
        user = pwd.getpwnam("nobody").pw_uid if os.getuid() == 0 else None
        if user is not None:
            os.chown(name, user, user)
            engine = reachable(engine, Path(name), user)
        yield Elsewhere(folder=Path(name), engine=engine, user=user)


def reachable(engine: Path, place: Path, user: int) -> Path:
    """The engine's environment, or where the user may not run its interpreter one with its packages and the system's
    Python of the same version."""
    mine = engine / "bin" / "python"
    try:
        subprocess.run([str(mine), "-c", ""], user=user, group=user, extra_groups=[], check=True, cwd="/")
    except (OSError, subprocess.SubprocessError):
        pass
    else:
        return engine
    packages = next((engine / "lib").glob("python3.*/site-packages"))
    system = Path("/usr/bin") / packages.parent.name
    if not system.exists():
        pytest.skip("another user may not run the engine's interpreter, and the system has none of its version")
    subprocess.run([str(system), "-m", "venv", "--without-pip", str(place / "engine")], check=True)
    link = place / "engine" / "lib" / packages.parent.name / "site-packages" / "engine.pth"
    link.write_text(f"import site; site.addsitedir({str(packages)!r})\n")
    return place / "engine"


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document))


def test_a_crash_is_reproduced_by_another_user(
    cpu_results: Path, elsewhere: Elsewhere, pack: Pack, tmp_path: Path
) -> None:
    place = elsewhere.unpacked(pack(cpu_results, CRASH, tmp_path))
    checked = elsewhere.run(place, "verify.py", str(elsewhere.folder / f"{CRASH}.zip"))
    assert (checked.communicate()[0], checked.returncode)[1] == 0
    status, said, record = elsewhere.replay(place, "out", "--launches", "1")
    assert (status, said) == (1, "reproduced 1 of 1"), record  # it was seen in each launch
    assert record.facts["engine_version"] == "0.5.23"


@thorough
def test_another_crash_and_none_are_told_apart(
    cpu_results: Path, elsewhere: Elsewhere, pack: Pack, tmp_path: Path
) -> None:
    place = elsewhere.unpacked(pack(cpu_results, CRASH, tmp_path))
    edit(place / "step.json", lambda step: step["environment"].update(GRAPHREPRO_FAULT="sigkill"))
    status, said, record = elsewhere.replay(place, "other", "--launches", "1")
    assert [run.state for run in record.runs] == ["another_failure"], record
    assert status == 125

    edit(place / "step.json", lambda step: step["environment"].pop("GRAPHREPRO_FAULT"))
    status, said, record = elsewhere.replay(place, "fixed", "--launches", "1")
    assert (status, said) == (0, "not reproduced (0 of 1: below 95.0 % at 95 %)"), record


def test_wrong_content_is_reproduced(cpu_results: Path, elsewhere: Elsewhere, pack: Pack, tmp_path: Path) -> None:
    place = elsewhere.unpacked(pack(cpu_results, WRONG, tmp_path))
    status, said, record = elsewhere.replay(place, "out", "--launches", "1")
    assert (status, said) == (1, "reproduced 1 of 1"), record
    edit(place / "step.json", lambda step: step["environment"].pop("GRAPHREPRO_FAULT"))
    status, said, record = elsewhere.replay(place, "fixed", "--launches", "1")
    assert [run.state for run in record.runs] == ["clean"], record
    assert "0 of 20 prompts answered otherwise" in record.runs[0].detail
    assert status == 0


@thorough
def test_a_healthy_bundle_is_not_reproduced(
    cpu_results: Path, elsewhere: Elsewhere, pack: Pack, tmp_path: Path
) -> None:
    place = elsewhere.unpacked(pack(cpu_results, HEALTHY, tmp_path))
    status, said, record = elsewhere.replay(place, "out", "--launches", "1")
    assert (status, said) == (0, "not reproduced (0 of 1: below 95.0 % at 95 %)"), record


@thorough
def test_a_killed_replay_leaves_nothing(cpu_results: Path, elsewhere: Elsewhere, pack: Pack, tmp_path: Path) -> None:
    place = elsewhere.unpacked(pack(cpu_results, WRONG, tmp_path))
    process = elsewhere.run(place, "replay.py", "--out", str(elsewhere.folder / "out"))
    timeline = elsewhere.folder / "out" / "launches" / "1" / "evidence" / "timeline.jsonl"
    until(lambda: timeline.is_file() and "check-begun" in timeline.read_text(), "no check was begun")
    assert len(elsewhere.processes()) > 3
    process.send_signal(signal.SIGKILL)
    process.communicate()
    until(lambda: elsewhere.processes() == [], "something still runs")
    until(lambda: not list(elsewhere.folder.glob("graphrepro-replay-*")), "a scratch folder is left")


def test_without_the_engine_it_says_so(cpu_results: Path, elsewhere: Elsewhere, pack: Pack, tmp_path: Path) -> None:
    place = elsewhere.unpacked(pack(cpu_results, CRASH, tmp_path))
    status, said, _ = elsewhere.replay(place, "out", "--python", str(Path(sys.executable)))
    assert status == 125
    assert said.startswith("could not run, because ")
    assert "sglang" in said or "no Python that runs" in said


def until(holds: Callable[[], object], otherwise: str) -> None:
    end = time.monotonic() + 300
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(otherwise)
        time.sleep(0.1)
