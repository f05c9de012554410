"""Whose it is: customers, teams and projects, people by their full names, telephone and account numbers, resources of a
cloud, entries of a directory."""

import re
from collections.abc import Iterator

from repro.redact.finds import Find
from repro.redact.people import user
from repro.redact.vocabulary import NOTHING, PSEUDONYM

HINT = (
    r"(?i:customer|tenant|company|employer|department|cost.?cent|business|organi[sz]ation|team|project|account|workspace|namespace|cluster|partition|reservation|qos|vpc|bucket|container_?name|storage)"
    r"|[A-Z][\w'.-]+ <|\" <|directory '|\(project |(?i:tel|phone|mobil|fax|handy|cell)\W|\+\d|\(\d{3}\)|\d{3}[-.]\d{3}[-.]\d{4}|(?:[ ]?\d{4}){3}|\d{4}-\d{4}-|[A-Z]{2}\d{2}[ A-Z0-9]{11}|(?i:dc|ou|cn)=|(?:instances|resourceGroups|virtualMachines|pods|nodes|secrets|buckets|b|clusters|repos|vaults|jobs)/"
)
_KEYED = re.compile(
    r"(?i)(?<![A-Za-z0-9])(?:(?:slurm[_-])?(?:job[_-])?(?:customer|tenant|company|employer|department|cost[_-]?cent(?:er|re)|business[_-]?unit|organi[sz]ation|team|project|account|workspace|cluster|reservation)"
    r"(?:[_-]?(?:name|id|slug))?|(?:k8s|pod|kube|exported)?[_-]?namespace|bucket(?:[_-]?name)?|wandb[_-]entity|entity)\\*[\"'`]?(?:=|\s*:\s*(?=\\*[\"'`])|\s*:\s(?=[A-Za-z][\w-]*\s*$))\s*(?:\\*[\"'`](?P<quoted>[^\"'`\\\n{}]{2,80})\\*[\"'`]|(?P<bare>[A-Za-z][\w.@-]{2,60})(?=[\s,;\"'}\])]|$))"
)
_COMMON = frozenset(
    "default kube-system kube-public kube-node-lease monitoring prometheus sglang vllm nvidia gpu-operator torch main local global system sample demo test"
    " std aten c10 at cuda cub thrust cutlass cute detail dev prod production staging none true false size shape launch group kernel thread block dims".split()
)
_FULL_NAME = re.compile(r"(?<![\w'.-])(?P<name>[A-Z][\w'.-]*(?: [A-Za-z][\w'.-]*){1,3}) <(?=[^\s<>@]+@|email-\d)")
_PHONE = re.compile(
    r"(?<![\w.+-])(?:\+\d{1,3}[ .-]?\(?\d{1,4}\)?(?:[ .-]\d{2,5}){1,4}|\+[1-9]\d{9,13}|\(\d{3}\) ?\d{3}[-.]\d{4}|(?:1[-.])?[2-9]\d{2}([-.])[2-9]\d{2}\1\d{4})(?![\w.:-]?\d)"
)
_QUOTED_NAME = re.compile(r"\"(?P<name>[^\"<>\n]{3,60})\" <(?=[^\s<>]+@|email-\d)")
_DIRECTORY = re.compile(r"\bdirectory '(?P<name>[^'\n]{3,60})'")
_SYNCED = re.compile(r"\(project (?P<project>[\w.-]{3,60})(?:, entity (?P<entity>[\w.-]{3,60}))?\)")
_CALLED = re.compile(
    r"(?i)\b(?:tel(?:efon|ephone)?|phone|mobil[e]?|fax|handy|cell)\b\.?[ :]*(?P<value>[+(]?\d[\d ()/.-]{5,18}\d)(?![\w.]?\d)"
)
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])")
_CARD = re.compile(r"(?<![\d.:-])[3-6]\d{3}(?:([ -])\d{4}\1\d{4}\1\d{4}|\1\d{12})(?![\d.:-]?\d)")
_ENTRY = re.compile(
    r"(?i)\b(?P<type>uid|cn|ou|dc|o)=(?P<value>[^,;\"'\\\s=<>]+(?: [^,;\"'\\\s=<>]+)*)(?=,(?:\w+)=|[\s\"';>)]|$)"
)
_RESOURCE = re.compile(
    r"(?<![A-Za-z0-9])(?:instances|resource[gG]roups|virtualMachines|virtualMachineScaleSets|nodePools|storageAccounts|clusters|repos|vaults|buckets|namespaces|pods|nodes|secrets|configmaps|deployments|persistentvolumeclaims)/(?P<value>[A-Za-z][\w.-]{2,80})"
)
_GROUPS = frozenset("com org net corp local internal people users groups svc services admins io de".split())


