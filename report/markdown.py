"""The report as Markdown, for an issue or a chat. Nothing in it acts: no HTML, link or mention out of a log."""

from collections.abc import Mapping, Sequence

from tabulate import tabulate

from report.console import because, certainty, planted_mark, run_summary, two_sides
from report.document import Document
from report.grid import Place, grid
from report.load import LoadedAttempt, LoadedCell, LoadedRun
from report.numbers import shown_checks, shown_numbers
from report.scores import PLACE_HEADERS, place_rows, score_rows
from report.words import (
    ABOUT_A_FINDING,
    NOT_A_GPU,
    PLANTED,
    SELF_TEST,
    TERMS,
    VERDICTS,
    at_label,
    figure,
    number_label,
    sign,
    spoken,
)
from repro.escape import markdown, markdown_block, markdown_code
from repro.model import AttemptScore, Baseline, Comparison, Diagnosis, Finding


def render(document: Document) -> str:
    """The file, with a final newline."""
    parts = ["# Findings"]
    if document.planted:
        parts.append(f"> **{PLANTED}**")
    parts.append("\n".join(f"- {markdown(run_summary(run))}" for run in document.shown))
    parts.append("## What was found")
    parts += [_finding(finding) for finding in document.record.findings] or ["Nothing: no launch has a result yet."]
    for run in document.shown:
        parts += _run(document, run)
    if document.older:
        parts.append("## Older runs, not shown")
        rows = [
            [
                markdown_code(run.target),
                markdown_code(run.run_id),
                run.created_at,
                spoken(run.state),
                _flag(run.planted),
            ]
            for run in document.older
        ]
        parts.append(_table(["target", "run", "created", "state", ""], rows))
    if document.record.problems:
        parts.append(f"## Problems: {len(document.record.problems)} could not be used")
        parts.append(
            _table(
                ["record", "problem"],
                [[markdown_code(p.path), markdown(p.problem)] for p in document.record.problems],
            )
        )
    parts.append("## Words")
    parts.append("\n".join(f"- **{sign(word)} {spoken(word)}**: {markdown(said)}" for word, said in VERDICTS.items()))
    parts.append("\n".join(f"- **{markdown(word)}**: {markdown(said)}" for word, said in TERMS.items()))
    return "\n\n".join(parts) + "\n"


def _finding(finding: Finding) -> str:
    planted = f"**{PLANTED}.** " if finding.planted else ""
    lines = [
        f"### {finding.id} · {finding.severity} · {markdown(spoken(finding.kind))}",
        "",
        planted + markdown(finding.statement),
        "",
        "- cells: " + ", ".join(markdown_code(cell) for cell in finding.cells),
        "- next: " + markdown_code(finding.next),
    ]
    for title, said in ABOUT_A_FINDING.items():
        lines += [f"- {title}: {markdown(line)}" for line in getattr(finding, said)]
    if finding.settle is not None:
        lines.append("- would settle it: " + markdown_code(finding.settle))
    if finding.bundle is not None:
        lines.append("- bundle: " + markdown_code(finding.bundle))
    for link in finding.evidence:
        where = markdown_code(link.path) if link.path else markdown(f"{link.cell} attempt {link.attempt}")
        lines.append(f"- evidence: {where}: {markdown(link.text)}")
    return "\n".join(lines)


def _run(document: Document, run: LoadedRun) -> list[str]:
    parts = [f"## Target {markdown(run.run.target)}"]
    if run.planted:
        parts.append(f"> **{PLANTED}**")
    if not run.about_gpus:
        parts.append(f"> {NOT_A_GPU}")
    table = grid(run)
    rows = [
        [markdown_code(row.label), *("; ".join(_place(p) for p in place) for place in row.places)] for row in table.rows
    ]
    parts.append(_table(["arm", *(markdown(column) for column in table.columns)], rows))
    skips = [[markdown_code(s.cell), _word(s.state), markdown(s.reason), markdown(s.source or "")] for s in run.skips]
    if skips:
        parts += ["### Not part of the run", _table(["cell", "state", "reason", "source"], skips)]
    if run.oracles:
        parts += ["### Oracles", "\n".join(f"- {markdown(line)}" for line in run.oracles)]
    for cell in run.cells:
        parts += _cell(cell)
    if run.self_tests:
        parts += ["### Self-test launches", f"> {SELF_TEST}"]
        parts += [part for attempt in run.self_tests for part in _attempt(attempt)]
    comparisons = document.comparisons(run.run.target)
    if comparisons:
        parts += ["### Compared with", _comparisons(comparisons, document.baselines)]
    return parts


