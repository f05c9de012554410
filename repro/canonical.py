"""Bytes and digests of documents: the same document always gives the same bytes."""

import hashlib
import json
from pathlib import Path

_BLOCK_BYTES = 1 << 20


def canonical_bytes(document: object) -> bytes:
    """The document on one line: sorted keys, no spaces, UTF-8, floats as Python writes them.

    Raises ValueError for what JSON cannot say (NaN, infinity, half of a surrogate pair) and TypeError for other types.
    """
    line = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return line.encode("utf-8")


def pretty_bytes(document: object) -> bytes:
    """The document for files: keys in the order given, two spaces of indent, a final newline, UTF-8.

    Raises as `canonical_bytes` does.
    """
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8") + b"\n"


def sha256_of(document: object) -> str:
    """SHA-256 of the canonical bytes, in hexadecimal. Raises as `canonical_bytes` does."""
    return hashlib.sha256(canonical_bytes(document)).hexdigest()


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal. Raises OSError if it cannot be read."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
