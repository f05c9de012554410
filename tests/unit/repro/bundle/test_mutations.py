"""A valid bundle changed at random: nothing of it passes, nothing crashes, everything is refused with a reason.

`GRAPHREPRO_BUNDLE_MUTATIONS=20000` for as many as you like.
"""

import json
import os
import random
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from io import BytesIO
from typing import TypeAlias

import pytest

from repro.bundle.inside import verify
from repro.bundle.inside.verify import Archive, RefusedError, checked

COUNT = int(os.environ.get("GRAPHREPRO_BUNDLE_MUTATIONS", "2000"))
Mutation: TypeAlias = Callable[[bytes, random.Random], bytes]
Entries: TypeAlias = list[tuple[zipfile.ZipInfo, bytes]]


def flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 8))):
        changed[chance.randrange(len(changed))] ^= chance.randrange(1, 256)
    return bytes(changed)


def cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def cut_out(data: bytes, chance: random.Random) -> bytes:
    begin = chance.randrange(len(data))
    return data[:begin] + data[begin + chance.randint(1, 64) :]


def append(data: bytes, chance: random.Random) -> bytes:
    return data + chance.randbytes(chance.randint(1, 64))


def prepend(data: bytes, chance: random.Random) -> bytes:
    return chance.randbytes(chance.randint(1, 64)) + data


def insert(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(1, len(data))
    return data[:place] + chance.randbytes(chance.randint(1, 32)) + data[place:]


def two_archives(data: bytes, chance: random.Random) -> bytes:
    return data + data if chance.random() < 0.5 else data[: chance.randrange(len(data))] + data


def comment(data: bytes, chance: random.Random) -> bytes:
    text = chance.randbytes(chance.randint(1, 40))
    return data[:-2] + struct.pack("<H", len(text)) + text


def end_record(data: bytes, chance: random.Random) -> bytes:
    """A field of the end record, zip64's marks among the values."""
    place, width = chance.choice(((4, 2), (6, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2)))
    value = chance.choice((0, 1, 2, (1 << 8 * width) - 1, chance.randrange(1 << 8 * width)))
    begin = len(data) - 22 + place
    changed = data[:begin] + value.to_bytes(width, "little") + data[begin + width :]
    return changed if changed != data else data + b"\0"


def header(data: bytes, chance: random.Random) -> bytes:
    """A field of a central header, or of the local one of the same entry: the two no longer agree."""
    with zipfile.ZipFile(BytesIO(data)) as archive:
        info = chance.choice(archive.infolist())
        begin = archive.start_dir
    at = data.index(info.filename.encode(), begin) - 46 if chance.random() < 0.5 else info.header_offset
    place = at + chance.randrange(4, 46 if at >= begin else 30)
    changed = bytearray(data)
    changed[place] ^= chance.randrange(1, 256)
    return bytes(changed)


def rewritten(data: bytes, change: Callable[[Entries], None]) -> bytes:
    with zipfile.ZipFile(BytesIO(data)) as old:
        entries = [(info, old.read(info)) for info in old.infolist()]
    change(entries)
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as new:
        for info, content in entries:
            new.writestr(info, content)
    return buffer.getvalue()


def entry(name: str, mode: int = 0o100644) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.external_attr = mode << 16
    return info


NAMES = (
    "../x",
    "../../etc/cron.d/x",
    "/etc/passwd",
    "a/../../x",
    "C:\\x",
    "..\\x",
    "a\\b",
    "VERIFY.PY",
    "verify.py",
    "ISSUE.md",
    "é",
    "e\u0301",
    "ﬁle",
    "verify.py/x",
    "x/",
    "./x",
    "a//b",
    "con",
    "x.",
    " x",
    "results/c/1/evidence/server.log",
    "manifest.json",
)


def add(data: bytes, chance: random.Random) -> bytes:
    name = chance.choice((*NAMES, f"extra-{chance.randrange(1000)}"))
    mode = chance.choice((0o100644, 0o100644, 0o120777, 0o040755, 0o104755, 0o010644, 0))
    content = chance.choice((b"x", b"/etc/passwd", chance.randbytes(100)))
    return rewritten(
        data, lambda entries: entries.insert(chance.randint(0, len(entries)), (entry(name, mode), content))
    )


def remove(data: bytes, chance: random.Random) -> bytes:
    return rewritten(data, lambda entries: entries.__delitem__(chance.randrange(len(entries))))


def rename(data: bytes, chance: random.Random) -> bytes:
    def change(entries: Entries) -> None:
        place = chance.randrange(len(entries))
        entries[place] = (entry(chance.choice((*NAMES[:10], "renamed"))), entries[place][1])

    return rewritten(data, change)


def swap(data: bytes, chance: random.Random) -> bytes:
    """The contents of two files, or their order."""

    def change(entries: Entries) -> None:
        one, other = chance.sample(range(len(entries)), 2)
        if chance.random() < 0.5:
            entries[one], entries[other] = entries[other], entries[one]
        else:
            (first, a), (second, b) = entries[one], entries[other]
            entries[one], entries[other] = (first, b), (second, a)

    return rewritten(data, change)


def content(data: bytes, chance: random.Random) -> bytes:
    def change(entries: Entries) -> None:
        place = chance.randrange(len(entries))
        info, old = entries[place]
        entries[place] = (info, chance.choice((b"", old + b"\n", old[:-1] + b"?", chance.randbytes(50))))

    return rewritten(data, change)


def packed_again(data: bytes, chance: random.Random) -> bytes:
    """Every file as it was, in streams that are not."""

    def change(entries: Entries) -> None:
        for info, _ in entries:
            info.compress_type = chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))

    return rewritten(data, change)


