"""Whether a bundle is what its manifest says. Standard library only, Python 3.10 and newer; opening executes nothing.

Every bundle holds this file as it is, and graphrepro imports it: `python verify.py FILE [--digest HEX]`, exit status 0
or 6. A bundle is a zip archive of one strict form, in which no byte is free: headers are compared field by field, and
the manifest, the last entry, holds the hash of all bytes before it. The archive is read once, into memory.
"""

import argparse
import hashlib
import json
import math
import os
import re
import stat
import struct
import sys
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

LARGEST_ARCHIVE_BYTES = 25_000_000
LARGEST_UNPACKED_BYTES = 200_000_000
LARGEST_FILE_BYTES = 64_000_000
MOST_FILES = 2000
HIGHEST_RATIO = 100
RATIO_FROM_BYTES = 1_000_000
"""Smaller files may unpack to more than `HIGHEST_RATIO` times their packed size: they cannot hurt."""

MANIFEST, ISSUE, REPLAY = "manifest.json", "ISSUE.md", "replay.json"
REQUIRED = (ISSUE, "verify.py")
MANIFEST_VERSION = 1
DOS_TIME, DOS_DATE = 0, 0x21  # 1980-01-01, the first moment that a zip archive can say
MADE_BY, NEEDED = 0x0314, 20  # by Unix, version 2.0: deflate, and nothing newer
PLAIN, EXECUTABLE = 0o100644, 0o100755

_END = struct.Struct("<4s4H2LH")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_BLOCK_BYTES = 1 << 16
_LONGEST_NAME = 400
_ABOUT = "a bundle is written by `python -m repro pack`"
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_NAME_TEXT = re.compile(r"[A-Za-z0-9_.+=@,~()-]+(?: [A-Za-z0-9_.+=@,~()-]+)*")


