"""A daemon and images. With GRAPHREPRO_DOCKER=1 one that is missing is a failure; else the tests are skipped."""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import docker
import pytest

from matrix.runtimes.docker_daemon import Daemon

BASE = "graphrepro-test-base:bookworm"


@pytest.fixture(scope="session")
def docker_api() -> Iterator[docker.APIClient]:
    """The SDK's low-level client of a daemon that answers."""
    try:
        client = docker.APIClient(version="auto", **docker.utils.kwargs_from_env())
        client.ping()
    except docker.errors.DockerException as problem:
        missing(f"no Docker daemon answers: {problem}")
    yield client
    client.close()


@pytest.fixture(scope="session")
def base_image(docker_api: docker.APIClient, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Debian 12 with python3, without pip or ensurepip, made here: there may be no registry. Kept for the next time."""
    if docker_api.images(name=BASE):
        return BASE
    if shutil.which("mmdebstrap") is None:
        missing("mmdebstrap, which makes the base image, is not installed")
    archive = tmp_path_factory.mktemp("base") / "base.tar"
    command = ["mmdebstrap", "--variant=minbase", "--include=python3,ca-certificates", "bookworm", str(archive)]
    subprocess.run(command, check=True, capture_output=True)
    repository, _, tag = BASE.partition(":")
    docker_api.import_image_from_file(str(archive), repository=repository, tag=tag)
    return BASE


@pytest.fixture(scope="session")
def pip_wheel() -> Path:
    """pip as one file, which this Python's own ensurepip brings."""
    import ensurepip

    folders = (Path(ensurepip.__file__).parent / "_bundled", Path("/usr/share/python-wheels"))
    found = sorted(path for folder in folders for path in folder.glob("pip-*.whl"))
    if not found:
        pytest.fail("this Python's ensurepip has no wheel of pip")
    return found[-1]


def beside(name: str) -> ModuleType:
    """A module in this folder, which is no package."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def docker_daemon(docker_api: docker.APIClient) -> Daemon:
    return Daemon(docker_api, return_s=30)


@pytest.fixture(scope="session")
def engine_image(docker_api: docker.APIClient, base_image: str) -> str:
    """The id of an image in which the attempt program and the simulated engine run."""
    images = beside("images_for_tests")
    try:
        return str(images.engine_image(docker_api))
    except images.CannotBuildError as problem:
        missing(str(problem))
        raise


def missing(what: str) -> None:
    if os.environ.get("GRAPHREPRO_DOCKER") == "1":
        pytest.fail(f"GRAPHREPRO_DOCKER=1, and {what}")
    pytest.skip(f"{what} (GRAPHREPRO_DOCKER=1 makes this a failure)")
