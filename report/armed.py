"""What launches with evidence hooks armed showed of the attempts that they explain. They count nowhere."""

from collections.abc import Iterable

from report.load import LoadedCell, LoadedRun
from report.words import spoken
from repro.escape import one_line
from repro.model import Result

_LONGEST_QUOTE = 200


def armed_lines(run: LoadedRun, cell: LoadedCell) -> tuple[str, ...]:
    """A line for each relaunch of the cell."""
    return tuple(
        f"Attempt {result.attempt} repeated attempt {result.explains} with evidence hooks armed, and counts nowhere: "
        f"{one_line(f'{result.outcome}: {result.outcome_detail}', _LONGEST_QUOTE)}."
        for result, _ in run.armed
        if result.cell == cell.id
    )


def armed_sentence(run: LoadedRun, attempts: Iterable[tuple[str, int]], kind: str) -> str | None:
    """What the first relaunch of any of the ``attempts`` (cell, number) showed beyond ``kind``; None if nothing."""
    wanted = set(attempts)
    for result, _ in run.armed:
        shown = _shown(result)
        if (result.cell, result.explains) in wanted and shown is not None and shown != kind:
            return (
                f"Launched again with evidence hooks armed, {result.cell} showed {spoken(shown)}"
                f"{_quote(result)} (attempt {result.attempt}, which counts nowhere)."
            )
    return None


def _shown(result: Result) -> str | None:
    found = result.diagnosis
    return found.kind if found is not None and found.kind not in {"ok", "unknown"} else None


def _quote(result: Result) -> str:
    lines = result.diagnosis.evidence if result.diagnosis is not None else ()
    return f": {one_line(lines[0].text, _LONGEST_QUOTE)}" if lines else ""
