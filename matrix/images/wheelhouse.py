"""Which wheels of a folder belong into a build: those that the locks name, and pip itself."""

import re
from collections.abc import Iterable
from pathlib import Path

from matrix.images.context import Entry
from repro.errors import SpecError

_LOCKED = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s;\\]+)\s*(?P<marker>;)?")


def wheel_entries(folder: Path, locks: Iterable[Path]) -> dict[str, Entry]:
    """Entries `wheels/NAME.whl`. Other wheels in the folder stay out, so they do not change the image's inputs.

    Raises SpecError for a folder that lacks a wheel of the locks (those with an environment marker may be absent), or
    that holds none of pip.
    """
    present = _wheels(folder)
    wanted: set[tuple[str, str]] = set()
    for lock in locks:
        for name, version, optional in locked(lock.read_text(encoding="utf-8")):
            if (name, version) in present:
                wanted.add((name, version))
            elif not optional:
                raise SpecError(
                    f"wheelhouse {folder}: no wheel of {name} {version}, which {lock.name} locks: fill it with "
                    f"`pip download --no-deps --dest {folder} --requirement {lock}`"
                )
    pips = sorted((_order(version), version) for name, version in present if name == "pip")
    if not pips:
        raise SpecError(f"wheelhouse {folder}: no wheel of pip: fill it with `pip download --dest {folder} pip`")
    wanted.add(("pip", pips[-1][1]))
    return {f"wheels/{path.name}": Entry(content=path) for key in sorted(wanted) for path in present[key]}


def locked(text: str) -> list[tuple[str, str, bool]]:
    """(normalised name, version, whether it has an environment marker) of each `name==version` line."""
    found = [match for line in text.splitlines() if (match := _LOCKED.match(line))]
    return [(_normal(match["name"]), match["version"], match["marker"] is not None) for match in found]


def _wheels(folder: Path) -> dict[tuple[str, str], list[Path]]:
    """(name, version without its local part) -> files: one for each platform tag."""
    if not folder.is_dir():
        raise SpecError(f"wheelhouse {folder}: is no folder")
    found: dict[tuple[str, str], list[Path]] = {}
    for path in sorted(folder.glob("*.whl")):
        name, version = path.name.split("-")[:2]
        found.setdefault((_normal(name), version.partition("+")[0]), []).append(path)
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
