"""Everything that goes into one image, and its digest: same inputs, same digest."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from matrix.images import checkout as engine_checkout
from matrix.images.context import Context, Entry
from matrix.images.record import UNRESOLVED, Image
from matrix.images.wheelhouse import wheel_entries
from repro.errors import SpecError

LABEL = "graphrepro."
FOLDERS = ("engine", "patches", "wheels")


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """What the command line adds: a folder of wheels, another base, a checkout of the engine."""

    wheelhouse: Path | None = None
    base_image: str | None = None
    engine_checkout: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """``inputs_sha256`` covers the context, the base's id, the build arguments, the stage and the extra labels."""

    image: Image
    context: Context
    base_reference: str
    base_id: str
    build_arguments: Mapping[str, str]
    target: str
    context_sha256: str
    inputs_sha256: str

    @property
    def tag(self) -> str:
        return f"graphrepro/{self.image.name}-{self.image.source_name}:{self.inputs_sha256[:12]}"

    def labels(self, notes: tuple[str, ...]) -> dict[str, str]:
        """What the image says about itself; ``notes`` are the pins that were not resolved and were allowed."""
        image, arguments = self.image, self.build_arguments
        said = {
            "org.opencontainers.image.version": image.entry.engine_version,
            "org.opencontainers.image.base.name": self.base_reference,
            f"{LABEL}image": image.name,
            f"{LABEL}architecture": image.entry.architecture,
            f"{LABEL}engine_source": image.source_name,
            f"{LABEL}engine_version": image.entry.engine_version,
            f"{LABEL}engine_commit": arguments.get("ENGINE_COMMIT") or "none",
            f"{LABEL}base_id": self.base_id,
            f"{LABEL}build_arguments": _compact(arguments),
            f"{LABEL}context_sha256": self.context_sha256,
            f"{LABEL}context_files": _compact(self.context.file_digests()),
            f"{LABEL}inputs_sha256": self.inputs_sha256,
            f"{LABEL}unresolved": _compact(notes),
        }
        _, at, digest = self.base_reference.partition("@")
        return {**image.entry.labels, **said, **({"org.opencontainers.image.base.digest": digest} if at else {})}


def compose(image: Image, folder: Path, given: Given, *, base_id: str, target: str = "engine") -> Recipe:
    """The recipe of an image. Raises SpecError for files, wheels or a checkout that are missing."""
    commit = engine_commit(image, given)
    context = Context(files=context_files(image, folder, given, commit), folders=FOLDERS)
    base_reference = given.base_image or image.base.reference
    offered = {
        "BASE_IMAGE": base_reference,
        "ENGINE_KIND": image.source.kind,
        "ENGINE_VERSION": image.entry.engine_version,
        "ENGINE_REPOSITORY": image.source.repository or "",
        "ENGINE_COMMIT": commit,
        "TORCH_CUDA_ARCH_LIST": image.entry.torch_arch_list or "",
    }
    declared = _declared_arguments(context.files["Dockerfile"])
    arguments = {name: value for name, value in offered.items() if name in declared}
    context_sha256 = context.sha256()
    # The base enters by its id: two names of one image are the same input, and a moved tag is another.
    inputs = {
        "context": context_sha256,
        "base": base_id,
        "arguments": {name: value for name, value in arguments.items() if name != "BASE_IMAGE"},
        "target": target,
        "labels": dict(image.entry.labels),
    }
    return Recipe(
        image=image,
        context=context,
        base_reference=base_reference,
        base_id=base_id,
        build_arguments=arguments,
        target=target,
        context_sha256=context_sha256,
        inputs_sha256=hashlib.sha256(_compact(inputs).encode()).hexdigest(),
    )


def engine_commit(image: Image, given: Given) -> str:
    """The commit that is built; empty for a release. A checkout stands in for a commit that is not resolved."""
    source = image.source
    if source.kind == "release":
        return ""
    if source.kind == "local":
        if given.engine_checkout is None:
            raise SpecError(f"engine source {image.source_name}: name your checkout with --engine-checkout DIR")
        return engine_checkout.head(given.engine_checkout)
    if source.commit not in (None, UNRESOLVED):
        return str(source.commit)
    if given.engine_checkout is None:
        raise SpecError(
            f"engine source {image.source_name}: its commit is unresolved ({source.unresolved['commit']}): fill it in "
            "with `python -m matrix images resolve`, or name a checkout of it with --engine-checkout DIR"
        )
    found = engine_checkout.head(given.engine_checkout)
    if not re.fullmatch(r"[0-9a-f]{40}", found):
        raise SpecError(
            f"engine checkout {given.engine_checkout}: is at {found}: commit the changes first, or build it as the "
            "engine source `local`"
        )
    return found


def context_files(image: Image, folder: Path, given: Given, commit: str) -> dict[str, Entry]:
    """The files of the build context by path. Raises SpecError for one that is missing."""
    entry = image.entry
    own = {name: folder / entry.folder / name for name in ("Dockerfile", *entry.files)}
    shared = {name: folder / "shared" / name for name in entry.shared}
    patches = {f"patches/{patch.file}": folder / "patches" / patch.file for patch in image.source.patches}
    files = {name: Entry(content=path) for name, path in (own | shared | patches).items()}
    for path in (own | shared | patches).values():
        if not path.is_file():
            raise SpecError(f"image {image.name}: {path} is missing")
    if patches:
        sums = "".join(f"{patch.sha256}  {patch.file}\n" for patch in image.source.patches)
        files["patches/SHA256SUMS"] = Entry(content=sums.encode())
    if given.wheelhouse is not None:
        files |= wheel_entries(given.wheelhouse, [folder / entry.folder / name for name in entry.locks])
    if given.engine_checkout is not None and image.source.kind == "commit":
        files |= engine_checkout.committed(given.engine_checkout, commit)
    elif given.engine_checkout is not None and image.source.kind == "local":
        files |= engine_checkout.working_tree(given.engine_checkout)
    return files


def _declared_arguments(dockerfile: Entry) -> set[str]:
    text = b"".join(dockerfile.chunks()).decode("utf-8")
    return set(re.findall(r"^ARG\s+([A-Za-z_]\w*)", text, re.MULTILINE))


def _compact(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
