"""The second net: what is about to be packed, looked at once more, also by the rules of detect-secrets."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from repro.redact.blocks import blocks
from repro.redact.chance import drawn
from repro.redact.finders import found_in, line_spans
from repro.redact.keys import says_nothing
from repro.redact.redactor import Redactor
from repro.redact.vocabulary import PSEUDONYM

_CANDIDATE = re.compile(rb"[A-Za-z0-9+/=_-]{16}|(?i:pass|secret|key|token|auth|credential|://)")
_PADDED = re.compile(rb"[\0\t\n\r\x1b -~\x80-\xff]*")
"""Text with NULs: arguments of commands, UTF-16."""
_PRINTABLE = re.compile(rb"[\t -~]{6,}")
_BENIGN = re.compile(
    r"[0-9a-f]{7,16}|[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128}|[0-9A-F]{32,64}|0x[0-9a-fA-F]+"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|sha(?:256|384|512)[-:].*|[\d.,:TZ+-]+|_Z\w+"
)
_PLUGINS = (
    "ArtifactoryDetector AWSKeyDetector AzureStorageKeyDetector BasicAuthDetector CloudantDetector DiscordBotTokenDetector GitHubTokenDetector"
    " GitLabTokenDetector IbmCloudIamDetector IbmCosHmacDetector JwtTokenDetector MailchimpDetector NpmDetector OpenAIDetector"
    " PypiTokenDetector SendGridDetector SlackDetector SoftlayerDetector SquareOAuthDetector StripeDetector TelegramBotTokenDetector TwilioKeyDetector"
).split()
_ADVICE = "name it in a file of words (--redact-word FILE), or leave the file out"
_MOST = 20
_LONGEST_LINE = 1 << 16


def survivors(files: Mapping[str, bytes], redactor: Redactor | None = None) -> list[str]:
    """One line for each secret-looking text that is still there: file, line, kind and what to do, never the text.

    ``files`` are those of the bundle by their paths, after redaction; ``redactor`` is the one that they went through,
    whose secrets are then looked for in binary files too. Empty: the bundle may leave.
    """
    problems: list[str] = []
    for where in sorted(files):
        data = files[where]
        found = _in_binary(data, redactor) if _is_binary(data) else _in_text(data)
        for told, (place, kind) in enumerate(found, start=1):
            problems.append(f"{where}{place}: {kind} is still there; {_ADVICE}")
            if told == _MOST:
                problems.append(f"{where}: more of the same may follow")
                break
    return problems


def _is_binary(data: bytes) -> bool:
    head = data[: 1 << 16]
    return (
        data[:4] == b"\x7fELF"
        or data[:2] in {b"\x1f\x8b", b"PK"}
        or data[:4] == b"\x28\xb5\x2f\xfd"
        or (head.count(b"\0") * 100 > len(head) and _PADDED.fullmatch(head) is None)
    )


def _in_text(data: bytes) -> Iterator[tuple[str, str]]:
    for span in blocks(data):
        if not PSEUDONYM.search(span.value):
            number = data.count(b"\n", 0, span.start) + 1
            yield f":{number}", "a part of a key"
    number = 1
    at = 0
    for start, end in line_spans(data, every=False, more={}):
        number += data.count(b"\n", at, start)
        at = start
        line = data[start:end].decode("utf-8", "replace")
        theirs = _theirs(line) if _CANDIDATE.search(data[start:end]) else ()
        for kind in sorted({*_ours(line), *theirs}):
            yield f":{number}", kind


def _in_binary(data: bytes, redactor: Redactor | None) -> Iterator[tuple[str, str]]:
    if redactor is not None and redactor.still_known(data):
        yield "", "a text that was replaced elsewhere"
        return
    seen: set[str] = set()
    for found in _PRINTABLE.finditer(data):
        for find in found_in(found[0].decode("ascii")):
            if find.category in {"secret", "email", "user"} or (find.category == "path" and len(find.value) > 8):
                kind = f"{_spoken(find.category)} in a binary file"
                if kind not in seen:
                    seen.add(kind)
                    yield "", kind


def _ours(line: str) -> Iterator[str]:
    for find in found_in(line):
        if not PSEUDONYM.search(line[find.start : find.end]) and not says_nothing(find.value):
            yield _spoken(find.category)


def _spoken(category: str) -> str:
    names = {
        "secret": "a secret",
        "email": "an e-mail address",
        "ip": "an IP address",
        "user": "a user's name",
        "host": "a host's name",
    }
    return names.get(category, f"a {category}" if category != "variable" else "a variable that is not on the list")


def _theirs(line: str) -> Iterator[str]:
    text = line[:_LONGEST_LINE]
    for plugin in _detectors():
        for secret in plugin.analyze_string(text):
            if not _is_harmless(str(secret)):
                yield f"{plugin.secret_type} (detect-secrets)"
                break
    for plugin in _entropy():
        for secret in plugin.analyze_string(text):
            value = str(secret)
            if (
                not _is_harmless(value)
                and drawn(value)
                and plugin.calculate_shannon_entropy(value) > plugin.entropy_limit
            ):
                yield f"{plugin.secret_type} (detect-secrets)"
                break


def _is_harmless(value: str) -> bool:
    return bool(_BENIGN.fullmatch(value) or PSEUDONYM.search(value)) or says_nothing(value)


@cache
def _detectors() -> tuple[Any, ...]:
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    found: Any = (
        get_mapping_from_secret_type_to_class()
    )  # what mypy makes of its type depends on the state of its cache
    classes = {kind.__name__: kind for kind in found.values()}
    return tuple(classes[name]() for name in _PLUGINS if name in classes)


@cache
def _entropy() -> tuple[Any, ...]:
    from detect_secrets.plugins.high_entropy_strings import Base64HighEntropyString, HexHighEntropyString

    return Base64HighEntropyString(limit=4.5), HexHighEntropyString(limit=3.0)
