"""Releases of SGLang whose code is asked: which ones, and their wheels at hand."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from repro.errors import SpecError

LIST = Path(__file__).with_name("releases.toml")
PLATFORM = ("--only-binary", ":all:", "--python-version", "3.11", "--platform", "manylinux_2_34_x86_64")
"""Of which wheels the list holds the hashes. Their Python code is that of every platform."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """A release of the list, and the SHA-256 of its wheel."""

    version: str
    wheel_sha256: str


@cache
def listed() -> tuple[Listed, ...]:
    """The list, oldest first."""
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))["release"]
    return tuple(Listed(version=entry["version"], wheel_sha256=entry["wheel_sha256"]) for entry in entries)


def chosen(versions: tuple[str, ...] | None) -> tuple[Listed, ...]:
    """Those of the list with these versions, all if None. Raises `SpecError` for one that is not on the list."""
    known = {release.version: release for release in listed()}
    for version in versions or ():
        if version not in known:
            raise SpecError(f"sglang {version} is not in {LIST.name}; add it, or give one of {', '.join(known)}")
    return tuple(known[version] for version in versions) if versions else listed()


def root(folder: str | None, version: str) -> str | None:
    """The wheel of a release in a folder, or that wheel unpacked there; None if it has neither."""
    if folder is None:
        return None
    wheels = sorted(Path(folder).glob(f"sglang-{version}-*.whl"))
    names = (f"sglang-{version}", f"sglang-{version}-*")
    unpacked = [path for name in names for path in Path(folder).glob(name) if (path / "sglang").is_dir()]
    return next((str(path) for path in (*unpacked, *wheels)), None)


def missing(folder: str, versions: tuple[str, ...] | None = None) -> tuple[Listed, ...]:
    """Releases of the list that the folder has no wheel of."""
    return tuple(release for release in chosen(versions) if root(folder, release.version) is None)


def requirement(release: Listed) -> str:
    """One line of a requirements file, for `pip download --no-deps` with `PLATFORM`."""
    return f"sglang=={release.version} --hash=sha256:{release.wheel_sha256}"
