"""What compute-sanitizer wrote: its report as text, turned into findings.

The format is that of its manual (docs.nvidia.com/compute-sanitizer, ComputeSanitizer, the examples of memcheck,
racecheck, initcheck and synccheck), which has named places in two ways: ``at 0x60 in demo.cu:6:kernel(void)``, and
later ``at kernel(void)+0x60 in demo.cu:6``. Each block is a heading, and lines that are indented below it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

PREFIX = "========="
HEADINGS = (
    ("out_of_bounds", re.compile(r"Invalid \S+ (?:read|write|atomic)\b")),
    ("uninitialized_read", re.compile(r"Uninitialized \S+ (?:memory read|access)\b")),
    ("race", re.compile(r"(?:Error|Warning): (?:Race reported|Potential \w+ hazard)", re.IGNORECASE)),
    ("barrier_error", re.compile(r"Barrier error detected")),
    ("cuda_error", re.compile(r"Program hit \w+")),
)
MISALIGNED = "is misaligned"
PLACE = re.compile(r"\bat (?P<kernel>[^\s+][^+]*)\+0x[0-9a-f]+(?: in (?P<source>\S+:\d+))?")
OLDER_PLACE = re.compile(r"\bat 0x[0-9a-f]+ in (?:(?P<source>[^\s:]+:\d+):)?(?P<kernel>\w+)")
SUMMARY = re.compile(r"\b(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:errors?|hazards?)\b")
ENOUGH = ("by thread", "Access ", "Address ", "and is ", "and Read", "and Write", "Barrier is")
"""Beginnings of the lines that say more of a finding; the rest are stacks of the host."""


@dataclass(frozen=True)
class Finding:
    """``code`` is the first word of `HEADINGS`, or ``misaligned``. ``kernel`` and ``source`` (file:line) are None where
    the report does not say; ``times`` counts what differs in thread and address only."""

    code: str
    kernel: str | None
    source: str | None
    detail: str
    times: int


@dataclass(frozen=True)
class Report:
    """``errors`` is the sum that the report ends with, None if it has no end: then nothing in it is a clean bill."""

    errors: int | None
    findings: tuple[Finding, ...]


def parse(text: str) -> Report:
    """The findings in their order, equal ones together."""
    sums = [int(found) for found in SUMMARY.findall(text)]
    merged: dict[tuple[str, str | None, str | None], Finding] = {}
    for block in _blocks(text):
        found = _finding(block)
        if found is not None:
            key = (found.code, found.kernel, found.source)
            times = merged[key].times + 1 if key in merged else 1
            first = merged.get(key, found)
            merged[key] = Finding(first.code, first.kernel, first.source, first.detail, times)
    return Report(errors=max(sums) if sums else None, findings=tuple(merged.values()))


def _blocks(text: str) -> Iterator[list[str]]:
    """Heading and indented lines of each, without prefix."""
    block: list[str] = []
    for line in text.splitlines():
        if not line.startswith(PREFIX):
            continue
        said = line.removeprefix(PREFIX)
        if said.startswith("  ") and said.strip():
            block.append(said.strip())
            continue
        if block:
            yield block
        block = [said.strip()] if said.strip() else []
    if block:
        yield block


def _finding(block: Sequence[str]) -> Finding | None:
    heading = block[0]
    code = next((code for code, known in HEADINGS if known.match(heading)), None)
    if code is None:
        return None
    if code == "out_of_bounds" and any(MISALIGNED in line for line in block):
        code = "misaligned"
    place = next((found for line in block for form in (PLACE, OLDER_PLACE) if (found := form.search(line))), None)
    told = [heading, *(line for line in block[1:] if line.startswith(ENOUGH))]
    return Finding(
        code=code,
        kernel=place["kernel"].partition("(")[0] if place else None,
        source=place["source"] if place else None,
        detail="; ".join(told),
        times=1,
    )
