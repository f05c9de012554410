"""The report for a terminal: what was run, what failed, how sure, compared with what. Plain text, no control codes."""

from collections.abc import Sequence

from tabulate import tabulate

from report.document import Document
from report.gains import BEST_HEADINGS, best_rows, changed_words, crossover_words
from report.grid import Place, places
from report.kernels_console import kernel_text
from report.load import LoadedRun
from report.words import NOT_A_GPU, PLANTED, at_label, figure, interval_label, number_label, percent, sign, spoken
from repro.escape import one_line
from repro.model import Baseline, BestConfiguration, ComparedNumber, Comparison, Crossover, Problem

_WIDE = 60


def render(document: Document) -> str:
    """The tables, with a final newline."""
    parts = [_run(document, run) for run in document.shown]
    parts += [said] if (said := kernel_text(document)) else []
    parts.append(_findings(document))
    if document.record.comparisons:
        parts.append(_comparisons(document))
    if document.older:
        rows = [
            (run.target, run.run_id, run.created_at, spoken(run.state), _planted(run.planted)) for run in document.older
        ]
        parts.append("Older runs, not shown\n" + _table(("target", "run", "created", "state", ""), rows))
    if document.record.problems:
        parts.append(_problems(document.record.problems))
    return "\n\n".join(parts) + "\n"


def run_summary(run: LoadedRun) -> str:
    """`b300, run R of 2026-…Z: 7 of 9 launches finished, 2 missing (docker, depth screen)`."""
    missing = f", {run.missing} missing" if run.missing else ""
    unknown = "" if run.plan is not None else ", plan unreadable: what is missing is not known"
    finished = (
        f"{run.finished} of {run.planned} launches finished" if run.plan is not None else f"{run.finished} finished"
    )
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


def planted_mark(place: Place) -> str:
    """What stands before a cell of a run with planted faults, with a space after it."""
    return "[planted run] " if place.planted_run else _planted(place.planted)


def two_sides(number: ComparedNumber, baseline: Baseline | None = None) -> tuple[str, str, str, str]:
    """What, here, there and the ratio of a compared number with its 95 % interval, as words.

    What a baseline says happened stands on its side of the launches that failed, which it does not count.
    """
    at = at_label(number.at)
    there = _side(number.baseline, number.baseline_low, number.baseline_high, number.unit)
    if number.name == "failure_share" and number.baseline is None and baseline is not None and baseline.outcome:
        there = baseline.outcome
    return (
        number_label(number.name).partition(" (")[0] + (f", {at}" if at else ""),
        _side(number.ours, number.ours_low, number.ours_high, number.unit),
        there,
        _ratio(number),
    )


def _ratio(number: ComparedNumber) -> str:
    if number.ratio is None:
        return ""
    low, high = number.ratio_low, number.ratio_high
    span = "" if low is None or high is None else f" ({low:.4g} to {high:.4g})"
    return f"{figure(number.ratio)} \N{MULTIPLICATION SIGN}{span}"


def outcome_of(number: ComparedNumber) -> str:
    """What a compared number says: its change, or why there is no verdict."""
    return number.change or spoken(number.reason or "")


def because(comparison: Comparison) -> str:
    """Why two sides are not comparable, or which facts are unknown, or what decides the change."""
    changed = changed_words(comparison)
    if comparison.comparable == "not_comparable":
        return "; ".join(filter(None, ("because " + "; ".join(comparison.reasons), changed)))
    if comparison.comparable == "unverified":
        equal = "equal in all else that both sides state" if changed else "equal in all that both sides state"
        return "; ".join(filter(None, (changed, f"{equal}; unknown: {', '.join(comparison.unknown)}")))
    return "; ".join(filter(None, (changed, *comparison.reasons)))


