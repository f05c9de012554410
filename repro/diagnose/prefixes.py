"""Who wrote a line, and when: ranks and times as engines, launchers and kernels put them before lines."""

import re
from datetime import UTC, datetime

_RANKS = tuple(
    re.compile(expression)
    for expression in (
        r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?\s+(?P<rank>(?:(?:DP|PP|TP|EP|ATTN_DP|CP)\d+ ?)+)\]",
        r"^\[\d\d:\d\d:\d\d\s+(?P<rank>(?:(?:DP|PP|TP|EP|CP)\d+ ?)+)\]",
        r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?\] \[(?P<rank>(?:(?:DP|PP|TP|EP)\d+ ?)+)\]",
        r"^\((?:\w*Worker\w*|RayWorkerWrapper)[^)]*?rank=(?P<rank>\d+)",
        r"^\(\w*Worker_?(?P<rank>(?:_?(?:DP|PP|TP|EP|DCP|PCP)\d+)+)",
        r"^\(EngineCore_(?P<rank>DP\d+)",
        r"^\[?(?:rank|default)\s?(?P<rank>\d+)\]:",
        r"^\[\d+,(?P<rank>\d+)\]<std(?:err|out)>:?",
        r"^(?:\[[^\]]*\] ){0,3}\[RANK (?P<rank>\d+)\]",
        r"^(?P<rank>\d{1,4}): ",
        r"\[Rank (?P<rank>\d+)\]",
        r"^\S+:\d+:\d+ \[(?P<rank>\d+)\] (?:\S+:\d+ )?NCCL ",
    )
)
_PROCESS = re.compile(r"^\((?P<name>[A-Za-z]\w*)[^)]*\bpid=(?P<pid>\d+)")
_LEADS = re.compile(
    r"^(?:\[?(?:rank|default)\s?\d+\]:\s?|\[\d+,\d+\]<std(?:err|out)>:\s?|\d{1,4}: "
    r"|\([A-Za-z]\w*[^)]*\bpid=\d+[^)]*\) ?"
    r"|(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? (?:\[[^\]]*\]|\S+\.py:\d+\]) ?"
    r"|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]*\] )+"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CLOCK = r"(?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)"
_TIMES = tuple(
    re.compile(expression)
    for expression in (
        rf"(?P<y>\d{{4}})-(?P<mo>\d\d)-(?P<d>\d\d)[T _]{_CLOCK}(?:[.,](?P<f>\d{{1,9}}))?",
        rf"\b(?P<mo>\d\d)/(?P<d>\d\d)/(?P<y>\d{{4}})-{_CLOCK}",
        rf"\[\w{{3}} (?P<mon>\w{{3}}) [ ]?(?P<d>\d{{1,2}}) {_CLOCK} (?P<y>\d{{4}})\]",
        rf"\b(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) (?P<mo>\d\d)-(?P<d>\d\d) {_CLOCK}",
        rf"\b[IWEF](?P<mo>\d\d)(?P<d>\d\d) {_CLOCK}(?:\.(?P<f>\d{{1,9}}))?",
        rf"^(?P<mon>[A-Z][a-z]{{2}}) [ ]?(?P<d>\d{{1,2}}) {_CLOCK}",
    )
)
_CLOCK_ALONE = re.compile(rf"^\[?{_CLOCK}[ \]]")
_LEAP_YEAR = 1972
_YEAR_BEGINS = datetime(_LEAP_YEAR, 1, 1, tzinfo=UTC).timestamp()
_SEARCHED = 160


def rank_of(line: str) -> str | None:
    """The rank that wrote the line, such as `TP3`, `DP0 TP1` or `3`; None if the line does not say."""
    for expression in _RANKS:
        found = expression.search(line[:_SEARCHED])
        if found:
            return found["rank"].strip().replace("_", " ").strip()
    return None


def process_of(line: str) -> str | None:
    """The process of vLLM that wrote the line, such as `EngineCore 88`."""
    found = _PROCESS.match(line)
    return f"{found['name']} {found['pid']}" if found else None


def without_lead(line: str) -> str:
    """The line without what names its time, its process and its rank: how the parts of a traceback line up again."""
    return _LEADS.sub("", line)


def time_of(line: str) -> float | None:
    """Seconds since the beginning of the year by the line's own clock; None if it has no date and time.

    The year is left out, since half of all clocks do not have it: times only order the lines of one failure.
    """
    for expression in _TIMES:
        found = expression.search(line[:_SEARCHED])
        if found:
            return _seconds(found.groupdict())
    return None


def clock_of(line: str) -> float | None:
    """As `time_of`, but a time without a date, in seconds of the day, will do."""
    moment = time_of(line)
    if moment is not None:
        return moment
    found = _CLOCK_ALONE.match(line)
    return float(int(found["h"]) * 3600 + int(found["mi"]) * 60 + int(found["s"])) if found else None


def _seconds(parts: dict[str, str | None]) -> float | None:
    name = parts.get("mon") or ""
    month = _MONTHS.index(name) + 1 if name in _MONTHS else int(parts.get("mo") or 1)
    hour, minute, second = (int(parts[name] or 0) for name in ("h", "mi", "s"))
    fraction = float(f"0.{parts['f']}") if parts.get("f") else 0.0
    try:
        moment = datetime(_LEAP_YEAR, month, int(parts["d"] or 1), hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return moment.timestamp() - _YEAR_BEGINS + fraction
