"""The report as one self-contained HTML file: no network, one script of ours, and nothing of a record acts in it."""

import base64
import hashlib
import re
from collections import Counter
from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from report.armed import armed_lines
from report.charts.acceptance import acceptance, points
from report.charts.bar import interval_bar
from report.charts.concurrency import rates, throughput
from report.charts.heatmap import heat_map
from report.charts.phases import gpu_rows, moment, time_line
from report.charts.steps import columns, step_counts, step_histogram
from report.compare import cell_facts
from report.console import because, certainty, run_summary, two_sides
from report.crashes import MOST, has_time_line
from report.document import Document
from report.gains import BEST_HEADINGS, best_rows, crossover_words
from report.grid import grid, places
from report.load import LoadedCell, LoadedRun
from report.numbers import cell_numbers, shown_checks, shown_numbers, why_withheld
from report.scores import PLACE_HEADERS, place_rows, score_rows
from report.words import (
    NOT_A_GPU,
    PLANTED,
    SELF_TEST,
    TERMS,
    VERDICTS,
    at_label,
    figure,
    interval_label,
    number_label,
    percent,
    sign,
    spoken,
)
from repro.baselines import archived_file
from repro.environment import KEY_FIELDS
from repro.escape import one_line, visible
from repro.model import Fact, Result


def render(document: Document) -> str:
    """The page. Deterministic: the same document gives the same bytes."""
    environment = _environment()
    style, script = _packaged("page.css"), _packaged("page.js")
    return environment.get_template("findings.html.j2").render(
        document=document,
        record=document.record,
        style=Markup(style),  # noqa: S704 - our own file
        style_digest=_digest(style),
        script=Markup(script),  # noqa: S704 - our own file
        script_digest=_digest(script),
    )


def _packaged(name: str) -> str:
    return resources.files("report").joinpath("templates", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "at": at_label,
        "anchor": anchor,
        "figure": figure,
        "interval": interval_label,
        "one_line": one_line,
        "percent": percent,
        "run_line": run_summary,
        "sign": sign,
        "spoken": spoken,
    }
    environment.globals |= {
        "MOST_TIME_LINES": MOST,
        "NOT_A_GPU": NOT_A_GPU,
        "PLACE_HEADERS": PLACE_HEADERS,
        "PLANTED": PLANTED,
        "SELF_TEST": SELF_TEST,
        "TERMS": TERMS,
        "VERDICTS": VERDICTS,
        "acceptance_chart": acceptance,
        "acceptance_points": points,
        "archived_file": archived_file,
        "armed_lines": armed_lines,
        "because": because,
        "cell_anchor": _cell_anchor,
        "certainty": certainty,
        "counts": _counts,
        "grid": grid,
        "headline": _headline,
        "has_time_line": has_time_line,
        "heat_map": heat_map,
        "BEST_HEADINGS": BEST_HEADINGS,
        "best_rows": best_rows,
        "crossover_words": crossover_words,
        "gpu_rows": gpu_rows,
        "interval_bar": interval_bar,
        "key_rows": _key_rows,
        "line_moment": moment,
        "number_label": number_label,
        "other_facts": _other_facts,
        "place_rows": place_rows,
        "rates": rates,
        "score_rows": score_rows,
        "shown_checks": shown_checks,
        "shown_numbers": shown_numbers,
        "step_columns": columns,
        "step_counts": step_counts,
        "step_histogram": step_histogram,
        "throughput_chart": throughput,
        "time_line_chart": time_line,
        "two_sides": two_sides,
    }
    return environment


def anchor(text: str) -> str:
    """A fragment identifier: file-safe names are kept as they are."""
    return re.sub(r"[^A-Za-z0-9_.+-]", "-", text)


def _cell_anchor(document: Document, cell: str) -> str:
    return next((found.anchor for run in document.shown for found in run.cells if found.id == cell), cell)


def _finalize(value: object) -> object:
    """Every expression of the templates comes through here, before it is escaped."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return "—"
    return visible(value) if isinstance(value, str) else value


def _counts(run: LoadedRun) -> list[tuple[str, int]]:
    """How many cells have which verdict or state, in the order of the legend."""
    counted = Counter(place.word for place in places(run))
    return [(word, counted[word]) for word in VERDICTS if counted[word]]


def _key_rows(run: LoadedRun, cell: LoadedCell) -> list[tuple[str, Fact]]:
    facts = cell_facts(run, cell)
    return [(field, facts[field]) for field in KEY_FIELDS]


def _headline(cell: LoadedCell) -> str:
    """The numbers of a cell that may be compared, or why there are none."""
    numbers = [number for number in cell_numbers(cell) if number.name in {"acceptance", "output_rate"}]
    told = [
        f"{figure(number.middle)} {number.unit}" + (f" at {at_label(dict(number.at))}" if number.at else "")
        for number in numbers
        if number.middle is not None
    ]
    if told:
        return f"Numbers to compare (median over {len(numbers[0].values)} of the launches): {', '.join(told)}."
    reasons = sorted({reason for a in cell.attempts if (reason := why_withheld(a)) is not None})
    return "Nothing to compare: " + (", ".join(spoken(reason) for reason in reasons) or "no number was measured") + "."


def _other_facts(result: Result) -> list[tuple[str, Fact]]:
    return [(name, fact) for name, fact in sorted(result.environment.facts.items()) if name not in KEY_FIELDS]
