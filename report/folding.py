"""Which launches the page tells in full, which in a row, and which it only counts, so that it stays small.

In full, while they fit: the first launch of each kind of failure in a cell, the first launch of each cell, the other
launches that did not pass, and then the rest; cells and targets take turns. What does not fit has a row of a table, and
what is left then is counted.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from report.document import Document
from report.load import LoadedAttempt, LoadedRun
from report.words import sign, spoken
from repro.escape import one_line

PAGE_BYTES = 3_900_000
"""The size below which the page stays, unless what stands on it of cells, comparisons and findings is larger."""
_ROW_BYTES = 420
_TABLE_BYTES = 500
_MOST_MISFITS = 20  # launches that are rendered for nothing, before the page is taken to be full
_LONGEST_STATEMENT = 160


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """A launch and the list in which it stands: a cell's, or that of the self-tests of a run."""

    run: LoadedRun
    attempt: LoadedAttempt
    place: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Folded:
    """The markup of each list by its name, and a sentence for each target whose launches are not all told in full."""

    lists: Mapping[str, Markup]
    notes: Mapping[str, str]


MOST_PICTURED = 8


def pictured(document: Document) -> frozenset[str]:
    """The targets that get pictures: those with failures first."""
    ordered = sorted(document.shown, key=lambda run: not any(cell.summary.k for cell in run.cells))
    return frozenset(run.run.target for run in ordered[:MOST_PICTURED])


def self_tests_of(run: LoadedRun) -> str:
    """The name of the list of a run's self-tests; that of a cell is its anchor."""
    return f"{run.run.target}--self-test-launches"


def listed(document: Document) -> tuple[Listed, ...]:
    """Every launch of the document, list by list."""
    return tuple(
        Listed(run=run, attempt=attempt, place=place)
        for run in document.shown
        for place, attempts in (
            *((cell.anchor, cell.attempts) for cell in run.cells),
            (self_tests_of(run), run.self_tests),
        )
        for attempt in attempts
    )


def fold(every: Sequence[Listed], render: Callable[[Listed], Markup], room_bytes: int) -> Folded:
    """What of the launches fits into so many bytes; ``render`` tells one in full."""
    full, rows = _chosen(every, render, room_bytes)
    lists: dict[str, Markup] = {}
    for place, here in _by(every, lambda one: one.place).items():
        told = [full[one.attempt.anchor] for one in here if one.attempt.anchor in full]
        short = [rows[one.attempt.anchor] for one in here if one.attempt.anchor in rows]
        lists[place] = Markup("").join((*told, _table(short), _counted(len(here) - len(told) - len(short))))
    notes = {
        target: _note(len(here), sum(one.attempt.anchor in full for one in here), rows, here)
        for target, here in _by(every, lambda one: one.run.run.target).items()
    }
    return Folded(lists=lists, notes={target: note for target, note in notes.items() if note})


def _chosen(
    every: Sequence[Listed], render: Callable[[Listed], Markup], room_bytes: int
) -> tuple[dict[str, Markup], dict[str, Markup]]:
    ordered = _ranked(every)
    full: dict[str, Markup] = {}
    left, misfits = room_bytes, 0
    for one in ordered:
        if misfits >= _MOST_MISFITS:
            break
        told = render(one)
        size = len(told.encode())
        if size <= left:
            full[one.attempt.anchor] = told
            left -= size
        else:
            misfits += 1
    if len(full) < len(ordered):  # then rows need room, that of the launches which tell least
        for_rows = min(room_bytes // 4, _ROW_BYTES * len(ordered))
        while full and left < for_rows:
            left += len(full.popitem()[1].encode())
    return full, _rows([one for one in ordered if one.attempt.anchor not in full], left)


def _rows(ordered: Sequence[Listed], room_bytes: int) -> dict[str, Markup]:
    rows: dict[str, Markup] = {}
    headed: set[str] = set()
    left = room_bytes
    for one in ordered:
        row = _row(one.attempt)
        left -= len(row.encode()) + (0 if one.place in headed else _TABLE_BYTES)
        if left < 0:
            break
        headed.add(one.place)
        rows[one.attempt.anchor] = row
    return rows


def _ranked(every: Sequence[Listed]) -> list[Listed]:
    """The most telling first."""
    seen: dict[str, int] = {}
    kinds: set[tuple[str, ...]] = set()
    ranked: list[tuple[int, int, int, Listed]] = []
    for place, one in enumerate(every):
        nth = seen[one.place] = seen.get(one.place, 0) + 1
        verdict = one.attempt.verdict
        kind = (one.place, verdict.verdict, *verdict.reasons)
        bad = verdict.verdict != "pass"
        rank = 0 if bad and kind not in kinds else 1 if nth == 1 else 2 if bad else 3
        kinds.add(kind)
        ranked.append((rank, nth, place, one))
    return [one for *_, one in sorted(ranked, key=lambda item: item[:3])]


def _row(attempt: LoadedAttempt) -> Markup:
    result, verdict = attempt.result, attempt.verdict.verdict
    return Markup(
        '<tr id="{}"><td>{}</td><td><span class="tag {}">{} {}</span></td><td>{}</td><td class="num">{:.1f}</td>'
        '<td class="wide">{}</td></tr>\n'
    ).format(
        attempt.anchor,
        result.attempt,
        verdict,
        sign(verdict),
        spoken(verdict),
        spoken(result.outcome),
        result.wall_s,
        one_line(attempt.verdict.statement, _LONGEST_STATEMENT),
    )


def _table(rows: Sequence[Markup]) -> Markup:
    if not rows:
        return Markup("")
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(name) for name in _HEADINGS)
    return Markup(
        '<div class="scroll" tabindex="0" role="region" aria-label="Launches in short"><table>'
        "<caption>Launches in short</caption>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n"
    ).format(head, Markup("").join(rows))


_HEADINGS = ("attempt", "verdict", "outcome", "took (s)", "statement")


def _counted(count: int) -> Markup:
    if not count:
        return Markup("")
    said = f"{count} more launch{'es' if count > 1 else ''}, counted above, not told here."
    return Markup('<p class="soft">{}</p>\n').format(escape(said))


def _note(total: int, full: int, rows: Mapping[str, Markup], here: Iterable[Listed]) -> str:
    if full == total:
        return ""
    short = sum(one.attempt.anchor in rows for one in here)
    counted = f", {total - full - short} only counted" if total > full + short else ""
    return (
        f"Of {total} launches {full} are told in full and {short} in a row{counted}, so that this page stays below "
        "4 MB: first the first of each kind of failure in a cell, then the first of each cell, then the others that "
        "did not pass. Each has its result.json in the run's directory."
    )


def _by(every: Iterable[Listed], key: Callable[[Listed], str]) -> dict[str, list[Listed]]:
    found: dict[str, list[Listed]] = {}
    for one in every:
        found.setdefault(key(one), []).append(one)
    return found