def manifest(data: bytes, chance: random.Random) -> bytes:
    """A field of the manifest, written back in an archive that is whole in every other respect."""

    def change(entries: Entries) -> None:
        document = json.loads(entries[-1][1])
        keys = ["record", "schema_version", "digest", "archive_sha256", "files", "subject", "left_out", "redactions"]
        key = chance.choice(keys)
        if key == "files" and chance.random() < 0.7:
            item = chance.choice(document["files"])
            item[chance.choice(("path", "sha256", "size_bytes"))] = chance.choice(("x", "0" * 64, 7, None))
        else:
            document[key] = chance.choice((None, 0, 2, 99, [], {}, "x", "0" * 64))
            if key in {"left_out", "redactions"} and document[key] == []:
                document["unknown"] = 1
        entries[-1] = (entries[-1][0], json.dumps(document).encode())

    return rewritten(data, change)


def bomb(data: bytes, chance: random.Random) -> bytes:
    """An entry in front that unpacks to far more than it should, with its true size or a lie."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = compressor.compress(b"\0" * (1 << 20)) + compressor.flush(zlib.Z_FULL_FLUSH)
    stream = piece * chance.choice((2, 80, 300)) + compressor.flush()
    size = chance.choice((100, 1 << 20, 63_000_000, 0xFFFFFFF0))
    local, central = verify.headers(
        "A", method=8, crc=chance.randrange(1 << 32), packed=len(stream), size=size, begins=0
    )
    begin = struct.unpack("<L", data[-6:-2])[0]
    grown = len(local) + len(stream)
    directory, place = bytearray(data[begin:-22]), 0
    while place < len(directory):
        offset = struct.unpack("<L", directory[place + 42 : place + 46])[0]
        directory[place + 42 : place + 46] = struct.pack("<L", offset + grown)
        place += 46 + struct.unpack("<H", directory[place + 28 : place + 30])[0]
    count = struct.unpack("<H", data[-12:-10])[0]
    end = verify.end_record(count + 1, len(central) + len(directory), begin + grown)
    return local + stream + data[:begin] + central + bytes(directory) + end


MUTATIONS: tuple[Mutation, ...] = (
    flip,
    flip,
    flip,
    cut,
    cut_out,
    append,
    prepend,
    insert,
    two_archives,
    comment,
    end_record,
    header,
    header,
    add,
    add,
    remove,
    rename,
    swap,
    content,
    packed_again,
    manifest,
    manifest,
    bomb,
)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_no_mutation_passes(small_bundle: bytes) -> None:
    reasons: Counter[str] = Counter()
    for seed in range(COUNT):
        chance = random.Random(seed)
        mutate = MUTATIONS[seed % len(MUTATIONS)]
        changed = small_bundle
        while changed == small_bundle:  # some of what may be drawn changes nothing
            changed = mutate(small_bundle, chance)
        try:
            problems = checked(Archive(changed)).problems
        except RefusedError as refused:
            problems = refused.problems
        assert problems, f"{mutate.__name__}, seed {seed}, passes"
        assert all(problem and "\n" not in problem and problem.isprintable() for problem in problems)
        reasons[mutate.__name__] += 1
    assert sum(reasons.values()) == COUNT
