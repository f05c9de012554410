"""Failures that a ledger has, said beside those of a run. Nothing is hidden or made less of by it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from repro.causes import causes
from repro.escape import one_line
from repro.ledger import entries, store
from repro.model import Ledger, LedgerEntry, Result, Signature, Verdict

_LONGEST_ISSUE = 200


def load(given: Path | None) -> Ledger:
    """The ledger that was named, or the one of this folder if there is one, or an empty one.

    Raises `SpecError` if the named one is not there, `RecordError` if it is invalid.
    """
    if given is None and not store.DEFAULT.exists():
        return Ledger(entries=())
    return store.read(given or store.DEFAULT)


class Match(NamedTuple):
    """An entry that a failure is, or, not ``certain``, may be: its signature is too vague to tell."""

    entry: LedgerEntry
    certain: bool


def matches(ledger: Ledger, signature: Signature, *, engine: str, planted: bool) -> tuple[Match, ...]:
    """The entries of this failure; none for a new one."""
    found = entries.alike(ledger, signature, engine=engine, planted=planted)
    exact = [entry for entry in found if entry.signature == signature and signature.phase != "none"]
    return (Match(exact[0], certain=True),) if exact else tuple(Match(entry, certain=False) for entry in found)


def told(found: Iterable[Match]) -> tuple[str, ...]:
    """`known: l-1 https://…`, or `maybe known: …` where that is all that can be said; each entry once."""
    certain: dict[str, Match] = {}
    for match in found:
        if match.entry.id not in certain or match.certain:
            certain[match.entry.id] = match
    return tuple(_said(match) for match in certain.values())


def of_launches(ledger: Ledger, launches: Iterable[tuple[Result, Verdict]], *, planted: bool) -> tuple[str, ...]:
    """What the ledger says of these launches, each entry once. Launches that did not fail are nothing to it.
    ``planted``: faults were planted in their run, which may show in any of its cells."""
    return told(
        match
        for result, verdict in launches
        if verdict.verdict in {"fail", "corrupt"} and result.role != "self-test"
        for cause in causes(result, verdict)
        if cause.family in {"failure", "corrupt"}
        for match in matches(ledger, cause.signature, engine=result.engine.name, planted=planted)
    )


def by_cell(
    ledger: Ledger, results: Sequence[Result], verdicts: Sequence[Verdict], *, planted: bool
) -> dict[str, tuple[str, ...]]:
    """What the ledger says of the failures of each cell; cells without such a failure are left out."""
    cells: dict[str, list[tuple[Result, Verdict]]] = {}
    for result, verdict in zip(results, verdicts, strict=True):
        cells.setdefault(result.cell, []).append((result, verdict))
    said = {cell: of_launches(ledger, launches, planted=planted) for cell, launches in cells.items()}
    return {cell: lines for cell, lines in said.items() if lines}


def _said(match: Match) -> str:
    entry, word = match.entry, "known" if match.certain else "maybe known"
    issue = f" {one_line(entry.issue, _LONGEST_ISSUE)}" if entry.issue else ""
    if entry.status == "closed" and entry.closed_at is not None:
        return f"{word}, closed {entry.closed_at[:10]}: seen again: {entry.id}{issue}"
    return f"{word}: {entry.id}{issue}"
