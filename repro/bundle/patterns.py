"""Lines of a log -> regular expressions that the same failure's line matches on another machine and at another time."""

import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from repro.bundle.inside.judging import PatternError, first_lines
from repro.diagnose.prefixes import without_lead
from repro.escape import one_line
from repro.model import LogPattern

_MOST_WORDS = 40
_LONGEST = 600
_MOST_GAPS = 3
_FEWEST_LETTERS = 8
"""A pattern with fewer letters of its own could match anything."""
_TELLING = re.compile(r"(?i)(?:code|status|error|signal|errno|xid|exitcode|failure|returned)[:=]?$")
"""After such a word a number says which failure it is."""
_CHANGING = re.compile(
    r"(?P<address>0[xX][0-9a-fA-F]+)"
    r"|(?P<id>\b[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4,}){1,}\b|\b(?=[a-f]*\d)[0-9a-f]{8,}\b)"
    r"|(?P<path>(?:[A-Za-z]+://|~|\.{0,2})?(?:/[\w.@+~<>-]*)+)"
    r"|(?P<rank>\b(?:TP|DP|PP|EP|CP|rank|Rank|RANK|gpu|GPU|device|cuda:|scheduler_|worker_)\d+)"
    r"|(?P<number>(?<![A-Za-z_\d.])\d[\d.,:]*\d|(?<![A-Za-z_\d.])\d)(?![A-Za-z_])"
)
_ANY_NUMBER = r"[\d.,:]+"
_GAP = r".{1,200}?"
Redact = Callable[[str], str]


def pattern_of(line: str, redact: Redact) -> LogPattern | None:
    """The pattern of a line, made of what stays of it when it is redacted; None if too little of it does.

    Numbers, addresses, ids, ranks, paths and what redaction replaces become classes; a number after `code`, `signal`
    and the like stays, because it says which failure it is.
    """
    original = without_lead(line).split()[:_MOST_WORDS]
    redacted = without_lead(redact(line)).split()[:_MOST_WORDS]
    if not original or not redacted:
        return None
    pieces: list[str] = []
    gaps = 0
    for tag, begin, end, _, _ in SequenceMatcher(a=original, b=redacted, autojunk=False).get_opcodes():
        if tag == "equal":
            pieces += (_general(original, place) for place in range(begin, end))
        elif gaps < _MOST_GAPS and pieces:
            gaps += 1
            pieces.append(_GAP)
        elif pieces:
            break
    while pieces and pieces[-1] == _GAP:
        pieces.pop()
    pattern = _joined(pieces)
    letters = sum(len(found) for found in re.findall(r"[A-Za-z]{2,}", re.sub(r"\\.|\[[^\]]*\]", " ", pattern)))
    expression = re.compile(pattern) if letters >= _FEWEST_LETTERS else None
    if expression is None or not (expression.search(line) and expression.search(redact(line))):
        return None
    return LogPattern(pattern=pattern, says=one_line(redact(line), 200))


def common_pattern(
    lines: Sequence[str], logs: Sequence[Path], healthy: Sequence[Path], redact: Redact
) -> LogPattern | None:
    """One pattern that has a line in each of the ``logs`` and none in any ``healthy`` one; None if there is none.

    ``lines`` are the lines that decided, one of each log. Where they differ, the pattern takes either.
    """
    made = {found.pattern: found for line in lines if (found := pattern_of(line, redact)) is not None}
    usable = [found for found in made.values() if not any(_matches(found.pattern, log) for log in healthy)]
    for found in usable:
        if all(_matches(found.pattern, log) for log in logs):
            return found
    if not usable:
        return None
    either = "|".join(f"(?:{found.pattern})" for found in usable)
    if not all(_matches(either, log) for log in logs):
        return None
    return LogPattern(pattern=either, says=one_line(" or: ".join(found.says for found in usable), 400))


def _matches(pattern: str, log: Path) -> bool:
    try:
        return first_lines(log, [pattern])[0] is not None
    except PatternError:
        return False  # it takes for ever on this log: of no use to anybody


def _general(words: Sequence[str], place: int) -> str:
    """One word as a regular expression."""
    word = words[place]
    telling = place > 0 and _TELLING.search(words[place - 1]) is not None
    pieces: list[str] = []
    end = 0
    for found in _CHANGING.finditer(word):
        before = word[: found.start()]
        pieces.append(re.escape(word[end : found.start()]))
        keep = found.lastgroup == "number" and (telling or _TELLING.search(before.rstrip("(-")) is not None)
        pieces.append(re.escape(found[0]) if keep else _class(found))
        end = found.end()
    return "".join([*pieces, re.escape(word[end:])])


def _class(found: re.Match[str]) -> str:
    if found.lastgroup == "path":
        return r"[^\s'\"]*" + re.escape(_file_name(found[0]))
    if found.lastgroup == "rank":
        return re.escape(found[0].rstrip("0123456789")) + r"\d+"
    return {"address": "0[xX][0-9a-fA-F]+", "id": "[0-9a-fA-F-]+"}.get(found.lastgroup or "", _ANY_NUMBER)


def _file_name(path: str) -> str:
    """The last part of a path where it is a source file: the rest differs between machines."""
    name = path.rpartition("/")[2]
    return f"/{name}" if re.fullmatch(r"[\w-]+\.(?:py|cu|cuh|cpp|cc|h|hpp|so)", name) else ""


def _joined(pieces: Sequence[str]) -> str:
    """The pieces with blanks between them, as many as fit."""
    kept: list[str] = []
    for piece in pieces:
        if sum(len(part) + 3 for part in kept) + len(piece) > _LONGEST:
            break
        kept.append(piece)
    while kept and kept[-1] == _GAP:
        kept.pop()
    return r"\s+".join(kept)
