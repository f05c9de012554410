"""The engine's environment: found, or told what is wrong and what to type."""

import re
import sys
from pathlib import Path

import pytest

from matrix.environments import engine_python, installed_version, own_version
from matrix.spec import load_spec
from repro.errors import UnavailableError

CPU = load_spec("cpu")


def environment(folder: Path, python: str, version: str | None = CPU.engine.version) -> Path:
    """An environment whose python is a shell script."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").write_text(python)
    (folder / "bin" / "python").chmod(0o755)
    site = folder / "lib" / "python3.12" / "site-packages"
    site.mkdir(parents=True)
    if version is not None:
        (site / f"sglang-{version}.dist-info").mkdir()
        (site / f"sglang-{version}.dist-info" / "METADATA").write_text(f"Name: sglang\nVersion: {version}\n")
    return folder


def script(version: str) -> str:
    return f"#!/bin/sh\necho {version}\n"


def test_the_simulated_engine_runs_in_our_own() -> None:
    assert engine_python(load_spec("sim"), None) == Path(sys.executable)


def test_an_environment_that_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment(tmp_path / "env", script("3 12"))
    monkeypatch.chdir(tmp_path)
    assert engine_python(CPU, Path("env")) == tmp_path / "env" / "bin" / "python"


@pytest.mark.parametrize(
    ("python", "version", "told"),
    [
        (script("3 12"), None, "SGLang is not installed in it"),
        (script("3 12"), "0.5.22", f"holds SGLang 0.5.22, and the spec says {CPU.engine.version}"),
        (script("3 9"), CPU.engine.version, r"holds Python 3\.9, older than 3\.11"),
        ("#!/bin/sh\nexit 1\n", CPU.engine.version, "does not run here"),
        ("#!/bin/sh\necho surprise\n", CPU.engine.version, "does not run here"),
        ("#!/nowhere/python\n", CPU.engine.version, r"does not run here \(No such file or directory\)"),
        ("\x7fELF not for this machine", CPU.engine.version, r"does not run here \(Exec format error\)"),
    ],
)
def test_an_environment_that_does_not_fit(tmp_path: Path, python: str, version: str | None, told: str) -> None:
    folder = environment(tmp_path / "env", python, version)
    with pytest.raises(UnavailableError, match=told) as problem:
        engine_python(CPU, folder)
    assert re.search("make it with `nox -s engine-cpu`, or name yours with --engine-env DIR", str(problem.value))


def test_a_python_that_may_not_be_executed(tmp_path: Path) -> None:
    folder = environment(tmp_path / "env", script("3 12"))
    (folder / "bin" / "python").chmod(0o644)
    with pytest.raises(UnavailableError, match=r"does not run here \(Permission denied\)"):
        engine_python(CPU, folder)


@pytest.mark.parametrize("make", ["nothing", "empty", "file", "dangling"])
def test_an_environment_that_is_not_there(tmp_path: Path, make: str) -> None:
    folder = tmp_path / "env"
    if make == "file":
        folder.write_text("")
    elif make != "nothing":
        folder.mkdir()
    if make == "dangling":
        (folder / "bin").mkdir()
        (folder / "bin" / "python").symlink_to("/nowhere/python")
    with pytest.raises(UnavailableError, match="no Python at bin/python: make it with `nox -s engine-cpu`"):
        engine_python(CPU, folder)
    with pytest.raises(UnavailableError, match="needs an environment with SGLang"):
        engine_python(CPU, None)


def test_versions_are_read_without_starting_anything(tmp_path: Path) -> None:
    folder = environment(tmp_path / "env", "", "1.2.3")
    assert installed_version(folder, "sglang") == "1.2.3"
    assert installed_version(folder, "torch") is None
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", own_version())
