"""The time line of a launch that did not end well: its phases, when the telling lines of its log were written, and what
its GPUs drew and held, on one axis of time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import nan
from statistics import fmean
from typing import TYPE_CHECKING

from markupsafe import Markup

from report.charts.ink import ink
from report.charts.picture import CHARACTER_PX, Canvas, drawable, listed, picture, shortened
from report.crashes import Crash, CrashLine
from report.words import figure, spoken
from repro.model import PhaseTiming, PowerSample, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _LEFT, _RIGHT, _TOP = 640, 118, 140, 22
_ROW, _PANEL, _GAP, _AXIS, _LINE, _LINE_PX, _TEXT = 20, 64, 18, 40, 15, 10, 84
_BINS = 120
"""Points of time in a panel at most: more samples are put together."""
_SIGNS = {"completed": "", "failed": "✗ failed", "timed_out": "✗ timed out", "interrupted": "✗ interrupted"}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Panel:
    """What is drawn over time under the phases."""

    name: str
    unit: str
    colour: str
    read: Callable[[PowerSample], float | None]

    def value(self, sample: PowerSample) -> float | None:
        """What is drawn of a sample."""
        found = self.read(sample)
        return found if drawable(found) else None


_PANELS = (
    _Panel(name="GPU power", unit="W", colour="c1", read=lambda sample: sample.power_w),
    _Panel(name="GPU memory", unit="GiB", colour="c0", read=lambda sample: _gib(sample.memory_used_mib)),
)


def time_line(result: Result, crash: Crash | None, key: str) -> Markup:
    """The phases of ``result`` over the seconds of its launch, with what its evidence adds; nothing without a crash."""
    if crash is None:
        return Markup("")
    total = max(result.wall_s, *(phase.ended_s or phase.begun_s for phase in result.phases), 0.1)
    if not drawable(total):
        return Markup("")
    crash = replace(crash, samples=tuple(sample for sample in crash.samples if sample.at_s <= total))
    panels = [panel for panel in _PANELS if any(panel.value(sample) is not None for sample in crash.samples)]
    drawn_px = _ROW * len(result.phases) + (_GAP + _PANEL) * len(panels)
    return picture(
        _WIDTH,
        _TOP + drawn_px + _AXIS + _LINE * len(crash.lines),
        lambda canvas: _paint(canvas, result, crash, panels, total),
        key=key,
        title=f"Time line of {result.cell}, attempt {result.attempt}: {spoken(result.outcome)}",
        told=listed([*map(_told, result.phases), *map(_told_line, crash.lines), *_told_samples(crash, panels)]),
    )


def gpu_rows(crash: Crash) -> tuple[tuple[str, ...], ...]:
    """For each GPU: its number, samples, when the last one was taken, and power and memory: first, highest, last."""
    gpus = sorted({sample.gpu for sample in crash.samples})
    return tuple(_gpu_row(gpu, [sample for sample in crash.samples if sample.gpu == gpu]) for gpu in gpus)


def moment(line: CrashLine) -> str:
    """When a line was written."""
    return "not known" if line.at_s is None else f"{line.at_s:.1f}"


def _gib(mib: float | None) -> float | None:
    return None if mib is None else mib / 1024


def _gpu_row(gpu: int, samples: Sequence[PowerSample]) -> tuple[str, ...]:
    row = [str(gpu), str(len(samples)), f"{samples[-1].at_s:.1f}"]
    for panel in _PANELS:
        values = [value for sample in samples if (value := panel.read(sample)) is not None]
        row += [figure(round(v, 1)) for v in (values[0], max(values), values[-1])] if values else ["—"] * 3
    return tuple(row)


def _told(phase: PhaseTiming) -> str:
    return f"{spoken(phase.phase)} {spoken(phase.state)}, {_took(phase)}"


def _told_line(line: CrashLine) -> str:
    return f"log line at {moment(line)}{'' if line.at_s is None else ' s'}"


def _told_samples(crash: Crash, panels: Sequence[_Panel]) -> list[str]:
    told = []
    for panel in panels:
        values = [value for sample in crash.samples if (value := panel.value(sample)) is not None]
        told.append(f"{panel.name} {figure(round(min(values), 1))} to {figure(round(max(values), 1))} {panel.unit}")
    return told


def _took(phase: PhaseTiming) -> str:
    """A phase whose end was not recorded is drawn up to the end of the launch, and no length is made up for it."""
    return "no end recorded" if phase.ended_s is None else f"{phase.ended_s - phase.begun_s:.1f} s"


def _paint(canvas: Canvas, result: Result, crash: Crash, panels: Sequence[_Panel], total: float) -> None:
    wide = _WIDTH - _LEFT - _RIGHT
    high = _ROW * len(result.phases) + (_GAP + _PANEL) * len(panels)
    scale = wide / total
    sheet = canvas.sheet()
    for row, phase in enumerate(result.phases):
        _phase(sheet, phase, _TOP + _ROW * row, scale=scale, wall_s=result.wall_s, total=total)
    lowest = None
    for row, panel in enumerate(panels):
        top = _TOP + _ROW * len(result.phases) + _GAP + (_GAP + _PANEL) * row
        lowest = canvas.axes(_LEFT, top, wide, _PANEL)
        _panel(sheet, lowest, panel, crash.samples, top)
        lowest.set_xlim(0, total)
        lowest.set_xticks([])
    axes = canvas.axes(_LEFT, _TOP + high, wide, 1)
    axes.set_xlim(0, total)
    axes.set_yticks([])
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.spines["top"].set_visible(False)
    axes.set_xlabel("seconds since the launch began")
    axes.locator_params(axis="x", nbins=7)
    axes.xaxis.set_major_formatter(lambda value, _: figure(round(value, 6)))
    sheet.hlines([_TOP + high], _LEFT, _LEFT + wide, colors=ink("soft"), linewidth=1)
    _events(sheet, result, crash.lines, scale, high)


def _phase(sheet: "Axes", phase: PhaseTiming, y: float, *, scale: float, wall_s: float, total: float) -> None:
    """A bar; in the colour of failures, striped and with a dashed frame, if the phase did not end well."""
    from matplotlib.patches import Rectangle

    ended_s = total if phase.ended_s is None else phase.ended_s
    x, width = _LEFT + scale * phase.begun_s, max(2.0, scale * (ended_s - phase.begun_s))
    well = phase.state == "completed" and phase.ended_s is not None
    sheet.text(_LEFT - 8, y + 14, spoken(phase.phase), ha="right")
    if well:
        sheet.add_patch(Rectangle((x, y + 3), width, _ROW - 6, facecolor=ink("soft"), edgecolor="none", alpha=0.55))
    else:
        bar = Rectangle((x, y + 3), width, _ROW - 6, facecolor="none", edgecolor=ink("fail"), hatch="////")
        bar.set_linestyle((0, (4, 2)))
        sheet.add_patch(bar)
    label = f"{_took(phase)} {_SIGNS[phase.state]}".strip()
    after, end = x + width + 5, _LEFT + scale * wall_s
    if after <= end < after + CHARACTER_PX * len(label):
        after = end + 5  # not across the line that marks the end of the launch
    sheet.text(after, y + 14, label, color=ink("soft" if well else "fail"))


def _panel(sheet: "Axes", axes: "Axes", panel: _Panel, samples: Sequence[PowerSample], top: float) -> None:
    """Over all GPUs: the mean as a line, and from the lowest to the highest as a band."""
    at, low, mean, high = _binned(samples, panel.value)
    gpus = len({sample.gpu for sample in samples})
    if gpus > 1:
        axes.fill_between(at, low, high, color=ink(panel.colour), alpha=0.3, linewidth=0)
    axes.plot(at, mean, color=ink(panel.colour), linewidth=1.6, marker="o" if len(at) == 1 else None, markersize=4)
    axes.set_ylim(0, 1.1 * max(value for value in high if value == value) or 1.0)  # noqa: PLR0124 - not those of gaps
    axes.locator_params(axis="y", nbins=4)
    axes.yaxis.set_major_formatter(lambda value, _: figure(round(value, 6)))
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_color(ink("line"))
    sheet.text(8, top + 12, panel.name)
    sheet.text(8, top + 26, panel.unit, color=ink("soft"))
    x = _WIDTH - _RIGHT + 8
    if gpus > 1:
        sheet.text(x, top + 12, f"mean of {gpus} GPUs, and", color=ink("soft"))
        sheet.text(x, top + 26, "lowest to highest", color=ink("soft"))
    else:
        sheet.text(x, top + 12, "one GPU", color=ink("soft"))


def _binned(
    samples: Sequence[PowerSample], read: Callable[[PowerSample], float | None]
) -> tuple[list[float], list[float], list[float], list[float]]:
    """(time, lowest, mean, highest) of the samples in each of at most `_BINS` spans of time, with a gap (nan) where
    nothing was sampled for longer than three of them."""
    known = [(sample.at_s, value) for sample in samples if (value := read(sample)) is not None]
    begin, end = known[0][0], known[-1][0]
    span = (end - begin) / _BINS or 1.0
    rows: list[tuple[float, float, float, float]] = []
    for _, group in groupby(known, key=lambda item: int((item[0] - begin) / span)):
        times, values = zip(*group, strict=True)
        at = fmean(times)
        if rows and at - rows[-1][0] > max(3 * span, 5.0):
            rows.append(((rows[-1][0] + at) / 2, nan, nan, nan))
        rows.append((at, min(values), fmean(values), max(values)))
    at_s, low, mean, high = (list(column) for column in zip(*rows, strict=True))
    return at_s, low, mean, high


def _events(sheet: "Axes", result: Result, lines: Sequence[CrashLine], scale: float, high: float) -> None:
    """The end of the launch, the lines of its log by number, and what they say."""
    end = _LEFT + scale * result.wall_s
    sheet.vlines([end], _TOP - 4, _TOP + high, colors=ink("fail"), linewidth=1.6)
    said = f"✗ {spoken(result.outcome)}, {result.wall_s:.1f} s"
    sheet.text(min(end + 5, _WIDTH - CHARACTER_PX * len(said)), 12, said, color=ink("fail"))
    for x, numbers in _numbered(lines, scale):
        sheet.vlines([x], _TOP - 4, _TOP + high, colors=ink("ink"), linewidth=1.2, linestyles=(0, (2, 2)))
        sheet.text(x, 12, numbers, ha="center" if x < end - 20 else "right")
    for number, line in enumerate(lines, start=1):
        y = _TOP + high + _AXIS + _LINE * (number - 0.3)
        when = "no time" if line.at_s is None else f"{moment(line)} s"
        told = shortened(line.text, _WIDTH - _TEXT - 4, _LINE_PX)
        for x, text, side in ((6, str(number), "left"), (_TEXT - 8, when, "right"), (_TEXT, told, "left")):
            sheet.text(x, y, text, ha=side, family="monospace", size=_LINE_PX)


def _numbered(lines: Sequence[CrashLine], scale: float) -> list[tuple[float, str]]:
    """(x, numbers) of the lines with a time; those that would stand on each other share a place."""
    places: list[tuple[float, list[str]]] = []
    for number, line in enumerate(lines, start=1):
        if line.at_s is None:
            continue
        x = _LEFT + scale * line.at_s
        near = next((numbers for at, numbers in places if abs(at - x) < 14), None)
        if near is None:
            places.append((x, [str(number)]))
        else:
            near.append(str(number))
    return [(x, ", ".join(numbers)) for x, numbers in places]
