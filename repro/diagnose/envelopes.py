"""What collectors of logs put around each line, and how it is taken off again.

CRI (containerd, CRI-O), `docker logs -t`, docker's json-file, `kubectl logs --prefix` and `--timestamps`, `docker
compose`, journald and syslog, `srun --label`, `mpirun --tag-output` and the JSON records of cloud log services.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_STAMP = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)"
_LEVELS = rb"(?:INFO|WARN|WARNING|ERROR|DEBUG|TRACE|FATAL)\b"
_UNIT = rb"(?!%s)(?P<name>[\w.:-]+ [^\s:\[\]]{1,99})(?:\[\d+\])?: " % _LEVELS
_NAMED = (
    rb"^%s (?:stdout|stderr) [FP] " % _STAMP,
    rb"^\[pod/(?P<name>[^\]\n]{1,300})\] ",
    rb"^\[(?P<name>(?:node|host|worker|replica|server|instance|machine)[\w.-]{0,99})\] ",
    rb"^(?P<name>[A-Za-z0-9][\w.-]{0,99}?)\s*\| ",
    rb"^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? " + _UNIT,
    rb"^%s %s" % (_STAMP, _UNIT),
)
_STAMPED = {
    _NAMED[-2]: re.compile(rb"^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? ", re.MULTILINE),
    _NAMED[-1]: re.compile(rb"^%s " % _STAMP, re.MULTILINE),
}
"""Lines that whoever puts a host and a unit before lines has stamped. It names all of them: where some have no name,
the words before a colon are the message's own."""
_UNNAMED = (rb"^%s " % _STAMP, rb"^%s\t(?:stdout|stderr)?\t?" % _STAMP)
_MESSAGE_FIELDS = ("log", "message", "MESSAGE", "msg", "textPayload", "line", "@message", "body")
_NESTED_FIELDS = ("jsonPayload", "data", "fields", "attributes")
_NAME_FIELDS = ("pod", "pod_name", "container_name", "CONTAINER_NAME", "_SYSTEMD_UNIT", "hostname", "_HOSTNAME")
_NAMED_PARTS = ("kubernetes", "resource", "labels", "k8s")
_SHARE = 0.5
_SHARE_OF_PREFIXED = 0.2
_SHARE_OF_STAMPED = 0.8
_SAMPLE_LINES = 400
_DEEPEST = 3


@dataclass(frozen=True, slots=True)
class Envelope:
    """What one collector puts around lines: how it is taken off, and the name that it gives to the source of a line."""

    strip: Callable[[bytes], bytes]
    name: Callable[[bytes], str | None]


def find_envelopes(sample: bytes) -> tuple[Envelope, ...]:
    """The envelopes around the lines of a log, outermost first, from its first lines; empty if there are none."""
    found: list[Envelope] = []
    lines = b"\n".join(sample.split(b"\n")[:_SAMPLE_LINES])
    for _ in range(_DEEPEST):
        envelope = _outermost(lines)
        if envelope is None:
            break
        found.append(envelope)
        lines = envelope.strip(lines)
    return tuple(found)


def source_in(line: bytes, envelopes: Sequence[Envelope]) -> str | None:
    """The name that a collector gave to where a line comes from: a pod, a service, a unit of a host; None without."""
    for envelope in envelopes:
        if (name := envelope.name(line)) is not None:
            return name
        line = envelope.strip(line)
    return None


def _outermost(lines: bytes) -> Envelope | None:
    whole = [line for line in lines.split(b"\n") if line.strip()]
    if not whole:
        return None
    if sum(1 for line in whole if _message(line) is not None) >= _SHARE * len(whole):
        return Envelope(_from_json, _name_in_json)
    # A terminal that wraps leaves the prefix to the first part of each line.
    for tag in (*_NAMED, *_UNNAMED):
        prefix = re.compile(tag, re.MULTILINE)
        stamped = sum(1 for _ in _STAMPED[tag].finditer(lines)) if tag in _STAMPED else 0
        least = max(_SHARE_OF_PREFIXED * len(whole), _SHARE_OF_STAMPED * stamped, 2)
        if sum(1 for _ in prefix.finditer(lines)) >= least:
            return _of_prefix(prefix)
    return None


def _of_prefix(prefix: "re.Pattern[bytes]") -> Envelope:
    def name(line: bytes) -> str | None:
        found = prefix.match(line)
        said = found.groupdict().get("name") if found else None
        return said.decode("utf-8", "replace") if said else None

    return Envelope(lambda data: prefix.sub(b"", data), name)


def _name_in_json(line: bytes) -> str | None:
    try:
        return _name(json.loads(line))
    except (ValueError, RecursionError):
        return None


def _name(record: Any) -> str | None:
    if not isinstance(record, Mapping):
        return None
    own = [str(record[name]) for name in _NAME_FIELDS if isinstance(record.get(name), str)]
    return own[0] if own else next((n for part in _NAMED_PARTS if (n := _name(record.get(part))) is not None), None)


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
