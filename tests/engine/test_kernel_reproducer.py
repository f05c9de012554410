"""`verify_attention_repro.py` alone: in an empty folder, with nothing but the packages that it names."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from repro.kernels.reproducer import FILE_NAME, Asked, reproducer  # noqa: E402 - not where torch is missing

ASKED = Asked(budget=12, shape="gqa-2-1-64", batch=3, dtype="fp16", mode="eager", architecture="sm_103")
Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("alone")
    (path / FILE_NAME).write_bytes(reproducer(ASKED))
    return path


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    """Exit status and the one line that is printed. Nothing of this project can be imported, and no cache is there."""

    def of(*options: str) -> tuple[int, str]:
        command = [sys.executable, "-I", "-B", FILE_NAME, "--rounds", "2", *options]
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1, 2), done.stderr
        (line,) = done.stdout.splitlines()
        return done.returncode, line

    return of


def test_case_of_the_file_passes_and_nothing_is_left(run: Run, folder: Path) -> None:
    status, line = run()
    assert status == 0
    assert line.startswith("PASS verify attention, budget 12, 3 requests, 2/1 heads of 64/64, fp16, eager interpreted")
    assert "sm_103's tile 64x64; sglang 0.5.23, triton " in line
    assert "synthetic contents; 2 rounds, the largest error is 0." in line
    assert str(folder) not in line
    assert [path.name for path in folder.iterdir()] == [FILE_NAME]
    assert run() == (status, line), "the same case says the same"


@pytest.mark.parametrize(
    "mode",
    ["eager-graph-dtypes", "graph", "replay-same", "replay-refreshed", "long-then-short", "short-then-long"],
)
def test_modes(run: Run, mode: str) -> None:
    status, line = run("--mode", mode)
    assert (status, line[:5]) == (0, "PASS ")
    assert f", {mode} interpreted" in line


@pytest.mark.parametrize(
    "options",
    [
        ("causal_mask",),
        ("hidden_root",),
        ("slot_of_another_request",),
        ("causal_mask", "--mode", "replay-same"),
        ("hidden_root", "--mode", "replay-refreshed"),
        ("stale_mask", "--mode", "replay-refreshed"),
        ("stale_mask_indptr", "--mode", "long-then-short"),
    ],
)
def test_planted_fault_shows(run: Run, options: tuple[str, ...]) -> None:
    status, line = run("--plant", *options)
    assert (status, line[:5]) == (1, "FAIL ")
    assert f"planted {options[0]}, " in line
    assert "rows are off by more than rounding, the first is row" in line


def test_other_sizes_tiles_and_dtypes(run: Run) -> None:
    sizes = ("--heads", "2", "1", "576", "512", "--budget", "16", "--batch", "1", "--dtype", "fp32")
    status, line = run(*sizes, "--architecture", "sm_120", "--prefixes", "20")
    assert status == 0
    assert "budget 16, 1 requests, 2/1 heads of 576/512, fp32, eager interpreted with sm_120's tile 32x32" in line
    status, line = run("--tile", "16x32")
    assert status == 0
    assert "tile 16x32" in line


REFUSED = {
    ("--dtype", "bf16"): "bf16 needs a GPU",
    ("--plant", "stale_mask"): "needs a mode that refreshes",
    ("--heads", "3", "2", "64", "64"): "a multiple of key heads",
    ("--recorded", "absent.pt", "--sha256", "0"): "cannot be read",
    ("--sglang", "absent"): "holds none of",
    ("--describe",): "needs --recorded",
    ("--tile", "7x9"): "give two of 16",
}
"""The last one is refused once the kernel is loaded, which a process can do once."""
STATISTICS = ("", "[]", "{}", '{"prefixes": [0], "tensors": {}}', '{"prefixes": [5], "tensors": {}}')


def many(folder: Path, commands: list[tuple[str, ...]], before: str = "") -> list[tuple[int, str]]:
    """As `run`, all of them in one process: starting one costs seconds, and these end before anything is launched."""
    program = (
        "import contextlib, io, json, sys; sys.path.insert(0, '.'); import verify_attention_repro as file\n"
        f"{before}\n"
        "found = []\n"
        "for command in json.loads(sys.argv[1]):\n"
        "    with contextlib.redirect_stdout(io.StringIO()) as said:\n"
        "        status = file.main(command)\n"
        "    found.append((status, said.getvalue()))\n"
        "print(json.dumps(found))"
    )
    command = [sys.executable, "-I", "-B", "-c", program, json.dumps(commands)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return [(status, said.removesuffix("\n")) for status, said in json.loads(done.stdout)]


def test_what_cannot_be_run_is_no_verdict(folder: Path) -> None:
    for (status, line), said in zip(many(folder, list(REFUSED)), REFUSED.values(), strict=True):
        assert (status, line[:11], line.count("\n")) == (2, "CANNOT RUN ", 0)
        assert said in line


def test_fault_that_changes_nothing_is_refused(run: Run) -> None:
    status, line = run("--batch", "1", "--plant", "slot_of_another_request")
    assert (status, line[:11]) == (2, "CANNOT RUN ")
    assert "changes nothing in this case" in line


def test_fp32_is_refused_on_a_gpu(folder: Path) -> None:
    pretend = "file.torch.cuda.is_available = lambda: True"
    ((status, line),) = many(folder, [("--dtype", "fp32")], before=pretend)
    assert (status, line[:11]) == (2, "CANNOT RUN ")
    assert "TF32" in line


def test_bad_statistics_are_refused(folder: Path) -> None:
    for number, text in enumerate(STATISTICS):
        (folder / f"bad-{number}.json").write_text(text)
    for status, line in many(folder, [("--statistics", f"bad-{number}.json") for number in range(len(STATISTICS))]):
        assert (status, line[:11]) == (2, "CANNOT RUN ")


@pytest.fixture(scope="module")
def recorded(run: Run, folder: Path) -> tuple[str, str]:
    """Options that take recorded contents: a file of the first step, and its hash."""
    status, line = run("--save", "step.pt", "--dtype", "fp32")
    digest = hashlib.sha256((folder / "step.pt").read_bytes()).hexdigest()
    assert (status, line.endswith(f"step.pt has the SHA-256 {digest}")) == (0, True)
    return ("--recorded", "step.pt"), ("--sha256", digest)  # type: ignore[return-value]


@pytest.mark.parametrize("mode", ["eager", "replay-refreshed"])
def test_recorded_contents(run: Run, recorded: Any, mode: str) -> None:
    options = (*recorded[0], *recorded[1], "--mode", mode)
    status, line = run(*options)
    assert status == 0
    assert "recorded contents" in line
    status, line = run(*options, "--plant", "causal_mask")
    assert (status, line[:5]) == (1, "FAIL ")


def test_recorded_contents_must_be_those_that_were_named(run: Run, recorded: Any) -> None:
    for digest in ((), ("--sha256", "0" * 64)):
        status, line = run(*recorded[0], *digest)
        assert status == 2
        assert f"has the SHA-256 {recorded[1][1]}" in line


class _Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return open, ("harmed", "w")


def spoilt(found: dict[str, Any], how: str) -> Any:
    changes: dict[str, Callable[[], Any]] = {
        "index": lambda: found["kv_indices"].fill_(10_000),
        "starts": lambda: found["mask_indptr"].add_(1),
        "dtype": lambda: found.update(q=found["q"].half()),
        "missing": lambda: found.pop("mask"),
        "more": lambda: found.update(extra=torch.zeros(1)),
        "dimensions": lambda: found.update(q=found["q"].flatten()),
        "program": lambda: found.update(q=_Harmful()),
    }
    changes[how]()
    return found


def test_recorded_file_that_does_not_fit_is_refused(recorded: Any, folder: Path) -> None:
    commands = []
    for how in ("index", "starts", "dtype", "missing", "more", "dimensions", "program"):
        name = f"bad-{how}.pt"
        torch.save(spoilt(torch.load(folder / "step.pt", weights_only=True), how), folder / name)
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        commands.append(("--recorded", name, "--sha256", digest))
    for command, (status, line) in zip(commands, many(folder, commands), strict=True):
        assert (status, line[: 12 + len(command[1])]) == (2, f"CANNOT RUN {command[1]}:"), line
    assert not (folder / "harmed").exists()


def test_statistics_stand_for_contents(run: Run, recorded: Any, folder: Path) -> None:
    command = [sys.executable, "-I", "-B", FILE_NAME, *recorded[0], *recorded[1], "--describe"]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    found = json.loads(said)
    assert found["prefixes"] == [37, 130, 1]
    assert 0.9 < found["tensors"]["q"]["std"] < 1.1
    found["tensors"]["v"] = {"mean": 5.0, "std": 2.0, "min": 4.0, "max": 6.0}
    found |= {"prefixes": [9, 21], "pool_slots": 400, "run_length": 4}
    (folder / "statistics.json").write_text(json.dumps(found))
    status, line = run("--statistics", "statistics.json", "--save", "matched.pt", "--dtype", "fp32")
    assert status == 0
    step = torch.load(folder / "matched.pt", weights_only=True)
    assert (float(step["v_extend"].min()), float(step["v_extend"].max())) == (4.0, 6.0)
    assert len(step["k_buffer"]) == 401
    assert step["kv_indptr"].tolist() == [0, 9, 30]
    assert int((step["kv_indices"].diff() == 1).sum()) > 15
    status, line = run("--statistics", "statistics.json", "--mode", "replay-refreshed")
    assert status == 0
    assert "2 requests" in line
    assert "contents that match statistics" in line
    assert run("--statistics", "statistics.json", "--plant", "causal_mask")[0] == 1
