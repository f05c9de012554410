"""Build an image through the Docker API, or find the one that the same inputs have given before."""

import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, ClassVar, cast

import docker

from matrix.images.daemon import image_id, inspected, one_line, pull, said_plainly
from matrix.images.recipe import LABEL, Given, Recipe
from matrix.images.record import Image
from repro.errors import UnavailableError

Progress = Callable[[str], None]
PROGRESS_WIDTH, STEP_WIDTH = 160, 80
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
TOLD_LINES = 3
"""How many of the failing step's last lines are told: the reason is seldom further up."""


class ImageBuildError(UnavailableError):
    """A step of the build failed (exit 4). ``kind`` is its kind of failure in records."""

    kind: ClassVar[str] = "image_build_failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltImage:
    """``fresh`` False: an earlier build of the same inputs was found. ``difference`` says what made a new one necessary
    where there was an earlier image of that name; None if there was none, or nothing was built."""

    id: str
    tag: str
    fresh: bool
    seconds: float
    size_bytes: int
    difference: str | None


def base_image(client: docker.APIClient, image: Image, given: Given, progress: Progress) -> str:
    """The id of the base, pulled if it is not here. Raises UnavailableError; offline builds never pull."""
    reference = given.base_image or image.base.reference
    found = image_id(client, reference)
    if found is not None:
        return found
    if given.wheelhouse is not None:
        raise UnavailableError(
            f"base image {reference}: is not on this machine, and a build from a wheelhouse asks no network: `docker "
            "load` it, or name another with --base-image"
        )
    return pull(client, reference, progress)


def build(
    client: docker.APIClient, recipe: Recipe, *, notes: tuple[str, ...], offline: bool, progress: Progress
) -> BuiltImage:
    """The image of a recipe. Raises ImageBuildError if a step fails, UnavailableError if Docker does."""
    with said_plainly("Docker"):
        known = newest(client, {f"{LABEL}inputs_sha256": recipe.inputs_sha256})
        if known is not None:
            return _described(client, known, recipe, fresh=False, seconds=0.0, difference=None)
        earlier = newest(
            client, {f"{LABEL}image": recipe.image.name, f"{LABEL}engine_source": recipe.image.source_name}
        )
        labels = recipe.labels(notes)
        difference = None if earlier is None else differences(inspected(client, earlier).labels, labels)
        started = time.monotonic()
        built = _run(client, recipe, labels, offline=offline, progress=progress)
        seconds = time.monotonic() - started
        return _described(client, built, recipe, fresh=True, seconds=seconds, difference=difference)


def newest(client: docker.APIClient, labels: Mapping[str, str]) -> str | None:
    """The id of the newest image with all these labels."""
    return next(iter(built_images(client, labels)), None)


def built_images(client: docker.APIClient, labels: Mapping[str, str]) -> tuple[str, ...]:
    """The ids of all images with these labels, the newest first. Raises what the SDK raises."""
    wanted = [f"{name}={value}" for name, value in labels.items()]
    found = sorted(client.images(filters={"label": wanted}), key=lambda entry: (entry["Created"], entry["Id"]))
    return tuple(str(entry["Id"]) for entry in reversed(found))


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """In words, which inputs of two images of one name differ, from their labels."""
    said = []
    old, new = (_loaded(labels, "context_files") for labels in (before, now))
    changes = (
        ("changed", [path for path in old.keys() & new.keys() if old[path] != new[path]]),
        ("added", new.keys() - old.keys()),
        ("removed", old.keys() - new.keys()),
    )
    for word, paths in changes:
        if paths:
            listed = sorted(paths)
            more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
            said.append(f"{word}: {', '.join(listed[:3])}{more}")
    if before.get(f"{LABEL}base_id") != now.get(f"{LABEL}base_id"):
        said.append("another base image")
    old_arguments, new_arguments = (_loaded(labels, "build_arguments") for labels in (before, now))
    said += [
        f"{name} is {new_arguments.get(name)!r} and was {old_arguments.get(name)!r}"
        for name in sorted((new_arguments.keys() | old_arguments.keys()) - {"BASE_IMAGE"})
        if old_arguments.get(name) != new_arguments.get(name)
    ]
    return "; ".join(said) or "another stage or other labels"


def failure(image: str, step: str, lines: list[str], error: str) -> ImageBuildError:
    """The one line about a failed step: which it was, and the last of what it said."""
    told = [line for line in lines if line][-TOLD_LINES:] or [error]
    where = step if len(step) <= STEP_WIDTH else f"{step[:STEP_WIDTH]}…"
    return ImageBuildError(f"image {image}: build failed at {one_line(where)}: {one_line(' | '.join(told))}")


def _run(
    client: docker.APIClient, recipe: Recipe, labels: Mapping[str, str], *, offline: bool, progress: Progress
) -> str:
    events: Iterator[Mapping[str, object]] = client.build(
        fileobj=cast("IO[bytes]", recipe.context.tar()),  # sent in chunks: a wheelhouse is never held in memory
        custom_context=True,
        decode=True,
        tag=recipe.tag,
        rm=True,
        forcerm=True,
        buildargs=dict(recipe.build_arguments),
        labels=dict(labels),
        target=recipe.target,
        network_mode="none" if offline else None,
        timeout=None,  # a step may say nothing for many minutes
    )
    step, lines, built = "its start", deque[str](maxlen=20), None
    for event in events:
        for line in _COLOUR.sub("", str(event.get("stream", ""))).splitlines():
            if line.startswith("Step "):
                step = line.strip()
                lines.clear()
            elif _says_something(line):
                lines.append(line.strip())
            if line.strip():
                progress(line.rstrip()[:PROGRESS_WIDTH])
        aux = event.get("aux")
        if isinstance(aux, dict) and "ID" in aux:
            built = str(aux["ID"])
        if "error" in event:
            raise failure(recipe.image.name, step, list(lines), str(event["error"]))
    if built is None:
        raise failure(recipe.image.name, step, list(lines), "the daemon ended the build without an image")
    return built


def _says_something(line: str) -> bool:
    """Not what the builder says of its own doings."""
    return bool(line.strip()) and not line.startswith((" --->", "Removing intermediate container"))


def _described(
    client: docker.APIClient, found: str, recipe: Recipe, *, fresh: bool, seconds: float, difference: str | None
) -> BuiltImage:
    return BuiltImage(
        id=found,
        tag=recipe.tag,
        fresh=fresh,
        seconds=seconds,
        size_bytes=inspected(client, found).size_bytes,
        difference=difference,
    )


def _loaded(labels: Mapping[str, str], name: str) -> dict[str, str]:
    loaded: dict[str, str] = json.loads(labels.get(f"{LABEL}{name}", "{}"))
    return loaded
