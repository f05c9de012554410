"""The build context: the same files give the same bytes, whoever packs them, when and where."""

import hashlib
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from repro.errors import SpecError

MOMENT = 315_532_800
"""1980-01-01, the modification time of every entry: zip files, which wheels are, know nothing older."""
CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A file of the context. ``content`` is the bytes themselves, or the file that has them."""

    content: bytes | Path
    executable: bool = False

    def size_bytes(self) -> int:
        """Raises SpecError if the file cannot be read."""
        if isinstance(self.content, bytes):
            return len(self.content)
        try:
            return self.content.stat().st_size
        except OSError as problem:
            raise _unreadable(self.content, problem) from problem

    def chunks(self) -> Iterator[bytes]:
        """The content in pieces. Raises SpecError if the file cannot be read."""
        if isinstance(self.content, bytes):
            yield self.content
            return
        try:
            with self.content.open("rb") as file:
                while piece := file.read(CHUNK):
                    yield piece
        except OSError as problem:
            raise _unreadable(self.content, problem) from problem


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """``files`` by their path in the context, with forward slashes. ``folders`` exist even when nothing is in them."""

    files: Mapping[str, Entry]
    folders: tuple[str, ...] = ()

    def tar(self) -> Iterator[bytes]:
        """An uncompressed tar: sorted, owned by nobody in particular, one moment, plain modes (0644, 0755)."""
        paths = [*self.files, *(f"{folder}/" for folder in self._all_folders())]
        for path in sorted(paths):
            if path.endswith("/"):
                yield _header(path.rstrip("/"), tarfile.DIRTYPE, 0, 0o755)
                continue
            entry = self.files[path]
            size = entry.size_bytes()
            yield _header(path, tarfile.REGTYPE, size, 0o755 if entry.executable else 0o644)
            yield from _padded(path, size, entry.chunks())
        yield b"\0" * (2 * tarfile.BLOCKSIZE)

    def sha256(self) -> str:
        """Digest of the tar."""
        digest = hashlib.sha256()
        for piece in self.tar():
            digest.update(piece)
        return digest.hexdigest()

    def file_digests(self) -> dict[str, str]:
        """Path -> the first twelve digits of the file's SHA-256: enough to say which file differs."""
        found = {}
        for path, entry in sorted(self.files.items()):
            digest = hashlib.sha256()
            for piece in entry.chunks():
                digest.update(piece)
            found[path] = digest.hexdigest()[:12]
        return found

    def _all_folders(self) -> set[str]:
        named = {*self.folders, *(path.rpartition("/")[0] for path in self.files)} - {""}
        parts = [folder.split("/") for folder in named]
        return {"/".join(part[:depth]) for part in parts for depth in range(1, len(part) + 1)}


def folder_entries(folder: Path, prefix: str) -> dict[str, Entry]:
    """All files below a folder, by their path below ``prefix``; byte code and version control left out.

    Raises SpecError for a symbolic link that leads out of the folder.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if {"__pycache__", ".git"} & set(inside.parts) or not path.is_file():
            continue
        if not path.resolve().is_relative_to(folder.resolve()):
            raise SpecError(f"{path}: is a link that leads out of {folder}: replace it by the file")
        found[f"{prefix}/{inside.as_posix()}"] = Entry(content=path, executable=bool(path.stat().st_mode & 0o100))
    return found


def _header(path: str, kind: bytes, size_bytes: int, mode: int) -> bytes:
    entry = tarfile.TarInfo(path)
    entry.type, entry.size, entry.mode, entry.mtime = kind, size_bytes, mode, MOMENT
    return entry.tobuf(format=tarfile.PAX_FORMAT)


def _padded(path: str, size_bytes: int, chunks: Iterator[bytes]) -> Iterator[bytes]:
    left = size_bytes
    for piece in chunks:
        left -= len(piece)
        yield piece
    if left:
        raise SpecError(f"{path}: changed while it was packed: let the folder rest, then build again")
    yield b"\0" * (-size_bytes % tarfile.BLOCKSIZE)


def _unreadable(path: Path, problem: OSError) -> SpecError:
    return SpecError(f"{path}: {problem.strerror}: the build needs it")