class RefusedError(Exception):
    """The file is no bundle that may be used: `problems`, one clear line each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class Entry:
    """One file of the archive. `begins`: where its data begin; `header_begins`: where its local header does."""

    name: str
    method: int
    crc: int
    packed_bytes: int
    size_bytes: int
    header_begins: int
    begins: int


@dataclass(frozen=True)
class Verification:
    """`problems` is empty exactly when the bundle may be used. `digest` is None where none could be computed."""

    digest: str | None
    files: int
    size_bytes: int
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


def mode_of(name: str) -> int:
    """The mode that a file of a bundle has: a function of its name."""
    return EXECUTABLE if name.endswith(".sh") else PLAIN


def digest_of(manifest: dict[str, Any], without: tuple[str, ...] = ()) -> str:
    """The digest of a bundle with this manifest: over the lines that `sha256sum` prints of its files, sorted by path,
    and of the manifest's other facts in canonical JSON. `ISSUE.md`, which quotes it, is not among them, nor are the
    files `without`."""
    files = {item["path"]: item for item in manifest["files"] if item["path"] not in (ISSUE, *without)}
    facts = {name: value for name, value in manifest.items() if name not in ("digest", "archive_sha256", "files")}
    facts["cut"] = {path: item["cut"] for path, item in files.items() if item["cut"] is not None}
    raw = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    lines = [f"{files[path]['sha256']}  {path}\n" for path in sorted(files)]
    lines.append(f"{hashlib.sha256(raw).hexdigest()}  {MANIFEST}\n")
    return hashlib.sha256("".join(lines).encode("utf-8")).hexdigest()


def headers(name: str, *, method: int, crc: int, packed: int, size: int, begins: int) -> tuple[bytes, bytes]:
    """(local header, central header) of a file of a bundle: every byte of them follows from the arguments."""
    raw = name.encode("ascii")
    sizes = (crc, packed, size, len(raw), 0)
    local = _LOCAL.pack(b"PK\x03\x04", NEEDED, 0, method, DOS_TIME, DOS_DATE, *sizes)
    place = (0, 0, 0, mode_of(name) << 16, begins)
    central = _CENTRAL.pack(b"PK\x01\x02", MADE_BY, NEEDED, 0, method, DOS_TIME, DOS_DATE, *sizes, *place)
    return local + raw, central + raw


def end_record(entries: int, directory_bytes: int, begins: int) -> bytes:
    """What the archive ends with. ``begins``: where the central directory does."""
    return _END.pack(b"PK\x05\x06", 0, 0, entries, entries, directory_bytes, begins, 0)


def overhead_bytes(name: str) -> int:
    """What the headers of a file take."""
    return _LOCAL.size + _CENTRAL.size + 2 * len(name)


def said(text: str) -> str:
    """A name out of the archive, harmless and short."""
    shown = ascii(text)
    return shown if len(shown) <= 120 else shown[:110] + "…'"


def name_problem(name: str) -> str | None:
    """Why a file of a bundle may not be called so; None if it may."""
    parts = name.split("/")
    reasons = (
        (re.search(r"[\x00-\x1f\x7f-\x9f]", name), "has control characters in its name"),
        ("\\" in name, "has a backslash in its name"),
        (name.startswith("/"), "has an absolute path"),
        (re.match(r"[A-Za-z]:", name), "has a drive in its path"),
        (".." in parts, "leads out of the bundle with `..`"),
        (len(name) > _LONGEST_NAME, f"has a name of more than {_LONGEST_NAME} characters"),
        (name.endswith("/"), "is a folder, and a bundle holds files only"),
        (not name.isascii(), "has a name that is not plain ASCII"),
        (
            "." in parts or not all(_NAME_TEXT.fullmatch(part) for part in parts),
            "has a name that is not the same on every system",
        ),
        (
            any(part.endswith(".") or _DEVICES.fullmatch(part) for part in parts),
            "has a name that some systems cannot have",
        ),
    )
    return next((reason for is_so, reason in reasons if is_so), None)


class Archive:
    """A bundle in memory, its structure checked. Raises `RefusedError` if that is not the one of a bundle."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.entries = {entry.name: entry for entry in _entries(data)}

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Archive":
        """Raises `RefusedError` for what is no bundle, OSError if the file cannot be read."""
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
            raise RefusedError("is not a regular file")  # to open a pipe would wait for ever
        with open(path, "rb") as stream:  # noqa: PTH123
            data = stream.read(LARGEST_ARCHIVE_BYTES + 1)
        if len(data) > LARGEST_ARCHIVE_BYTES:
            raise RefusedError(f"is larger than {LARGEST_ARCHIVE_BYTES:,} bytes, the most that a bundle may have")
        return cls(data)

    def blocks(self, name: str) -> Iterator[bytes]:
        """The unpacked file in blocks, never more than its stated size. Raises `RefusedError` if it is not that."""
        entry = self.entries[name]
        unpack = zlib.decompressobj(-15)
        crc, size, end = 0, 0, entry.begins + entry.packed_bytes
        try:
            for begin in range(entry.begins, end, _BLOCK_BYTES):
                pending = self.data[begin : min(begin + _BLOCK_BYTES, end)]
                while pending:
                    block = unpack.decompress(pending, _BLOCK_BYTES) if entry.method else pending
                    pending = unpack.unconsumed_tail if entry.method else b""
                    size += len(block)
                    if size > entry.size_bytes:
                        raise RefusedError(f"{said(name)}: unpacks to more than its header says")
                    crc = zlib.crc32(block, crc)
                    yield block
        except zlib.error:
            raise RefusedError(f"{said(name)}: its compressed data are damaged") from None
        ended = not entry.method or (unpack.eof and not unpack.unused_data)
        if size != entry.size_bytes or crc != entry.crc or not ended:
            raise RefusedError(f"{said(name)}: its data are not those that its header describes (size or CRC-32)")

    def content(self, name: str) -> bytes:
        """A file, unpacked. Raises `RefusedError` as `blocks` does, KeyError if there is no such file."""
        return b"".join(self.blocks(name))

    def sha256(self, name: str) -> str:
        """The hash of a file, unpacked in bounded memory. Raises as `content` does."""
        found = hashlib.sha256()
        for block in self.blocks(name):
            found.update(block)
        return found.hexdigest()

    def manifest(self) -> dict[str, Any]:
        """The manifest, in which every field is what it has to be. Raises `RefusedError`."""
        if MANIFEST not in self.entries:
            raise RefusedError(f"has no {MANIFEST}; {_ABOUT}")
        if self.entries[MANIFEST].method:
            raise RefusedError(f"{MANIFEST}: is compressed, and may not be")
        return _checked_manifest(self.content(MANIFEST))


