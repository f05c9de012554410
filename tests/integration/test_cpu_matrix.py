"""The whole way on the real SGLang server: one run with a healthy chain and a fault in each tree, and its report.

`nox -s faults-cpu` plants all the faults; here is one of each kind.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from repro import store
from repro.model import CheckResult, Result
from repro.verdict import run_verdicts

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def finished(cpu_results: Path) -> tuple[Path, dict[str, Result], dict[str, str]]:
    (directory,), problems = store.scan(cpu_results, "cpu")
    assert problems == ()
    found, bad = directory.results()
    assert bad == ()
    verdicts = {(v.cell, v.attempt): v.verdict for v in run_verdicts(found)}
    by_cell = {f"{r.cell}#{r.attempt}": r for r in found}
    return cpu_results, by_cell, {f"{cell}#{attempt}": verdict for (cell, attempt), verdict in verdicts.items()}


def check(result: Result, name: str) -> CheckResult:
    return next(c for c in result.checks if c.check == name)


def measured(result: Result, name: str, measurement: str) -> float:
    value = next(m.value for m in check(result, name).measurements if m.name == measurement)
    assert value is not None
    return value


def test_reference_and_chain_pass(finished: tuple[Path, dict[str, Result], dict[str, str]]) -> None:
    _, results, verdicts = finished
    for attempt in ("cpu-ar-eager-nonvls#1", "cpu-ar-eager-nonvls#2", "cpu-c7-eager-nonvls#1"):
        assert verdicts[attempt] == "pass", results[attempt]
    chain = results["cpu-c7-eager-nonvls#1"]
    assert check(chain, "lossless").state == "pass"
    assert measured(chain, "acceptance", "acceptance") > 1.5
    assert {p.fact: p.state for p in chain.proof}["width"] == "proven"


def test_wrong_masks_and_tokens_are_corrupt(finished: tuple[Path, dict[str, Result], dict[str, str]]) -> None:
    _, results, verdicts = finished
    assert verdicts["cpu-b8t4-eager-nonvls#1"] == "corrupt"
    assert verdicts["cpu-b16t8-eager-nonvls#1"] == "corrupt"
    # One wrong token in 200 leaves acceptance as it is: it is no sign of right output.
    assert measured(results["cpu-b16t8-eager-nonvls#1"], "acceptance", "acceptance") > 3.0


def test_useless_trees_fail_at_the_floor(finished: tuple[Path, dict[str, Result], dict[str, str]]) -> None:
    _, results, verdicts = finished
    result = results["cpu-b12t4-eager-nonvls#1"]
    assert verdicts["cpu-b12t4-eager-nonvls#1"] == "fail"
    assert check(result, "lossless").state == "pass"
    assert check(result, "acceptance").reason == "acceptance_at_floor"
    assert measured(result, "acceptance", "acceptance") == 1.0


def test_an_exception_in_the_scheduler_is_a_crash(finished: tuple[Path, dict[str, Result], dict[str, str]]) -> None:
    _, results, verdicts = finished
    result = results["cpu-b32t8-eager-nonvls#1"]
    assert result.outcome == "crashed"
    assert result.diagnosis is not None
    assert result.diagnosis.signature.phase == "serving"
    assert any(
        "Scheduler hit an exception" in line.text for line in result.diagnosis.evidence + result.diagnosis.follow_ons
    )
    assert verdicts["cpu-b32t8-eager-nonvls#1"] == "fail"


def test_the_report_marks_planted_faults(
    finished: tuple[Path, dict[str, Result], dict[str, str]], tmp_path: Path
) -> None:
    results, _, _ = finished
    command = [sys.executable, "-m", "report", "build", "--results", str(results), "--out", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    findings = json.loads((tmp_path / "findings.json").read_text())
    assert all(run["planted"] for run in findings["runs"])
    assert "PLANTED" in (tmp_path / "findings.html").read_text()
    assert "PLANTED" in (tmp_path / "findings.md").read_text()
