"""Bytes of a log -> the text that a person reads on a terminal, without what is there for the terminal."""

import re
from collections.abc import Sequence

from repro.diagnose.envelopes import Envelope

_ESCAPES = re.compile(rb"\x1b\[[0-9;:?<=>]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[()][0-9A-B]|\x1b[=>78]")
_WRAPPED_ESCAPES = re.compile(rb"\x1b(?:\n\[[0-9;]{0,12}|\[[0-9;]{0,12}\n[0-9;]{0,12})[mKGHJ]")
_ESCAPED = re.compile(rb"\\(?:x1b|u001[bB]|033)\[[0-9;?]*[A-Za-z]|\^\[\[[0-9;?]*[A-Za-z]|#033\[[0-9;?]*[A-Za-z]")
_CONTROLS = bytes(mark for mark in range(32) if mark not in b"\t\n\r") + b"\x7f"
_BLANKS = b" \t\n\r"
_CONTROL_MARKS = tuple(bytes((mark,)) for mark in _CONTROLS)


def clean(data: bytes, envelopes: Sequence[Envelope]) -> bytes:
    """The lines without envelopes, colours, NULs and other control codes; as many newlines as before.

    A carriage return begins a piece of a line of its own, as bars of progress have it; at the end of a line it goes.
    """
    data = printable(data)
    for envelope in envelopes:
        data = printable(envelope.strip(data))
    return data.replace(b"\r\n", b"\n") if b"\r" in data else data


def printable(data: bytes) -> bytes:
    """The bytes without colours and control codes, but with ends of lines and carriage returns."""
    if b"\x1b" in data:
        data = _WRAPPED_ESCAPES.sub(b"\n", data)
        data = _ESCAPES.sub(b"", data)
    if b"\xfe" in data[:2] and data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        data = data[2:]
    if any(mark in data for mark in _CONTROL_MARKS):  # quicker than one search for all
        data = data.translate(None, _CONTROLS)
    if b"\\" in data or b"^" in data or b"#033[" in data:
        data = _ESCAPED.sub(b"", data)
    return data


def squeezed(data: bytes) -> bytes:
    """The bytes without blanks and ends of lines: wrapping changes only those."""
    return data.translate(None, _BLANKS)
