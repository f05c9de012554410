"""Files -> the bytes of a bundle: one strict form of zip archive, the same bytes for the same files.

The form is what `repro/bundle/inside/verify.py` accepts: names in order, one date, modes by name, no extra fields, and
the manifest last, stored, with the hash of all bytes before it. With another zlib the compressed streams may differ.
"""

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from repro.bundle.inside import verify as form
from repro.canonical import pretty_bytes
from repro.codec import encode
from repro.errors import BundleError
from repro.model import BundledFile, LeftOut, Manifest, Redaction, Subject

_LEVEL = 9
_RESERVED_BYTES = 1 << 19
"""For the manifest, `ISSUE.md` and `replay.json`, which are written again after the rest was chosen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Packed:
    """A file ready for the archive: ``data`` is compressed by ``method``. ``cut`` says what was left out of it.

    ``rank`` 0 is never dropped; else the lower ranks go first when the bundle is too large, and of one rank the higher
    ``turn``, then the larger file. ``where`` is the file's place below the results directory, if it has one.
    """

    path: str
    data: bytes
    method: int
    crc: int
    size_bytes: int
    sha256: str
    cut: str | None
    rank: int
    turn: int
    where: str | None

    def raw(self) -> bytes:
        """The file itself."""
        return zlib.decompress(self.data, -15) if self.method else self.data


def listed(file: Packed) -> BundledFile:
    """The file as the manifest names it."""
    return BundledFile(path=file.path, size_bytes=file.size_bytes, sha256=file.sha256, cut=file.cut)


def packed(
    path: str, raw: bytes, *, cut: str | None = None, rank: int = 0, turn: int = 0, where: str | None = None
) -> Packed:
    """The file, compressed; stored where compression gains nothing, or so much that a reader would take it for a bomb.

    Raises `BundleError` for a name that a bundle's file cannot have, or a file larger than any may be.
    """
    problem = form.name_problem(path)
    if problem is not None or len(raw) > form.LARGEST_FILE_BYTES:
        raise BundleError(f"{form.said(path)}: {problem or 'is too large for a bundle'}; leave it out")
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -15)
    data = compressor.compress(raw) + compressor.flush()
    suspicious = len(raw) > form.RATIO_FROM_BYTES and len(raw) > len(data) * form.HIGHEST_RATIO
    stored = suspicious or len(data) >= len(raw)
    return Packed(
        path=path,
        data=raw if stored else data,
        method=0 if stored else zlib.DEFLATED,
        crc=zlib.crc32(raw),
        size_bytes=len(raw),
        sha256=hashlib.sha256(raw).hexdigest(),
        cut=cut,
        rank=rank,
        turn=turn,
        where=where,
    )


def fitting(
    files: Sequence[Packed], *, limit_bytes: int = form.LARGEST_ARCHIVE_BYTES
) -> tuple[tuple[Packed, ...], tuple[Packed, ...]]:
    """(what fits into a bundle of at most ``limit_bytes``, what was dropped for it, first dropped first).

    Raises `BundleError` if what may not be dropped is too large already.
    """
    kept = {file.path: file for file in files}
    candidates = sorted((f for f in files if f.rank), key=lambda f: (f.rank, -f.turn, -f.size_bytes, f.path))
    dropped: list[Packed] = []
    while not _fits(kept.values(), limit_bytes):
        if not candidates:
            total = sum(len(file.data) for file in kept.values())
            raise BundleError(
                f"what every bundle must hold takes {total:,} bytes, and a bundle has at most {limit_bytes:,}; "
                "pack a single cell, or leave large kernel artefacts out"
            )
        dropped.append(kept.pop(candidates.pop(0).path))
    return tuple(sorted(kept.values(), key=lambda file: file.path)), tuple(dropped)


def _fits(files: Iterable[Packed], limit_bytes: int) -> bool:
    listed = list(files)
    archive = sum(len(f.data) + form.overhead_bytes(f.path) for f in listed)
    # Each file has a line of its own in the manifest, of its path, its hash and at most a sentence.
    archive += sum(300 + len(f.path) + len(f.cut or "") for f in listed)
    unpacked = sum(f.size_bytes for f in listed)
    room = unpacked + _RESERVED_BYTES <= form.LARGEST_UNPACKED_BYTES and len(listed) < form.MOST_FILES - 2
    return room and archive + _RESERVED_BYTES <= limit_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What a manifest says beside its list of files."""

    tool_version: str
    subject: Subject
    left_out: tuple[LeftOut, ...]
    redactions: tuple[Redaction, ...]


def digest(files: Iterable[Packed], facts: Facts) -> str:
    """The digest of a bundle of these files, which `ISSUE.md` quotes."""
    return form.digest_of(encode(_manifest(files, facts)))


def _manifest(files: Iterable[Packed], facts: Facts) -> Manifest:
    """The manifest but for its two hashes."""
    ordered = sorted(files, key=lambda file: file.path)
    return Manifest(
        tool_version=facts.tool_version,
        subject=facts.subject,
        digest="0" * 64,
        archive_sha256="0" * 64,
        files=tuple(map(listed, ordered)),
        left_out=tuple(sorted(facts.left_out, key=lambda item: item.where)),
        redactions=facts.redactions,
    )


def archive(files: Sequence[Packed], facts: Facts) -> tuple[bytes, Manifest]:
    """The bytes of the bundle, and the manifest in it. Raises `RecordError` if that is invalid."""
    ordered = sorted(files, key=lambda file: file.path)
    body, directory = bytearray(), bytearray()
    for file in ordered:
        _append(file, body, directory)
    plain = _manifest(ordered, facts)
    manifest = replace(plain, digest=digest(ordered, facts), archive_sha256=hashlib.sha256(body).hexdigest())
    raw = pretty_bytes(encode(manifest))
    last = replace(packed(form.MANIFEST, b""), data=raw, crc=zlib.crc32(raw), size_bytes=len(raw))
    _append(last, body, directory)
    return bytes(body + directory + form.end_record(len(ordered) + 1, len(directory), len(body))), manifest


def _append(file: Packed, body: bytearray, directory: bytearray) -> None:
    local, central = form.headers(
        file.path, method=file.method, crc=file.crc, packed=len(file.data), size=file.size_bytes, begins=len(body)
    )
    body += local + file.data
    directory += central
