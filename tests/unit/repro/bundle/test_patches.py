"""Local patches as diffs: an environment beside its wheel, and a checkout beside its commit."""

import json
import subprocess
import zipfile
from pathlib import Path

import pytest

from repro.bundle import patches
from repro.bundle.patches import local_patches
from repro.errors import SpecError

FILES = {"sglang/__init__.py": "", "sglang/srt/worker.py": "one\ntwo\n", "sglang/srt/gone.py": "x\n"}


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    site = tmp_path / "env" / "lib" / "python3.12" / "site-packages"
    for name, text in FILES.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    (site / "sglang-0.5.23.dist-info").mkdir()
    return tmp_path / "env"


@pytest.fixture
def site(environment: Path) -> Path:
    return environment / "lib" / "python3.12" / "site-packages"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "sglang-0.5.23-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in FILES.items():
            archive.writestr(name, text)
        archive.writestr("sglang/lib.so", b"\x00\x01")
    return path


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


def test_an_environment_beside_its_wheel(environment: Path, site: Path, wheel: Path) -> None:
    (site / "sglang/srt/worker.py").write_text("one\nTWO\n")
    (site / "sglang/srt/gone.py").unlink()
    (site / "sglang/srt/new.py").write_text("new\n")
    (site / "sglang/lib.so").write_bytes(b"\x00\x02")
    (site / "sglang/__pycache__").mkdir()
    (site / "sglang/__pycache__/worker.pyc").write_bytes(b"")
    found = local_patches(environment, wheel=wheel)
    assert found is not None
    assert [(file.path, file.state) for file in found.files] == [
        ("sglang/lib.so", "changed"),
        ("sglang/srt/gone.py", "missing"),
        ("sglang/srt/new.py", "added"),
        ("sglang/srt/worker.py", "changed"),
    ]
    assert [file.diff is None for file in found.files] == [True, True, False, False]
    assert (found.files[3].diff or "").splitlines()[-3:] == [" one", "-two", "+TWO"]
    assert (found.files[2].diff or "").endswith("+new")


def test_an_unpatched_environment(environment: Path, site: Path, wheel: Path) -> None:
    (site / "sglang/lib.so").write_bytes(b"\x00\x01")
    found = local_patches(environment, wheel=wheel)
    assert found is not None
    assert (found.files, found.reason) == ((), None)
    assert local_patches(environment, wheel=None) is None


def test_a_checkout_beside_its_commit(tmp_path: Path, site: Path, environment: Path) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "python").mkdir(parents=True)
    (checkout / "python" / "worker.py").write_text("one\ntwo\n")
    (checkout / "python" / "gone.py").write_text("x\n")
    git(checkout, "init", "-q")
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "first")
    (checkout / "python" / "worker.py").write_text("one\nTWO\n")
    (checkout / "python" / "gone.py").unlink()
    (checkout / "python" / "new.py").write_text("new\n")
    origin = {"url": f"file://{checkout}/python", "dir_info": {"editable": True}}
    (site / "sglang-0.5.23.dist-info" / "direct_url.json").write_text(json.dumps(origin))
    found = local_patches(environment, wheel=None)
    assert found is not None
    assert [(file.path, file.state) for file in found.files] == [
        ("gone.py", "missing"),
        ("worker.py", "changed"),
        ("new.py", "added"),
    ]
    assert "+TWO" in (found.files[1].diff or "")
    assert "+new" in (found.files[2].diff or "")


def test_a_checkout_without_git_is_unknown(tmp_path: Path, site: Path, environment: Path) -> None:
    (tmp_path / "plain").mkdir()
    origin = {"url": f"file://{tmp_path}/plain", "dir_info": {"editable": True}}
    (site / "sglang-0.5.23.dist-info" / "direct_url.json").write_text(json.dumps(origin))
    found = local_patches(environment, wheel=None)
    assert found is not None
    assert found.reason == "the checkout cannot be read (CalledProcessError)"


def test_what_is_too_large_is_only_named(
    environment: Path, site: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patches, "_MOST_DIFF_BYTES", 100)
    (site / "sglang/lib.so").write_bytes(b"\x00\x01")
    (site / "sglang/srt/gone.py").write_text("y\n")
    (site / "sglang/srt/worker.py").write_text("z\n" * 100)
    found = local_patches(environment, wheel=wheel)
    assert found is not None
    assert [(file.path, file.diff is None) for file in found.files] == [
        ("sglang/srt/gone.py", False),
        ("sglang/srt/worker.py", True),
    ]


def test_what_is_no_engine_or_no_wheel_is_refused(tmp_path: Path, environment: Path, wheel: Path) -> None:
    with pytest.raises(SpecError, match="has no package sglang"):
        local_patches(tmp_path / "none", wheel=wheel)
    (tmp_path / "text").write_text("x")
    with pytest.raises(SpecError, match="cannot be read as a wheel"):
        local_patches(environment, wheel=tmp_path / "text")
    with zipfile.ZipFile(tmp_path / "other.whl", "w") as archive:
        archive.writestr("torch/__init__.py", "")
    with pytest.raises(SpecError, match="is no wheel of sglang"):
        local_patches(environment, wheel=tmp_path / "other.whl")
