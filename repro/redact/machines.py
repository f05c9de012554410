"""What tells one machine, disk or account from all others: serial numbers, UUIDs, ids of a cloud."""

import re
from collections.abc import Iterator

from repro.redact.finds import Category, Find
from repro.redact.people import user
from repro.redact.vocabulary import PSEUDONYM

_LABELLED = re.compile(r"(?<!\w)[Ss]/[Nn]\s*[:=#]?\s*(?P<value>(?=[A-Z-]*\d)[A-Z0-9-]{5,})")
_GPU = re.compile(
    r"(?<![A-Za-z0-9])(?:GPU|MIG|gpu|mig)-(?:GPU-)?[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){0,3}(?:-[0-9a-fA-F]{1,12})?(?:/\d+/\d+)?(?![A-Za-z0-9])"
)
_BESIDE = re.compile(r"(?<![\w.:-])(?P<value>[01]\d{12})(?=\s*(?:,|;|\t|$))")
"""The serial number of a GPU in a table that has its UUID in the same line."""
_CLOUD = re.compile(
    r"(?<![A-Za-z0-9])(?:i|vol|eni|subnet|vpc|sg|ami|snap|eipalloc|rtb|fs|r|lt)-0?[0-9a-f]{8,17}(?![A-Za-z0-9])|arn:aws[\w-]*:[\w-]*:[\w-]*:(?:\d{12})?:[^\s\"',]+|(?<=projects/)[a-z][a-z0-9-]{4,28}[a-z0-9](?=/)|(?<=subscriptions/)[0-9a-f-]{36}"
)
_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_FORMS: tuple[tuple[Category, "re.Pattern[str]"], ...] = (
    ("uuid", re.compile(r"(?<![\w-])(?P<value>S-1-5-21(?:-\d{6,10}){3}(?:-\d{1,6})?)(?![\w-])")),
    (
        "uuid",
        re.compile(
            rf"(?i)\b(?:machine|boot|host|product|system|board)[ _-]?(?:id|uuid)[ \t]+(?P<value>[0-9a-f]{{32}}|{_UUID})(?![\w-])"
        ),
    ),
    (
        "uuid",
        re.compile(
            rf"(?i)\b(?:tenant|subscription|directory|client|object|application|resource)(?: ?id)?[\"']?\W{{1,4}}(?P<value>{_UUID})"
        ),
    ),
    (
        "uuid",
        re.compile(
            r"(?i)\baccount(?:[ _-]?(?:id|number|no))?\\*[\"']?\s*[:=]?\s*\\*[\"']?(?P<value>\d{12}|\d{4}-\d{4}-\d{4})(?![\w-])"
        ),
    ),
    ("serial", re.compile(r"(?i)\bserial(?: ?(?:number|no\.?))?[ \t]+(?P<value>(?=[A-Z]*\d)[A-Z0-9]{8,})(?![\w.])")),
    ("serial", re.compile(r"\bnvme\d+n\d+\s+(?P<value>(?=[A-Z]*\d)[A-Z0-9]{10,20})(?=\s)")),
    (
        "serial",
        re.compile(
            r"(?<=/by-id/)(?P<value>[\w.+-]{8,})|\b(?P<wwn>wwn-0x[0-9a-f]{16})|WWN Device Id:[ \t]*(?P<id>[0-9a-f ]{12,24}[0-9a-f])"
        ),
    ),
    ("secret", re.compile(r"(?<![\d-])(?P<value>\d{3}-\d{2}-\d{4})(?![\d-])")),
)
_ROLE = re.compile(
    r"(?:assumed-role/[\w.+=@-]+/|A[RI][OD]A[A-Z0-9]{12,}:|secret-\d+:)(?P<value>[A-Za-z][\w.+=@-]{2,60})"
)
HINT = (
    r"(?i:gpu|mig)-|uuid-|(?i:s/n)|arn:|projects/|subscriptions/|(?:i|vol|eni|subnet|vpc|sg|ami|snap|eipalloc|rtb|fs|r|lt)-0?[0-9a-f]{8}"
    r"|S-1-5-21|(?i:machine|boot|host|product|system|board).?(?i:id|uuid)\s|(?i:tenant|subscription|directory|client|object|application|resource|account)|(?i:serial)|nvme\d|by-id/|wwn-|WWN|\d{3}-\d{2}-\d{4}|A[RI][OD]A[A-Z0-9]{12}"
)


def hardware(text: str) -> Iterator[Find]:
    """UUIDs of GPUs and ids that a cloud gives to machines, disks and accounts."""
    for found in _LABELLED.finditer(text):
        yield Find(found.start("value"), found.end("value"), "serial", found["value"])
    for found in (*_GPU.finditer(text), *_CLOUD.finditer(text)):
        if not PSEUDONYM.fullmatch(found[0]):
            yield Find(found.start(), found.end(), "uuid", found[0])
    if "GPU-" in text or "uuid-" in text:
        for found in _BESIDE.finditer(text):
            yield Find(found.start("value"), found.end("value"), "serial", found["value"])
    for category, form in _FORMS:
        for found in form.finditer(text):
            for group, value in found.groupdict().items():
                if value and not PSEUDONYM.fullmatch(value):
                    yield Find(found.start(group), found.end(group), category, value)
    for found in _ROLE.finditer(text):
        if (find := user(found["value"], found.start("value"))) is not None:
            yield find
