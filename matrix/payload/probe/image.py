"""What an image or environment holds: packages, GPU code in compiled libraries, launch flags, local patches."""

import importlib.util
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from probe import changes, fatbin, launch_flags, packages
from probe.facts import Unknown

ENGINE = "sglang"


def describe_image() -> dict[str, Any]:
    """The content of the record `image-probe`. Whatever cannot be told is null with a reason; nothing is imported."""
    versions = packages.installed()
    package = _package_folder()
    return {
        "python": platform.python_version(),
        "packages": versions,
        "engine_version": versions.get(ENGINE),
        "flags": _answer(lambda: list(launch_flags.flags_of(_needed(package)))),
        "changes": _answer(lambda: changes.changes(ENGINE, _needed(package))),
        "libraries": libraries([Path(folder) for folder in sys.path if folder.endswith("-packages")]),
    }


def libraries(folders: list[Path]) -> list[dict[str, Any]]:
    """Each library with GPU code below the folders: its path there, and its code; those that cannot be read with a
    reason. Libraries without GPU code are left out."""
    found: list[dict[str, Any]] = []
    for folder in folders:
        for path in sorted(folder.rglob("*.so*")):
            if path.is_symlink() or not path.is_file():
                continue
            name = path.relative_to(folder).as_posix()
            try:
                code = fatbin.code_of(path)
            except fatbin.NotReadable as problem:
                if ".so" in path.suffixes:
                    found.append({"path": name, "code": None, "reason": str(problem)})
                continue
            if code:
                found.append({"path": name, "code": list(code), "reason": None})
    return found


def _package_folder() -> Path | None:
    spec = importlib.util.find_spec(ENGINE)
    places = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(places))) if places else None


def _needed(package: Path | None) -> Path:
    if package is None:
        raise Unknown(f"{ENGINE} is not installed beside the probe")
    return package


def _answer(ask: Callable[[], object]) -> dict[str, object]:
    """The value, or null with the reason."""
    try:
        return {"value": ask(), "reason": None}
    except Unknown as problem:
        return {"value": None, "reason": str(problem)}
    except (OSError, ValueError, SyntaxError) as problem:
        return {"value": None, "reason": f"{type(problem).__name__}: {problem}".splitlines()[0][:200]}
