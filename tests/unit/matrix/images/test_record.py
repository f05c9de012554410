"""images.toml: what ships, what is refused and in which words, and what a run may not start from."""

import re
from pathlib import Path

import pytest

from matrix.images.record import UNRESOLVED, containers_folder, demand_resolved, load_images, parse_images
from repro.errors import SpecError, UnavailableError

GOOD = """
record = "images"
schema_version = 1
[bases.b]
repository = "example/base"
tag = "1"
digest = "unresolved"
unresolved = { digest = "no network" }
[sources.stock]
kind = "release"
[sources.pr]
kind = "commit"
repository = "https://example.org/r"
commit = "unresolved"
patches = []
unresolved = { commit = "no network" }
[images.i]
title = "I"
folder = "i"
base = "b"
architecture = "sm_103"
sources = ["stock", "pr"]
engine_version = "1"
packages = { torch = "2", triton = "3" }
locks = []
files = []
shared = []
"""


def parsed(text: str):
    return parse_images(text.encode(), folder=Path("containers"))


def test_the_shipped_file_names_existing_files() -> None:
    images = load_images()
    assert {image.entry.architecture for image in images.all()} == {"sm_103", "sm_120", "cpu"}
    for image in images.all():
        names = [f"{image.entry.folder}/{name}" for name in ("Dockerfile", *image.entry.files)]
        for name in (*names, *(f"shared/{name}" for name in image.entry.shared)):
            assert (images.folder / name).is_file(), name


def test_shipped_pins_are_digests_or_open_with_a_reason() -> None:
    for image in load_images().all():
        assert re.fullmatch(r"sha256:[0-9a-f]{64}|unresolved", image.base.digest)
        assert (image.base.digest == UNRESOLVED) == ("digest" in image.base.unresolved)


def test_every_target_with_an_engine_has_an_image() -> None:
    from matrix.spec import load_spec

    for target in ("b300", "rtxpro6000", "cpu"):
        spec = load_spec(target)
        image = load_images().choose(spec.hardware.architecture, spec.engine.source)
        assert image.entry.engine_version == spec.engine.version


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('digest = "unresolved"', 'digest = "sha256:12"', "/bases/b/digest: 'sha256:12' is not: Digest"),
        ('unresolved = { digest = "no network" }', "", "/bases/b/unresolved/digest: digest is unresolved without"),
        ('unresolved = { commit = "no network" }', "", "/sources/pr/unresolved/commit: commit is unresolved without"),
        ('commit = "unresolved"', f'commit = "{"a" * 40}"', "commit has a reason, and is not unresolved"),
        ('commit = "unresolved"', 'commit = "main"', "/sources/pr/commit: 'main' is not: Full commit"),
        ('kind = "release"', 'kind = "release"\ncommit = "unresolved"', "/sources/stock"),
        ('base = "b"', 'base = "c"', "/images/i/base: no table bases.c: known: b"),
        ('sources = ["stock", "pr"]', 'sources = ["stok"]', "no table sources.stok: known: pr, stock"),
        ("locks = []", 'locks = ["x.txt"]', "/images/i/locks: x.txt is not among its files"),
        ("files = []", 'files = ["../x"]', "/images/i/files/0"),
        ("[bases.b]", "[bases.b", "not TOML"),
        ("schema_version = 1", "schema_version = 2", "/schema_version"),
    ],
)
def test_bad_files_get_one_line(old: str, new: str, said: str) -> None:
    assert GOOD.count(old) >= 1
    with pytest.raises(SpecError) as caught:
        parsed(GOOD.replace(old, new, 1))
    assert said in str(caught.value)
    assert str(caught.value).startswith("images.toml: ")
    assert "\n" not in str(caught.value)


def test_bytes_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="not UTF-8 at byte 0"):
        parse_images(b"\xff", folder=tmp_path)
    with pytest.raises(SpecError, match="give a folder with"):
        load_images(tmp_path)
    assert (containers_folder() / "images.toml").is_file()


def test_choosing() -> None:
    images = parsed(GOOD)
    assert images.choose("sm_103", "pr").source.kind == "commit"
    with pytest.raises(SpecError, match="no engine source 'other': known: stock, pr"):
        images.choose("sm_103", "other")
    with pytest.raises(SpecError, match="no image for architecture sm_90: known: i"):
        images.choose("sm_90", "stock")


def test_a_run_refuses_open_pins_unless_allowed_and_records_them() -> None:
    image = parsed(GOOD).choose("sm_103", "pr")
    with pytest.raises(UnavailableError, match="--allow-tag") as caught:
        demand_resolved(image, allow_tag=False)
    assert caught.value.exit_code == 4
    assert demand_resolved(image, allow_tag=True) == (
        "base image example/base:1, digest is unresolved: no network",
        "engine source pr, commit is unresolved: no network",
    )
    assert demand_resolved(image, allow_tag=False, base_given=True, commit_given=True) == ()


def test_resolved_pins_are_used_by_digest() -> None:
    digest = f"sha256:{'0' * 64}"
    text = GOOD.replace('digest = "unresolved"', f'digest = "{digest}"')
    image = parsed(text.replace('unresolved = { digest = "no network" }', "")).choose("sm_103", "stock")
    assert image.base.reference == f"example/base@{digest}"
    assert demand_resolved(image, allow_tag=False) == ()
