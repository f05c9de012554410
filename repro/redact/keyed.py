"""Values that the name before them gives away: passwords, tokens, headers, users, hosts, serial numbers."""

import re
from collections.abc import Iterator

from repro.redact.chance import drawn
from repro.redact.finds import Find
from repro.redact.keys import KeyClass, guarded, is_secret, key_class, says_nothing
from repro.redact.paths import whole
from repro.redact.people import user
from repro.redact.places import hosts_in, is_host

_Q = r"\\*[\"'`]"
PAIR = re.compile(
    rf"(?<![A-Za-z0-9_.-])(?P<quote>{_Q})?(?P<name>-{{0,2}}[A-Za-z_][A-Za-z0-9_.-]{{0,90}}"
    r"(?: (?i:key|token|secret|password|passphrase|string|id|number|no|name|tag|uuid|phrase|code)\b){0,2})(?P<close>\\*[\"'`])?\]?(?:\(\))?"
    rf"(?:(?P<sep>\s*(?::\s*(?:str|bytes|SecretStr|Optional\[\w+\]|str\s*\|\s*None)\s*=|=>|:=|->|→|⇒|[=:\uff1a\uff1d]{{1,2}})\s*|\s*\|\s+(?=[^\s|]+\s*\|)|\s+(?i:is|was|set\sto|has\svalue)\s*:?\s+)|(?P<list>\s*,\s*)(?=[bru]?{_Q})"
    rf"|(?P<xml>(?:\s[^<>]{{0,80}})?>)|(?P<space>\s+)(?=\S))"
)
_QUOTED = re.compile(r"[bruBRUfF]{0,2}(?P<open>\\*)(?P<mark>[\"'`])")
_UNQUOTED = re.compile(
    r"(?:[^\s\"'`\\,;&<>)\]}|]|\\(?![nrt\"'`\\])|[,;&|](?=[^\s\"'\\])(?![\w.-]{1,40}\s*[=:])|[)\]}](?=[^\s,;:)\]}.\"'\\])|[<>](?=\w))+"
)
_DOUBLED = re.compile(r"''(?=[\w ])")
_ITEM = re.compile(
    r"[\s,]*[bru]?(?P<open>\\*)(?P<mark>[\"'])(?P<value>(?:(?!(?P=mark))[^\\]|\\(?!(?P=mark)))*?)(?P=open)(?P=mark)"
)
_WRAPPED = re.compile(r"(?:\w*Secret\w*|\w*Password\w*|Some|str|bytes|repr|f)\(\s*(?=[bru]?\\*[\"'])")
_EMPTY = re.compile(r"[\[(]\s*[\])]")
_LISTED = frozenset(("password", "secret", "weak", "weakest", "number"))
_REST = re.compile(r"(?:[^\"'`\n\\]|\\(?![nr\"'`\\]))+")
_PLACEHOLDER = re.compile(r"<[A-Za-z][^<>\n]{0,60}>|\[[A-Za-z_ *]+\]")
_NO_VALUE = frozenset(
    "not no none set missing required invalid empty wrong incorrect expired too being a an the used stored unset ok valid only optional given provided"
    " null never always now already disabled enabled shown hidden redacted accepted rejected ignored in on for by as correct needed loaded read sent".split()
)
_VALUE_OBJECT = re.compile(rf"\s*[,}}\n\s]*\s*{_Q}?value{_Q}?\s*[:=]\s*[bru]?(?=\S)", re.IGNORECASE)
_SCHEME = re.compile(
    r"(?i)(?<![\w-])(?:bearer|basic|digest|negotiate|apikey|api-key|token)[ \t:]+(?P<value>[A-Za-z0-9._~+/=:-]{8,})"
)
_BRACKETED = re.compile(
    r"(?i)\b(?:password|passwd|passphrase|secret|token|api[ _-]?key)\s*[(\[]\s*[\"']?(?P<value>[^\s\"'()\[\]=]{6,200})[\"']?\s*[)\]]"
)
_NAMED_AFTER = re.compile(
    r"(?i)[\"']value\\*[\"']\s*:\s*\\*[\"'](?P<value>[^\"'\\]{1,400})\\*[\"']\s*,\s*\\*[\"'](?:name|key)\\*[\"']\s*:\s*\\*[\"'](?P<name>[\w.-]{2,80})\\*[\"']"
)
_NETRC = re.compile(r"\b(?:login|account)\s+(?P<login>\S+)|\bpassword\s+(?P<value>\S+)")
_PAIR_OF = re.compile(
    r"(?i)\b(?:auth|basic_auth|httpbasicauth|credentials?|login|http_auth|userpwd)\s*[=:(]+\s*[(\[]?\s*b?[\"'](?P<name>[^\"']{1,80})[\"']\s*,\s*b?[\"'](?P<value>[^\"']{1,200})[\"']"
)
_SPOKEN = re.compile(
    r"(?i)\b(?:password|passwd|passphrase|passcode|secret|credential|api[ _-]?key|access[ _-]?key|access[ _-]?token|auth[ _-]?token|api[ _-]?token"
    r"|token|key|pin)s?\b[^\n]{0,40}?[\s:=('\"`\[<]{1,3}(?P<value>[^\s'\"`<>()\[\],;]{8,})"
)
_HASHLIKE = re.compile(
    r"(?i)hash|sha|digest|checksum|commit|revision|snapshot|cache|build|md5|crc|cubin|kernel|uuid|rid|request|tree|blob|fingerprint|prefix|block"
)


