"""How many drafted tokens single verify steps accepted: the histogram behind a cell's acceptance.

It is the engine's own, by request (`spec_correct_drafts_histogram` of SGLang's replies), summed by the `acceptance`
check over its requests and here over the launches whose numbers may be compared. A step brings one token more than it
accepts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from report.charts.ink import ink
from report.charts.picture import CHARACTER_PX, Canvas, listed, picture, shortened
from report.load import LoadedCell, LoadedRun
from report.numbers import why_withheld
from report.words import figure, percent

_WIDTH, _TOP, _ROW, _BOTTOM, _RIGHT = 640, 26, 40, 40, 180
_MOST = 12
"""More rows are in the table only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """``counts[i]``: how many verify steps accepted i drafted tokens, over ``launches`` launches of a cell."""

    cell: str
    budget: int
    counts: tuple[int, ...]
    launches: int

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def accepted(self) -> float:
        """Drafted tokens that a step accepted, mean."""
        return sum(place * count for place, count in enumerate(self.counts)) / self.total

    def share(self, accepted: int) -> float:
        """The share of steps that accepted so many."""
        return self.counts[accepted] / self.total if accepted < len(self.counts) else 0.0


def step_counts(run: LoadedRun) -> tuple[Steps, ...]:
    """The cells for which the engine gave a histogram, by budget."""
    found = [steps for cell in run.cells if (steps := _of_cell(cell)) is not None]
    return tuple(sorted(found, key=lambda steps: (steps.budget, steps.cell)))


def columns(found: Sequence[Steps]) -> range:
    """The numbers of accepted tokens that occur."""
    return range(max((_last(steps) for steps in found), default=-1) + 1)


def step_histogram(found: Sequence[Steps], key: str) -> Markup:
    """A row of bars for each cell, on one axis; nothing for none."""
    if not found:
        return Markup("")
    drawn = _drawn(found)
    return picture(
        _WIDTH,
        _TOP + _ROW * len(drawn) + _BOTTOM,
        lambda canvas: _paint(canvas, drawn),
        key=key,
        title="Drafted tokens that single verify steps accepted",
        told=listed(
            [
                f"{steps.cell}: {figure(round(steps.accepted, 2))} on average over {steps.total} steps, "
                f"none in {percent(steps.share(0))} of them"
                for steps in drawn
            ]
        ),
    )


def _of_cell(cell: LoadedCell) -> Steps | None:
    histograms = [
        check.histogram
        for attempt in cell.attempts
        if why_withheld(attempt) is None
        for check in attempt.result.checks
        if check.check == "acceptance" and check.histogram and any(check.histogram)
    ]
    if not histograms:
        return None
    longest = max(len(histogram) for histogram in histograms)
    counts = tuple(sum(h[i] for h in histograms if i < len(h)) for i in range(longest))
    return Steps(cell=cell.id, budget=cell.coordinates.budget, counts=counts, launches=len(histograms))


def _last(steps: Steps) -> int:
    return max(place for place, count in enumerate(steps.counts) if count)


def _drawn(found: Sequence[Steps]) -> Sequence[Steps]:
    """All, or of each budget the cell with most steps, and then those with most steps of the others."""
    if len(found) <= _MOST:
        return found
    ranked = sorted(found, key=lambda steps: -steps.total)
    first = list({steps.budget: steps for steps in reversed(ranked)}.values())
    first.sort(key=lambda steps: -steps.total)
    kept = [*first, *(steps for steps in ranked if steps not in first)][:_MOST]
    return [steps for steps in found if steps in kept]


def _paint(canvas: Canvas, drawn: Sequence[Steps]) -> None:
    left = min(230.0, 16 + CHARACTER_PX * max(len(steps.cell) for steps in drawn))
    axes = canvas.axes(left, _TOP, _WIDTH - left - _RIGHT, _ROW * len(drawn))
    places = columns(drawn)
    tallest = max(steps.share(place) for steps in drawn for place in places)
    axes.set_xlim(-0.7, len(places) - 0.3)
    axes.set_ylim(len(drawn), 0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xticks(list(places)[:: 1 + len(places) // 24])
    axes.set_xlabel("drafted tokens accepted in a verify step")
    sheet = canvas.sheet()
    for row, steps in enumerate(drawn):
        heights = [row + 1 - 0.8 * steps.share(place) / tallest for place in places]
        axes.stairs(
            heights, [place - 0.5 for place in range(len(places) + 1)], baseline=row + 1, fill=True, color=ink("c0")
        )
        axes.hlines(row + 1, -0.7, len(places) - 0.3, colors=ink("line"), linewidth=1)
        axes.plot([steps.accepted], [row + 1], marker="^", markersize=7, color=ink("ink"), clip_on=False)
        y = _TOP + _ROW * (row + 0.6)
        sheet.text(left - 8, y, shortened(steps.cell, left), ha="right")
        said = f"mean {figure(round(steps.accepted, 2))}; none in {percent(steps.share(0))}"
        sheet.text(_WIDTH - _RIGHT + 10, y, said, color=ink("soft"))
    sheet.text(6, 13, f"share of verify steps (highest bar: {percent(tallest)}); ▲ mean")
