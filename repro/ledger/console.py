"""A ledger, and what became of its entries, as text for a terminal."""

from collections.abc import Sequence

from tabulate import tabulate

from repro.escape import one_line
from repro.model import Ledger, LedgerEntry, RecheckAnswer, Signature

_LONGEST_STATEMENT = 60
_SIGNS = {"open": "✗", "reopened": "✗", "closed": "✓"}


def table(ledger: Ledger) -> str:
    """One row for each entry, the open ones first."""
    rows = [_row(entry) for entry in sorted(ledger.entries, key=lambda e: (e.status == "closed", e.first_seen_at))]
    headers = ["entry", "status", "failure", "architectures", "seen", "bad", "good", "issue"]
    return tabulate(rows, headers=headers, tablefmt="simple", disable_numparse=True)


def signature_text(signature: Signature) -> str:
    """`cuda_illegal_memory_access, capture, attention`."""
    return ", ".join(part for part in (signature.kind, signature.phase, signature.subsystem) if part)


def answers_text(answers: Sequence[RecheckAnswer]) -> str:
    """A line for each entry: what it was and is, and why."""
    lines = []
    for answer in answers:
        issue = f" {one_line(answer.issue, 200)}" if answer.issue else ""
        change = (
            answer.status if answer.status == answer.status_before else f"{answer.status_before} -> {answer.status}"
        )
        lines.append(f"{_SIGNS[answer.status]} {answer.entry} [{change}]{issue}: {one_line(answer.statement)}")
    return "\n".join(lines)


def _row(entry: LedgerEntry) -> list[str]:
    planted = "PLANTED: " if entry.planted else ""
    k, n = sum(bundle.k for bundle in entry.bundles), sum(bundle.n for bundle in entry.bundles)
    return [
        entry.id,
        f"{_SIGNS[entry.status]} {entry.status}" + (f" {entry.closed_at[:10]}" if entry.closed_at else ""),
        one_line(f"{planted}{signature_text(entry.signature)}", _LONGEST_STATEMENT),
        ", ".join(entry.architectures) or "-",
        f"{k} of {n}",
        one_line(", ".join(entry.engine_versions_bad), _LONGEST_STATEMENT) or "-",
        one_line(", ".join(entry.engine_versions_good), _LONGEST_STATEMENT) or "-",
        one_line(entry.issue or "-", 80),
    ]
