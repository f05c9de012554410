"""What became slower, faster, more or less often wrong than in what it is compared with."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from report.load import LoadedRun
from report.rules.draft import Draft
from report.rules.settings import selected
from report.words import at_label, figure, number_label, percent
from repro.causes import Severity
from repro.model import ComparedNumber, Comparison

_MOST = 4
Change: TypeAlias = Literal["regression", "improvement"]
_CHANGES: tuple[tuple[Change, str, Severity], ...] = (
    ("regression", "slower", "medium"),
    ("improvement", "faster", "info"),
)


def changes(run: LoadedRun, comparisons: Sequence[Comparison]) -> tuple[Draft, ...]:
    """One for each other side and direction of change; only of what is comparable and was decided."""
    cells = {cell.id: cell for cell in run.cells}
    ours = [one for one in comparisons if one.target == run.run.target and one.cell in cells]
    found = []
    for beside in dict.fromkeys(one.baseline for one in ours):
        for change, family, severity in _CHANGES:
            numbers = [
                (one, number)
                for one in ours
                if one.baseline == beside and one.comparable == "comparable"
                for number in one.numbers
                if number.change == change
            ]
            if numbers:
                found.append(_draft(run, beside, (change, family, severity), numbers))
    return tuple(found)


def _draft(
    run: LoadedRun,
    beside: str,
    how: tuple[Change, str, Severity],
    numbers: Sequence[tuple[Comparison, ComparedNumber]],
) -> Draft:
    change, family, severity = how
    ordered = sorted(numbers, key=lambda item: (_surety(item[1]), item[0].cell or "", item[1].name, str(item[1].at)))
    cells = {cell.id: cell for cell in run.cells}
    names = tuple(dict.fromkeys(one.cell for one, _ in ordered if one.cell is not None))
    told = "; ".join(_told(one, number) for one, number in ordered[:_MOST])
    more = len(ordered) - _MOST
    rest = f"; and {more} more number{'s' if more > 1 else ''}" if more > 0 else ""
    subject = tuple(dict.fromkeys(line for one, _ in ordered for line in one.changed))
    what = "number" if len(ordered) == 1 else "numbers"
    chosen = selected(names[:_MOST])
    return Draft(
        run=run,
        family=family,
        kind=change,
        severity=severity,
        subject=beside,
        statement=f"{change.capitalize()} against {beside} in {len(ordered)} {what} of {len(names)} "
        f"cell{'s' if len(names) > 1 else ''}: {told}{rest}.",
        cells=tuple(cells[name] for name in names),
        scope=subject,
        next=f"python -m matrix run --spec {run.run.target} {chosen} --launches 10",
        k=len(ordered),
        n=max((number.ours_n or 1) for _, number in ordered),
    )


def _surety(number: ComparedNumber) -> float:
    return number.p_corrected if number.p_corrected is not None else 1.0


def _told(one: Comparison, number: ComparedNumber) -> str:
    at = f" at {at_label(number.at)}" if number.at else ""
    show = percent if number.unit == "share" else figure
    sides = " \N{RIGHTWARDS ARROW} ".join("—" if v is None else show(v) for v in (number.baseline, number.ours))
    unit = "" if number.unit in {"share", "count"} else f" {number.unit}"
    ratio = ""
    if number.ratio is not None:
        interval = (
            f", 95 % interval {number.ratio_low:.3f} to {number.ratio_high:.3f}"
            if number.ratio_low is not None and number.ratio_high is not None
            else ""
        )
        ratio = f" (ratio {number.ratio:.3f}{interval})"
    name = number_label(number.name).partition(" (")[0]
    return f"{name}{at} of {one.cell} {sides}{unit}{ratio}"
