"""Whatever is wrong with what a user gives: one clear line on stderr, the right exit status, and nothing lost.

The specs are `tests/data/bad-input/*.toml`, each named for its fault; what needs a machine (ports, environments, result
directories) is made here.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from matrix.cli import main
from repro import store

BAD = Path(__file__).parents[1] / "data" / "bad-input"
TRACES = ("Traceback", 'File "')
Refused = Callable[..., str]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., str]:
    """Runs a command that must fail with a status; its one line. Nothing may be on stdout, nor in the folder."""

    def run(*arguments: str, status: int, folder: Path = BAD) -> str:
        monkeypatch.chdir(folder)
        assert main([*arguments]) == status
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1, captured.err
        assert captured.err.startswith("matrix: ")
        assert captured.err.endswith("\n")
        assert not any(trace in captured.err for trace in TRACES)
        return captured.err.strip()

    return run


# --- specs ------------------------------------------------------------------------------------------------------------

SPECS = {
    "unknown-axis-value": "/axes/budget/1: 'b16x8' is not: a budget (ar, b<budget>t<top-k> such as b16t8",
    "unknown-graph-mode": "/axes/graph/0: 'eagre' is not one of ['graph', 'eager', 'verify-eager']",
    "misspelt-key": "/load: Additional properties are not allowed ('max_new_token' was unexpected) (did you mean "
    "'max_new_tokens'?)",
    "misspelt-table": "(did you mean 'limits'?)",
    "missing-key": "'title' is a required property",
    "duplicate-cell": "/include/0: duplicate cell sim-b16t8-eager-nonvls, first made by /axes",
    "duplicate-axis-value": "/axes: duplicate cell sim-b16t8-eager-nonvls",
    "rule-that-matches-nothing": "/unsupported/0/match: 'tiny-b17*' matches no cell: correct or delete the rule",
    "exclude-that-matches-nothing": "/exclude/0/match: 'sim-b16t8-graph-*' matches no cell",
    "toml-error": "not TOML: Invalid value (at line 17, column 9)",
    "toml-key-twice": "not TOML: Cannot overwrite a value (at line 18",
    "not-utf8": "not UTF-8 at byte 28",
    "empty": "is empty: start from a copy of a built-in one",
    "newer-schema-version": "/schema_version: 2 is newer than this graphrepro, which reads 1: upgrade",
    "other-record": "/record: 'matrix-spec' was expected",
    "unknown-engine-source": "unknown engine source 'simulatde': did you mean 'simulated'?",
    "unknown-variant": "unknown variant 'allreduse': known: ",
    "variant-that-no-id-can-spell": "/include/0: variant tp='../1' cannot be part of a cell id",
    "axis-without-ar": "/axes/budget: `ar` is missing",
    "reference-off-the-axes": "/reference: its graph and nvls must be values of the axes",
    "reference-excluded": "/reference: its cell sim-ar-eager-nonvls cannot run (a reason)",
    "simulated-engine-without-script": "/engine/script: needed for the simulated engine",
    "infinite-number": "/load/tie_margin: ",
    "date-for-number": "date",
    "number-too-large-to-store": "/load/max_new_tokens: 99999999999999999999 is greater than the maximum",
}
PROMPTS = {
    "prompts-missing": "prompt set 'prompts-that-are-not-there.json': no such file",
    "prompts-unknown-name": "prompt set 'generl': no such file: give a built-in name",
    "prompts-empty": "prompts-empty.json: /prompts: [] should be non-empty",
    "prompts-too-few": "prompt set 'prompts-one.json': holds 1 prompts, and the spec asks for 2",
    "prompts-twice-the-same-id": "a prompt id occurs twice",
    "prompts-cut-off": "prompts-cut-off.json: is cut off or not JSON (line 1, column 60",
}


def test_every_fixture_is_tested_and_the_valid_one_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    named = {path.stem for path in BAD.glob("*.toml") if not path.stem.startswith("overlay-")}
    assert named == {"valid", "everything-unsupported", *SPECS, *PROMPTS}
    assert main(["plan", "--spec", str(BAD / "valid.toml"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["steps"]) == 3


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize("fault", sorted(SPECS))
def test_a_wrong_spec(refused: Refused, command: str, fault: str) -> None:
    told = refused(command, "--spec", f"{fault}.toml", status=2)
    assert f"spec {fault}.toml" in told
    assert SPECS[fault] in told


@pytest.mark.parametrize("fault", sorted(PROMPTS))
def test_wrong_prompts(refused: Refused, fault: str) -> None:
    assert PROMPTS[fault] in refused("plan", "--spec", f"{fault}.toml", status=2)


def test_nothing_left_to_run(refused: Refused) -> None:
    assert "none of the 2 cells of tiny is left (2 unsupported)" in refused(
        "plan", "--spec", "everything-unsupported.toml", status=3
    )
    assert "2 deselected" in refused("plan", "--spec", "valid.toml", "--select", "*b17*", status=3)
    assert "1 over budget" in refused(
        "plan", "--spec", "valid.toml", "--select", "*b16*", "--hours", "0.0001", "--no-references", status=3
    )
    assert "holds no finished run of sim" in refused(
        "plan", "--spec", "sim", "--depth", "rates", "--results", "nowhere", status=3
    )


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("b30", "unknown target 'b30': did you mean 'b300'? known: b300, cpu, rtxpro6000, sim"),
        ("B300", "unknown target 'B300'"),
        ("", "unknown target ''"),
        ("../", "Is a directory"),
        ("nowhere.toml", "spec nowhere.toml: No such file or directory: give a readable .toml file"),
        ("valid.toml/x.toml", "Not a directory"),
        ("two\nlines\x1b[31m", r"'two\nlines\x1b[31m'"),
    ],
)
def test_a_spec_that_is_not_there(refused: Refused, spec: str, told: str) -> None:
    assert told in refused("list", "--spec", spec, status=2)


def test_a_nested_spec_deeper_than_any_parser(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "deep.toml").write_text("a = " + "[" * 50_000)
    assert "not TOML" in refused("plan", "--spec", "deep.toml", status=2, folder=tmp_path)


@pytest.mark.parametrize(
    ("overlay", "told"),
    [
        ("overlay-unknown-parent.toml", "unknown engine source 'stok': did you mean 'stock'?"),
        ("overlay-misspelt-key.toml", "did you mean 'added_flags'"),
        ("overlay-toml-error.toml", "line 7"),
        ("nowhere.toml", "engine overlay nowhere.toml: No such file"),
    ],
)
def test_a_wrong_engine_overlay(refused: Refused, overlay: str, told: str) -> None:
    assert told in refused("plan", "--spec", "b300", "--engine-overlay", overlay, status=2)


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "spec", "told"),
    [
        ("*b16*=wrong-tokn:200", "cpu", "unknown fault 'wrong-tokn': did you mean 'wrong-token'?"),
        ("*b16*=stale-msk", "sim", "unknown fault 'stale-msk': did you mean 'stale-mask'?"),
        ("stale-mask", "sim", "write CELLGLOB=FAULT or CELLGLOB=FAULT:N"),
        ("=stale-mask", "sim", "write CELLGLOB=FAULT"),
        ("*b16*=", "sim", "write CELLGLOB=FAULT"),
        ("*b16*=stale-mask:", "sim", "write CELLGLOB=FAULT"),
        ("*b16*=stale-mask:x", "sim", "write CELLGLOB=FAULT"),
        ("*b16*=stale-mask:-1", "sim", "write CELLGLOB=FAULT"),
        ("*b16*=stale-mask:" + "9" * 5000, "sim", "write CELLGLOB=FAULT"),
        ("*b17*=stale-mask", "sim", "'*b17*' matches no cell that is planned to run"),
        ("*b16*-graph-*=stale-mask", "cpu", "matches no cell that is planned to run"),
        ("*=stale-mask", "b300", "on the targets cpu and sim only, not on b300"),
        ("*=stale-mask", "rtxpro6000", "on the targets cpu and sim only"),
    ],
)
def test_a_fault_that_cannot_be_planted(refused: Refused, rule: str, spec: str, told: str) -> None:
    line = refused("plan", "--spec", spec, "--inject", rule, status=2)
    assert "--inject" in line
    assert told in line


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "the following arguments are required: COMMAND"),
        (("plan",), "the following arguments are required: --spec"),
        (("plot", "--spec", "sim"), "invalid choice: 'plot'"),
        (("plan", "--spec", "sim", "--selct", "*"), "unrecognized arguments: --selct *"),
        (("plan", "--spec", "sim", "--sel", "*"), "unrecognized arguments: --sel *"),
        (("plan", "--sp", "sim"), "--spec"),
        (("plan", "--spec", "sim", "--runtime", "local"), "unrecognized arguments: --runtime local"),
        (("run", "--spec", "sim", "--runtime", "cloud"), "invalid choice: 'cloud'"),
        (("plan", "--spec", "sim", "--depth", "deep"), "invalid choice: 'deep'"),
        (("plan", "--spec", "sim", "--tier", "huge"), "invalid choice: 'huge'"),
        (("plan", "--spec", "sim", "--launches", "0"), "'0' is no number from 1 to 10000"),
        (("plan", "--spec", "sim", "--launches", "9" * 5000), "--launches"),
        (("plan", "--spec", "sim", "--hours", "-1"), "--hours"),
        (("plan", "--spec", "sim", "--hours", "nan"), "'nan' is no number of hours"),
        (("run", "--spec", "sim", "--port", "65536"), "'65536' is no port"),
        (("run", "--spec", "sim", "--port"), "--port: expected one argument"),
    ],
)
def test_wrong_options(refused: Refused, options: tuple[str, ...], told: str) -> None:
    line = refused(*options, status=2)
    assert told in line
    assert "--help` lists the options" in line


# --- what a machine lacks ---------------------------------------------------------------------------------------------


@contextmanager
def listening() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield int(listener.getsockname()[1])


def test_the_port_is_taken(refused: Refused, tmp_path: Path) -> None:
    with listening() as port:
        told = refused("run", "--spec", "sim", "--port", str(port), "--results", str(tmp_path / "r"), status=4)
    assert told == (
        f"matrix: port {port} on 127.0.0.1: Address already in use: stop what listens there, or name another with "
        "--port (0: a free one for each attempt)"
    )
    assert not (tmp_path / "r").exists()


def engine_environment(folder: Path, *, python: str | None, version: str | None, mode: int = 0o755) -> Path:
    (folder / "bin").mkdir(parents=True)
    if python is not None:
        (folder / "bin" / "python").write_text(python)
        (folder / "bin" / "python").chmod(mode)
    if version is not None:
        metadata = folder / "lib" / "python3.12" / "site-packages" / f"sglang-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir(parents=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n")
    return folder


NEW, OLD = "#!/bin/sh\necho 3 12\n", "#!/bin/sh\necho 3 8\n"


@pytest.mark.parametrize(
    ("python", "version", "mode", "told"),
    [
        (None, "0.5.23", 0o755, "no Python at bin/python"),
        (NEW, None, 0o755, "SGLang is not installed in it"),
        (NEW, "0.5.9", 0o755, "holds SGLang 0.5.9, and the spec says 0.5.23"),
        (NEW, "0.5.23", 0o644, "does not run here (Permission denied)"),
        (OLD, "0.5.23", 0o755, "holds Python 3.8, older than 3.11"),
    ],
)
def test_the_engine_environment_does_not_fit(
    refused: Refused, tmp_path: Path, python: str | None, version: str | None, mode: int, told: str
) -> None:
    folder = engine_environment(tmp_path / "env", python=python, version=version, mode=mode)
    results = str(tmp_path / "results")
    line = refused("run", "--spec", "cpu", "--engine-env", str(folder), "--results", results, status=4)
    assert told in line
    assert "make it with `nox -s engine-cpu`, or name yours with --engine-env DIR" in line
    assert not Path(results).exists()


def test_the_engine_environment_is_missing(refused: Refused, tmp_path: Path) -> None:
    for options in ((), ("--engine-env", str(tmp_path / "nowhere"))):
        line = refused("run", "--spec", "cpu", *options, "--results", str(tmp_path / "results"), status=4)
        assert "make it with `nox -s engine-cpu`" in line


def test_results_that_cannot_be_written(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for place in ("file", "file/below"):
        told = refused("run", "--spec", str(BAD / "valid.toml"), "--results", place, status=4, folder=tmp_path)
        assert "cannot be written (Not a directory); check the directory and its permissions" in told
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_results_without_permission(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir(mode=0o555)
    told = refused("run", "--spec", str(BAD / "valid.toml"), "--results", "results", status=4, folder=tmp_path)
    assert "Permission denied" in told


# --- records ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results directory with one finished run of the valid spec, by the simulated engine."""
    results = tmp_path_factory.mktemp("finished") / "results"
    done = command("run", "--spec", str(BAD / "valid.toml"), "--results", str(results))
    assert done.returncode in {0, 7}, done.stderr
    return results


