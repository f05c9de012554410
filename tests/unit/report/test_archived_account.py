"""The archived account's findings come out of its runs, with its overclaims as hypotheses.

`GRAPHREPRO_UPDATE_GOLDEN=1 pytest tests/unit/report/test_archived_account.py` rewrites the golden file; read the
difference before committing it.
"""

import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from report.best import best_configurations
from report.compare import against_runs
from report.findings import find
from report.load import LoadedRun, load
from repro.model import Finding

GOLDEN = Path(__file__).parents[2] / "golden" / "report" / "archived-account.txt"


@pytest.fixture(scope="module")
def account() -> ModuleType:
    """The builder, which a test module cannot import."""
    spec = importlib.util.spec_from_file_location("archived_account", Path(__file__).with_name("archived_account.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["archived_account"] = module
    spec.loader.exec_module(module)
    return module


def runs_of(root: Path) -> tuple[LoadedRun, ...]:
    loaded = load([root])
    assert not loaded.problems
    return loaded.newest()


def found(root: Path) -> tuple[Finding, ...]:
    runs = runs_of(root)
    return find(runs, (), [best for run in runs for best in best_configurations(run)])


def only(findings: Sequence[Finding], kind: str) -> Finding:
    (finding,) = [finding for finding in findings if finding.kind == kind]
    return finding


def told(finding: Finding) -> str:
    lines = [f"{finding.severity} {finding.kind}: {', '.join(finding.cells)}", finding.statement]
    for name in ("scope", "not_tested", "hypotheses"):
        lines += [f"  {name}: {line}" for line in getattr(finding, name)]
    lines += [f"  evidence: {link.path}: {link.text}" for link in finding.evidence]
    return "\n".join([*lines, f"  settle: {finding.settle}", f"  next: {finding.next}"])


def test_golden(tmp_path: Path, make: SimpleNamespace, account: ModuleType) -> None:
    text = "\n\n".join(told(finding) for finding in found(account.build(tmp_path, make))) + "\n"
    if os.environ.get("GRAPHREPRO_UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_graphs_fail_above_8_in_two_ways(tmp_path: Path, make: SimpleNamespace, account: ModuleType) -> None:
    findings = found(account.build(tmp_path, make))
    region = only(findings, "failing_region")
    assert findings[0] is region
    assert "On sm_103 with CUDA graphs, launches failed at every budget that was run above 8" in region.statement
    assert "2 failure modes: corrupt output at budget 32" in region.statement
    assert "cuda illegal memory access at budgets 12 and 16" in region.statement
    modes = [only(findings, kind) for kind in ("corrupt_output", "cuda_illegal_memory_access")]
    assert all(mode.id in region.statement for mode in modes)


def test_what_works_is_told(tmp_path: Path, make: SimpleNamespace, account: ModuleType) -> None:
    findings = found(account.build(tmp_path, make))
    eager = only(findings, "eager_correct").statement
    assert "eager gave right output at budget 16 in 1 of 1 launches (5 of 5 coding tasks correct)" in eager
    acceptance = only(findings, "acceptance_by_budget").statement
    assert "4.48 tokens/step at budget 8 (1 launch) → 5.3 to 6.4 tokens/step at budget 16 (1 launch)" in acceptance
    assert "differ in more than the budget: top-k 4 and 8, graph mode (not stated and eager)" in acceptance
    best = only(findings, "best_configuration")
    assert best.cells == ("sm_103-b8t4-graph-nvls",)
    assert "303 tok/s at concurrency 1 (1 launch), 4723 tok/s at concurrency 128" in best.statement
    healthy = only(findings, "no_failure")
    assert healthy.cells == ("sm_120-b32-graph-nonvls+graph-unstated",)
    assert "No failure in 1 launch" in healthy.statement


def test_overclaims_are_hypotheses(tmp_path: Path, make: SimpleNamespace, account: ModuleType) -> None:
    findings = found(account.build(tmp_path, make))
    open_ = "\n".join(line for finding in findings for line in finding.hypotheses)
    for claim in (
        "That every budget above 8 fails: only 12, 16 and 32 were run.",
        "That it is a fault of sm_103 itself: sm_120 had 0 of 1 at budget 32",
        "That eager is right at every budget",
        "That the 2 failure modes have one cause",
        "That it depends on CUDA graphs at budgets 12 and 32",
        "That NVLS makes it faster",
    ):
        assert claim in open_
    statements = " ".join(finding.statement for finding in findings)
    assert not re.search(r"\bfails\b|\balways\b|\bbug\b|because", statements)


def test_without_its_eager_run_there_is_no_claim_about_eager(
    tmp_path: Path, make: SimpleNamespace, account: ModuleType
) -> None:
    findings = found(account.build(tmp_path, make, without={"b16t8_eager"}))
    assert not [finding for finding in findings if finding.kind in {"eager_correct", "acceptance_by_budget"}]
    assert not any("eager" in text for finding in findings for text in (finding.statement, *finding.scope))
    region = only(findings, "failing_region")
    assert "That it depends on CUDA graphs at budgets 12, 16 and 32: no launch with eager decided there." in (
        region.hypotheses
    )
    assert "--select 'sm_103-b16t8-eager-*'" in (region.settle or "")


def test_without_the_healthy_budget_there_is_no_threshold(
    tmp_path: Path, make: SimpleNamespace, account: ModuleType
) -> None:
    findings = found(account.build(tmp_path, make, without={"b8t4_w2048"}))
    assert not [finding for finding in findings if finding.kind == "failing_region"]
    assert not any("above 8" in text for finding in findings for text in (finding.statement, *finding.hypotheses))


@pytest.mark.parametrize("record", ["b32_sm_120", "nvls_b8t4", "b32t8_graph", "b12_graph", "b16t8_graph"])
def test_without_a_row_nothing_is_said_of_it(
    tmp_path: Path, make: SimpleNamespace, account: ModuleType, record: str
) -> None:
    gone = {
        "b32_sm_120": "sm_120",
        "nvls_b8t4": "4723",
        "b32t8_graph": "sm_103-b32",
        "b12_graph": "sm_103-b12",
        "b16t8_graph": "sm_103-b16t8-graph",
    }[record]
    assert gone in str(found(account.build(tmp_path / "all", make)))
    findings = found(account.build(tmp_path / "less", make, without={record}))
    assert not any(gone in text for f in findings for text in (f.statement, *f.cells, *f.scope, *f.not_tested))


def test_another_driver_makes_it_not_comparable(tmp_path: Path, make: SimpleNamespace, account: ModuleType) -> None:
    here, same, other = (
        runs_of(account.build(tmp_path / name, make, run_id=name, driver=driver))
        for name, driver in (("here", "580.95"), ("same", "580.95"), ("other", "590.10"))
    )
    assert {one.comparable for one in against_runs(here, same)} == {"unverified"}
    beside = against_runs(here, other)
    assert {one.comparable for one in beside} == {"not_comparable"}
    assert all(any("gpu_driver" in reason for reason in one.reasons) for one in beside)
    assert all(number.ratio is None for one in beside for number in one.numbers)
