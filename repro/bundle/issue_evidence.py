"""The evidence that `ISSUE.md` shows: log lines, and where wrong output first leaves the reference."""

from collections import Counter

from repro.bundle.contents import Contents
from repro.escape import one_line
from repro.model import Diagnosis, Difference, LogLine, Result

_LONGEST_LINE = 300


def log_lines(contents: Contents, most: int) -> tuple[str, ...]:
    """The lines that decide, and what followed from them, of the first failing attempt: `file:line: text`."""
    diagnosis = contents.first.result.diagnosis
    if diagnosis is None:
        return ()
    lines = [*map(_line, diagnosis.evidence), *(f"(a consequence) {_line(line)}" for line in diagnosis.follow_ons)]
    more = len(lines) - most
    return (*lines[:most], *([f"and {more} more lines; the bundle has them"] if more > 0 else []))


def place(diagnosis: Diagnosis | None) -> str | None:
    """What the diagnosis names: kernel, function, file, rank; None if nothing."""
    if diagnosis is None:
        return None
    found = diagnosis.component
    named = [("kernel", found.kernel), ("function", found.function), ("file", found.file), ("rank", found.rank)]
    return ", ".join(f"{name} {one_line(value, 120)}" for name, value in named if value) or None


def divergences(contents: Contents, most: int) -> tuple[str, ...]:
    """Where outputs first leave the reference's, by check and prompt; then the tokens that rescoring finds wrong."""
    result = contents.first.result
    found = [_difference(check.check, difference) for check in result.checks for difference in check.differences]
    # Every round of a check asks the same prompts, and most answer alike.
    lines = [f"{line}, {times} times" if times > 1 else line for line, times in Counter(found).items()]
    lines += _rescored(contents, result)
    more = len(lines) - most
    return (*lines[:most], *([f"and {more} more; results/ and oracle.json have them"] if more > 0 else []))


def failed_checks(contents: Contents, most: int) -> tuple[str, ...]:
    """The checks of the first failing attempt that did not pass."""
    checks = [check for check in contents.first.result.checks if check.state in {"fail", "inconclusive"}]
    return tuple(f"{check.check}: {check.state}: {check.detail}" for check in checks[:most])


def _line(line: LogLine) -> str:
    return f"{line.file}:{line.line}: {one_line(line.text, _LONGEST_LINE)}"


def _difference(check: str, found: Difference) -> str:
    margin = f" (its margin there: {found.margin:.3g} nats)" if found.margin is not None else ""
    expected, got = ("the end" if token is None else f"token {token}" for token in (found.expected, found.got))
    return (
        f"{check}, prompt {found.prompt} at concurrency {found.concurrency}: output token {found.at} is {got}, "
        f"and the reference has {expected}{margin}"
    )


def _rescored(contents: Contents, result: Result) -> list[str]:
    every = [contents.first.result, *(other for other, _ in (*contents.launches, *contents.others))]
    return [
        f"rescoring, prompt {place.prompt} at concurrency {place.concurrency}: output token {place.at} is "
        f"{place.got}, {f'{place.gap:.3g}' if place.gap is not None else 'an unknown number of'} nats below the choice"
        for one in every
        if one.rescoring is not None and one.run_id == result.run_id
        for score in one.rescoring.scores
        if (score.cell, score.attempt) == (result.cell, result.attempt)
        for place in score.places
    ]