def _checked_manifest(raw: bytes) -> dict[str, Any]:
    document = _parsed(raw, MANIFEST)
    problems = [f"{MANIFEST}: {problem}" for problem in manifest_problems(document)]
    if not problems and raw != json.dumps(document, indent=2, ensure_ascii=False).encode("utf-8") + b"\n":
        problems.append(f"{MANIFEST}: is not written as graphrepro writes it")
    if problems:
        raise RefusedError(*problems[:10])
    return document  # type: ignore[no-any-return]


def verify(path: str | os.PathLike[str], digest: str | None = None) -> Verification:
    """What is wrong with the file as a bundle. `digest` is the one that an issue quotes. Raises OSError if the file
    cannot be read."""
    try:
        archive = Archive.read(path)
    except RefusedError as refusal:
        return Verification(None, 0, os.stat(path).st_size, refusal.problems)  # noqa: PTH116
    return checked(archive, digest)


def checked(archive: Archive, digest: str | None = None) -> Verification:
    """As `verify`, of an archive that was read."""
    hashes: dict[str, str] = {}
    problems: list[str] = []
    try:
        manifest = archive.manifest()
        for name in archive.entries:
            if name != MANIFEST:
                hashes[name] = archive.sha256(name)
        problems += _list_problems(manifest, hashes)
        problems += _archive_problems(archive, manifest, hashes)
    except RefusedError as refusal:
        return Verification(None, len(archive.entries), len(archive.data), refusal.problems)
    own = digest_of(manifest)
    problems += _digest_problems(own, manifest, digest)
    return Verification(own, len(archive.entries), len(archive.data), tuple(problems))


def extract(
    path: str | os.PathLike[str], destination: str | os.PathLike[str], digest: str | None = None
) -> Verification:
    """Write the files of a bundle below `destination`, a directory that is empty or not there. Nothing is written that
    did not verify. Raises `RefusedError`, and OSError if something cannot be read or written."""
    archive = Archive.read(path)
    found = checked(archive, digest)
    if not found.ok:
        raise RefusedError(*found.problems)
    os.makedirs(destination, exist_ok=True)  # noqa: PTH103
    if os.path.islink(destination) or os.listdir(destination):  # noqa: PTH114, PTH208
        raise RefusedError(f"{said(os.fspath(destination))}: is not an empty directory; name one that is")
    for name in archive.entries:
        target = os.path.join(destination, *name.split("/"))  # noqa: PTH118
        os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        with open(os.open(target, flags, mode_of(name) & 0o777), "wb") as stream:  # noqa: PTH123
            stream.writelines(archive.blocks(name))
    return found


def verify_folder(folder: str | os.PathLike[str], digest: str | None = None) -> Verification:
    """As `verify`, of an unpacked bundle: that its files are those of its manifest, no more and no fewer. The archive
    that they came from is not looked at. Raises OSError if something cannot be read."""
    paths: dict[str, str] = {}
    size = 0
    for place, folders, names in os.walk(folder):
        for name in sorted([*names, *(f for f in folders if os.path.islink(os.path.join(place, f)))]):  # noqa: PTH114, PTH118
            path = os.path.join(place, name)  # noqa: PTH118
            paths[os.path.relpath(path, folder).replace(os.sep, "/")] = path
    hashes: dict[str, str] = {}
    try:
        raw = _read_plain(paths[MANIFEST]) if MANIFEST in paths else None
        if raw is None:
            raise RefusedError(f"has no {MANIFEST}; {_ABOUT}")
        manifest = _checked_manifest(raw)
        for name, path in paths.items():
            data = _read_plain(path)
            size += len(data)
            if name != MANIFEST:
                hashes[name] = hashlib.sha256(data).hexdigest()
    except RefusedError as refusal:
        return Verification(None, len(paths), size, refusal.problems)
    problems = list(_list_problems(manifest, hashes))
    own = digest_of(manifest)
    problems += _digest_problems(own, manifest, digest)
    return Verification(own, len(paths), size, tuple(problems))


