"""The image that these tests run in: Debian with Python 3.11 and an aiohttp new enough for the simulated engine."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import docker
import docker.errors

BASE = "graphrepro-test-base:bookworm"
TAG = "graphrepro-test-engine:bookworm"
_DOCKERFILE = f"FROM {BASE}\nCOPY packages /usr/local/lib/python3.11/dist-packages\n"


class CannotBuildError(Exception):
    """Why there is no such image; one line."""


def engine_image(api: docker.APIClient) -> str:
    """The image's id; it is built once and kept. GRAPHREPRO_TEST_IMAGE names another.

    No registry is asked: the base comes from Debian's mirror (mmdebstrap), aiohttp from the package index."""
    wanted = os.environ.get("GRAPHREPRO_TEST_IMAGE", TAG)
    with contextlib.suppress(docker.errors.ImageNotFound):
        return str(api.inspect_image(wanted)["Id"])
    if wanted != TAG:
        raise CannotBuildError(f"GRAPHREPRO_TEST_IMAGE={wanted}: no such image")
    with tempfile.TemporaryDirectory(prefix="graphrepro-test-image-") as text:
        folder = Path(text)
        if not api.images(name=BASE):
            _base(api, folder / "base.tar")
        context = folder / "context"
        context.mkdir()
        (context / "Dockerfile").write_text(_DOCKERFILE)
        _packages(context / "packages")
        for line in api.build(path=str(context), tag=TAG, rm=True, decode=True):
            if "error" in line:
                raise CannotBuildError(str(line["error"]))
    return str(api.inspect_image(TAG)["Id"])


def copy_image(source: docker.APIClient, image: str, target: docker.APIClient) -> None:
    """The image in another daemon too, with the same id."""
    with contextlib.suppress(docker.errors.ImageNotFound):
        target.inspect_image(image)
        return
    for _ in target.load_image(source.get_image(image)):
        pass


def _base(api: docker.APIClient, archive: Path) -> None:
    if shutil.which("mmdebstrap") is None:
        raise CannotBuildError("mmdebstrap is not installed: `apt-get install mmdebstrap`")
    included = "--include=python3,ca-certificates"
    _run(["mmdebstrap", "--variant=minbase", included, "bookworm", str(archive)], archive.is_file)
    repository, _, tag = BASE.partition(":")
    api.import_image_from_file(str(archive), repository=repository, tag=tag)


def _packages(folder: Path) -> None:
    target = ("--target", str(folder), "--python-version", "3.11", "--only-binary=:all:")
    platform = ("--platform", "manylinux2014_x86_64")
    _run([sys.executable, "-m", "pip", "install", "-q", *target, *platform, "aiohttp>=3.11"], folder.is_dir)


def _run(command: list[str], came: Callable[[], bool]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not came():
        raise CannotBuildError(f"{command[0]}: {done.stderr.strip()[-300:]}")
