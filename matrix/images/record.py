"""Read `containers/images.toml` (schema `images`): TOML text -> validated, typed :class:`Images`."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

import cattrs

import schemas
from repro.errors import SpecError, UnavailableError

UNRESOLVED = "unresolved"
RECORD_FILE = "images.toml"


@dataclass(frozen=True, kw_only=True, slots=True)
class Base:
    """An image to start from. ``digest`` is that of the registry, or `unresolved`."""

    repository: str
    tag: str
    digest: str
    unresolved: Mapping[str, str] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        """By digest where there is one."""
        at_tag = f"{self.repository}:{self.tag}"
        return at_tag if self.digest == UNRESOLVED else f"{self.repository}@{self.digest}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Patch:
    """A file in `containers/patches/`, applied to the engine's checkout if its content has this digest."""

    file: str
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Where the engine's code comes from: the base's own release, a commit laid over it, or the user's checkout."""

    kind: Literal["release", "commit", "local"]
    repository: str | None = None
    ref: str | None = None
    commit: str | None = None
    patches: tuple[Patch, ...] = ()
    unresolved: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageEntry:
    """As it stands in the file; ``base`` and ``sources`` are names of the tables `bases` and `sources`."""

    title: str
    folder: str
    base: str
    architecture: str
    sources: tuple[str, ...]
    engine_version: str
    packages: Mapping[str, str]
    locks: tuple[str, ...]
    files: tuple[str, ...]
    shared: tuple[str, ...]
    torch_arch_list: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """One image for one engine source: what a build makes."""

    name: str
    source_name: str
    entry: ImageEntry
    base: Base
    source: Source

    @property
    def unresolved(self) -> Mapping[str, str]:
        """Pin -> why it is not known; empty if all are."""
        return self.open_pins(base=True, commit=True)

    def open_pins(self, *, base: bool, commit: bool) -> dict[str, str]:
        """Like ``unresolved``, for the base's pins or the source's alone."""
        at_tag = f"{self.base.repository}:{self.base.tag}"
        found = {f"base image {at_tag}, {key}": why for key, why in sorted(self.base.unresolved.items()) if base}
        sources = sorted(self.source.unresolved.items())
        return found | {f"engine source {self.source_name}, {key}": why for key, why in sources if commit}


@dataclass(frozen=True, kw_only=True, slots=True)
class Images:
    """``folder`` is the one that holds the file, and the images' folders beside it."""

    folder: Path
    bases: Mapping[str, Base]
    sources: Mapping[str, Source]
    images: Mapping[str, ImageEntry]

    def choose(self, architecture: str, source: str) -> Image:
        """The image of an architecture with an engine source. Raises SpecError where there is none."""
        for name, entry in self.images.items():
            if entry.architecture != architecture:
                continue
            if source not in entry.sources:
                known = ", ".join(entry.sources)
                raise SpecError(f"image {name} has no engine source {source!r}: known: {known}; or give --image DIGEST")
            return self._image(name, entry, source)
        raise SpecError(
            f"no image for architecture {architecture}: known: {', '.join(sorted(self.images))}; add a table to "
            f"{RECORD_FILE}, or give --image DIGEST or --engine-env DIR"
        )

    def all(self) -> tuple[Image, ...]:
        """Every image with every of its sources."""
        return tuple(
            self._image(name, entry, source) for name, entry in self.images.items() for source in entry.sources
        )

    def _image(self, name: str, entry: ImageEntry, source: str) -> Image:
        return Image(
            name=name,
            source_name=source,
            entry=entry,
            base=self.bases[entry.base],
            source=self.sources[source],
        )


def demand_resolved(
    image: Image, *, allow_tag: bool, base_given: bool = False, commit_given: bool = False
) -> tuple[str, ...]:
    """What is not pinned and was allowed, one sentence each, to be recorded; empty if all is pinned.

    A base or a checkout that the user names replaces the pin. Raises UnavailableError for other unresolved pins without
    ``allow_tag``.
    """
    still_open = image.open_pins(base=not base_given, commit=not commit_given)
    notes = tuple(f"{pin} is unresolved: {why}" for pin, why in still_open.items())
    if notes and not allow_tag:
        raise UnavailableError(
            f"image {image.name}: {notes[0]}: run `python -m matrix images resolve` where there is a network, or take "
            "it as it is with --allow-tag, which is recorded"
        )
    return notes


def containers_folder() -> Path:
    """The folder of `images.toml`: in the wheel, or beside the packages in a checkout."""
    inside = Path(__file__).with_name("containers")
    return inside if (inside / RECORD_FILE).is_file() else Path(__file__).parents[2] / "containers"


def load_images(folder: Path | None = None) -> Images:
    """The images that come with graphrepro, or those of another folder. Raises SpecError, in one line."""
    place = folder or containers_folder()
    path = place / RECORD_FILE
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise SpecError(f"images {path}: {problem.strerror}: give a folder with {RECORD_FILE}") from problem
    return parse_images(data, folder=place)


def parse_images(data: bytes, *, folder: Path) -> Images:
    """Like :func:`load_images`, for text already read."""
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as problem:
        raise SpecError(f"{RECORD_FILE}: not UTF-8 at byte {problem.start}") from problem
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise SpecError(f"{RECORD_FILE}: not TOML: {problem}") from problem
    try:
        schemas.validate(document, "images", RECORD_FILE)
    except schemas.SchemaViolation as problem:
        raise SpecError(str(problem)) from problem
    del document["record"], document["schema_version"]
    images = _converter().structure({**document, "folder": folder}, Images)
    _check_names(images)
    _check_reasons(images)
    return images


def _check_names(images: Images) -> None:
    for name, entry in images.images.items():
        where = f"{RECORD_FILE}: /images/{name}"
        if entry.base not in images.bases:
            raise SpecError(f"{where}/base: no table bases.{entry.base}: known: {', '.join(sorted(images.bases))}")
        for source in entry.sources:
            if source not in images.sources:
                known = ", ".join(sorted(images.sources))
                raise SpecError(f"{where}/sources: no table sources.{source}: known: {known}")
        absent = sorted(set(entry.locks) - set(entry.files))
        if absent:
            raise SpecError(f"{where}/locks: {absent[0]} is not among its files")


def _check_reasons(images: Images) -> None:
    """Each unresolved pin has its reason, and no other key has one."""
    pins = [(f"/bases/{name}", {"digest": base.digest}, base.unresolved) for name, base in images.bases.items()]
    pins += [
        (f"/sources/{name}", {"commit": source.commit or ""}, source.unresolved)
        for name, source in images.sources.items()
    ]
    for where, values, reasons in pins:
        unresolved = {key for key, value in values.items() if value == UNRESOLVED}
        for key in sorted(unresolved ^ set(reasons)):
            problem = "is unresolved without a reason" if key in unresolved else "has a reason, and is not unresolved"
            raise SpecError(f"{RECORD_FILE}: {where}/unresolved/{key}: {key} {problem}")


@cache
def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook(Path, lambda value, _: value)
    return converter
