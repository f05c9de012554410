"""The programs that a bundle brings along: its own `verify.py` and `replay.py`, and the attempt program.

They are read as data: nothing of them is imported here.
"""

from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from repro.errors import UnavailableError
from repro.model import Step

_ALWAYS = ("attempt", "probe")
_WHERE_NEEDED = ("simulated", "cpu", "dummy")
_NOT_PACKED = frozenset({"__pycache__", "train.py"})
_LARGEST_BYTES = 16_000_000


def inside_files() -> dict[str, bytes]:
    """The files of `repro/bundle/inside/` by their name in a bundle, which is that of its root."""
    folder = resources.files("repro.bundle.inside")
    return {
        entry.name: entry.read_bytes()
        for entry in folder.iterdir()
        if entry.name.endswith(".py") and entry.name != "__init__.py"
    }


def payload_files(payload: Path, step: Step) -> dict[str, bytes]:
    """What the step starts beside the engine, by its path in a bundle; ``payload`` is the folder of the programs.

    The attempt program and its probe always; the simulated engine, what lets SGLang run on a CPU, and the making of
    dummy weights only where the step names them. Raises `UnavailableError` if the folder is not what it has to be.
    """
    words = [*step.argv, *step.environment.values()]
    named = {part for word in words for item in word.split(":") for part in item.split("/")}
    folders = [*_ALWAYS, *(folder for folder in _WHERE_NEEDED if folder in named)]
    roots = [payload / "__main__.py", *(payload / folder for folder in folders)]
    missing = [root.name for root in roots if not root.exists()]
    if missing:
        raise UnavailableError(f"{payload}: holds no {missing[0]}; install graphrepro again, or name the right folder")
    files = {}
    for path in sorted(path for root in roots for path in _below(root)):
        if path.stat().st_size > _LARGEST_BYTES:
            raise UnavailableError(f"{path}: is too large for the attempt program; clean the installation")
        files[f"payload/{path.relative_to(payload).as_posix()}"] = path.read_bytes()
    return files


def _below(path: Path) -> Iterator[Path]:
    """The files of a folder, without caches, links and what only development needs."""
    if path.is_symlink() or path.name in _NOT_PACKED:
        return
    if path.is_file():
        yield path
        return
    for entry in path.iterdir():
        yield from _below(entry)
