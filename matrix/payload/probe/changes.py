"""Local patches: which files of the installed engine are not those that its wheel brought."""

import base64
import hashlib
import importlib.metadata
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path

from probe.facts import Unknown, Value

SUFFIXES = (".py", ".json", ".cu", ".cuh", ".h", ".cpp", ".so")
"""Files that make a difference when they are new; the byte code that Python writes does not."""


MOST_NAMED = 20
"""Files of each kind that the fact names; a build with more is no patched release."""


def engine_patches() -> Mapping[str, Value]:
    """Fact `engine_patches`: `none`, or such as `changed: a.py, b.py; added: c.py`. Raises Unknown."""
    spec = importlib.util.find_spec("sglang")
    places = spec.submodule_search_locations if spec is not None else None
    if not places:
        raise Unknown("sglang is not installed beside the attempt program")
    found = changes("sglang", Path(next(iter(places))))
    return {"engine_patches": "; ".join(_named(kind, paths) for kind, paths in found.items() if paths) or "none"}


def _named(kind: str, paths: list[str]) -> str:
    more = len(paths) - MOST_NAMED
    return f"{kind}: {', '.join(paths[:MOST_NAMED])}" + (f" and {more} more" if more > 0 else "")


def changes(name: str, package: Path) -> dict[str, list[str]]:
    """``changed``, ``added`` and ``missing`` files of a package's folder against its RECORD, sorted.

    Raises Unknown where there is no RECORD to compare with.
    """
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise Unknown(f"{name} is not installed as a package") from None
    if _is_editable(distribution):
        raise Unknown(f"{name} is installed from a checkout (editable): no RECORD says what its files were")
    recorded = {str(file): file.hash for file in distribution.files or () if file.parts[0] == package.name}
    if not any(recorded.values()):
        raise Unknown(f"{name} has no RECORD with digests")
    root = package.parent
    present = {path.relative_to(root).as_posix() for path in package.rglob("*") if path.is_file()}
    changed = [
        path
        for path, expected in recorded.items()
        if expected is not None and path in present and _digest(root / path, expected.mode) != expected.value
    ]
    added = [path for path in present - recorded.keys() if path.endswith(SUFFIXES)]
    missing = [path for path in recorded.keys() - present if "__pycache__" not in path]
    return {"changed": sorted(changed), "added": sorted(added), "missing": sorted(missing)}


def _is_editable(distribution: importlib.metadata.Distribution) -> bool:
    said = distribution.read_text("direct_url.json")
    return said is not None and bool(json.loads(said).get("dir_info", {}).get("editable"))


def _digest(path: Path, algorithm: str) -> str:
    """As RECORD spells it (PEP 376: URL-safe base64 without padding)."""
    digest = hashlib.new(algorithm, path.read_bytes()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
