"""Looking up open pins: what is asked, what is written, and what is said where there is no network."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from matrix.images.record import UNRESOLVED, containers_folder, load_images
from matrix.images.resolve import commit_of, filled, registry_digest, resolve
from repro.errors import UnavailableError

DIGEST = "sha256:" + "1" * 64


class Registry:
    def __init__(self, digest: str = DIGEST) -> None:
        self.digest = digest

    def inspect_distribution(self, reference: str) -> dict[str, Any]:
        return {"Descriptor": {"digest": self.digest}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the shipped file whose repository is one on this machine."""
    origin = tmp_path / "origin"
    origin.mkdir()
    git = ["git", "-C", str(origin), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    reference = ["update-ref", "refs/pull/29907/head", "HEAD"]
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"], reference):
        subprocess.run([*git, *command], check=True)
    text = (containers_folder() / "images.toml").read_text()
    (tmp_path / "images.toml").write_text(text.replace("https://github.com/sgl-project/sglang", str(origin)))
    return tmp_path


def test_answers_are_written_and_the_rest_stays(folder: Path) -> None:
    before = (folder / "images.toml").read_text()
    resolution = resolve(load_images(folder), Registry())  # type: ignore[arg-type]
    assert resolution.failed == ()
    assert len(resolution.found) == 3
    images = load_images(folder)
    assert not [pin for image in images.all() for pin in image.unresolved]
    assert {base.digest for base in images.bases.values()} == {DIGEST}
    after = (folder / "images.toml").read_text()
    assert after.count("#") == before.count("#")
    assert len(before.splitlines()) - len(after.splitlines()) == 3  # the reasons
    assert resolve(images, Registry()).found == ()  # type: ignore[arg-type]


def test_without_a_registry_digests_stay_open(folder: Path) -> None:
    resolution = resolve(load_images(folder), None)
    assert len(resolution.found) == 1
    assert [sentence.split(":")[0] for sentence in resolution.failed] == ["lmsysorg/sglang", "python"]
    assert {base.digest for base in load_images(folder).bases.values()} == {UNRESOLVED}


def test_an_answer_that_is_no_digest_is_not_written() -> None:
    with pytest.raises(UnavailableError, match="is no digest"):
        registry_digest(Registry("latest"), "x:1")  # type: ignore[arg-type]


def test_a_repository_that_does_not_answer(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="git has no answer") as caught:
        commit_of(str(tmp_path / "absent"), "refs/heads/main")
    assert "\n" not in str(caught.value)


def test_only_the_named_table_is_changed() -> None:
    text = '[bases.a]\ndigest = "unresolved" # why\n[bases.b]\ndigest = "unresolved"\nunresolved = { digest = "x" }\n'
    assert filled(text, "bases.b", "digest", "v") == (
        '[bases.a]\ndigest = "unresolved" # why\n[bases.b]\ndigest = "v"\n'
    )
    assert "# why" in filled(text, "bases.a", "digest", "v")
