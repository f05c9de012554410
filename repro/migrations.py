"""How documents of earlier schema versions become documents of the present one: one function for each n -> n + 1."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Migration: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


def _check_plan(plan: dict[str, Any]) -> dict[str, Any]:
    """Before version 2 every level was measured once, nothing was given up, and no other load generator was run."""
    limit_s = plan["limit_s"]
    rest = {name: value for name, value in plan.items() if name != "limit_s"}
    return {**rest, "repeats": None, "cancel_every": None, "peer": None, "limit_s": limit_s}


def _plan_1(plan: dict[str, Any]) -> dict[str, Any]:
    steps = [{**step, "checks": [_check_plan(check) for check in step["checks"]]} for step in plan["steps"]]
    return {**plan, "steps": steps}


def _step_1(step: dict[str, Any]) -> dict[str, Any]:
    """Version 1 asked for no coding task and rescored nothing."""
    checks = [_check_plan(check) for check in step["checks"]]
    return {**step, "checks": checks, "tasks": [], "chat": {}, "texts": []}


def _check_evidence_1(evidence: dict[str, Any]) -> dict[str, Any]:
    """Version 1 went once over each level, gave up no request, and did not read the server's counters."""
    requests = [{**request, "repeat": 1, "cancelled": False, "asked_tokens": None} for request in evidence["requests"]]
    return {**evidence, "requests": requests, "counts": []}


def _result_1(result: dict[str, Any]) -> dict[str, Any]:
    """Version 1 knew no rescoring."""
    return {**result, "rescoring": None}


def _timeline_entry_1(entry: dict[str, Any]) -> dict[str, Any]:
    """Version 2 knows one check more."""
    return dict(entry)


def _baseline_1(baseline: dict[str, Any]) -> dict[str, Any]:
    """Version 1 held figures of an account, which do not tell launches apart."""
    measurements = [{**number, "values": []} for number in baseline["measurements"]]
    source = {**baseline["source"], "sha256": None, "imported_at": None}
    return {**baseline, "source": source, "measurements": measurements, "failures": None, "unread": []}


def _finding_1(finding: dict[str, Any]) -> dict[str, Any]:
    """Version 1 did not say where a finding holds, nor what would settle it."""
    return {**finding, "scope": [], "not_tested": [], "settle": None, "bundle": None}


_NUMBER_2 = ("ours_n", "baseline_n", "ratio_low", "ratio_high", "p", "p_corrected", "margin")


def _findings_1(findings: dict[str, Any]) -> dict[str, Any]:
    """Version 1 tested without correction, kept no p, and looked for no best configuration."""
    comparisons = [
        {
            **comparison,
            "changed": [],
            "numbers": [{**number, **dict.fromkeys(_NUMBER_2)} for number in comparison["numbers"]],
        }
        for comparison in findings["comparisons"]
    ]
    found = [_finding_1(finding) for finding in findings["findings"]]
    return {**findings, "findings": found, "comparisons": comparisons, "best": [], "crossovers": []}


MIGRATIONS: Mapping[tuple[str, int], Migration] = {
    ("plan", 1): _plan_1,
    ("step", 1): _step_1,
    ("check-evidence", 1): _check_evidence_1,
    ("result", 1): _result_1,
    ("timeline-entry", 1): _timeline_entry_1,
    ("baseline", 1): _baseline_1,
    ("finding", 1): _finding_1,
    ("findings", 1): _findings_1,
}
"""(record, n) -> the function that turns a document of version n into one of version n + 1, ``schema_version`` apart.
It returns a new document. A field that the old version did not have becomes null with a reason, never a guess."""


def migrate(
    document: Mapping[str, Any],
    record: str,
    *,
    to: int,
    migrations: Mapping[tuple[str, int], Migration] = MIGRATIONS,
) -> dict[str, Any]:
    """The document at version ``to``. Raises KeyError if no function starts from a version on the way."""
    current = dict(document)
    for step in range(current["schema_version"], to):
        function = migrations.get((record, step))
        if function is None:
            raise KeyError(record, step)
        current = {**function(current), "schema_version": step + 1}
    return current