def _read_plain(path: str) -> bytes:
    if os.path.islink(path) or not os.path.isfile(path):  # noqa: PTH113, PTH114
        raise RefusedError(f"{said(path)}: is no plain file")
    with open(path, "rb") as stream:  # noqa: PTH123
        data = stream.read(LARGEST_FILE_BYTES + 1)
    if len(data) > LARGEST_FILE_BYTES:
        raise RefusedError(f"{said(path)}: is larger than any file of a bundle")
    return data


def _entries(data: bytes) -> list[Entry]:
    begins, count = _directory(data)
    limit = len(data) - _END.size
    entries: list[Entry] = []
    place = header = begins
    header = 0
    for number in range(1, count + 1):
        if place + _CENTRAL.size > limit or data[place : place + 4] != b"PK\x01\x02":
            raise RefusedError(f"its central directory is damaged at entry {number}")
        fields = _CENTRAL.unpack_from(data, place)
        name_bytes = data[place + _CENTRAL.size : place + _CENTRAL.size + fields[10]]
        place += _CENTRAL.size + fields[10] + fields[11] + fields[12]
        entry = _entry(data, fields, name_bytes, header, begins)
        header = entry.begins + entry.packed_bytes
        entries.append(entry)
    if place != limit or header != begins:
        raise RefusedError("holds data between its entries and its central directory, or behind it")
    _set_problems(entries)
    return entries


def _directory(data: bytes) -> tuple[int, int]:
    """(where the central directory begins, how many entries it has)."""
    if not data.startswith(b"PK\x03\x04"):
        hidden = b"PK\x03\x04" in data[: 1 << 20] and b"PK\x05\x06" in data[-(1 << 17) :]
        raise RefusedError("has bytes before its first entry" if hidden else f"is no zip archive; {_ABOUT}")
    end = data[-_END.size :]
    if len(end) < _END.size or end[:4] != b"PK\x05\x06":
        tail = b"PK\x05\x06" in data[-(1 << 17) :]
        raise RefusedError("has a comment or bytes behind its end" if tail else "is cut off: its end is missing")
    _, disk, first_disk, here, count, size, begins, comment = _END.unpack(end)
    if 0xFFFF in (disk, first_disk, here, count) or 0xFFFFFFFF in (size, begins):
        raise RefusedError("is a zip64 archive, which no bundle is")
    if disk or first_disk or here != count or comment or not count:
        raise RefusedError("its end record is not that of a bundle (parts, number of entries, comment)")
    if count > MOST_FILES + 1:
        raise RefusedError(f"has {count:,} entries, and a bundle at most {MOST_FILES:,}")
    if begins + size != len(data) - _END.size:
        raise RefusedError("its central directory is not where its end record says: something was added or removed")
    return begins, count


