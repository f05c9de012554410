"""`python -m matrix` as a user starts it, on the simulated engine in small."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import psutil
import pytest

from repro import codec
from repro.bundle import archive
from repro.bundle.contents import gather
from repro.bundle.expectation import expectation
from repro.bundle.inside.verify import Archive
from repro.bundle.payload import inside_files, payload_files
from repro.bundle.portable import portable
from repro.canonical import pretty_bytes
from repro.model import Manifest, Subject

SPEC = Path(__file__).with_name("small.toml")
LONGEST_S = 60.0
"""How long anything is waited for before the wait fails."""


@dataclass
class Harness:
    """Starts the harness in a world of its own: HOME and TMPDIR are folders of the test, and since every process of an
    attempt inherits HOME, its processes are found by it."""

    folder: Path
    spec: Path = SPEC
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.results, self.home, self.temporary = (self.folder / name for name in ("results", "home", "tmp"))
        for path in (self.results, self.home, self.temporary):
            path.mkdir()

    def command(self, *options: str, results: Path | None = None) -> list[str]:
        where = ("--spec", str(self.spec), "--results", str(results or self.results))
        return [sys.executable, "-m", "matrix", "run", *where, *options]

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        ours = {"HOME": str(self.home), "TMPDIR": str(self.temporary), "PYTHONSAFEPATH": "1"}
        return {**os.environ, **ours, **(more or {})}

    def start(self, *options: str, results: Path | None = None, **more: Any) -> subprocess.Popen[str]:
        """In a session of its own, stdout and stderr in pipes unless told otherwise."""
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True, **more}
        command = self.command(*options, results=results)
        process = subprocess.Popen(command, cwd=self.folder, env=self.environment(), text=True, **streams)
        self.started.append(process)
        return process

    def run(self, *options: str, results: Path | None = None) -> subprocess.CompletedProcess[str]:
        """To its end."""
        process = self.start(*options, results=results)
        out, err = process.communicate(timeout=4 * LONGEST_S)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def runs(self) -> list[Path]:
        """Run directories, the oldest first."""
        return sorted(path.parent for path in self.results.glob("*/*/run.json"))

    def records(self, name: str, run: Path | None = None) -> dict[tuple[str, int], dict[str, Any]]:
        """(cell, attempt) -> that record, of a run or else the only one."""
        (found,) = [run] if run else self.runs()
        return {
            (path.parent.parent.name, int(path.parent.name)): json.loads(path.read_bytes())
            for path in found.glob(f"cells/*/*/{name}.json")
        }

    def bytes_of_results(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in self.results.glob("*/*/cells/*/*/result.json")}

    def processes(self) -> list[psutil.Process]:
        """Everything that was started here and lives, the harness included."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("HOME") == str(self.home):
                    found.append(process)
        return found

    def assert_nothing_left(self) -> None:
        """No process and no scratch folder, after the harness has ended."""
        assert self.processes() == []
        assert list(self.temporary.iterdir()) == []

    def events(self) -> list[dict[str, Any]]:
        """The timeline of the attempt in flight; empty if there is none."""
        for attempt in self.results.glob("*/*/cells/*/*"):
            timeline = attempt / "evidence" / "timeline.jsonl"
            if timeline.exists() and not (attempt / "result.json").exists():
                lines = timeline.read_bytes().splitlines(keepends=True)
                return [json.loads(line) for line in lines if line.endswith(b"\n")]
        return []

    def until_event(self, event: str, **fields: str) -> None:
        """Waits until the attempt in flight has had this event."""
        wanted = {"event": event, **fields}
        until(lambda: any(wanted.items() <= entry.items() for entry in self.events()), f"no {wanted}")


CPU_FAULTS = {
    "cpu-b8t4-eager-nonvls": "stale-mask",
    "cpu-b12t4-eager-nonvls": "useless-trees",
    "cpu-b16t8-eager-nonvls": "wrong-token:200",
    "cpu-b32t8-eager-nonvls": "scheduler-exception",
}


@pytest.fixture(scope="session")
def cpu_engine() -> Path:
    """The environment with the real SGLang server."""
    named = os.environ.get("GRAPHREPRO_ENGINE_ENV")
    if named is None:
        pytest.skip("needs the engine's environment: nox -s engine-cpu tests")
    return Path(named).absolute()


@pytest.fixture(scope="session")
def cpu_results(cpu_engine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of the whole matrix on the real server, with a fault in each tree; made once for all tests."""
    place = tmp_path_factory.mktemp("cpu") / "results"
    command = [sys.executable, "-m", "matrix", "run", "--spec", "cpu", "--engine-env", str(cpu_engine)]
    for cell, fault in CPU_FAULTS.items():
        command += ["--inject", f"{cell}={fault}"]
    done = subprocess.run([*command, "--results", str(place)], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return place


def until(holds: Callable[[], object], otherwise: str) -> None:
    """Waits until it holds; fails with these words if it never does."""
    end = time.monotonic() + LONGEST_S
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(otherwise)
        time.sleep(0.01)


@pytest.fixture(name="until")
def _until() -> Callable[[Callable[[], object], str], None]:
    return until


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    ours = Harness(tmp_path)
    yield ours
    for process in ours.started:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()
    for left in ours.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            left.kill()


@pytest.fixture
def pack() -> Callable[..., Path]:
    """`pack(results, cell, into)`: a bundle of the cell, put together from its parts, without an earlier replay."""
    return _pack


def _pack(results: Path, cell: str, into: Path) -> Path:
    contents = gather(cell, results)
    rules = expectation(contents)
    order = portable(contents, statement=rules.statement)
    documents = {"expectation.json": rules, **({"oracle.json": contents.oracle} if contents.oracle else {})}
    files = {
        **{name: pretty_bytes(codec.encode(record)) for name, record in documents.items()},
        **order.files,
        **inside_files(),
        **payload_files(Path(str(resources.files("matrix"))) / "payload", order.step),
    }
    path = into / f"{cell}.zip"
    path.write_bytes(zipped(files, contents.subject))
    return path


@pytest.fixture
def with_file() -> Callable[[Path, str, bytes], Path]:
    """`with_file(bundle, name, data)`: the bundle with another file in it, and a manifest and digest that fit."""
    return _with_file


def _with_file(bundle: Path, name: str, data: bytes) -> Path:
    old = Archive.read(bundle)
    files = {entry: old.content(entry) for entry in old.entries if entry not in {"manifest.json", "ISSUE.md"}}
    path = bundle.with_name(f"other-{bundle.name}")
    path.write_bytes(zipped({**files, name: data}, codec.decode(old.manifest(), Manifest, where="manifest").subject))
    return path


def zipped(files: Mapping[str, bytes], subject: Subject) -> bytes:
    """The bytes of a bundle of these files."""
    ready = [archive.packed(name, data) for name, data in files.items()]
    facts = archive.Facts(tool_version="0", subject=subject, left_out=(), redactions=())
    issue = archive.packed("ISSUE.md", f"Bundle digest: {archive.digest(ready, facts)}\n".encode())
    return archive.archive([*ready, issue], facts)[0]
