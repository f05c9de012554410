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
_LEVELS = rb"(?:INFO|WARN|WARNING|ERROR|DEBUG|TRACE|FATAL)\b"
_TAGS = (
    rb"^%s (?:stdout|stderr) [FP] " % _STAMP,
    rb"^\[pod/[^\]\n]{1,300}\] ",
    rb"^[A-Za-z0-9][\w.-]{0,99}\s*\| ",
    rb"^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? [\w.:-]+ [^\s:\[\]]{1,99}(?:\[\d+\])?: ",
    rb"^%s (?!%s)[\w.-]+ [^\s:\[\]]{1,99}(?:\[\d+\])?: " % (_STAMP, _LEVELS),
    rb"^%s " % _STAMP,
    rb"^%s\t(?:stdout|stderr)?\t?" % _STAMP,
)
_PREFIXES = tuple(re.compile(tag, re.MULTILINE) for tag in _TAGS)
_MESSAGE_FIELDS = ("log", "message", "MESSAGE", "msg", "textPayload", "line", "@message", "body")
_NESTED_FIELDS = ("jsonPayload", "data", "fields", "attributes")
_DATE = rb"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?|%s)" % _STAMP
_NAMES = re.compile(
    rb"(?:^|(?<= ))(?:\[pod/(?P<pod>[^\]\n]{1,300})\] |(?P<service>[A-Za-z0-9][\w.-]{0,99}?)\s*\| "
    rb"|%s (?!%s)(?P<unit>[\w.:-]+ [^\s:\[\]]{1,99})(?:\[\d+\])?: )" % (_DATE, _LEVELS)
)
_NAME_FIELDS = ("pod", "pod_name", "container_name", "CONTAINER_NAME", "_SYSTEMD_UNIT", "hostname", "_HOSTNAME")
_NAMED_PARTS = ("kubernetes", "resource", "labels", "k8s")
_SHARE = 0.5
_SHARE_OF_NAMED = 0.2
_NAMED = 5
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
    whole = [line for line in lines.split(b"\n") if line.strip()]
    if not whole:
        return None
    if sum(1 for line in whole if _message(line) is not None) >= _SHARE * len(whole):
        return _from_json
    for number, prefix in enumerate(_PREFIXES):
        # A terminal that wraps leaves the prefix to the first part of each line.
        share = _SHARE_OF_NAMED if number < _NAMED else _SHARE
        if len(prefix.findall(lines)) >= max(share * len(whole), 2):
            return lambda data, prefix=prefix: prefix.sub(b"", data)  # type: ignore[misc]
    return None


def source_in(line: bytes) -> str | None:
    """The name that a collector gave to the source of a line: a pod, a service, a unit of a host; None if it has none."""
    if line.lstrip().startswith(b"{"):
        try:
            return _name(json.loads(line))
        except (ValueError, RecursionError):
            return None
    found = _NAMES.search(line[:400])
    name = found and (found["pod"] or found["service"] or found["unit"])
    return name.decode("utf-8", "replace") if name else None


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
