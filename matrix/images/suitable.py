"""The image of a target's engine: the newest that was built and holds it, or one that is built now."""

from collections.abc import Callable
from dataclasses import dataclass

import docker

from matrix.images.architecture import demand_architecture, lacking
from matrix.images.build import Progress, built_images
from matrix.images.daemon import inspected, said_plainly
from matrix.images.prepare import notes_of, prepare
from matrix.images.probe import ImageProbe
from matrix.images.recipe import LABEL, Given
from matrix.images.record import Image, Images
from matrix.spec import Spec
from repro.errors import GraphreproError, UnavailableError

ProbeOf = Callable[[str], ImageProbe]


@dataclass(frozen=True, kw_only=True, slots=True)
class Suitable:
    """``notes``: pins that were open when the image was built, and were allowed."""

    id: str
    notes: tuple[str, ...]


def find_built(
    client: docker.APIClient, spec: Spec, image: Image, *, allow_tag: bool, probe: ProbeOf, say: Progress
) -> Suitable | None:
    """The newest image on this host that was built for the architecture and the engine source, and holds the engine;
    None if there is none.

    Raises UnavailableError for one that was built from open pins, which only ``allow_tag`` takes, and without Docker.
    """
    architecture = spec.hardware.architecture
    labels = {f"{LABEL}architecture": architecture, f"{LABEL}engine_source": image.source_name}
    with said_plainly("docker"):
        candidates = [(found, inspected(client, found).labels) for found in built_images(client, labels)]
    for found, said in candidates:
        problems = _unfit(probe(found), image, architecture)
        if problems:
            say(f"image {found[:19]} is passed over: {problems[0]}")
            continue
        notes = notes_of(said)
        if notes and not allow_tag:
            raise UnavailableError(
                f"image {found}: built while {notes[0]}: build it again when that is resolved, or take it as it is "
                "with --allow-tag, which is recorded"
            )
        return Suitable(id=found, notes=notes)
    return None


def find_or_build(
    client: docker.APIClient,
    spec: Spec,
    images: Images,
    source: str,
    *,
    allow_tag: bool,
    probe: ProbeOf,
    say: Progress,
) -> Suitable:
    """Like :func:`find_built`; where there is none it is built, which open pins forbid without ``allow_tag``."""
    image = images.choose(spec.hardware.architecture, source)
    found = find_built(client, spec, image, allow_tag=allow_tag, probe=probe, say=say)
    if found is not None:
        return found
    say(f"no image of {spec.target}'s engine ({source} on {spec.hardware.architecture}) is on this host: building it")
    try:
        prepared = prepare(client, spec, images, Given(), source=source, allow_tag=allow_tag, progress=say)
    except GraphreproError as problem:
        raise UnavailableError(
            f"target {spec.target}: no image of its engine ({source} on {spec.hardware.architecture}) is on this host, "
            f"and none can be built: {problem}; `nox -s images-{spec.target}` takes more options, or name yours with "
            "--image DIGEST"
        ) from problem
    return Suitable(id=prepared.built.id, notes=prepared.notes)


def demand_engine(probe: ImageProbe, architecture: str, *, where: str) -> None:
    """Raises UnavailableError (exit 4) if there is no SGLang, or none that can run on this architecture."""
    if probe.engine_version is None and probe.flags.value is None:
        raise UnavailableError(f"{where}: no SGLang is in it ({probe.flags.reason}): name one that holds the engine")
    demand_architecture(probe.gpu_code(), architecture, where=where, unreadable=probe.unreadable())


def same_engine(images: Images, spec: Spec, source: str) -> bool:
    """Whether a source is the same code as the spec's own: releases are, whatever they are called."""
    kinds = {name: entry.kind for name, entry in images.sources.items()}
    return source == spec.engine.source or kinds.get(source) == kinds.get(spec.engine.source) == "release"


def _unfit(probe: ImageProbe, image: Image, architecture: str) -> tuple[str, ...]:
    """Why an image is not what its labels say: it was stopped in the middle of its Dockerfile, or made of stand-ins."""
    if probe.engine_version is None:
        return ("it holds no SGLang",)
    absent = [name for name in image.entry.packages if name not in probe.packages]
    return (*(f"it holds no {name}" for name in absent), *lacking(probe.gpu_code(), architecture, probe.unreadable()))
