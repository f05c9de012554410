"""Which image a reference names, exactly; and getting it when it is not here."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import docker.errors

from matrix.runtimes.docker_daemon import Daemon
from matrix.runtimes.docker_problems import DOCKER_ERRORS, problem_of
from repro.errors import SpecError, UnavailableError

_ID = re.compile(r"sha256:[0-9a-f]{64}")
_DIGEST = re.compile(r"[^@ ]+@sha256:[0-9a-f]{64}")
PULLS = 3
PULL_PAUSE_S = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """``digest`` is how a record names it: `repository@sha256:…` where it was given or pulled like that, else its id.
    ``tag`` is what a run that allows tags was given, None otherwise. ``environment`` are the image's own variables;
    ``python`` is the engine's interpreter, where a label says it, as in the images of `matrix images build`."""

    digest: str
    id: str
    tag: str | None
    environment: Mapping[str, str]
    python: str | None


def find_image(
    daemon: Daemon, reference: str, *, allow_tag: bool = False, say: Callable[[str], None] = lambda _: None
) -> Image:
    """The image of a digest (`repository@sha256:…`) or of a local id (`sha256:…`). A digest that is not here is pulled,
    a few times if need be: nothing has been measured yet.

    A tag names another image tomorrow: SpecError, unless it is allowed. UnavailableError if there is no such image.
    """
    exact = _ID.fullmatch(reference) or _DIGEST.fullmatch(reference)
    if not exact and not allow_tag:
        raise SpecError(
            f"--image {reference}: give a digest (`docker images --digests`, or the id that `docker inspect` "
            "shows), since a tag may name another image tomorrow; --allow-tag takes it all the same"
        )
    try:
        found = _inspect(daemon, reference)
        if found is None and not _ID.fullmatch(reference):
            _pull(daemon, reference, say)
            found = _inspect(daemon, reference)
    except DOCKER_ERRORS as error:
        raise UnavailableError(f"image {reference}: {problem_of(error)}") from None
    if found is None:
        raise UnavailableError(f"image {reference}: not on this host: build it (`nox -s images-…`) or pull it")
    return Image(
        digest=reference if exact else str(found["Id"]),
        id=str(found["Id"]),
        tag=None if exact else reference,
        environment=_environment(found),
        python=((found.get("Config") or {}).get("Labels") or {}).get("graphrepro.python"),
    )


def newest_built(daemon: Daemon, target: str, architecture: str, source: str) -> str:
    """The id of the newest image that `matrix images build` made for a target's architecture and engine source.

    Raises UnavailableError if there is none, or no daemon answers."""
    labels = [f"graphrepro.architecture={architecture}", f"graphrepro.engine_source={source}"]
    try:
        found = daemon.patiently(lambda: daemon.api.images(filters={"label": labels}))
    except DOCKER_ERRORS as error:
        raise UnavailableError(f"docker: {problem_of(error)}") from None
    if not found:
        raise UnavailableError(
            f"target {target}: no image of its engine ({source} on {architecture}) is on this host: build it with "
            f"`nox -s images-{target}`, or name yours with --image DIGEST"
        )
    return str(max(found, key=lambda image: (image["Created"], image["Id"]))["Id"])


def _inspect(daemon: Daemon, reference: str) -> Mapping[str, Any] | None:
    try:
        found: Mapping[str, Any] = daemon.patiently(lambda: daemon.api.inspect_image(reference))  # type: ignore[no-untyped-call]
    except docker.errors.NotFound:
        return None
    return found


def _pull(daemon: Daemon, reference: str, say: Callable[[str], None]) -> None:
    """Raises the last error of the SDK."""
    for attempt in range(1, PULLS + 1):
        say(f"pulling {reference} ({attempt} of at most {PULLS} tries)")
        try:
            for line in daemon.api.pull(reference, stream=True, decode=True):
                if "error" in line:
                    raise docker.errors.DockerException(str(line["error"]))
        except docker.errors.NotFound:
            raise
        except DOCKER_ERRORS:
            if attempt == PULLS:
                raise
            time.sleep(PULL_PAUSE_S * attempt)
        else:
            return


def _environment(found: Mapping[str, Any]) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in (found.get("Config") or {}).get("Env") or ())
    return dict(sorted((name, value) for name, _, value in pairs if name))
