"""Texts that look drawn by chance, and texts that hold another text: base64, base32, hexadecimal, compressed."""

import base64
import binascii
import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise

from repro.redact.finds import Find

RUN = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{14,}={0,2}")
HINT = r"[A-Za-z0-9+/_-]{14}"
_WORD = re.compile(r"[A-Za-z0-9]+")
_SEGMENT = re.compile(r"[A-Za-z0-9+=]{14,}|[A-Za-z0-9+_=-]{14,}")
_DIGESTS = frozenset((32, 40, 56, 64, 96, 128))
_HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_OURS = re.compile(r"t[0-9a-f]{20}")
"""What names a text that was scored, in records of this package."""
_SHAPE = re.compile(r"\d+x\d+(?:x\d+)*")
_SPECIALIZED = re.compile(r"(?:\d{1,2}(?:d|c|de)){3,}")
"""The end of a name of a kernel of Triton: which argument is divisible, which constant."""
_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_BASE32 = re.compile(r"[A-Z2-7]{51,56}|[a-z2-7]{51,56}")
_SPOKEN = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{2,}(?![a-z])|\d+")
_PRINTABLE = re.compile(r"[\t\n\r -~\u00a0-\uffff]*")
_LONGEST_DECODED = 1 << 16
_SHORTEST = 20
_SHORTEST_HELD = 16


@lru_cache(maxsize=1 << 16)
def drawn(text: str) -> bool:
    """True for a text of letters and digits, perhaps with `-_+/=`, that no person and no program made of words.

    Digests of the usual lengths in hexadecimal, UUIDs and base32 of a SHA-256 are no such texts: they name contents,
    requests and caches. Neither are mangled names of C++.
    """
    text = text.strip("-_=/+.")
    if len(text) < _SHORTEST or text.startswith(("_Z", "0x")) or _is_digest(text) or _OURS.fullmatch(text):
        return False
    if _UUID.search(text) and len(text) <= 36 + 16:
        return False
    words = [word for word in _WORD.findall(text) if not word.isdigit()]
    if not words or all(_is_digest(word) for word in words):
        return False
    longest = max(words, key=len)
    if len(longest) >= 16 and not _is_digest(longest) and _mixed(longest):
        return True
    marks = sum(not c.isalnum() for c in text)
    return marks * 10 <= len(text) and len(longest) >= 8 and _mixed(text, least=0.42) and _many_kinds(text)


def _is_digest(word: str) -> bool:
    if word.startswith(("0x", "0X")) or word.isdigit():
        return True
    return bool(_HEX.fullmatch(word) and (len(word) in _DIGESTS or len(word) <= 16)) or bool(_BASE32.fullmatch(word))


def _many_kinds(text: str) -> bool:
    return any(c.islower() for c in text) and any(c.isupper() for c in text) and any(c.isdigit() for c in text)


def _mixed(word: str, least: float = 0.0) -> bool:
    """Letters of both cases and digits follow each other as in a lottery, not as in the parts of a name."""
    word = _SPECIALIZED.sub("", _SHAPE.sub("", word))
    if len(word) < 14:
        return False
    kinds = ["d" if c.isdigit() else "u" if c.isupper() else "l" if c.islower() else "s" for c in word]
    both = "u" in kinds and "l" in kinds
    changes = sum(a != b for a, b in pairwise(kinds)) / (len(kinds) - 1)
    if "d" not in kinds and (not both or len(word) < 24):
        return False
    threshold = least or ((0.36 if "d" in kinds else 0.45) if both else 0.27)
    if changes < threshold:
        return False
    spoken = sum(len(part) for part in _SPOKEN.findall(word) if not part.isdigit() and len(part) >= 4)
    return spoken / len(word) < (0.5 if "d" in kinds else 0.25) and len(set(word.lower())) >= 8


def chance(text: str, inside: Callable[[str], bool]) -> Iterator[Find]:
    """Texts drawn by chance, and those of which ``inside`` says that they hold one that must not be shown."""
    for found in RUN.finditer(text):
        yield from _in_run(found[0], found.start(), text, inside)


def _in_run(run: str, at: int, text: str, inside: Callable[[str], bool]) -> Iterator[Find]:
    if inside(run):
        yield Find(at, at + len(run), "secret", run)
        return
    if _mangled(text, at):
        return
    is_base64 = "+" in run or run.endswith("=")
    if is_base64 and len(run) >= 24 and run.count("/") < 6 and drawn(run.replace("/", "").replace("+", "")):
        if not text[max(at - 7, 0) : at].lower().endswith(("sha256-", "sha384-", "sha512-")):
            yield Find(at, at + len(run), "secret", run)
        return
    for segment in _SEGMENT.finditer(run):
        if drawn(segment[0]) or (segment[0] != run and inside(segment[0])):
            yield Find(at + segment.start(), at + segment.end(), "secret", segment[0])


def _mangled(text: str, at: int) -> bool:
    """True inside a mangled name, of which `$`, `.` or `@` may have cut off the beginning, and after `0x`."""
    begin = at
    while begin and at - begin < 400 and (text[begin - 1].isalnum() or text[begin - 1] in "_$.@"):
        begin -= 1
    return text.startswith(("_Z", "_R", "$_Z", "__Z"), begin)


def holds(run: str, inside: Callable[[str], bool]) -> bool:
    """True if the run decodes to a text in which there is something that must not be shown."""
    return any(inside(text) for text in decoded(run))


def decoded(run: str) -> Iterator[str]:
    """The texts that a run stands for, in the encodings that give a readable one."""
    bare = run.rstrip("=")
    if len(bare) < _SHORTEST_HELD - 4 or len(bare) > 4 * _LONGEST_DECODED:
        return
    if _HEX.fullmatch(bare) and len(bare) % 2 == 0:
        yield from _readable(bytes.fromhex(bare))
    if re.fullmatch(r"[A-Z2-7]+", bare) or re.fullmatch(r"[a-z2-7]+", bare):
        yield from _attempt(lambda: base64.b32decode(bare.upper() + "=" * (-len(bare) % 8)))
    if not re.search(r"[A-Za-z].*[A-Za-z]", bare):
        return
    standard = bare.replace("-", "+").replace("_", "/")
    for skipped in range(4 if len(bare) >= 28 else 1):
        piece = standard[skipped:]
        piece = piece[: len(piece) - (1 if len(piece) % 4 == 1 else 0)]
        padded = piece + "=" * (-len(piece) % 4)
        yield from _attempt(lambda padded=padded: base64.b64decode(padded, validate=True))  # type: ignore[misc]


def _attempt(decode: Callable[[], bytes]) -> Iterator[str]:
    try:
        data = decode()
    except (ValueError, binascii.Error):
        return
    yield from _readable(data)


def _readable(data: bytes) -> Iterator[str]:
    if data[:2] == b"\x1f\x8b" or data[:1] == b"\x78":
        try:
            wbits = 31 if data[:2] == b"\x1f\x8b" else 15
            data = zlib.decompressobj(wbits).decompress(data, _LONGEST_DECODED)
        except (zlib.error, gzip.BadGzipFile):
            return
    if data.count(b"\0") * 3 >= len(data):
        data = data.replace(b"\0", b"")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < max(12, len(data) - 4):
            return
        text = data[: error.start].decode("utf-8")
    if len(text) >= 6 and _PRINTABLE.fullmatch(text):
        yield text
