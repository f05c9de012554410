"""`junit.xml`: a suite for each run, a case for each launch, for the places that show test results; and one for the
kernel checks.

`fail` and `corrupt` are failures; `inconclusive` and `void` are errors, because a pass would claim what is not known;
what was not run and what is unsupported is skipped.
"""

from collections.abc import Iterable
from xml.etree import ElementTree as ET

from report.console import run_summary
from report.document import Document
from report.kernels_junit import kernel_suite
from report.load import LoadedAttempt, LoadedCell, LoadedRun
from report.words import NOT_A_GPU, PLANTED
from repro.escape import one_line


def render(document: Document) -> bytes:
    """The file, UTF-8 with an XML declaration."""
    suites = ET.Element("testsuites", name="graphrepro")
    for run in document.shown:
        suites.append(_suite(run))
    kernels = kernel_suite(document.kernels)
    if kernels is not None:
        suites.append(kernels)
    ET.indent(suites)
    text = ET.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def _suite(run: LoadedRun) -> ET.Element:
    name = f"{run.run.target} {run.run.run_id}" + (f" ({PLANTED})" if run.planted else "")
    cases = [case for cell in run.cells for case in _cell_cases(cell)]
    cases += [_skipped(run.run.target, skip.cell, skip.state, skip.reason) for skip in run.skips]
    suite = ET.Element(
        "testsuite",
        name=_text(name),
        tests=str(len(cases)),
        failures=_count(cases, "failure"),
        errors=_count(cases, "error"),
        skipped=_count(cases, "skipped"),
        timestamp=run.run.created_at.rstrip("Z").split(".")[0],
        time=f"{sum(a.result.wall_s for cell in run.cells for a in cell.attempts):.3f}",
    )
    properties = ET.SubElement(suite, "properties")
    ET.SubElement(properties, "property", name="run", value=_text(run_summary(run)))
    for said, holds in (("planted", run.planted), ("not-a-gpu", not run.about_gpus)):
        if holds:
            ET.SubElement(properties, "property", name=said, value=PLANTED if said == "planted" else NOT_A_GPU)
    suite.extend(cases)
    return suite


def _cell_cases(cell: LoadedCell) -> Iterable[ET.Element]:
    yield from (_attempt_case(cell, attempt) for attempt in cell.attempts)
    if cell.missing:
        yield _skipped(cell.target, cell.id, "not_run", f"{cell.missing} of {cell.planned} planned launches missing")


def _attempt_case(cell: LoadedCell, attempt: LoadedAttempt) -> ET.Element:
    result, verdict = attempt.result, attempt.verdict
    name = f"{cell.id} #{result.attempt}" + (" PLANTED" if result.planted is not None else "")
    case = ET.Element("testcase", classname=_text(cell.target), name=_text(name), time=f"{result.wall_s:.3f}")
    tag = {"fail": "failure", "corrupt": "failure", "inconclusive": "error", "void": "error", "unsupported": "skipped"}
    if verdict.verdict in tag:
        message = f"{verdict.verdict}: {', '.join(verdict.reasons)}"
        child = ET.SubElement(case, tag[verdict.verdict], message=_text(message))
        if tag[verdict.verdict] != "skipped":
            child.set("type", verdict.verdict)
            child.text = "\n".join(_text(line) for line in _details(attempt))
    return case


def _details(attempt: LoadedAttempt) -> list[str]:
    diagnosis = attempt.result.diagnosis
    lines = [attempt.verdict.statement, f"evidence: {attempt.path}"]
    if diagnosis is not None:
        lines.append(f"diagnosis: {diagnosis.kind} ({diagnosis.confidence} confidence)")
        lines += [f"{line.file}:{line.line}: {line.text}" for line in diagnosis.evidence]
    return lines


def _skipped(target: str, cell: str, state: str, reason: str) -> ET.Element:
    case = ET.Element("testcase", classname=_text(target), name=_text(cell))
    ET.SubElement(case, "skipped", message=_text(f"{state}: {reason}"))
    return case


def _count(cases: Iterable[ET.Element], tag: str) -> str:
    return str(sum(case.find(tag) is not None for case in cases))


def _text(text: str) -> str:
    """XML 1.0 has no place for most control characters, escaped or not."""
    return one_line(text)
