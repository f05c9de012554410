"""The script that lays an engine source over the base image's SGLang, run as the Dockerfile runs it."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from matrix.images.record import containers_folder

SCRIPT = containers_folder() / "shared" / "install_engine.py"
PATCH = """--- a/python/sglang/srt/a.py
+++ b/python/sglang/srt/a.py
@@ -1 +1 @@
-new = 1
+new = 2
"""


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """A build folder beside a site-packages that holds SGLang 0.5.15.post1."""
    site = tmp_path / "site"
    (site / "sglang" / "srt").mkdir(parents=True)
    for name, content in (("__init__.py", ""), ("srt/a.py", "old = 1\n"), ("srt/gone.py", ""), ("srt/k.so", "elf")):
        (site / "sglang" / name).write_text(content)
    (site / "sglang-0.5.15.post1.dist-info").mkdir()
    (site / "sglang-0.5.15.post1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.15.post1\n"
    )
    for folder in ("engine/python/sglang/srt", "patches"):
        (tmp_path / "build" / folder).mkdir(parents=True)
    (tmp_path / "build" / "engine" / "python" / "sglang" / "__init__.py").write_text("")
    (tmp_path / "build" / "engine" / "python" / "sglang" / "srt" / "a.py").write_text("new = 1\n")
    return tmp_path / "build"


def run(build: Path, *arguments: str, version: str = "0.5.15.post1") -> subprocess.CompletedProcess[str]:
    site = build.parent / "site"
    code = f"import sys, runpy; sys.path.append({str(site)!r}); runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    command = [sys.executable, "-I", "-S", "-c", code, *arguments, "--version", version]
    return subprocess.run(command, cwd=build, capture_output=True, text=True, check=False)


def installed(build: Path) -> dict[str, str]:
    folder = build.parent / "site" / "sglang"
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }


def test_a_release_is_left_as_it_is(build: Path) -> None:
    before = installed(build)
    assert run(build, "--kind", "release").stdout == "sglang 0.5.15.post1, as released\n"
    assert installed(build) == before


def test_another_release_is_refused(build: Path) -> None:
    answer = run(build, "--kind", "release", version="0.5.23")
    assert answer.returncode == 1
    assert answer.stderr == ("install_engine: the base image holds sglang 0.5.15.post1, and images.toml says 0.5.23\n")


def test_a_checkout_replaces_all_but_compiled_files(build: Path) -> None:
    answer = run(build, "--kind", "local")
    assert answer.stdout == "sglang 0.5.15.post1 with 2 files of a local checkout\n", answer.stderr
    assert installed(build) == {"__init__.py": "", "srt/a.py": "new = 1\n", "srt/k.so": "elf"}


def patch(build: Path, content: str = PATCH, digest: str | None = None) -> None:
    (build / "patches" / "one.patch").write_text(content)
    expected = digest or hashlib.sha256(content.encode()).hexdigest()
    (build / "patches" / "SHA256SUMS").write_text(f"{expected}  one.patch\n")


def test_patches_are_applied(build: Path) -> None:
    patch(build)
    assert run(build, "--kind", "local").returncode == 0
    assert installed(build)["srt/a.py"] == "new = 2\n"


@pytest.mark.parametrize(
    ("content", "digest", "said"),
    [
        (PATCH, "0" * 64, "one.patch is not the file whose digest images.toml holds"),
        (PATCH.replace("-new", "-other"), None, "git apply: error: python/sglang/srt/a.py: patch does not apply"),
    ],
)
def test_a_patch_that_does_not_fit_changes_nothing(build: Path, content: str, digest: str | None, said: str) -> None:
    before = installed(build)
    patch(build, content, digest)
    answer = run(build, "--kind", "local")
    assert (answer.returncode, answer.stderr) == (1, f"install_engine: {said}\n")
    assert installed(build) == before


def test_a_patch_that_nobody_asked_for(build: Path) -> None:
    (build / "patches" / "stray.patch").write_text(PATCH)
    assert "patches asked for: []" in run(build, "--kind", "local").stderr


def test_a_commit_is_fetched_or_must_be_the_one_given(build: Path) -> None:
    origin = build.parent / "origin"
    (build / "engine").rename(origin)
    (build / "engine").mkdir()
    git = ["git", "-C", str(origin), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    asked = ("--kind", "commit", "--repository", str(origin), "--commit")
    assert "is no full commit" in run(build, *asked, commit[:12]).stderr
    assert run(build, *asked, commit).stdout == f"sglang 0.5.15.post1 with 2 files of {commit}\n"
    (build / "engine" / "COMMIT").write_text("f" * 40)
    assert f"the checkout is {'f' * 40}, and {commit} is asked for" in run(build, *asked, commit).stderr
