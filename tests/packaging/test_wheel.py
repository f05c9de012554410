"""The wheel holds what it needs, and what is installed from it runs anywhere but in the checkout."""

import os
import subprocess
import sys
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("matrix", "report", "repro", "schemas")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)]
    subprocess.run(command, check=True, cwd=folder)
    (path,) = folder.glob("graphrepro-*.whl")
    return path


def test_names_belong_to_this_distribution() -> None:
    """Other distributions with packages of these names exist; none may be in the project's environment."""
    others = {
        (distribution.name, path.parts[0])
        for distribution in distributions()
        if distribution.name != "graphrepro"
        for path in distribution.files or ()
        if path.parts[0] in PACKAGES
    }
    assert others == set()


def test_holds_its_data(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tracked = subprocess.run(
        ["git", "ls-files", *PACKAGES], check=True, cwd=ROOT, capture_output=True, text=True
    ).stdout.split()
    assert {name for name in tracked if name not in names} == set()
    for needed in (
        "schemas/result.json",
        "matrix/specs/b300.toml",
        "matrix/engines/flags.json",
        "matrix/payload/__main__.py",
        "matrix/payload/cpu/model/model.safetensors",
        "matrix/payload/cpu/model/drafter/drafter.safetensors",
        "matrix/payload/cpu/standins/sgl_kernel/__init__.py",
        "matrix/images/containers/images.toml",
        "repro/baselines/nvls_b8t4.json",
        "repro/signatures.toml",
        "repro/bundle/forms/sglang.md.j2",
        "repro/bundle/inside/replay.py",
        "repro/bundle/inside/verify.py",
        "repro/kernels/releases.toml",
        "repro/kernels/beside_torch/tolerance.py",
        "report/templates/findings.html.j2",
        "report/templates/page.css",
    ):
        assert needed in names


def test_holds_nothing_else(wheel: Path) -> None:
    roots = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {root for root in roots if not root.startswith("graphrepro-")} == set(PACKAGES)


def test_model_is_small(wheel: Path) -> None:
    weights = [i for i in zipfile.ZipFile(wheel).infolist() if i.filename.endswith(".safetensors")]
    assert sum(info.file_size for info in weights) <= 8_000_000


def test_runs_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """Installed without the checkout: specs, schemas, prompts and payload are found as package data."""
    site = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(command, check=True, cwd=tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(site), "PYTHONSAFEPATH": "1"}
    code = "import matrix; print(matrix.__file__)"
    where = subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert str(site) in where.stdout
    (tmp_path / "server.log").write_text("CUDA error: an illegal memory access was encountered\n", encoding="utf-8")
    for arguments in (
        ["matrix", "list", "--spec", "b300", "--json"],
        ["matrix", "plan", "--spec", "cpu", "--json"],
        ["matrix", "images", "list"],
        ["repro", "diagnose", "server.log", "--json"],
        ["repro", "kernels", "--reproducer", ".", "--cell", "b16-gqa-4-2-128-fp16-bs3"],
    ):
        subprocess.run(
            [sys.executable, "-m", *arguments], check=True, cwd=tmp_path, env=environment, capture_output=True
        )