def _entry(data: bytes, fields: tuple[Any, ...], name_bytes: bytes, header: int, limit: int) -> Entry:
    """The entry of a central header, held against its local one, which has to begin at `header`."""
    _, made, needed, flags, method, time, date, crc, packed, size, name_length, extra, comment = fields[:13]
    disk, internal, external, offset = fields[13:]
    name = name_bytes.decode("utf-8" if flags & 0x800 else "latin-1", "replace")
    where = said(name)
    wrong = name_problem(name)
    if wrong:
        raise RefusedError(f"{where}: {wrong}")
    if flags:
        why = "is encrypted" if flags & 0x2041 else "has flags set that no file of a bundle has"
        raise RefusedError(f"{where}: {why}")
    if method not in (0, 8):
        raise RefusedError(f"{where}: is packed by method {method}; only 0 (stored) and 8 (deflated) are allowed")
    if extra or comment or 0xFFFFFFFF in (packed, size, offset):
        raise RefusedError(f"{where}: has extra fields, a comment or zip64 sizes")
    mode = external >> 16
    if stat.S_ISLNK(mode):
        raise RefusedError(f"{where}: is a symbolic link")
    if external != mode_of(name) << 16:
        raise RefusedError(f"{where}: has mode {mode:o}, and not the one of a plain file")
    if (made, needed, time, date, disk, internal) != (MADE_BY, NEEDED, DOS_TIME, DOS_DATE, 0, 0):
        raise RefusedError(f"{where}: its header was not written by graphrepro (version, date or attributes)")
    _size_problem(where, method, packed, size)
    if offset != header or header + _LOCAL.size + name_length + packed > limit:
        raise RefusedError(f"{where}: does not begin where the entry before it ends: data are hidden or overlap")
    local, central = headers(name, method=method, crc=crc, packed=packed, size=size, begins=header)
    begins = header + len(local)
    if data[header:begins] != local:
        raise RefusedError(f"{where}: its two headers do not say the same")
    if _CENTRAL.pack(*fields) + name_bytes != central:
        raise RefusedError(f"{where}: its header is not that of a file of a bundle")
    return Entry(name, method, crc, packed, size, header, begins)


def _size_problem(where: str, method: int, packed: int, size: int) -> None:
    if size > LARGEST_FILE_BYTES:
        raise RefusedError(f"{where}: unpacks to {size:,} bytes, and a file may have {LARGEST_FILE_BYTES:,}")
    if size > RATIO_FROM_BYTES and size > packed * HIGHEST_RATIO:
        raise RefusedError(f"{where}: unpacks to more than {HIGHEST_RATIO} times its packed size")
    if not method and packed != size:
        raise RefusedError(f"{where}: is stored, and yet its two sizes differ")


def _set_problems(entries: list[Entry]) -> None:
    """What is wrong with the entries together."""
    seen: dict[str, str] = {}
    for entry in entries:
        folded = unicodedata.normalize("NFKC", entry.name).casefold()
        if folded in seen:
            raise RefusedError(f"{said(entry.name)}: the name is there twice (as {said(seen[folded])})")
        seen[folded] = entry.name
    for folded, name in seen.items():
        parents = folded.split("/")[:-1]
        if any("/".join(parents[: depth + 1]) in seen for depth in range(len(parents))):
            raise RefusedError(f"{said(name)}: lies below a file")
    if sum(entry.size_bytes for entry in entries) > LARGEST_UNPACKED_BYTES:
        raise RefusedError(f"unpacks to more than {LARGEST_UNPACKED_BYTES:,} bytes")
    names = [entry.name for entry in entries]
    if MANIFEST in names and names[-1] != MANIFEST:
        raise RefusedError(f"{MANIFEST} is not the last entry: {said(names[-1])} stands behind it")
    if names[:-1] != sorted(names[:-1]):
        raise RefusedError("its entries are not in order")


def _list_problems(manifest: dict[str, Any], hashes: dict[str, str]) -> Iterator[str]:
    """Where the files are not those that the manifest names."""
    listed = {item["path"]: item["sha256"] for item in manifest["files"]}
    if len(listed) != len(manifest["files"]):
        yield f"{MANIFEST}: names a file twice"
    yield from (f"{name}: is missing; every bundle has one" for name in REQUIRED if name not in hashes)
    for name in sorted(listed.keys() | hashes.keys()):
        if name not in hashes:
            yield f"{said(name)}: is in the manifest and not in the bundle"
        elif name not in listed:
            yield f"{said(name)}: is in the bundle and not in the manifest"
        elif hashes[name] != listed[name]:
            yield f"{said(name)}: its SHA-256 is not that of the manifest"


def _digest_problems(own: str, manifest: dict[str, Any], asked: str | None) -> Iterator[str]:
    if manifest["digest"] != own:
        yield f"{MANIFEST}: its digest is not the one of what it says, which is {own}"
    if asked is not None and asked.strip().lower() != own:
        yield f"its digest is {own}, not the one that was asked for: it is another bundle, or a forged one"