def _run(document: Document, run: LoadedRun) -> str:
    lines = []
    if run.planted:
        lines += ["!" * len(PLANTED), PLANTED, "!" * len(PLANTED)]
    lines.append(one_line(run_summary(run)))
    if not run.about_gpus:
        lines.append(NOT_A_GPU)
    lines += [one_line(line) for line in document.answers(run).lines]
    rows = [
        (
            planted_mark(place) + place.cell,
            f"{sign(place.word)} {spoken(place.word)}",
            certainty(place),
            place.reason,
        )
        for place in places(run)
    ]
    lines.append(_table(("cell", "verdict", "launches (95 % interval)", "reason"), rows, (80, 20, 60, _WIDE)))
    lines += [one_line(line) for line in run.oracles]
    lines += _gains(*document.gains(run.run.target))
    return "\n".join(lines)


def _gains(best: Sequence[BestConfiguration], crossovers: Sequence[Crossover]) -> list[str]:
    lines = ["", "Best stable configurations"] if best else []
    for row in best_rows(best):
        level, cell, rate, bound, *over, close = row
        lines.append(f"  concurrency {level}: {cell}, {rate}; failures {bound} at 95 %")
        lines += [f"    {head}: {said}" for head, said in zip(BEST_HEADINGS[4:], (*over, close), strict=True)]
    lines += [f"  {crossover_words(crossover)}" for crossover in crossovers]
    return [line[: len(line) - len(line.lstrip())] + one_line(line) for line in lines]


def _findings(document: Document) -> str:
    if not document.record.findings:
        return "No findings."
    blocks = []
    for number, found in enumerate(document.record.findings, start=1):
        near = document.near.get(found.id)
        beside = (document.known.get(found.id), near.text if near else None)
        lines = "".join(f"   {line}\n" for line in beside if line)
        blocks.append(f"{number}. {found.id} [{found.severity}] {found.statement}\n{lines}   next: {found.next}")
    return "Findings\n" + "\n".join(blocks)


def _problems(problems: Sequence[Problem]) -> str:
    title = f"Problems: {len(problems)} record{'s' if len(problems) != 1 else ''} could not be used\n"
    return title + _table(("record", "problem"), [(item.path, item.problem) for item in problems], (100, 120))


def _comparisons(document: Document) -> str:
    comparisons = document.record.comparisons
    blocks = [_comparison(item, document.baselines.get(item.baseline)) for item in comparisons if item.numbers]
    alone = [item for item in comparisons if not item.numbers]
    lines = [
        f"{item.target}, {item.baseline}{f', {item.cell}' if item.cell else ''}: {because(item)}" for item in alone
    ]
    if lines:
        blocks.append("Nothing beside it:\n" + "\n".join("  " + one_line(line, 150) for line in lines))
    return "Comparisons\n\n" + "\n".join(blocks)


def _comparison(item: Comparison, baseline: Baseline | None) -> str:
    change = f", {item.change}" if item.change else ""
    head = f"{item.baseline} beside {item.cell}: {sign(item.comparable)} {spoken(item.comparable)}{change}"
    rows = [(*two_sides(number, baseline), outcome_of(number)) for number in item.numbers]
    table = _table(("", "here", "there", "ratio (95 %)", "change"), rows, (_WIDE, 40, 40, 30))
    return (
        f"{one_line(head)}\n  {one_line(because(item), 150)}\n" + "\n".join("  " + r for r in table.splitlines()) + "\n"
    )


def _side(value: float | None, low: float | None, high: float | None, unit: str) -> str:
    if value is None and low is None:
        return "—"
    if unit == "share":
        middle = "—" if value is None else percent(value)
        return middle if low is None or high is None else f"{middle} ({interval_label((low, high))})"
    span = "" if low is None or high is None else f"{figure(low)} to {figure(high)}"
    middle = figure(value) if value is not None else span
    unit = "" if unit == "count" else f" {unit}"
    return middle + unit + (f" ({span})" if value is not None and span else "")


def _planted(planted: bool) -> str:
    return "PLANTED " if planted else ""


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], limits: Sequence[int] = ()) -> str:
    cut = [*limits, *[_WIDE] * (len(headers) - len(limits))]
    plain = [[one_line(cell, cut[i]) for i, cell in enumerate(row)] for row in rows]
    return tabulate(plain, headers=headers, tablefmt="simple", disable_numparse=True)
