"""`python -m matrix images …`: list, build, probe and resolve."""

import argparse
import sys
from pathlib import Path

from matrix.arguments import EngineChoice
from matrix.engines.overlay import load_overlay
from matrix.images.record import load_images
from matrix.spec import load_spec
from repro.errors import UnavailableError


def add_images_commands(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`images` and its own commands, each with ``command`` set to what does it."""
    images = subparsers.add_parser("images", help="container images: list, build, probe, resolve", allow_abbrev=False)
    commands = images.add_subparsers(required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="images and their open pins", allow_abbrev=False)
    listing.set_defaults(command=list_command)
    building = commands.add_parser("build", help="build the image of a target", allow_abbrev=False)
    _add_choice(building)
    building.add_argument("--wheelhouse", type=Path, metavar="DIR", help="wheels to build from, without a network")
    building.add_argument("--base-image", metavar="REF", help="start from this image instead")
    building.add_argument("--engine-checkout", type=Path, metavar="DIR", help="checkout of SGLang with the source")
    building.add_argument("--allow-tag", action="store_true", help="build although a pin is unresolved; recorded")
    building.add_argument("--target", default="engine", metavar="STAGE", help="stop after this stage of the Dockerfile")
    building.set_defaults(command=build_command)
    probing = commands.add_parser("probe", help="what an image or environment holds", allow_abbrev=False)
    what = probing.add_mutually_exclusive_group(required=True)
    what.add_argument("--image", metavar="REF", help="a local image")
    what.add_argument("--engine-env", type=Path, metavar="DIR", help="a Python environment with the engine")
    probing.add_argument(
        "--spec", required=True, metavar="S", help="target whose architecture and cells it is held against"
    )
    probing.add_argument("--engine-overlay", type=Path, metavar="FILE", help="how it differs from a release")
    probing.add_argument("--json", action="store_true", help="print the record `image-probe`")
    probing.set_defaults(command=probe_command)
    resolving = commands.add_parser("resolve", help="look up unresolved pins, and write them down", allow_abbrev=False)
    resolving.set_defaults(command=resolve_command)
    for parser in (listing, building, resolving):
        parser.add_argument(
            "--containers",
            type=Path,
            metavar="DIR",
            help="folder with images.toml; default: the one that comes with graphrepro",
        )


def list_command(options: argparse.Namespace) -> int:
    """Prints one line for each image and source. Exit status 0."""
    from tabulate import tabulate

    rows = [
        [image.name, image.source_name, image.entry.engine_version, image.base.reference, "; ".join(image.unresolved)]
        for image in load_images(options.containers).all()
    ]
    _print(tabulate(rows, headers=["image", "source", "engine", "base", "unresolved"], disable_numparse=True))
    return 0


def build_command(options: argparse.Namespace) -> int:
    """Prints the image's id. Exit status 0; 4 if the build fails or Docker is missing."""
    from matrix.images.daemon import connected
    from matrix.images.prepare import prepare
    from matrix.images.recipe import Given

    spec, images = load_spec(options.spec), load_images(options.containers)
    given = Given(wheelhouse=options.wheelhouse, base_image=options.base_image, engine_checkout=options.engine_checkout)
    with connected() as client:
        prepared = prepare(
            client,
            spec,
            images,
            given,
            source=options.source,
            allow_tag=options.allow_tag,
            target=options.target,
            progress=_tell,
        )
    built, recipe = prepared.built, prepared.recipe
    for note in prepared.notes:
        _tell(f"allowed: {note}")
    if built.difference is not None:
        _tell(f"differs from the image before: {built.difference}")
    how = f"built in {built.seconds:.0f} s" if built.fresh else "the same inputs as before: nothing built"
    _tell(f"{built.tag}: {how}, {built.size_bytes / 1e9:.2f} GB; context {recipe.context_sha256[:12]}")
    _print(built.id)
    return 0


def probe_command(options: argparse.Namespace) -> int:
    """Exit status 0; 4 if the engine in it cannot run on the target's architecture."""
    from matrix.images.architecture import demand_architecture
    from matrix.images.daemon import connected
    from matrix.images.probe import probe_environment, probe_image
    from matrix.images.told import grouped, told, unsupported_cells
    from matrix.promptset import payload_dir

    spec = load_spec(options.spec)
    if options.image is not None:
        where = f"image {options.image}"
        with connected() as client:
            found = probe_image(client, options.image, payload_dir())
    else:
        where = f"engine environment {options.engine_env}"
        found = probe_environment(options.engine_env / "bin" / "python", payload_dir())
    architecture = spec.hardware.architecture
    _print(found.text if options.json else told(found, architecture))
    for reason, cells in grouped(unsupported_cells(spec, _engines(options), found)).items():
        _tell(f"unsupported: {reason}: {', '.join(cells)}")
    demand_architecture(found.gpu_code(), architecture, where=where, unreadable=found.unreadable())
    return 0


def resolve_command(options: argparse.Namespace) -> int:
    """Exit status 0 if no pin is left open, else 4: what could be looked up is written down all the same."""
    from matrix.images.daemon import connected
    from matrix.images.resolve import resolve

    images = load_images(options.containers)
    try:
        with connected() as client:
            resolution = resolve(images, client)
    except UnavailableError as problem:
        _tell(f"{problem}; going on without a registry")
        resolution = resolve(images, None)
    for sentence in resolution.found:
        _print(sentence)
    if resolution.failed:
        more = f" (and {len(resolution.failed) - 1} more)" if len(resolution.failed) > 1 else ""
        raise UnavailableError(f"{resolution.failed[0]}{more}: it stays unresolved; try again where there is a network")
    _tell("no pin is unresolved")
    return 0


def _engines(options: argparse.Namespace) -> EngineChoice:
    return EngineChoice(overlay=load_overlay(str(options.engine_overlay)) if options.engine_overlay else None)


def _add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--spec", required=True, metavar="S", help="target whose image it is")
    parser.add_argument("--source", metavar="NAME", help="engine source, instead of the spec's own")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