def keyed(text: str) -> Iterator[Find]:
    """All values behind names, in any of the notations of logs, command lines, headers and configurations."""
    at = 0
    while (found := PAIR.search(text, at)) is not None:
        at = found.end()
        kind = key_class(found["name"].lstrip("-"))
        if kind == "weak" and found["name"].startswith("--"):
            kind = "secret"
        if kind is not None and not (kind == "maybe_host" and text[max(found.start() - 1, 0)] in "/."):
            for find in _value(text, found, kind):
                at = max(at, find.end)
                yield find
    for found in _SCHEME.finditer(text):
        if not says_nothing(found["value"]) and _is_credential(found["value"]):
            yield Find(found.start("value"), found.end("value"), "secret", found["value"])
    for found in _PAIR_OF.finditer(text):
        for group in ("name", "value"):
            if not says_nothing(found[group]):
                yield Find(found.start(group), found.end(group), "secret", found[group])
    for found in _BRACKETED.finditer(text):
        if guarded(found["value"]) and not says_nothing(found["value"]):
            yield Find(found.start("value"), found.end("value"), "secret", found["value"])
    yield from _named_after(text)
    yield from _netrc(text)
    yield from _spoken(text)


def _named_after(text: str) -> Iterator[Find]:
    """Values that stand before their name: `{"value": …, "name": "TOKEN"}`."""
    for found in _NAMED_AFTER.finditer(text):
        kind = key_class(found["name"])
        if kind in {"password", "secret", "header"} and is_secret(found["value"], kind):
            yield Find(found.start("value"), found.end("value"), "secret", found["value"])


def _netrc(text: str) -> Iterator[Find]:
    if not re.search(r"\b(?:machine|default)\s.*\b(?:login|password)\s", text) and not re.search(
        r"(?m)^\s*(?:login|password)\s+\S+\s*$", text
    ):
        return
    for found in _NETRC.finditer(text):
        for group in ("login", "value"):
            if found[group] and not says_nothing(found[group]):
                yield Find(found.start(group), found.end(group), "secret", found[group])


def _spoken(text: str) -> Iterator[Find]:
    """A value that looks drawn by chance in a sentence about a key; digests there are keys too, unless it says hash."""
    for found in _SPOKEN.finditer(text):
        value = found["value"].rstrip(".:!?")
        if says_nothing(value) or _HASHLIKE.search(text, max(found.start() - 12, 0), found.start("value")):
            continue
        hexadecimal = re.fullmatch(
            r"[0-9a-f]{24,}|[0-9A-F]{24,}|0x[0-9a-fA-F]{40,}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
            value,
        )
        if hexadecimal or drawn(value):
            yield Find(found.start("value"), found.start("value") + len(value), "secret", value)


def _is_credential(value: str) -> bool:
    return (
        len(value) >= 16 or any(c.isdigit() or c in "=+~:" for c in value) or not (value.islower() or value.istitle())
    )


def _value(text: str, pair: re.Match[str], kind: KeyClass) -> Iterator[Find]:
    if not _is_pair(text, pair, kind):
        return
    start = pair.end()
    if (named := _VALUE_OBJECT.match(text, start - len(pair["list"] or ""))) and pair["list"] is not None:
        start = named.end()
    if _PLACEHOLDER.match(text, start) and pair["xml"] is None:
        return
    if kind in _LISTED and text.startswith(("[", "("), start):
        items = list(_items(text, start))
        for begin, end in items:
            yield from judged(text, begin, end, kind)
        if items or _EMPTY.match(text, start):
            return
    if (wrapped := _WRAPPED.match(text, start)) is not None:
        start = wrapped.end()
    begin, end = _span(text, start, kind, pair)
    if begin < end and not _says_otherwise(text[begin:end], pair, is_bare=begin == start):
        yield from judged(text, begin, end, kind)


def _is_pair(text: str, pair: re.Match[str], kind: KeyClass) -> bool:
    """True if what stands between name and value joins them."""
    if pair["space"] is not None:
        return _space_counts(pair, kind, text)
    if pair["xml"] is not None:
        return text[max(pair.start() - 1, 0)] == "<"
    return pair["list"] is None or pair["close"] is not None


def _says_otherwise(value: str, pair: re.Match[str], *, is_bare: bool) -> bool:
    """True for `password is required`, `PWD=/x` and `pass: 3 of 5`."""
    separator = pair["sep"]
    if separator is not None and separator.strip()[:1].isalpha() and value.lower().split(" ")[0] in _NO_VALUE:
        return True
    if pair["name"] in {"PWD", "OLDPWD"} and value.startswith("/"):
        return True
    return pair["name"].lower() == "pass" and is_bare and (separator or "")[-1:].isspace() and not guarded(value)


