"""What collectors of logs put around each line, and how it is taken off again.

CRI (containerd, CRI-O), `docker logs -t`, docker's json-file, `kubectl logs --prefix` and `--timestamps`, `docker
compose`, journald and syslog, `srun --label`, `mpirun --tag-output` and the JSON records of cloud log services.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

Strip = Callable[[bytes], bytes]

_STAMP = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)"
_TAGS = (
    rb"^%s (?:stdout|stderr) [FP] " % _STAMP,
    rb"^\[pod/[^\]\n]{1,300}\] ",
    rb"^[A-Za-z0-9][\w.-]{0,99}\s*\| ",
    rb"^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? [\w.:-]+ [^\s:\[\]]{1,99}(?:\[\d+\])?: ",
    rb"^%s [\w.-]+ [^\s:\[\]]{1,99}(?:\[\d+\])?: " % _STAMP,
    rb"^%s " % _STAMP,
    rb"^%s\t(?:stdout|stderr)?\t?" % _STAMP,
)
_PREFIXES = tuple(re.compile(tag, re.MULTILINE) for tag in _TAGS)
_STAMPED = re.compile(rb"^(?:%s|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)" % _STAMP)
_MESSAGE_FIELDS = ("log", "message", "MESSAGE", "msg", "textPayload", "line", "@message", "body")
_NESTED_FIELDS = ("jsonPayload", "data", "fields", "attributes")
_SHARE = 0.6
_SAMPLE_LINES = 400
_DEEPEST = 3


def find_envelopes(sample: bytes) -> tuple[Strip, ...]:
    """The envelopes around the lines of a log, outermost first, from its first lines; empty if there are none."""
    found: list[Strip] = []
    lines = b"\n".join(sample.split(b"\n")[:_SAMPLE_LINES])
    for _ in range(_DEEPEST):
        strip = _outermost(lines)
        if strip is None:
            break
        found.append(strip)
        lines = strip(lines)
    return tuple(found)


def _outermost(lines: bytes) -> Strip | None:
    count = sum(1 for line in lines.split(b"\n") if line.strip())
    if not count:
        return None
    if sum(1 for line in lines.split(b"\n") if _message(line) is not None) >= _SHARE * count:
        return _from_json
    for prefix in _PREFIXES:
        if len(prefix.findall(lines)) >= max(_SHARE * count, 2):
            return lambda data, prefix=prefix: prefix.sub(b"", data)  # type: ignore[misc]
    return None


def envelope_stamp(line: bytes) -> bytes | None:
    """The time that a collector put before a line, or None."""
    found = _STAMPED.match(line)
    return found[0] if found else None


def _from_json(data: bytes) -> bytes:
    return b"\n".join(_unpacked(line) for line in data.split(b"\n"))


def _unpacked(line: bytes) -> bytes:
    message = _message(line)
    if message is None:
        return line
    # A record may hold several lines: they stay one line of the file.
    return message.rstrip("\r\n").encode("utf-8", "replace").replace(b"\n", b"\r")


def _message(line: bytes) -> str | None:
    text = line.strip()
    if not (text.startswith(b"{") and text.endswith(b"}")):
        return None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _field(record)


def _field(record: Any) -> str | None:
    if not isinstance(record, Mapping):
        return None
    for name in _MESSAGE_FIELDS:
        if isinstance(record.get(name), str):
            return str(record[name])
    return next((text for name in _NESTED_FIELDS if (text := _field(record.get(name))) is not None), None)