def _archive_problems(archive: Archive, manifest: dict[str, Any], hashes: dict[str, str]) -> Iterator[str]:
    """What the bundle says of itself that is not so."""
    for item in manifest["files"]:
        if item["path"] in hashes and archive.entries[item["path"]].size_bytes != item["size_bytes"]:
            yield f"{said(item['path'])}: its size is not that of the manifest"
    before = memoryview(archive.data)[: archive.entries[MANIFEST].header_begins]
    if hashlib.sha256(before).hexdigest() != manifest["archive_sha256"]:
        yield f"{MANIFEST}: archive_sha256 is not that of the archive: it was packed again or changed"
    own = digest_of(manifest)
    if ISSUE in hashes and own.encode() not in archive.content(ISSUE):
        yield f"{ISSUE}: does not quote the digest {own}"
    if REPLAY in hashes:
        replayed = digest_of(manifest, without=(REPLAY,))
        record = _parsed(archive.content(REPLAY), REPLAY)
        if not isinstance(record, dict) or record.get("bundle_digest") != replayed:
            yield f"{REPLAY}: is of another bundle, and says nothing of this one"
    for name, entry in archive.entries.items():
        if entry.method and entry.packed_bytes >= entry.size_bytes:  # empty blocks hold what is unpacked by nobody
            yield f"{said(name)}: is compressed, and takes no less for it, as no file of a bundle does"


def _parsed(raw: bytes, name: str) -> Any:
    """Strict JSON: no key twice, no NaN, no number that 64 bits cannot say. Raises `RefusedError`."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(found)) != len(found):
            raise ValueError("holds a key twice")
        return dict(found)

    def constant(text: str) -> Any:
        raise ValueError(f"holds {text}")

    def integer(text: str) -> int:
        if len(text) > 20 or abs(int(text)) > 2**63 - 1:
            raise ValueError("holds an integer of more than 64 bits")
        return int(text)

    try:
        document = json.loads(raw.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant, parse_int=integer)
        json.dumps(document, ensure_ascii=False).encode("utf-8")
        return document
    except json.JSONDecodeError as error:
        problem = f"is not JSON (line {error.lineno})"
    except (UnicodeDecodeError, UnicodeEncodeError):
        problem = "is not UTF-8 text"
    except RecursionError:
        problem = "is nested too deeply"
    except ValueError as error:
        problem = str(error)
    raise RefusedError(f"{name}: {problem}")


def manifest_problems(document: Any) -> list[str]:
    """Where a parsed manifest is not what `schemas/bundle-manifest.json` asks for; empty if it is."""
    if not isinstance(document, dict) or document.get("record") != "bundle-manifest":
        return ["is not a bundle-manifest record"]
    version: Any = document.get("schema_version")
    if not _is_count(version) or version < 1:
        return ["/schema_version: is not a version number"]
    if version > MANIFEST_VERSION:
        return [f"is of a newer graphrepro (version {version}, this reads {MANIFEST_VERSION}): use a newer verify.py"]
    return list(_MANIFEST(document, ""))


Check = Callable[[Any, str], "Iterator[str]"]


def _is_count(value: Any) -> bool:
    """As JSON Schema has it, 1.0 is an integer and true is none."""
    whole = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value) and value.is_integer())
    return whole and not isinstance(value, bool)


def _rule(fits: Callable[[Any], object], what: str) -> Check:
    def check(value: Any, pointer: str) -> Iterator[str]:
        if not fits(value):
            yield f"{pointer}: is not {what}"

    return check


def _matches(pattern: str, what: str, longest: int | None = None) -> Check:
    """Python's `$` also matches before a final newline, so that `fullmatch` is used."""
    expression = re.compile(pattern)

    def fits(value: Any) -> object:
        return isinstance(value, str) and expression.fullmatch(value) and (longest is None or len(value) <= longest)

    return _rule(fits, what)


def _or_null(check: Check) -> Check:
    return lambda value, pointer: iter(()) if value is None else check(value, pointer)


