"""What a ledger says of the findings. It is said beside them: nothing is hidden, and no severity changes."""

from collections.abc import Iterable, Mapping, Sequence

from report.load import LoadedRun
from report.sightings import FAILURES
from repro.causes import causes
from repro.ledger.known import matches, told
from repro.model import Finding, Ledger


def known_findings(findings: Iterable[Finding], runs: Sequence[LoadedRun], ledger: Ledger) -> Mapping[str, str]:
    """Finding id -> what the ledger has of the failure that its launches show; findings that are new are left out."""
    if not ledger.entries:
        return {}
    said = {finding.id: "; ".join(_lines(finding, runs, ledger)) for finding in findings}
    return {name: line for name, line in said.items() if line}


def _lines(finding: Finding, runs: Sequence[LoadedRun], ledger: Ledger) -> tuple[str, ...]:
    """Of the launches that the finding gives as its evidence."""
    shown = {(link.cell, link.attempt) for link in finding.evidence}
    return told(
        match
        for run in runs
        if run.planted == finding.planted
        for cell in run.cells
        for attempt in cell.attempts
        if (cell.id, attempt.result.attempt) in shown
        for cause in causes(attempt.result, attempt.verdict)
        if cause.family in FAILURES and cause.kind == finding.kind
        for match in matches(ledger, cause.signature, engine=attempt.result.engine.name, planted=run.planted)
    )
