"""The cells of a run and their launches, as Markdown."""

from report.armed import armed_lines
from report.load import LoadedAttempt, LoadedCell, LoadedRun
from report.markdown_words import code, row, said, word
from report.numbers import shown_checks, shown_numbers
from report.scores import PLACE_HEADERS, place_rows, score_rows
from report.shortened import Part
from report.words import PLANTED, SELF_TEST, at_label, figure, number_label, spoken
from repro.escape import markdown_block, one_line
from repro.model import AttemptScore, Diagnosis

_LONGEST_LINE = 400
_MOST_LINES = 20


def cell_parts(run: LoadedRun, turn: str) -> tuple[Part, ...]:
    """A part for each cell with its launches below it, then the launches that test the tool."""
    tests = tuple(Part(text=_attempt(attempt), kind="good", turn=turn) for attempt in run.self_tests)
    told = (Part(text=f"#### Self-test launches\n\n> {SELF_TEST}", below=(_folded(tests),)),) if tests else ()
    return (*(_cell(run, cell, turn) for cell in run.cells), *told)


def _cell(run: LoadedRun, cell: LoadedCell, turn: str) -> Part:
    kind = "good" if cell.summary.verdict == "pass" else "bad"
    lines = [f"#### Cell {code(cell.id)}: {word(cell.summary.verdict)}"]
    if cell.planted:
        lines.append(f"> **{PLANTED}**")
    if cell.missing:
        lines.append(f"{cell.missing} of {cell.planned} planned launches are missing.")
    lines += [said(line) for line in armed_lines(run, cell)]
    attempts = tuple(Part(text=_attempt(attempt), kind=kind, turn=turn) for attempt in cell.attempts)
    return Part(text="\n\n".join(lines), kind=kind, turn=turn, below=(_folded(attempts),) if attempts else ())


def _folded(attempts: tuple[Part, ...]) -> Part:
    summary = f"<details><summary>Launches: {len(attempts)}</summary>"
    return Part(text=summary, below=attempts, foot="</details>")


def _attempt(attempt: LoadedAttempt) -> str:
    result = attempt.result
    took = f"{spoken(result.outcome)} after {figure(round(result.wall_s, 1))} s"
    verdict = f"**{word(attempt.verdict.verdict)}**"
    parts = [f"Attempt {result.attempt}: {verdict}, {took}. {said(attempt.verdict.statement)}"]
    checks = [
        [check.check, word(check.state), said(spoken(check.reason or "")), said(check.detail)]
        for check in shown_checks(attempt)
    ]
    parts += _table(("check", "state", "reason", "detail"), checks)
    parts += _score(attempt.score) if attempt.score is not None else []
    numbers = [
        [
            said(number_label(number.measurement.name)),
            at_label(number.measurement.at),
            "—" if number.value is None else f"{figure(number.value)} {said(number.measurement.unit)}",
            said(f"withheld: {spoken(number.withheld)}" if number.withheld else number.measurement.reason or ""),
        ]
        for number in shown_numbers(attempt)
    ]
    parts += _table(("number", "at", "value", "note"), numbers)
    parts += _diagnosis(result.diagnosis) if result.diagnosis is not None else []
    return "\n\n".join(parts)


def _score(score: AttemptScore) -> list[str]:
    values = [[said(what), said(value)] for what, value in score_rows(score)]
    places = [[said(text) for text in line] for line in place_rows(score)]
    head = f"Rescoring: {word(score.state)}. {said(score.detail)}"
    return [head, *_table(("rescored", "value"), values), *_table(PLACE_HEADERS, places)]


def _diagnosis(diagnosis: Diagnosis) -> list[str]:
    lines = [one_line(f"{line.file}:{line.line}: {line.text}", _LONGEST_LINE) for line in diagnosis.evidence]
    told = (
        f"Diagnosis: {code(diagnosis.kind)} in {spoken(diagnosis.phase)}, {diagnosis.role}, "
        f"{diagnosis.confidence} confidence. Next: {said(diagnosis.next_step)}"
    )
    return [told, markdown_block(lines[:_MOST_LINES])] if lines else [told]


def _table(headings: tuple[str, ...], lines: list[list[str]]) -> list[str]:
    head = f"{row(headings)}\n|{'---|' * len(headings)}"
    return ["\n".join((head, *map(row, lines)))] if lines else []
