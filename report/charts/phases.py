"""The time line of a launch that did not end well: a bar for each phase, and the line of log that tells of the end."""

from markupsafe import Markup

from report.charts import svg
from report.words import spoken
from repro.model import PhaseTiming, Result

_WIDTH, _LEFT, _ROW, _TOP = 640, 130, 20, 8
_SIGNS = {"completed": "", "failed": "✗ failed", "timed_out": "✗ timed out", "interrupted": "✗ interrupted"}


def time_line(result: Result) -> Markup:
    """The phases of ``result`` over the seconds of its launch; nothing where it completed or no phase is known."""
    if result.outcome == "completed" or not result.phases:
        return Markup("")
    total = max(result.wall_s, *(phase.ended_s or phase.begun_s for phase in result.phases), 0.1)
    lines = [line.text for line in result.diagnosis.evidence[:3]] if result.diagnosis else []
    told = "; ".join(_told(phase) for phase in result.phases)
    height = _TOP + _ROW * len(result.phases) + 22 + 16 * len(lines)
    root = svg.picture(
        _WIDTH, height, f"Time line of {result.cell} attempt {result.attempt}: {told}; {spoken(result.outcome)}"
    )
    scale = (_WIDTH - _LEFT - 110) / total
    for row, phase in enumerate(result.phases):
        y = _TOP + _ROW * row
        ended_s = total if phase.ended_s is None else phase.ended_s
        x, width = _LEFT + scale * phase.begun_s, max(2.0, scale * (ended_s - phase.begun_s))
        state = "done" if phase.state == "completed" and phase.ended_s is not None else "broken"
        svg.add(root, "text", spoken(phase.phase), class_="tick", x=_LEFT - 8, y=y + 13, text_anchor="end")
        svg.add(root, "rect", class_=f"phase {state}", x=x, y=y + 3, width=width, height=_ROW - 6)
        label = _took(phase) if state == "done" else f"{_took(phase)} {_SIGNS[phase.state]}"
        svg.add(root, "text", label, class_="tick", x=x + width + 5, y=y + 13)
    y = _TOP + _ROW * len(result.phases)
    svg.add(root, "line", class_="rule", x1=_LEFT, x2=_LEFT + scale * total, y1=y + 2, y2=y + 2)
    svg.add(root, "text", "0 s", class_="tick", x=_LEFT, y=y + 15)
    svg.add(
        root,
        "text",
        f"✗ {spoken(result.outcome)} at {result.wall_s:.1f} s",
        class_="tick",
        x=_LEFT + scale * total,
        y=y + 15,
        text_anchor="end",
    )
    for row, line in enumerate(lines):
        shown = line if len(line) <= 96 else line[:95] + "…"
        svg.add(root, "text", shown, class_="tick log", x=4, y=y + 32 + 16 * row)
    return svg.markup(root)


def _told(phase: PhaseTiming) -> str:
    return f"{spoken(phase.phase)} {spoken(phase.state)}, {_took(phase)}"


def _took(phase: PhaseTiming) -> str:
    """A phase whose end was not recorded is drawn up to the end of the launch, and no length is made up for it."""
    return "no end recorded" if phase.ended_s is None else f"{phase.ended_s - phase.begun_s:.1f} s"
