"""Which image a reference names, exactly; and getting it when it is not here."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import docker.errors

from matrix.images.daemon import pull
from matrix.runtimes.docker_daemon import Daemon
from matrix.runtimes.docker_problems import DOCKER_ERRORS, problem_of
from repro.errors import SpecError, UnavailableError

_ID = re.compile(r"sha256:[0-9a-f]{64}")
_DIGEST = re.compile(r"[^@ ]+@sha256:[0-9a-f]{64}")


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
            pull(daemon.api, reference, say)
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


def _inspect(daemon: Daemon, reference: str) -> Mapping[str, Any] | None:
    try:
        found: Mapping[str, Any] = daemon.patiently(lambda: daemon.api.inspect_image(reference))  # type: ignore[no-untyped-call]
    except docker.errors.NotFound:
        return None
    return found


def _environment(found: Mapping[str, Any]) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in (found.get("Config") or {}).get("Env") or ())
    return dict(sorted((name, value) for name, _, value in pairs if name))
