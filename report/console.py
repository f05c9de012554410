"""The report for a terminal: what was run, what failed, how sure, compared with what. Plain text, no control codes."""

from collections.abc import Sequence

from repro.model import ComparedNumber, Comparison, Findings
from report.document import Document
from report.escape import one_line
from report.grid import Place, places
from report.load import LoadedRun
from report.words import NOT_A_GPU, PLANTED, at_label, figure, interval_label, number_label, sign, spoken
from tabulate import tabulate

_WIDE = 60


def render(document: Document) -> str:
    """The tables, with a final newline."""
    parts = [_run(document, run) for run in document.shown]
    parts.append(_findings(document.record))
    if document.record.comparisons:
        parts.append(_comparisons(document.record.comparisons))
    if document.older:
        rows = [(run.target, run.run_id, run.created_at, spoken(run.state), _planted(run.planted)) for run in document.older]
        parts.append("Older runs, not shown\n" + _table(("target", "run", "created", "state", ""), rows))
    if document.record.problems:
        rows = [(problem.path, problem.problem) for problem in document.record.problems]
        title = f"Problems: {len(rows)} record{'s' if len(rows) != 1 else ''} could not be used\n"
        parts.append(title + _table(("record", "problem"), rows, (_WIDE, 100)))
    return "\n\n".join(parts) + "\n"


def run_summary(run: LoadedRun) -> str:
    """`b300, run R of 2026-…Z: 7 of 9 launches finished, 2 missing (docker, depth screen)`."""
    missing = f", {run.missing} missing" if run.missing else ""
    unknown = "" if run.plan is not None else ", plan unreadable: what is missing is not known"
    finished = f"{run.finished} of {run.planned} launches finished" if run.plan is not None else f"{run.finished} finished"
    return (
        f"{run.run.target}, run {run.run.run_id} of {run.run.created_at}: {finished}{missing}{unknown} "
        f"({run.run.runtime}, depth {run.run.depth})"
    )


def certainty(place: Place) -> str:
    """k of n with its interval, and what is not in n."""
    parts = []
    if place.n:
        parts.append(f"{place.k} of {place.n} failed ({interval_label(place.interval)})")
    for count, word in ((place.inconclusive, "inconclusive"), (place.void, "void"), (place.missing, "missing")):
        if count:
            parts.append(f"{count} {word}")
    return ", ".join(parts)


def two_sides(number: ComparedNumber) -> tuple[str, str, str, str]:
    """What, here, there and the ratio of a compared number, as words."""
    at = at_label(number.at)
    return (
        number_label(number.name) + (f", {at}" if at else ""),
        _side(number.ours, number.ours_low, number.ours_high, number.unit),
        _side(number.baseline, number.baseline_low, number.baseline_high, number.unit),
        "" if number.ratio is None else f"{figure(number.ratio)} ×",
    )


def because(comparison: Comparison) -> str:
    """Why two sides are not comparable, or which facts are unknown, or what decides the change."""
    if comparison.comparable == "not_comparable":
        return "because " + "; ".join(comparison.reasons)
    if comparison.comparable == "unverified":
        return "unknown: " + ", ".join(comparison.unknown)
    return "; ".join(comparison.reasons)


def _run(document: Document, run: LoadedRun) -> str:
    lines = []
    if run.planted:
        lines += ["!" * len(PLANTED), PLANTED, "!" * len(PLANTED)]
    lines.append(one_line(run_summary(run)))
    if not run.about_gpus:
        lines.append(NOT_A_GPU)
    rows = [
        (
            _planted(place.planted) + place.cell,
            f"{sign(place.word)} {spoken(place.word)}",
            certainty(place),
            place.reason,
        )
        for place in places(run)
    ]
    lines.append(_table(("cell", "verdict", "launches (95 % interval)", "reason"), rows, (80, 20, 60, _WIDE)))
    return "\n".join(lines)


def _findings(record: Findings) -> str:
    if not record.findings:
        return "No findings."
    blocks = [
        f"{number}. {finding.id} [{finding.severity}] {_planted(finding.planted)}{finding.statement}\n   next: {finding.next}"
        for number, finding in enumerate(record.findings, start=1)
    ]
    return "Findings\n" + "\n".join(blocks)


def _comparisons(comparisons: Sequence[Comparison]) -> str:
    rows = []
    for item in comparisons:
        state = f"{sign(item.comparable)} {spoken(item.comparable)}"
        change = item.change or ""
        first = (item.baseline, item.cell or "–", state, change)
        reason = because(item)
        sides = [two_sides(number) for number in item.numbers] or [("", "", "", "")]
        for index, side in enumerate(sides):
            rows.append((*(first if index == 0 else ("",) * 4), *side, reason if index == 0 else ""))
    headers = ("baseline", "cell", "comparable", "change", "number", "here", "there", "ratio", "why")
    return "Comparisons\n" + _table(headers, rows, (40, 80, 20, 12, 60, 30, 30, 12, 100))


def _side(value: float | None, low: float | None, high: float | None, unit: str) -> str:
    if value is None and low is None:
        return "–"
    span = "" if low is None or high is None else f"{figure(low)} to {figure(high)}"
    middle = figure(value) if value is not None else span
    return f"{middle} {unit}" + (f" ({span})" if value is not None and span else "")


def _planted(planted: bool) -> str:
    return "PLANTED " if planted else ""


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], limits: Sequence[int] = ()) -> str:
    cut = [*limits, *[_WIDE] * (len(headers) - len(limits))]
    plain = [[one_line(cell, cut[i]) for i, cell in enumerate(row)] for row in rows]
    return tabulate(plain, headers=headers, tablefmt="simple", disable_numparse=True)
