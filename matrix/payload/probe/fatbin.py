"""Which GPU code a compiled library holds, from the headers of its fat binaries: nothing is decompressed or loaded.

The format is not documented. Section names and the wrapper are in CUDA's `fatbinary_section.h`; the entries' layout and
the two suffix bits below were checked against what nvcc 13.0 writes for each architecture (see the tests). Only headers
are read, through a memory map, so a library of two gigabytes costs some pages.
"""

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

SECTIONS = (".nv_fatbin", "__nv_relfatbin")
"""Fat binaries of a linked library, and of one linked with relocatable device code (nvcc -rdc=true)."""

CONTAINER = struct.Struct("<IHHQ")
"""magic, version, bytes of this header, bytes that follow."""
MAGIC = 0xBA55ED50
ENTRY = struct.Struct("<HHIQ12xI8xQ")
"""kind, version, bytes of this header, bytes of the (possibly compressed) code, architecture, flags."""
PTX, CUBIN = 1, 2
EXACT_BIT, FAMILY_BIT = 1 << 20, 1 << 21
"""Suffix `a` (this architecture alone) and `f` (this family): nvcc's sm_100, sm_100a and sm_100f differ in these."""


class NotReadable(Exception):  # noqa: N818 - an answer about a file
    """Why the file's GPU code cannot be told."""


def code_of(path: Path) -> tuple[str, ...]:
    """Sorted names such as `sm_90a`, `sm_100f` (machine code) and `compute_90` (PTX); empty if there is no GPU code.

    Raises NotReadable for a file that is no little-endian 64-bit ELF, or whose headers do not fit together.
    """
    try:
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                raise NotReadable("is no ELF file")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                found = {name for start, end in _sections(data) for name in _walk(data, start, end)}
    except OSError as problem:
        raise NotReadable(problem.strerror or "cannot be read") from None
    except (struct.error, ValueError, IndexError):
        raise NotReadable("its headers point outside of it") from None
    return tuple(sorted(found))


def _sections(data: mmap.mmap) -> list[tuple[int, int]]:
    """(start, end) of the sections that hold fat binaries."""
    if data[4:6] != b"\x02\x01":
        raise NotReadable("is no little-endian 64-bit ELF file")
    table, size, count, names = _unpack_header(data)
    if not table or not count:
        return []
    rows = [struct.unpack_from("<IIQQQQ", data, table + index * size) for index in range(count)]
    strings = rows[names][4]
    found = []
    for name, kind, _, _, offset, length in rows:
        text = data[strings + name : data.find(b"\0", strings + name)]
        if kind != 8 and text.decode("ascii", "replace") in SECTIONS:  # 8: takes no space in the file
            if offset + length > len(data):
                raise NotReadable("a section ends outside of it")
            found.append((offset, offset + length))
    return found


def _unpack_header(data: mmap.mmap) -> tuple[int, int, int, int]:
    """Offset of the section table, size and number of its rows, and the row with the sections' names (ELF-64)."""
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    return table, size, count, names


def _walk(data: mmap.mmap, start: int, end: int) -> Iterator[str]:
    """Each entry of each container of a section; containers lie one after the other, with padding between."""
    while (start := data.find(struct.pack("<I", MAGIC), start, end)) >= 0:
        _, _, header_bytes, body_bytes = CONTAINER.unpack_from(data, start)
        stop = start + header_bytes + body_bytes
        if header_bytes < CONTAINER.size or stop > end:
            raise NotReadable("a fat binary ends outside of its section")
        place = start + header_bytes
        while place + ENTRY.size <= stop:
            kind, _, entry_bytes, code_bytes, architecture, flags = ENTRY.unpack_from(data, place)
            if entry_bytes < ENTRY.size:
                raise NotReadable("a fat binary's entry has no size")
            if kind in (PTX, CUBIN):
                yield _name(kind, architecture, flags)
            place += entry_bytes + code_bytes
        start = stop


def _name(kind: int, architecture: int, flags: int) -> str:
    suffix = "a" if flags & EXACT_BIT else "f" if flags & FAMILY_BIT else ""
    return f"{'sm' if kind == CUBIN else 'compute'}_{architecture}{suffix}"
