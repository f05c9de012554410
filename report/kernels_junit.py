"""The kernel checks as a suite of `junit.xml`: a case for each row, and one for each arm."""

from collections.abc import Iterable
from xml.etree import ElementTree as ET

from report.kernels import NOTHING_COUNTS, Kernels, ShownArm, code_of, code_words
from report.kernels_words import NO_LAUNCH, NOT_MEASURED, arm_line
from repro.escape import one_line
from repro.model.kernels import KernelResult

_TAGS = {"fail": "failure", "inconclusive": "error", "not_run": "skipped", "not_applicable": "skipped"}
_MOST_FAULTS = 20


def kernel_suite(kernels: Kernels) -> ET.Element | None:
    """The suite; None if there are no kernel checks. Planted faults are no cases: an arm that misses one is broken."""
    if not kernels:
        return None
    cases = [case for arm in kernels.arms for case in _arm_cases(arm)]
    suite = ET.Element(
        "testsuite",
        name="kernel checks",
        tests=str(len(cases)),
        failures=_count(cases, "failure"),
        errors=_count(cases, "error"),
        skipped=_count(cases, "skipped"),
        timestamp=max(arm.created_at for arm in kernels.arms).rstrip("Z").split(".")[0],
        time=f"{sum(arm.cost_s for arm in kernels.arms):.3f}",
    )
    properties = ET.SubElement(suite, "properties")
    ET.SubElement(properties, "property", name="evidence", value=f"{NO_LAUNCH} {NOT_MEASURED}")
    suite.extend(cases)
    return suite


def _arm_cases(arm: ShownArm) -> Iterable[ET.Element]:
    yield _arm_case(arm)
    for row in arm.rows:
        if row.planted is None:
            yield _row_case(arm, row)


def _arm_case(arm: ShownArm) -> ET.Element:
    """Broken and unfinished arms are errors: a pass would claim what is not known."""
    case = _case(arm.check, f"arm of run {arm.run_id}", 0.0)
    if arm.state != "complete":
        child = ET.SubElement(case, "skipped" if arm.state == "not_run" else "error", message=one_line(arm_line(arm)))
        if arm.state != "not_run":
            child.set("type", arm.state)
    return case


def _row_case(arm: ShownArm, row: KernelResult) -> ET.Element:
    code = code_words(code_of(row))
    case = _case(f"{arm.check}.{row.evidence_class}", f"{row.cell.id} ({code})", row.wall_s)
    if not arm.counts:
        ET.SubElement(case, "skipped", message=f"the arm is broken: {NOTHING_COUNTS}")
    elif row.state in _TAGS:
        tag = _TAGS[row.state]
        child = ET.SubElement(case, tag, message=one_line(f"{row.state}: {row.reason}: {row.detail}"))
        if tag != "skipped":
            child.set("type", row.state)
            child.text = "\n".join(_details(arm, row))
    return case


def _details(arm: ShownArm, row: KernelResult) -> Iterable[str]:
    yield one_line(f"evidence: {arm.directory}/rows.jsonl")
    for fault in row.faults[:_MOST_FAULTS]:
        where = ", ".join(part for part in (fault.source, fault.tensor) if part)
        yield one_line(f"{fault.kind}: {where}: {fault.detail}")


def _case(classname: str, name: str, wall_s: float) -> ET.Element:
    return ET.Element("testcase", classname=classname, name=one_line(name), time=f"{wall_s:.3f}")


def _count(cases: Iterable[ET.Element], tag: str) -> str:
    return str(sum(case.find(tag) is not None for case in cases))
