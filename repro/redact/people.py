"""Names of users and addresses of people."""

import re
from collections.abc import Iterator

from repro.redact.finds import Find
from repro.redact.places import hosts_in
from repro.redact.vocabulary import NOBODY, PSEUDONYM

_NAME = r"[A-Za-z_][A-Za-z0-9_.-]{0,40}[A-Za-z0-9_]"
EMAIL = re.compile(
    r"(?<![A-Za-z0-9.!#$%&*+/=?^_`{|}~-])[A-Za-z0-9][A-Za-z0-9.!#$%&*+=?^_`{|}~-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,6}[A-Za-z]{2,12}(?![A-Za-z0-9])"
)
_SPELT = re.compile(r"(?i)\b[\w.+-]{1,64} ?[\[({] ?at ?[\])}] ?[\w-]+(?: ?(?:\.|[\[({] ?dot ?[\])}]) ?[\w-]+)+")
_IN_URL = re.compile(r"://[^\s/@]*\Z")
CONTEXTS = (
    (
        r"[ug]id=|groups=",
        re.compile(rf"\b[ug]id=\d+\((?P<a>{_NAME})\)|\bgroups=(?:\d+\([\w.-]+\),)*\d+\((?P<b>{_NAME})\)"),
    ),
    (
        r"(?i)(?:for|by)\s+(?:invalid\s+)?user|sudo",
        re.compile(
            rf"(?i)\b(?:for|by)\s+(?:invalid\s+)?user\s+[\"']?(?P<a>{_NAME})|\bsudo(?:\[\d+\])?:\s+(?P<b>{_NAME})\s+:"
        ),
    ),
    (
        r"Accepted|ubmitted|(?:owned|launched|requested|triggered|started) by",
        re.compile(
            rf"Accepted\s+\w+\s+for\s+(?P<a>{_NAME})\s+from|\b(?:[Ss]ubmitted\b[^\n]{{0,40}}?|owned|launched|requested|triggered|started)\s+by\s+(?P<b>{_NAME})(?![\w(:/])"
        ),
    ),
    (
        r"\s(?:R|PD|CG|CD|F|S|TO)\s+[\d:-]+\s+\d+\s",
        re.compile(
            rf"\b\d+\s+\S+\s+\S+\s+(?P<a>{_NAME})\s+(?:R|PD|CG|CD|F|S|TO)\s+[\d:-]+\s+\d+\s+(?P<host>[A-Za-z0-9][\w.-]*[A-Za-z0-9])?"
        ),
    ),
    (
        r"[A-Za-z0-9_]@[A-Za-z0-9]",
        re.compile(
            rf"(?<![\w.@/-])(?P<a>{_NAME})@(?P<host>[A-Za-z][A-Za-z0-9.-]*[A-Za-z0-9]|(?:\d{{1,3}}\.){{3}}\d{{1,3}})(?=:[~/]|[\s#$%>:]|\)|'|\"|$)"
        ),
    ),
    (
        r"[-dlbcps][r-][w-][xsStT-][r-][w-]",
        re.compile(
            rf"(?m)(?:^|\s)[-dlbcps](?:[r-][w-][xsStT-]){{3}}[.+@]?\s+\d+\s+(?P<a>{_NAME})\s+(?P<b>{_NAME})\s+[\d,.]+[KMGT]?\s"
        ),
    ),
    (
        r"(?m:^)[A-Za-z_][\w.-]*\s+\d+\s+\d+\.\d\s",
        re.compile(rf"(?m)^(?P<a>{_NAME})\s+\d+\s+\d+\.\d\s+\d+\.\d\s+\d+\s+\d+\s"),
    ),
    (
        r"(?:torchinductor|krb5cc|tmux|pip-user)_",
        re.compile(
            r"\b(?:torchinductor|krb5cc|tmux|pip-user)_(?P<a>(?!cache|session|tmp)[A-Za-z][a-z0-9.-]{2,30})(?=[/\s\"':]|$)"
        ),
    ),
    (
        r"~[a-z]|chown|su\s|ssh -l|ssh\s+-l",
        re.compile(
            rf"(?:~(?P<a>[a-z][a-z0-9_.-]+)/|\bchown\s+(?:-R\s+)?(?P<b>{_NAME})[:\s]|\bsu\s+-\s*(?P<c>{_NAME})(?:\s|$)|\bssh\s+-l\s+(?P<d>{_NAME}))"
        ),
    ),
    (
        r"\buser(?:name)? [A-Za-z]",
        re.compile(rf"(?i)\buser(?:name)? (?P<a>{_NAME}):(?=[^\s:/]{{4,}})"),
    ),
    (
        r"pts/\d|tty\d|acct=|of [Uu]ser|\d\d:\d\d:\d\d [+-]\d{4} +\d+\)|GroupId=|(?m:^)[ \t]+[Uu]ser\s|\|(?:COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY|RUNNING)|\* [a-z]|CREATE USER|GRANT",
        re.compile(
            rf"(?m)^(?:reboot\s+)?(?P<a>{_NAME})\s+(?:pts/|tty)\d+|acct=\"(?P<b>{_NAME})\"|\bof [Uu]ser (?P<c>{_NAME}?)\.?$|^[0-9a-f^]{{7,40}} (?:\S+ +)?\((?P<d>[A-Za-z][\w'.-]*(?: [A-Za-z][\w'.-]*){{0,3}}) +\d{{4}}-\d\d-\d\d \d\d:"
            rf"|\bGroupId=(?P<e>{_NAME})\(|^\s+[Uu]ser\s+(?P<f>{_NAME})\s*$|^(?:[\d*/,-]+ +){{5}}(?P<g>{_NAME}) +/|(?i:create user|grant\b[^\n]{{1,80}}?\bto) [\"'`](?P<h>{_NAME})[\"'`]"
            rf"|^\d+(?:[._]\w+)?\|[^|\n]*\|(?P<i>{_NAME})\|(?P<j>{_NAME})\|(?:COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY|RUNNING)"
        ),
    ),
    (r":[x*!]:\d", re.compile(rf"\b(?P<a>{_NAME}):[x*!]:\d+:\d+:(?P<b>[^:\n]*):")),
    (
        r"[A-Z0-9]\\\\?[a-z]",
        re.compile(r"(?<![\w\\])(?P<host>[A-Z][A-Z0-9-]{1,14})\\{1,2}(?P<a>[a-z][a-z0-9_.-]{2,20})(?![\w\\])"),
    ),
)
"""(hint, where programs name users)."""


def user(name: str, at: int) -> Find | None:
    """A name of a user as a find; None for names that many machines have."""
    if name.lower() in NOBODY or PSEUDONYM.fullmatch(name) or len(name) < 2 or name.isdigit():
        return None
    return Find(at, at + len(name), "user", name)


def emails(text: str) -> Iterator[Find]:
    """Addresses of people."""
    for found in _SPELT.finditer(text):
        yield Find(found.start(), found.end(), "email", found[0])
    for found in EMAIL.finditer(text):
        if not found[0].startswith("git@") and not _IN_URL.search(text, max(found.start() - 300, 0), found.start()):
            yield Find(found.start(), found.end(), "email", found[0])


def in_context(context: "re.Pattern[str]", text: str) -> Iterator[Find]:
    """Users, and hosts beside them, in one of the places where programs name them."""
    for found in context.finditer(text):
        for group, value in found.groupdict().items():
            if not value or not re.fullmatch(r"[A-Za-z_].*", value):
                continue
            if group == "host":
                yield from _machine(value, found.start(group))
            elif (find := user(value, found.start(group))) is not None:
                yield find


def _machine(name: str, at: int) -> Iterator[Find]:
    yield from hosts_in(name, at, certain=True)
