"""The report as one self-contained HTML file: no network, one script of ours, and nothing of a record acts in it."""

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from report.answers import MOST_CARDS, in_order, overview
from report.armed import armed_lines
from report.charts.acceptance import acceptance, points
from report.charts.bar import interval_bar
from report.charts.concurrency import rates, throughput
from report.charts.heatmap import heat_map
from report.charts.kernels import kernel_map
from report.charts.phases import gpu_rows, moment, time_line
from report.charts.picture import library
from report.charts.steps import columns, step_counts, step_histogram
from report.compare import cell_facts
from report.console import because, certainty, run_summary, two_sides
from report.crashes import MOST, has_time_line
from report.document import Document
from report.folding import PAGE_BYTES, Folded, Listed, fold, listed, pictured, self_tests_of
from report.gains import BEST_HEADINGS, best_rows, crossover_words
from report.grid import grid, places
from report.kernels_beside import beside_line, beside_table, notes_of
from report.kernels_told import told as kernels_told
from report.kernels_words import NO_LAUNCH, NOT_MEASURED
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
from repro.model import Fact, Finding, Result


def render(document: Document) -> str:
    """The page. Deterministic: the same document gives the same bytes.

    Launches come last, because they get the room that is left: the templates put marks where they are to stand.
    """
    page = _without_launches(document)
    room = PAGE_BYTES - len(page.encode())
    folded = fold(listed(document), _teller(document), room)
    return _MARK.sub(lambda found: _filled(found, folded), page)


def prepare() -> None:
    """What takes long and needs no document: the pictures' library, and the templates."""
    library()
    for name in _environment().list_templates(extensions=["j2"]):
        _environment().get_template(name)


_MARK = re.compile("\x00(launches|note):([^\x00]*)\x00")  # no text on the page has a NUL: it is spelled out


def _mark(kind: str, name: str) -> Markup:
    return Markup(f"\x00{kind}:{name}\x00")  # noqa: S704 - replaced before anybody sees it


def _filled(found: re.Match[str], folded: Folded) -> str:
    kind, name = found.groups()
    if kind == "launches":
        return folded.lists.get(name, "")
    return Markup('<p class="note">{}</p>').format(folded.notes[name]) if name in folded.notes else ""


def _teller(document: Document) -> Callable[[Listed], Markup]:
    """Tells a launch in full."""
    environment = _environment()
    shared = {"document": document, "record": document.record}
    modules = {name: environment.get_template(f"{name}.html.j2").make_module(shared) for name in ("parts", "pictures")}
    template = environment.get_template("attempt.html.j2")

    def tell(one: Listed) -> Markup:
        told = template.render(**shared, **modules, run=one.run, attempt=one.attempt)
        return Markup(told)  # noqa: S704 - a template's own output

    return tell


def _without_launches(document: Document) -> str:
    style, script = _packaged("page.css"), _packaged("page.js")
    return (
        _environment()
        .get_template("findings.html.j2")
        .render(
            document=document,
            record=document.record,
            style=Markup(style),  # noqa: S704 - our own file
            style_digest=_digest(style),
            script=Markup(script),  # noqa: S704 - our own file
            script_digest=_digest(script),
        )
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
    environment.filters |= _FILTERS
    environment.globals |= _GLOBALS
    return environment


def anchor(text: str) -> str:
    """A fragment identifier: file-safe names are kept as they are."""
    return re.sub(r"[^A-Za-z0-9_.+-]", "-", text)


def _cell_anchor(document: Document, cell: str, finding: Finding) -> str:
    """Of the target that the evidence of the finding is from, should several have such a cell. A case of the kernel
    checks has no place of its own."""
    targets = {link.path.partition("/")[0] for link in finding.evidence if link.path is not None}
    found = [(run.run.target in targets, one.anchor) for run in document.shown for one in run.cells if one.id == cell]
    return next(
        (name for ours, name in found if ours), found[0][1] if found else "kernels" if document.kernels else cell
    )


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


def _same_facts(run: LoadedRun) -> dict[str, LoadedCell]:
    """By cell, the first cell of the run whose facts of the comparability key are all the same; not for that itself."""
    first: dict[str, LoadedCell] = {}
    same: dict[str, LoadedCell] = {}
    for cell in (cell for cell in run.cells if cell.attempts):
        told = repr(_key_rows(run, cell))
        if first.setdefault(told, cell) is not cell:
            same[cell.id] = first[told]
    return same


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


_FILTERS: Mapping[str, Callable[..., object]] = {
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
_GLOBALS: Mapping[str, object] = {
    "MOST_TIME_LINES": MOST,
    "NOT_A_GPU": NOT_A_GPU,
    "NOT_MEASURED": NOT_MEASURED,
    "NO_LAUNCH": NO_LAUNCH,
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
    "beside_line": beside_line,
    "beside_table": beside_table,
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
    "kernel_map": kernel_map,
    "kernel_notes": notes_of,
    "kernels_told": kernels_told,
    "mark": _mark,
    "same_facts": _same_facts,
    "self_tests_of": self_tests_of,
    "key_rows": _key_rows,
    "line_moment": moment,
    "number_label": number_label,
    "other_facts": _other_facts,
    "MOST_CARDS": MOST_CARDS,
    "in_order": in_order,
    "overview": overview,
    "pictured": pictured,
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
"""What the templates may call and name."""