def command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-m", "matrix", *arguments]
    return subprocess.run(words, capture_output=True, text=True, cwd="/", timeout=240, check=False)


def first_result(results: Path) -> Path:
    (run,) = store.scan(results, "tiny")[0]
    return run.attempt("sim-b16t8-eager-nonvls", 1) / "result.json"


def replaced(old: str, new: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:300]), "is cut off or not JSON (line "),
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_bytes(b"\xff" + path.read_bytes()), "is not UTF-8 (byte 0)"),
        (replaced('"schema_version": 2', '"schema_version": 3'), "written by a newer graphrepro"),
        (replaced('"outcome": "completed"', '"outcome": "splendid"'), "/outcome: 'splendid' is not one of"),
        (replaced('"wall_s":', '"wall_seconds":'), "wall_seconds"),
        (replaced('"attempt": 1', '"attempt": 7'), "belongs to another place"),
        (replaced('"attempt": 1', '"attempt": 1, "attempt": 1'), "twice in one object"),
    ],
    ids=["truncated", "empty", "not-utf8", "newer", "edited", "renamed-key", "moved", "key-twice"],
)
def test_a_result_that_was_damaged_or_edited(
    refused: Refused, finished: Path, tmp_path: Path, change: Callable[[Path], None], told: str
) -> None:
    results = tmp_path / "results"
    shutil.copytree(finished, results)
    path = first_result(results)
    change(path)
    before = {file: file.read_bytes() for file in results.rglob("*") if file.is_file()}
    line = refused("run", "--spec", str(BAD / "valid.toml"), "--results", str(results), status=5)
    assert "sim-b16t8-eager-nonvls/1/result.json" in line
    assert told in line
    assert "move the attempt away to run it again" in line
    for file, data in before.items():
        assert file.read_bytes() == data, "nothing is lost"


