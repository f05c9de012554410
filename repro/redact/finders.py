"""All finders, each with the hint without which it finds nothing, and one pass that tells which hints a line has."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any

import re2

from repro.redact import chance as chances
from repro.redact import commands, machines, models, owners, people, places
from repro.redact import tokens as forms
from repro.redact.blocks import blocks
from repro.redact.finds import Find
from repro.redact.jsonlines import in_strings, is_record
from repro.redact.keyed import keyed
from repro.redact.paths import paths
from repro.redact.variables import variables
from repro.redact.views import undone

_KEYS = (
    r"(?i)pass(?:w|phrase|code|key|\b|_|[\"'=:])|pwd|pswd|secret|credential|\bcreds?|api[_ -]?key|auth|cookie|bearer|basic |netrc|login|mnemonic|connection|conn_?str|\bdsn|jwt|\bpsk|webhook|otp\b|\bpin\b|session_?id|jsession|csrf"
    r"|key[s]?(?:[_-]\w{1,8})?\\*[\"'`\]]?(?:\s*[=:,>]|\s+is |\s+[\"'`]|\s+[^\s]{14})|(?:token|sig|salt|sas|signature|phrase)(?:[_-]\w{1,8})?\\*[\"'`\]]?(?:\s*[=:,>]\s*\\*[\"'`b]{0,3}\d*[^\s\d,.)]|\s+is |\s+was |\s+\\*[\"'`]|\s+[^\s]{14})|-token[ =]"
    r"|(?:user|owner|logname|host|node|server|peer|addr|address|endpoint|pod|machine|remote|proxy|broker|gateway|nodelist|fqdn|author|submitter|uname)(?:name|names|id|s|list)?(?:[_-]\w{1,8})?\\*[\"'`\]]?(?:\(\))?\s*[=:,]"
    r"|uuid|guid|serial|\bs/?n\b|service.?tag|asset.?tag|chassis|machine.?id|boot.?id|host.?id|instance.?id|ssn|cvv|sshpass|-pass|curl|mysql|maria|redis-cli|docker|podman|ldap|echo|net use|\buser(?:name)? [\w.@-]+:[^\s]|machine |_pass|model[a-z_-]*\\*[\"'`]?[ =:,]+\\*[\"'`]?/|tokenizer[_-]?(?:path)?\\*[\"'`]?[ =:,]+\\*[\"'`]?/|_KEY |_key |_TOKEN |\bpw\b|code=|pass="
)


@dataclass(frozen=True, slots=True)
class Finder:
    """``find`` finds nothing in a line in which ``hint`` (of RE2) has no match."""

    hint: str
    find: Callable[[str], Iterable[Find]]


FINDERS = (
    Finder(forms.HINT, forms.tokens),
    Finder(chances.HINT, lambda text: chances.chance(text, partial(_is_telling, 0))),
    Finder(_KEYS, keyed),
    Finder(r"://|[?&;#][\w.%-]+=", places.web_addresses),
    Finder(r"/[^/\s]+/|\\\\|[A-Za-z]:[\\/]|~", paths),
    Finder(r"(?:^|[^\d.])(?:[1-9]\d?|1[013-9]\d|12[0-689]|2\d\d)(?:\.\d{1,3}){3}", places.ipv4),
    Finder(
        r"(?:[0-9A-Fa-f]{1,4}[:-]){5}|[0-9A-Fa-f]{1,4}::|::[0-9A-Fa-f]|[0-9a-f]{4}\.[0-9a-f]{4}\.|(?i:guid|gid|lid|host_?hash)|(?:[0-9a-f]{4}:){3}",
        places.long_addresses,
    ),
    Finder(
        r"(?:ip|node|host|worker)[_-]\d{1,3}[_-]\d|\d \. \d|\d(?:\[\.\]|[\[(]dot[\])])\d|(?:://|[\"' =:])(?:0[xX][0-9a-fA-F]{8}|\d{9,10}|0\d{1,3}\.|0x[0-9a-fA-F]{1,2}\.)",
        places.odd_addresses,
    ),
    Finder(models.HINT, models.model_names),
    Finder(owners.HINT, owners.owners),
    Finder(r"[A-Za-z0-9_]@[A-Za-z0-9]|[\[({] ?at ?[\])}]", people.emails),
    Finder(r"@[A-Za-z0-9.-]+:[A-Za-z0-9_~]", places.copied),
    *(Finder(hint, partial(people.in_context, context)) for hint, context in people.CONTEXTS),
    Finder(places.FQDN_HINT, places.qualified),
    *(Finder(hint, partial(places.in_context, context)) for hint, context in places.CONTEXTS),
    Finder(machines.HINT, machines.hardware),
    Finder(commands.COMMANDS_HINT, commands.commands),
    Finder(commands.FOREIGN_HINT, commands.foreign),
    Finder(commands.ELEMENTS_HINT, commands.elements),
    Finder(
        r"[A-Z0-9_]=|-e |--env|environ|env|Env|export|setenv|declare|build-arg|(?m:^)\s*-\s+[A-Z][A-Z0-9_]{2,}:|ENV |set [A-Z]",
        variables,
    ),
)

_ESCAPES = (
    r"\x1b|[\x00-\x08]|\\u\{?00|\\U000|\\x[0-9a-fA-F]{2}|\\[0-3][0-7]{2}|%u00|%[0-9a-fA-F]{2}|&(?:#|sol|equals|colon|commat|quot|amp|period)"
    r"|\xe2\x80|\xef\xbb|\xc2\xad|=(?:3D|2E|2F|40|3A|5F|2D)"
)
"""What may hide something from the hints. The zero-width characters are in UTF-8."""

_DEEPEST = 3
_LONGEST = 1 << 15
_LONGEST_REMEMBERED = 1 << 10
_OVERLAP = 1 << 11
_PAIR = re.compile(r"[\w.@$+-]{1,64}:[^\s:/]{3,128}")


@cache
def _hints() -> tuple[Any, Any]:
    """(the set of hints, one expression for all of them), over UTF-8 bytes."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = 512 << 20
    options.log_errors = False
    options.never_capture = True
    every = re2.Set.SearchSet(options)
    for finder in FINDERS:
        every.Add(finder.hint.encode("latin-1"))
    every.Add(b"")  # is always there, unless the set gave up for want of memory
    every.Compile()
    hints = [finder.hint for finder in FINDERS] + [_ESCAPES, r"(?m:^)[ \t]*[{\[]\""]
    one = re2.compile(("|".join(f"(?:{hint})" for hint in hints)).encode("latin-1"), options)
    return every, one


