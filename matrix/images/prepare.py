"""From a spec to an image: choose, refuse open pins, find the base, build unless the same was built before."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import docker

from matrix.images.build import BuiltImage, Progress, base_image, build
from matrix.images.recipe import LABEL, Given, Recipe, compose, engine_commit
from matrix.images.record import Images, demand_resolved
from matrix.spec import Spec
from repro.errors import SpecError


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """``notes``: pins that were open and were allowed, to be recorded; they are a label of the image too."""

    built: BuiltImage
    recipe: Recipe
    notes: tuple[str, ...]


def prepare(
    client: docker.APIClient,
    spec: Spec,
    images: Images,
    given: Given,
    *,
    source: str | None = None,
    allow_tag: bool = False,
    target: str = "engine",
    progress: Progress,
) -> Prepared:
    """The image of a target with an engine source, that of the spec unless another is named.

    Raises SpecError if there is none or an input is missing, UnavailableError for open pins that nothing given
    replaces, without Docker or the base, and if the build fails.
    """
    if spec.engine.name == "simulated":
        raise SpecError(f"target {spec.target} needs no image: the simulated engine comes with graphrepro")
    image = images.choose(spec.hardware.architecture, source or spec.engine.source)
    notes = demand_resolved(
        image,
        allow_tag=allow_tag,
        base_given=given.base_image is not None,
        commit_given=given.engine_checkout is not None,
    )
    engine_commit(image, given)  # refused here, not after a pull of many gigabytes
    base_id = base_image(client, image, given, progress)
    recipe = compose(image, images.folder, given, base_id=base_id, target=target)
    built = build(client, recipe, notes=notes, offline=given.wheelhouse is not None, progress=progress)
    return Prepared(built=built, recipe=recipe, notes=notes)


def notes_of(labels: Mapping[str, str]) -> tuple[str, ...]:
    """The pins that were open when an image was built, from its labels; none for an image that we did not build."""
    noted = json.loads(labels.get(f"{LABEL}unresolved", "[]"))
    return tuple(str(note) for note in noted)
