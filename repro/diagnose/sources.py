"""Bytes of logs: plain, gzip or zstd, a block at a time."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

_BLOCK_BYTES = 1 << 20
_AHEAD_BYTES = 1 << 14
_LONGEST_LINE_BYTES = 1 << 22
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """A log file. ``name`` is what the evidence calls it; None: its path as given."""

    path: Path
    name: str | None = None

    @property
    def said(self) -> str:
        return str(self.path) if self.name is None else self.name


@dataclass(frozen=True, kw_only=True)
class Block:
    """Part of a log: ``own_bytes`` of whole lines, and behind them the beginning of the next part, to look ahead.

    A line longer than 4 MiB is cut into several blocks. ``first_line`` counts from 1; ``offset_bytes`` is where the
    block starts in the (unpacked) log.
    """

    data: bytes
    own_bytes: int
    first_line: int
    offset_bytes: int

    @cached_property
    def lines(self) -> list[bytes]:
        """The lines, without their ends."""
        return self.data.split(b"\n")

    @cached_property
    def names(self) -> dict[int, str | None]:
        """Room for what is known of the sources of lines."""
        return {}

    @cached_property
    def starts(self) -> list[int]:
        """The byte of the block at which each line starts."""
        return [0, *accumulate(len(line) + 1 for line in self.lines)]


def blocks(log: Log) -> Iterator[Block]:
    """The log in blocks of about 1 MiB; nothing for a file that is missing or is no file.

    A packed log that breaks off or is damaged ends where it can no longer be read.
    """
    if not log.path.exists() or log.path.is_dir():
        return
    line, offset, rest = 1, 0, b""
    with ExitStack() as stack:
        stream = _unpacked(stack.enter_context(log.path.open("rb")), stack)
        while data := _read(stream):
            rest += data
            own = rest.rfind(b"\n", 0, max(len(rest) - _AHEAD_BYTES, 0)) + 1
            if not own and len(rest) > _LONGEST_LINE_BYTES:
                own = len(rest) - _AHEAD_BYTES
            if own:
                yield Block(data=rest, own_bytes=own, first_line=line, offset_bytes=offset)
                line += rest.count(b"\n", 0, own)
                offset += own
                rest = rest[own:]
    if rest:
        yield Block(data=rest, own_bytes=len(rest), first_line=line, offset_bytes=offset)


def _unpacked(raw: BinaryIO, stack: ExitStack) -> io.BufferedIOBase:
    buffered = io.BufferedReader(cast("io.RawIOBase", raw), _BLOCK_BYTES)
    head = buffered.peek(4)[:4]
    if head.startswith(_GZIP):
        return stack.enter_context(gzip.GzipFile(fileobj=buffered))
    if head == _ZSTD:
        reader = zstandard.ZstdDecompressor().stream_reader(buffered, read_across_frames=True)
        return cast("io.BufferedIOBase", stack.enter_context(reader))
    return buffered


def _read(stream: io.BufferedIOBase) -> bytes:
    """About a block; less at the end, also where a packed log breaks off."""
    parts: list[bytes] = []
    size = 0
    with suppress(EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError):
        while size < _BLOCK_BYTES and (part := stream.read1(_BLOCK_BYTES)):
            parts.append(part)
            size += len(part)
    return b"".join(parts)