def hinted(line: bytes) -> list[int]:
    """The places in `FINDERS` of those that may find something; all of them if the set gave up for want of memory."""
    places = _hints()[0].Match(line)
    if not places:
        return list(range(len(FINDERS)))
    return sorted(place for place in places if place < len(FINDERS))


def found_in(text: str) -> list[Find]:
    """All that the finders see in a text of any length: as it stands, and with its escapes undone."""
    if len(text) <= _LONGEST_REMEMBERED:
        return list(_remembered(text))
    if len(text) <= _LONGEST:
        return _found(text, 0)
    finds: list[Find] = []
    for begin in range(0, len(text), _LONGEST - _OVERLAP):
        piece = text[begin : begin + _LONGEST]
        finds.extend(find._replace(start=find.start + begin, end=find.end + begin) for find in _found(piece, 0))
    return finds


@lru_cache(maxsize=1 << 15)
def _remembered(text: str) -> tuple[Find, ...]:
    """A line is asked for three times: when learning, when replacing, and by the second net."""
    return tuple(_found(text, 0))


def _found(text: str, depth: int) -> list[Find]:
    finds = [*_plain(text, depth), *_in_view(text, depth)]
    if not is_record(text):
        return finds
    return list(in_strings(text, finds, lambda inner: [*_in_view(inner, depth)] or [*_plain(inner, depth)]))


def _in_view(text: str, depth: int) -> Iterator[Find]:
    """What is found when the escapes are undone."""
    for view in undone(text):
        for find in _plain(view.text, depth):
            if find.start < find.end:
                start, end = view.original(find.start, find.end)
                yield find._replace(start=start, end=end)


def _plain(text: str, depth: int) -> Iterator[Find]:
    for place in hinted(text.encode("utf-8", "surrogatepass")):
        finder = FINDERS[place]
        if finder.hint is not chances.HINT:
            yield from finder.find(text)
        else:
            yield from chances.chance(text, partial(_is_telling, depth))
    if "\n" in text:
        for span in blocks(text.encode("latin-1", "replace")):  # one byte for each character
            yield Find(span.start, span.end, "secret", span.value)


@lru_cache(maxsize=1 << 15)
def _holds(run: str, depth: int) -> bool:
    return chances.holds(run, lambda text: _tells(text, depth + 1))


def _is_telling(depth: int, run: str) -> bool:
    return depth < _DEEPEST and _holds(run, depth)


def holds_something(text: str) -> bool:
    """True if there is anything in the text that must not be shown."""
    return _tells(text, 0)


def _tells(text: str, depth: int) -> bool:
    if _PAIR.fullmatch(text.strip()) and not text.startswith("http"):
        return True
    return any(find.category != "variable" for find in _found(text, depth)) or any(True for _ in variables(text))


def line_spans(data: bytes, *, every: bool, more: Mapping[int, object]) -> Iterator[tuple[int, int]]:
    """(start, end) of the lines in which a finder may find something, of all lines with ``every``; and of those whose
    starts ``more`` holds."""
    rest = sorted(more)
    search = _hints()[1].search
    at, length = 0, len(data)
    while at < length:
        hit = at if every else _next_hit(search, data, at)
        while rest and (hit is None or rest[0] < hit):
            start = rest.pop(0)
            end = data.find(b"\n", start)
            if start >= at and (hit is None or (end >= 0 and end <= hit)):
                yield start, end if end >= 0 else length
        if hit is None:
            return
        start = data.rfind(b"\n", at, hit) + 1 or at
        end = data.find(b"\n", hit)
        end = end if end >= 0 else length
        yield start, end
        at = end + 1


def _next_hit(search: Callable[..., Any], data: bytes, at: int) -> int | None:
    found = search(data, at)
    return None if found is None else int(found.start())
