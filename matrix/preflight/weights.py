"""Are the weights whole? The index against the shards, and each shard against its own header; no tensor is read.

Format: a safetensors file begins with the length of a JSON header (8 bytes, little endian), the header names each
tensor with its place in what follows, and the last place is the end of the file.
"""

import json
import struct
from collections.abc import Mapping
from pathlib import Path

INDEX = "model.safetensors.index.json"
_LFS = b"version https://git-lfs"
_LONGEST_HEADER = 200 << 20


def problem_with(folder: Path) -> tuple[str, str] | None:
    """(what is wrong, what to do), or None if everything that the folder promises is there."""
    if not (folder / "config.json").is_file():
        return f"{folder.name}/config.json is missing", "name the folder that holds it, or download the model again"
    try:
        index = _index(folder)
        shards = {path.name: None for path in sorted(folder.glob("*.safetensors"))} if index is None else index
        if not shards:
            if any(folder.glob("*.bin")):
                return None
            return f"{folder.name}: no *.safetensors in it", "download the weights"
        return next((found for name, tensors in shards.items() if (found := _shard(folder, name, tensors))), None)
    except OSError as error:
        return (
            f"{folder.name}: {Path(error.filename or folder).name}: {error.strerror}",
            "see that this user may read it",
        )


def told(folder: Path) -> str:
    """Number and size of the weights, for a line that says that they are there."""
    files = [*folder.glob("*.safetensors"), *folder.glob("*.bin")]
    return f"{len(files)} files, {sum(file.stat().st_size for file in files) / (1 << 30):.1f} GiB"


def _index(folder: Path) -> Mapping[str, frozenset[str]] | None:
    """Shard -> the tensors that the index says it holds; None without an index."""
    path = folder / INDEX
    if not path.is_file():
        return None
    shards: dict[str, set[str]] = {}
    try:
        for tensor, shard in json.loads(path.read_bytes())["weight_map"].items():
            shards.setdefault(str(shard), set()).add(tensor)
    except (ValueError, KeyError, TypeError, AttributeError):
        return {INDEX: frozenset()}  # named as the file that cannot be read
    return {name: frozenset(tensors) for name, tensors in sorted(shards.items())}


def _shard(folder: Path, name: str, tensors: frozenset[str] | None) -> tuple[str, str] | None:
    path, again = folder / name, f"download {name} again"
    if not path.is_file():
        return f"{folder.name}: {name} is missing", again
    size = path.stat().st_size
    with path.open("rb") as stream:
        begin = stream.read(8)
        if begin and _LFS.startswith(begin):
            return f"{folder.name}: {name} is a Git LFS pointer, not the weights", "run `git lfs pull` in it"
        length = struct.unpack("<Q", begin)[0] if len(begin) == 8 else _LONGEST_HEADER + 1
        try:
            header = json.loads(stream.read(length)) if length <= _LONGEST_HEADER else {}
            places = {key: value["data_offsets"] for key, value in header.items() if key != "__metadata__"}
            end = 8 + length + max((int(place[1]) for place in places.values()), default=0)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            places = {}
        if not places:
            return f"{folder.name}: {name} is no safetensors file, or cut off in its header", again
    if size != end:
        return f"{folder.name}: {name} has {size} bytes, and its header says {end}", again
    missing = sorted((tensors or frozenset()) - places.keys())
    if missing:
        return f"{folder.name}: {name} lacks {missing[0]} ({len(missing)} tensors of the index)", again
    return None
