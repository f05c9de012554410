"""Which image serves which engine source of a plan, and what was found in it."""

import argparse
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from matrix.images.probe import ImageProbe, probe_image
from matrix.images.record import Images, load_images
from matrix.images.remembered import probes_folder, remembered
from matrix.images.suitable import Suitable, demand_engine, find_built, find_or_build, same_engine
from matrix.runtimes.docker_daemon import Daemon
from matrix.runtimes.docker_images import Image, find_image
from matrix.spec import Spec
from repro.errors import UnavailableError


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineImages:
    """``main`` is the image of the spec's own engine source. ``by_source``: engine source -> digest. ``probes``: digest
    -> what it holds; empty where nobody looked, as with the simulated engine. ``notes``: pins that were open."""

    main: Image
    by_source: Mapping[str, str]
    probes: Mapping[str, ImageProbe]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageSearch:
    """Where images are looked for, and how what they hold is remembered."""

    daemon: Daemon
    spec: Spec
    payload: Path
    environment: Mapping[str, str]
    say: Callable[[str], None]
    allow_tag: bool

    def probe(self, reference: str) -> ImageProbe:
        """``reference`` is an id."""
        return remembered(
            probes_folder(self.environment),
            f"image {reference}",
            self.payload,
            lambda: probe_image(self.daemon.api, reference, self.payload),
        )

    def engines(self, options: argparse.Namespace, sources: Collection[str]) -> EngineImages:
        """The image that was named serves all; else each source has its own, the newest build or a new one.

        Raises UnavailableError without an image that can be had, or if it cannot run on the target; SpecError for a tag
        that is not allowed.
        """
        spec = self.spec
        if options.image is None and spec.engine.name == "simulated":
            raise UnavailableError(
                f"target {spec.target}: no image is built for the simulated engine, which runs in any with Python 3.11 "
                "and aiohttp: name one with --image DIGEST"
            )
        if options.image is not None:
            main = find_image(self.daemon, options.image, allow_tag=self.allow_tag, say=self.say)
            found = dict.fromkeys({spec.engine.source, *sources}, main)
            notes: tuple[str, ...] = ()
        else:
            found, notes = self._built(sources)
            main = found[spec.engine.source]
        probes = {}
        if spec.engine.name != "simulated":
            for image in found.values():
                probes[image.digest] = probe = self.probe(image.id)
                demand_engine(probe, spec.hardware.architecture, where=f"image {image.digest}")
        by_source = {source: image.digest for source, image in found.items()}
        return EngineImages(main=main, by_source=by_source, probes=probes, notes=notes)

    def already_built(self, images: Images | None = None) -> Suitable | None:
        """The image of the spec's own source that :meth:`engines` would take; None if it would have to be built."""
        entry = (images or load_images()).choose(self.spec.hardware.architecture, self.spec.engine.source)
        return find_built(self.daemon.api, self.spec, entry, allow_tag=self.allow_tag, probe=self.probe, say=self.say)

    def _built(self, sources: Collection[str]) -> tuple[dict[str, Image], tuple[str, ...]]:
        images, own = load_images(), self.spec.engine.source
        made: dict[str, Suitable] = {}
        for source in (own, *sorted(set(sources) - {own})):
            made[source] = made[own] if made and same_engine(images, self.spec, source) else self._one(images, source)
        notes = tuple(dict.fromkeys(note for suitable in made.values() for note in suitable.notes))
        return {source: find_image(self.daemon, suitable.id) for source, suitable in made.items()}, notes

    def _one(self, images: Images, source: str) -> Suitable:
        return find_or_build(
            self.daemon.api, self.spec, images, source, allow_tag=self.allow_tag, probe=self.probe, say=self.say
        )