def _place(place: Place) -> str:
    told = certainty(place)
    return planted_mark(place) + _word(place.word) + (f": {markdown(told)}" if told else "")


def _cell(cell: LoadedCell) -> list[str]:
    parts = [f"### Cell {markdown_code(cell.id)}: {_word(cell.summary.verdict)}"]
    if cell.planted:
        parts.append(f"> **{PLANTED}**")
    if cell.missing:
        parts.append(f"{cell.missing} of {cell.planned} planned launches are missing.")
    for attempt in cell.attempts:
        parts += _attempt(attempt)
    return parts


def _attempt(attempt: LoadedAttempt) -> list[str]:
    result = attempt.result
    took = f"{spoken(result.outcome)} after {figure(round(result.wall_s, 1))} s"
    said = markdown(attempt.verdict.statement)
    parts = [f"Attempt {result.attempt}: **{_word(attempt.verdict.verdict)}**, {took}. {said}"]
    checks = [
        [check.check, _word(check.state), markdown(spoken(check.reason or "")), markdown(check.detail)]
        for check in shown_checks(attempt)
    ]
    if checks:
        parts.append(_table(["check", "state", "reason", "detail"], checks))
    parts += _score(attempt.score) if attempt.score is not None else []
    numbers = [
        [
            markdown(number_label(number.measurement.name)),
            at_label(number.measurement.at),
            "—" if number.value is None else f"{figure(number.value)} {markdown(number.measurement.unit)}",
            markdown(f"withheld: {spoken(number.withheld)}" if number.withheld else number.measurement.reason or ""),
        ]
        for number in shown_numbers(attempt)
    ]
    if numbers:
        parts.append(_table(["number", "at", "value", "note"], numbers))
    return parts + (_diagnosis(result.diagnosis) if result.diagnosis is not None else [])


def _score(score: AttemptScore) -> list[str]:
    rows = [[markdown(what), markdown(value)] for what, value in score_rows(score)]
    parts = [
        f"Rescoring: {_word(score.state)}. {markdown(score.detail)}",
        _table(["rescored", "value"], rows),
    ]
    places = [[markdown(text) for text in row] for row in place_rows(score)]
    return [*parts, _table(list(PLACE_HEADERS), places)] if places else parts


def _diagnosis(diagnosis: Diagnosis) -> list[str]:
    lines = [f"{line.file}:{line.line}: {line.text}" for line in diagnosis.evidence]
    said = (
        f"Diagnosis: {markdown_code(diagnosis.kind)} in {spoken(diagnosis.phase)}, {diagnosis.role}, "
        f"{diagnosis.confidence} confidence. Next: {markdown(diagnosis.next_step)}"
    )
    return [said, markdown_block(lines)] if lines else [said]


def _comparisons(comparisons: Sequence[Comparison], baselines: Mapping[str, Baseline]) -> str:
    rows = []
    for item in comparisons:
        first = [
            markdown_code(item.baseline),
            markdown_code(item.cell) if item.cell else "—",
            _word(item.comparable),
            item.change or "",
        ]
        for index, number in enumerate(item.numbers or (None,)):
            sides = two_sides(number, baselines.get(item.baseline)) if number is not None else ("",) * 4
            why = markdown(because(item)) if index == 0 else ""
            rows.append([*(first if index == 0 else [""] * 4), *(markdown(side) for side in sides), why])
    return _table(["baseline", "cell", "comparable", "change", "number", "here", "there", "ratio", "why"], rows)


def _word(word: str) -> str:
    return f"{sign(word)} {spoken(word)}".strip()


def _flag(planted: bool) -> str:
    return "PLANTED " if planted else ""


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return tabulate(rows, headers=headers, tablefmt="pipe", disable_numparse=True)
