"""Failures that a ledger has, said beside those of a run. Nothing is hidden or made less of by it."""

from collections.abc import Iterable, Sequence
from pathlib import Path

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


def known(ledger: Ledger, signature: Signature, *, engine: str, planted: bool) -> str | None:
    """`known: l-1 https://…` for a failure that the ledger has, `maybe known` where the signature is too vague to tell;
    None for a new one."""
    found = entries.alike(ledger, signature, engine=engine, planted=planted)
    if not found:
        return None
    exact = [entry for entry in found if entry.signature == signature and signature.phase != "none"]
    if exact:
        return f"known{_said(exact[0])}"
    return "; ".join(f"maybe known{_said(entry)}" for entry in found)


def of_launches(ledger: Ledger, launches: Iterable[tuple[Result, Verdict]], *, planted: bool) -> tuple[str, ...]:
    """What the ledger says of these launches, each line once. Launches that did not fail are nothing to it.
    ``planted``: faults were planted in their run, which may show in any of its cells."""
    lines: list[str] = []
    for result, verdict in launches:
        if verdict.verdict in {"fail", "corrupt"} and result.role != "self-test":
            for cause in causes(result, verdict):
                line = known(ledger, cause.signature, engine=result.engine.name, planted=planted)
                if line is not None and cause.family in {"failure", "corrupt"}:
                    lines.append(line)
    return tuple(dict.fromkeys(lines))


def by_cell(
    ledger: Ledger, results: Sequence[Result], verdicts: Sequence[Verdict], *, planted: bool
) -> dict[str, tuple[str, ...]]:
    """What the ledger says of the failures of each cell; cells without such a failure are left out."""
    cells: dict[str, list[tuple[Result, Verdict]]] = {}
    for result, verdict in zip(results, verdicts, strict=True):
        cells.setdefault(result.cell, []).append((result, verdict))
    said = {cell: of_launches(ledger, launches, planted=planted) for cell, launches in cells.items()}
    return {cell: lines for cell, lines in said.items() if lines}


def _said(entry: LedgerEntry) -> str:
    issue = f" {one_line(entry.issue, _LONGEST_ISSUE)}" if entry.issue else ""
    if entry.status == "closed" and entry.closed_at is not None:
        return f", closed {entry.closed_at[:10]}: seen again: {entry.id}{issue}"
    return f": {entry.id}{issue}"