def _array(check: Check, at_least: int = 0) -> Check:
    def all_of(value: Any, pointer: str) -> Iterator[str]:
        if not isinstance(value, list) or len(value) < at_least:
            yield f"{pointer}: is not an array of at least {at_least}"
            return
        for index, item in enumerate(value):
            yield from check(item, f"{pointer}/{index}")

    return all_of


def _object(fields: dict[str, Check]) -> Check:
    def every(value: Any, pointer: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{pointer}: is not an object"
            return
        for name in sorted(fields.keys() - value.keys()):
            yield f"{pointer}: has no {name}"
        for name in sorted(value.keys() - fields.keys()):
            yield f"{pointer}: has the unknown field {said(name)}"
        for name in sorted(fields.keys() & value.keys()):
            yield from fields[name](value[name], f"{pointer}/{name}")

    return every


_PART = r"(?:[^./\\\x00-\x1f]|\.[^./\\\x00-\x1f]|\.\.[^/\\\x00-\x1f])[^/\\\x00-\x1f]*"
_TEXT = _rule(lambda value: isinstance(value, str) and value, "a text")
_CODE = _matches(r"[A-Za-z0-9][A-Za-z0-9_-]*", "a code")
_NAME = _matches(r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]*", "a file-safe name", 200)
_PATH = _matches(rf"{_PART}(?:/{_PART})*", "a relative path", 1000)
_SHA256 = _matches(r"[0-9a-f]{64}", "a SHA-256 digest in hexadecimal")
_COUNT = _rule(lambda value: _is_count(value) and value >= 0, "a number from 0")
_PHASES = ("start", "capture", "serving", "shutdown", "none")
_SIGNATURE = _object(
    {"kind": _CODE, "phase": _rule(lambda value: value in _PHASES, "a phase"), "subsystem": _or_null(_TEXT)}
)
_SUBJECT = _object(
    {
        "finding": _or_null(_CODE),
        "target": _NAME,
        "architecture": _or_null(_TEXT),
        "cells": _array(_NAME, 1),
        "attempts": _array(_PATH, 1),
        "signature": _SIGNATURE,
        "engine": _TEXT,
        "engine_version": _or_null(_TEXT),
        "engine_source": _NAME,
        "image": _or_null(_TEXT),
        "planted": _rule(lambda value: isinstance(value, bool), "true or false"),
    }
)
_FILE = _object({"path": _PATH, "size_bytes": _COUNT, "sha256": _SHA256, "cut": _or_null(_TEXT)})
_LEFT_OUT = _object({"where": _TEXT, "size_bytes": _COUNT, "sha256": _or_null(_SHA256), "reason": _TEXT})
_REDACTION = _object({"category": _CODE, "count": _COUNT, "files": _COUNT, "pseudonyms": _COUNT})
_MANIFEST = _object(
    {
        "record": _TEXT,
        "schema_version": _COUNT,
        "tool_version": _TEXT,
        "subject": _SUBJECT,
        "digest": _SHA256,
        "archive_sha256": _SHA256,
        "files": _array(_FILE, 1),
        "left_out": _array(_LEFT_OUT),
        "redactions": _array(_REDACTION),
    }
)


def main(arguments: list[str]) -> int:
    """The exit status: 0 the bundle verifies, 6 it does not, 2 it cannot be read."""
    parser = argparse.ArgumentParser(prog="verify.py", description="Checks a bundle. Executes nothing of it.")
    parser.add_argument("file", nargs="?", metavar="FILE", help="the archive; without it, the folder of this program")
    parser.add_argument("--digest", metavar="HEX", help="the digest that the issue quotes")
    options = parser.parse_args(arguments)
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    try:
        found = verify(options.file, options.digest) if options.file else verify_folder(folder, options.digest)
    except OSError as error:
        print(f"verify: {said(options.file or folder)}: cannot be read ({error.strerror})", file=sys.stderr)
        return 2
    for problem in found.problems:
        print(f"verify: {problem}")
    if found.ok:
        print(f"verify: {found.files} files, all as the manifest says; digest {found.digest}")
        if options.digest is None:
            print("verify: compare the digest with the one in the issue, or give that one with --digest")
    return 0 if found.ok else 6


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