def test_a_run_of_a_newer_version(refused: Refused, finished: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(finished, results)
    (run,) = store.scan(results, "tiny")[0]
    replaced('"schema_version": 1', '"schema_version": 2')(run.path / "run.json")
    for options in (("run",), ("run", "--launches", "3")):
        line = refused(*options, "--spec", str(BAD / "valid.toml"), "--results", str(results), status=5)
        assert "run.json: written by a newer graphrepro (run version 2, this one reads up to 1): upgrade" in line


def test_a_damaged_result_keeps_rates_from_guessing(refused: Refused, finished: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(finished, results)
    first_result(results).write_text("{")
    told = refused("plan", "--spec", str(BAD / "valid.toml"), "--depth", "rates", "--results", str(results), status=5)
    assert "result.json" in told


# --- through the real command -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("plan", "--spec", str(BAD / "misspelt-key.toml")), 2),
        (("plan", "--spec", "sim", "--select", "nothing"), 3),
        (("run", "--spec", "cpu"), 4),
        (("plan", "--sel"), 2),
    ],
)
def test_the_command_itself_ends_with_one_line_and_its_status(arguments: tuple[str, ...], status: int) -> None:
    done = command(*arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("matrix: ")


def test_a_full_disk_behind_stdout() -> None:
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, "-m", "matrix", "plan", "--spec", "sim", "--json"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, cwd="/", timeout=60, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (4, 1)
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize(
    "arguments", [("plan", "--help"), ("list", "--spec", "b300"), ("plan", "--spec", "cpu", "--json")]
)
def test_a_terminal_without_utf8(arguments: tuple[str, ...]) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    words = [sys.executable, "-m", "matrix", *arguments]
    done = subprocess.run(words, capture_output=True, cwd="/", timeout=60, check=False, env=environment)
    assert done.returncode == 0
    assert done.stdout.isascii()
    if "--json" in arguments:
        assert json.loads(done.stdout)["record"] == "plan"
