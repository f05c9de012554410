"""The Docker daemon, reached through the SDK's low-level API; what it says is turned into one line."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import docker
import requests
from docker import errors as docker_errors
from docker.utils import kwargs_from_env

from repro.errors import UnavailableError

PULL_TRIES = 3
"""A pull may be tried again, since it costs no GPU time and changes nothing."""
PULL_PAUSE_S = 5.0


@contextmanager
def connected() -> Iterator[docker.APIClient]:
    """A client of the daemon that the environment names. Raises UnavailableError if none answers."""
    with said_plainly("Docker"):
        client = docker.APIClient(version="auto", **kwargs_from_env())
    try:
        yield client
    finally:
        client.close()


@contextmanager
def said_plainly(doing: str) -> Iterator[None]:
    """Turn what the SDK raises into an UnavailableError of one line that starts with ``doing``."""
    try:
        yield
    except docker_errors.APIError as problem:
        raise UnavailableError(f"{doing}: {one_line(str(problem.explanation or problem))}") from problem
    except (docker_errors.DockerException, requests.exceptions.RequestException) as problem:
        raise UnavailableError(
            f"{doing}: the daemon does not answer ({one_line(str(problem))}): start it, or name it with DOCKER_HOST"
        ) from problem


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalImage:
    """What the daemon knows of an image."""

    id: str
    labels: Mapping[str, str]
    size_bytes: int


def inspected(client: docker.APIClient, reference: str) -> LocalImage:
    """A local image. Raises what the SDK raises."""
    found = client.inspect_image(reference)  # type: ignore[no-untyped-call]
    labels = found["Config"].get("Labels") or {}
    return LocalImage(id=str(found["Id"]), labels=dict(labels), size_bytes=int(found["Size"]))


def image_id(client: docker.APIClient, reference: str) -> str | None:
    """The id of a local image; None if it is not here."""
    try:
        with said_plainly(f"image {reference}"):
            return inspected(client, reference).id
    except UnavailableError as problem:
        if isinstance(problem.__cause__, docker_errors.ImageNotFound):
            return None
        raise


def pull(client: docker.APIClient, reference: str, say: Callable[[str], None]) -> str:
    """Fetch an image, again if the registry does not answer; one that it does not have is not asked for again. Returns
    its id. Raises UnavailableError."""
    for attempt in range(1, PULL_TRIES + 1):
        say(f"pulling {reference} ({attempt} of at most {PULL_TRIES} tries)")
        try:
            with said_plainly(f"pulling {reference}"):
                for event in client.pull(reference, stream=True, decode=True):
                    if "error" in event:
                        raise UnavailableError(f"pulling {reference}: {one_line(str(event['error']))}")
            break
        except UnavailableError as problem:
            if attempt == PULL_TRIES or isinstance(problem.__cause__, docker_errors.NotFound):
                raise
            time.sleep(PULL_PAUSE_S * attempt)
    found = image_id(client, reference)
    if found is None:
        raise UnavailableError(f"pulling {reference}: the daemon has no such image afterwards")
    return found


def one_line(text: str, longest: int = 300) -> str:
    """Printable, on one line, and not longer than that; the end is kept, since builders put the reason there."""
    flat = " ".join("".join(mark if mark.isprintable() else " " for mark in text).split())
    return flat if len(flat) <= longest else f"…{flat[-longest:]}"