def owners(text: str) -> Iterator[Find]:
    """Names and numbers of customers, teams, people and accounts."""
    yield from _organisations(text)
    yield from _people(text)
    yield from _numbers(text)
    yield from _entries(text)


def _organisations(text: str) -> Iterator[Find]:
    for found in _KEYED.finditer(text):
        group = "quoted" if found["quoted"] else "bare"
        value = found[group]
        if value.lower() not in _COMMON | NOTHING and not PSEUDONYM.search(value) and re.search("[A-Za-z]", value):
            yield Find(found.start(group), found.end(group), "name", value)
    for found in (*_DIRECTORY.finditer(text), *_SYNCED.finditer(text)):
        for group, value in found.groupdict().items():
            if value and not PSEUDONYM.search(value):
                yield Find(found.start(group), found.end(group), "name", value)
    for found in _RESOURCE.finditer(text):
        if not PSEUDONYM.search(found["value"]) and found["value"].lower() not in _COMMON:
            yield Find(found.start("value"), found.end("value"), "host", found["value"])


def _people(text: str) -> Iterator[Find]:
    for found in (*_FULL_NAME.finditer(text), *_QUOTED_NAME.finditer(text)):
        if not PSEUDONYM.search(found["name"]):
            yield Find(found.start("name"), found.end("name"), "user", found["name"])


def _numbers(text: str) -> Iterator[Find]:
    """Numbers of telephones, accounts and cards."""
    for found in _CALLED.finditer(text):
        if 7 <= sum(c.isdigit() for c in found["value"]) <= 15:
            yield Find(found.start("value"), found.end("value"), "phone", found["value"])
    for found in _PHONE.finditer(text):
        if 9 <= sum(c.isdigit() for c in found[0]) <= 15:
            yield Find(found.start(), found.end(), "phone", found[0])
    for found in _IBAN.finditer(text):
        if _is_account(found[0]):
            yield Find(found.start(), found.end(), "secret", found[0])
    for found in _CARD.finditer(text):
        if _is_card(found[0]):
            yield Find(found.start(), found.end(), "secret", found[0])


def _entries(text: str) -> Iterator[Find]:
    """Parts of a distinguished name of a directory: `uid=…,ou=…,dc=…`."""
    if not re.search(r"(?i)\b(?:dc|ou|o)=", text) or "," not in text:
        return
    for found in _ENTRY.finditer(text):
        value = found["value"]
        if value.lower() in _GROUPS or PSEUDONYM.search(value) or len(value) < 2:
            continue
        if found["type"].lower() in {"uid", "cn"}:
            find = user(value, found.start("value"))
            if find is not None:
                yield find
        else:
            yield Find(found.start("value"), found.end("value"), "name", value)


def _is_account(text: str) -> bool:
    """True if the check digits of an IBAN are right."""
    bare = text.replace(" ", "")
    if not 15 <= len(bare) <= 34:
        return False
    return int("".join(str(int(c, 36)) for c in bare[4:] + bare[:4])) % 97 == 1


def _is_card(text: str) -> bool:
    """True if the check digit of a number of a card is right (Luhn)."""
    digits = [int(c) for c in text if c.isdigit()]
    doubled = [sum(divmod(2 * d, 10)) if place % 2 == 0 else d for place, d in enumerate(digits)]
    return len(digits) == 16 and sum(doubled) % 10 == 0