def _items(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Where the texts in quotes of a list begin and end."""
    at = start + 1
    while (item := _ITEM.match(text, at)) is not None:
        yield item.span("value")
        at = item.end()


def _space_counts(pair: re.Match[str], kind: KeyClass, text: str) -> bool:
    """A name and a value with nothing but a blank between them: a flag, or a word before something in quotes."""
    if pair["name"].startswith("-"):
        return not text.startswith("-", pair.end()) or kind in {"password", "secret"}
    if kind not in {"password", "secret", "header"} or pair["close"] is not None:
        return False
    if (
        "_" in pair["name"]
        and (value := _UNQUOTED.match(text, pair.end())) is not None
        and guarded(value[0])
        and re.search(r"\d", value[0])
        and not re.search(r"[=(]", value[0])
    ):
        return True
    return _QUOTED.match(text, pair.end()) is not None


def _span(text: str, start: int, kind: KeyClass, pair: re.Match[str]) -> tuple[int, int]:
    quoted = _QUOTED.match(text, start)
    if quoted:
        begin = quoted.end()
        closing = re.compile(
            rf"(?<!\\){re.escape(quoted['open'] + quoted['mark'])}"
            if not quoted["open"]
            else re.escape(quoted["open"] + quoted["mark"])
        ).search(text, begin)
        while closing and quoted["mark"] == "'" and _DOUBLED.match(text, closing.start()):
            closing = closing.re.search(text, closing.end() + 1)
        if closing:
            return begin, closing.start()
        start = begin
    if pair["xml"] is not None:
        end = text.find("<", start)
        return start, end if end >= 0 else len(text)
    whole = kind == "header" or (
        kind == "password"
        and (
            not text[text.rfind("\n", 0, pair.start()) + 1 : pair.start()].strip(" \t-")
            or "phrase" in pair["name"].lower()
        )
    )
    whole = whole or re.search(r"(?i)mnemonic|seed.?phrase", pair["name"]) is not None
    whole = whole and (pair["sep"] is not None and (kind == "header" or re.search(r":|\s", pair["sep"]) is not None))
    found = (_REST if whole else _UNQUOTED).match(text, start)
    if not found:
        return start, start
    return start, start + len(found[0].rstrip(" \t\r\n," if whole else ".,:!?"))


def judged(text: str, begin: int, end: int, kind: KeyClass) -> Iterator[Find]:
    value = text[begin:end]
    if kind in {"password", "secret", "weak", "weakest", "number"}:
        if is_secret(value, kind) and (kind != "weak" or drawn(value) or not value.count("_") > 1):
            yield Find(begin, end, "secret", value)
            first = value.split(" ", 1)[0].rstrip(".,;")
            if first != value and len(first) >= 6:
                yield Find(begin, begin + len(first), "secret", first)
    elif kind == "header":
        yield from _header(value, begin)
    elif kind in {"serial", "uuid"}:
        yield from _identity(value, begin, "serial" if kind == "serial" else "uuid")
    elif kind == "path":
        yield from whole(value, begin)
    elif kind == "user":
        yield from _person(text, value, begin, end)
    elif kind in {"host", "maybe_host"}:
        yield from hosts_in(value, begin, certain=kind == "host")


def _header(value: str, begin: int) -> Iterator[Find]:
    scheme = re.match(r"(?i)(?:bearer|basic|digest|token|negotiate|apikey|aws4-hmac-sha256|ntlm)\s+", value)
    skipped = scheme.end() if scheme else 0
    rest = value[skipped:]
    if says_nothing(rest) or (not scheme and re.fullmatch(r"[a-z ]+", rest) and " " in rest):
        return
    yield Find(begin + skipped, begin + len(value), "secret", rest)


def _identity(value: str, begin: int, category: str) -> Iterator[Find]:
    bare = value.strip()
    if (
        says_nothing(bare)
        or not re.fullmatch(r"(?=.*\d)[A-Za-z0-9][A-Za-z0-9:./_-]{4,}", bare)
        or re.fullmatch(r"0+|0x0+", bare)
    ):
        return
    at = begin + value.index(bare)
    yield Find(at, at + len(bare), "serial" if category == "serial" else "uuid", bare)


def _person(text: str, value: str, begin: int, end: int) -> Iterator[Find]:
    name = re.match(r"[A-Za-z_][A-Za-z0-9_.\\-]*[A-Za-z0-9_]|[A-Za-z]", value)
    if not name or (name.end() < len(value) and value[name.end()] not in "(@,"):
        return
    if text[begin - 1 : begin] in {" ", "\t"} and not re.match(r"\s*(?:$|[,;)\]}|]|[\w.-]+\s*[:=]|\n)", text[end:]):
        return
    if (find := user(name[0], begin)) is not None and is_host(name[0]) is not None:
        yield find
