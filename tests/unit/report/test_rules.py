"""Rules that look beyond one launch, and what must hold of them whatever a run looks like."""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from report.best import best_configurations
from report.compare import against_runs
from report.findings import find
from report.load import Loaded, load
from repro.model import Finding, Skip

G8, G16, E16 = "sm_103-b8t4-graph-nvls", "sm_103-b16t8-graph-nvls", "sm_103-b16t8-eager-nvls"
N16 = "sm_103-n16-graph-nvls"
GRAPHS = ("graph", "eager")
BUDGETS = (8, 12, 16, 32)
TOPK = {8: 4, 12: 4, 16: 8, 32: 8}
Fates = dict[str, tuple[str, ...]]


def launch_of(make: SimpleNamespace, cell: str, attempt: int, fate: str):
    if fate == "crash":
        detail = "ended in serving: cuda_illegal_memory_access"
        return make.Launch(cell, attempt, "crashed", detail, checks=(), diagnosis=make.illegal_access())
    if fate == "wrong":
        return make.Launch(cell, attempt, checks=make.checks(3.0, 100.0, make.wrong()))
    if fate == "lost":
        return make.Launch(cell, attempt, "lost", "contact to the host was lost", checks=())
    return make.Launch(cell, attempt, checks=make.checks(3.0, 100.0))


def run_of(
    make: SimpleNamespace,
    root: Path,
    fates: Fates,
    *,
    run_id: str = "r1",
    target: str = "b300",
    skips: Sequence[Skip] = (),
) -> Loaded:
    """A run whose cells end as told, launch by launch."""
    launches = [launch_of(make, cell, i, fate) for cell, all_ in fates.items() for i, fate in enumerate(all_, start=1)]
    planned = {cell: max(1, len(all_)) for cell, all_ in fates.items()}
    make.write_run(root, make.run_record(target, run_id), launches, planned=planned, skips=skips)
    return load([root])


def found(loaded: Loaded) -> tuple[Finding, ...]:
    runs = loaded.newest()
    return find(runs, (), [best for run in runs for best in best_configurations(run)])


def of_kind(findings: Sequence[Finding], kind: str) -> Finding:
    (finding,) = [finding for finding in findings if finding.kind == kind]
    return finding


CRASH = "cuda_illegal_memory_access"


def test_one_of_three_is_worded_as_such(tmp_path: Path, make: SimpleNamespace) -> None:
    findings = found(run_of(make, tmp_path, {G8: ("ok",) * 3, G16: ("ok", "crash", "ok")}))
    finding = of_kind(findings, CRASH)
    assert f"in 1 of 3 launches of {G16} (95 % interval 6.1 % to 79 %)" in finding.statement
    assert "launches failed at every budget that was run above 8 (16 in 1 of 3 launches)" in finding.statement
    assert not re.search(r"\bfails\b|\balways\b", finding.statement)
    assert "budget 16 (1 of 3)" in finding.scope[0]


def test_few_launches_on_either_side_stay_a_hypothesis(tmp_path: Path, make: SimpleNamespace) -> None:
    finding = of_kind(found(run_of(make, tmp_path, {G16: ("crash",), E16: ("ok",)})), CRASH)
    assert any(
        line.startswith("That it depends on CUDA graphs: at budget 16, 1 of 1 failed") for line in finding.hypotheses
    )
    assert finding.settle is not None
    assert f"--select {G16} --select {E16}" in finding.settle
    assert finding.settle.endswith("--launches 4")  # 4 of 4 against 0 of 4: Fisher p = 0.029


def test_enough_launches_make_it_a_statement(tmp_path: Path, make: SimpleNamespace) -> None:
    finding = of_kind(found(run_of(make, tmp_path, {G16: ("crash",) * 4, E16: ("ok",) * 4})), CRASH)
    assert any(line.startswith("it depends on CUDA graphs: at budget 16, 4 of 4") for line in finding.scope)
    assert not any(line.startswith("That it depends on CUDA graphs") for line in finding.hypotheses)


def test_a_failure_in_eager_too_is_no_contrast(tmp_path: Path, make: SimpleNamespace) -> None:
    finding = of_kind(found(run_of(make, tmp_path, {G16: ("crash",) * 4, E16: ("crash",) * 4})), CRASH)
    assert not any("depends on CUDA graphs" in line for line in (*finding.scope, *finding.hypotheses))


def test_the_neighbour_that_was_not_run_is_named(tmp_path: Path, make: SimpleNamespace) -> None:
    skips = [
        Skip(cell="sm_103-b16t8-graph-nonvls", state="over_budget", reason="needs 0.2 h more", source=None),
        Skip(cell="sm_103-b12t4-graph-nvls", state="deselected", reason="not part of depth screen", source=None),
        Skip(cell="sm_103-c7-eager-nonvls", state="unsupported", reason="far from it", source=None),
    ]
    finding = of_kind(found(run_of(make, tmp_path, {G16: ("crash",), E16: ()}, skips=skips)), CRASH)
    assert finding.not_tested == (
        "sm_103-b16t8-eager-nvls: planned and not run",
        "sm_103-b16t8-graph-nonvls: over budget: needs 0.2 h more",
        "sm_103-b12t4-graph-nvls: deselected: not part of depth screen",
    )
    assert "That it depends on NVLS at budget 16: no launch without NVLS decided there." in finding.hypotheses
    assert "--select sm_103-b16t8-graph-nonvls" in (finding.settle or "")


def test_a_void_neighbour_decides_nothing(tmp_path: Path, make: SimpleNamespace) -> None:
    finding = of_kind(found(run_of(make, tmp_path, {G16: ("crash",), E16: ("lost",)})), CRASH)
    assert f"{E16}: void (lost): the launch says nothing about the engine" in finding.not_tested
    assert "That it depends on CUDA graphs at budget 16: no launch with eager decided there." in finding.hypotheses


def test_another_machine_tells_no_more_than_it_ran(tmp_path: Path, make: SimpleNamespace) -> None:
    run_of(make, tmp_path, {"sm_120-b16t8-graph-nonvls": ("ok",) * 3}, target="rtxpro6000", run_id="r2")
    finding = of_kind(found(run_of(make, tmp_path, {G16: ("crash",)})), CRASH)
    assert "sm_120 did not: 0 of 3 at budget 16, CUDA graphs, without NVLS" in finding.scope
    (line,) = [line for line in finding.hypotheses if "fault of sm_103" in line]
    assert line.endswith("but the two runs differ in the whole machine and NVLS.")


def test_findings_are_ranked_by_what_matters(tmp_path: Path, make: SimpleNamespace) -> None:
    fates = {G8: ("wrong", "ok", "ok"), G16: ("crash",) * 3, E16: ("ok",)}
    kinds = [finding.kind for finding in found(run_of(make, tmp_path, fates))]
    assert kinds.index("corrupt_output") < kinds.index(CRASH)
    assert kinds.index(CRASH) < kinds.index("eager_correct")


def test_of_two_equal_shares_the_surer_one_is_first(tmp_path: Path, make: SimpleNamespace) -> None:
    one = make.Launch(G8, 1, "crashed", "ended", checks=(), diagnosis=make.illegal_access("collective"))
    more = [launch_of(make, G16, n, "crash") for n in (1, 2, 3)]
    make.write_run(tmp_path, make.run_record("b300"), [one, *more], planned={G8: 1, G16: 3})
    crashes = [finding for finding in found(load([tmp_path])) if finding.kind == CRASH]
    assert [finding.cells for finding in crashes] == [(G16,), (G8,)]


def test_a_regression_is_a_finding_and_an_undecided_change_is_none(tmp_path: Path, make: SimpleNamespace) -> None:
    def side(name: str, rate: float):
        launches = [make.Launch(G8, n, checks=make.checks(4.5, rate + n / 10)) for n in range(1, 9)]
        make.write_run(tmp_path / name, make.run_record("b300", name), launches, planned={G8: 8})
        return load([tmp_path / name]).newest()

    here, slower, equal = side("here", 285.0), side("before", 303.0), side("same", 285.0)
    comparisons = against_runs(here, slower)
    assert {one.comparable for one in comparisons} == {"comparable"}
    finding = of_kind(find(here, comparisons), "regression")
    assert finding.severity == "medium"
    assert "Regression against run-before" in finding.statement
    assert f"of {G8} 303.45" in finding.statement
    assert not [f for f in find(here, against_runs(here, equal)) if f.kind in {"regression", "improvement"}]


def test_acceptance_that_overlaps_is_no_finding(tmp_path: Path, make: SimpleNamespace) -> None:
    assert "acceptance_by_budget" not in {
        finding.kind for finding in found(run_of(make, tmp_path, {G8: ("ok",), G16: ("ok",)}))
    }


# --- what must hold whatever a run looks like -------------------------------------------------------------------------

cells = st.sampled_from(
    [
        f"sm_103-b{budget}t{TOPK[budget]}-{graph}-{nvls}"
        for budget in BUDGETS
        for graph in GRAPHS
        for nvls in ("nvls", "nonvls")
    ]
)
fates = st.lists(st.sampled_from(["ok", "crash", "wrong", "lost"]), max_size=3).map(tuple)
matrices = st.dictionaries(cells, fates, min_size=1, max_size=6)
few = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
FAILURES = {"corrupt_output", CRASH}


def strength(findings: Sequence[Finding]) -> dict[tuple[str, str, str], tuple[int, int]]:
    """(kind, setting, budget) -> (k, n), read from what a finding says of where it holds."""
    said = {}
    for finding in findings:
        if finding.kind not in FAILURES:
            continue
        for line in finding.scope:
            setting, _, rest = line.partition(": failed at ")
            for budget, k, n in re.findall(r"(\d+) \((\d+) of (\d+)\)", rest.partition(";")[0]):
                said[finding.kind, setting, budget] = (int(k), int(n))
    return said


@few
@given(matrix=matrices, extra=st.data())
def test_a_healthy_launch_never_strengthens_a_failure(
    make: SimpleNamespace, matrix: Fates, extra: st.DataObject
) -> None:
    cell = extra.draw(st.sampled_from(sorted(matrix)))
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        before = found(run_of(make, Path(one), matrix))
        after = found(run_of(make, Path(other), {**matrix, cell: (*matrix[cell], "ok")}))
    weaker, stronger = strength(after), strength(before)
    assert weaker.keys() == stronger.keys()
    assert all(k == stronger[key][0] and n >= stronger[key][1] for key, (k, n) in weaker.items())
    ids = {finding.id: finding for finding in before}
    assert {f.id for f in after if f.kind in FAILURES} == {f.id for f in before if f.kind in FAILURES}
    assert all(f.severity == ids[f.id].severity for f in after if f.kind in FAILURES)


@few
@given(matrix=matrices, order=st.randoms(use_true_random=False))
def test_the_order_of_cells_and_runs_changes_nothing(make: SimpleNamespace, matrix: Fates, order) -> None:
    names = list(matrix)
    order.shuffle(names)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        first = run_of(make, Path(one), matrix)
        second = run_of(make, Path(other), {name: matrix[name] for name in names})
        assert [f.statement for f in found(first)] == [f.statement for f in found(second)]
        runs = [*first.newest()]
        run_of(make, Path(one), {"sm_120-b16t8-graph-nonvls": ("ok",)}, target="rtxpro6000", run_id="r2")
        runs = list(load([Path(one)]).newest())
        assert find(runs) == find(runs[::-1])


@few
@given(matrix=matrices)
def test_nothing_is_said_of_what_was_not_run(make: SimpleNamespace, matrix: Fates) -> None:
    """Where a launch decided nothing, the budget stands among what was not tested and nowhere else."""
    with tempfile.TemporaryDirectory() as one:
        findings = found(run_of(make, Path(one), matrix))
    launched = {int(name.partition("-b")[2].partition("t")[0]) for name, all_ in matrix.items() if all_}
    for finding in findings:
        for text in (finding.statement, *finding.scope):
            assert not re.search(r"sm_(?!103)", text)
            said = {int(b) for b in re.findall(r"-b(\d+)t", text)}
            said |= {int(b) for b in re.findall(r"budgets? (\d+)", text)}
            if finding.kind != "unfinished":
                assert said <= launched, text


@pytest.mark.parametrize("missed", [True, False])
def test_an_oracle_that_missed_a_planted_fault_is_not_trusted(
    tmp_path: Path, make: SimpleNamespace, missed: bool
) -> None:
    fault = make.Planted(fault="wrong-token", number=200)
    verdict = make.checks(3.0, 100.0) if missed else make.checks(3.0, 100.0, make.wrong())
    launches = [
        make.Launch(G8),
        make.Launch(G16, role="self-test", planted=fault, checks=verdict),
        make.Launch("sm_103-ar-eager-nonvls", role="reference-again", checks=make.checks(None)),
    ]
    planned = {launch.cell: 1 for launch in launches}
    make.write_run(tmp_path, make.run_record("b300"), launches, planned=planned)
    kinds = [finding.kind for finding in found(load([tmp_path]))]
    assert (kinds[0] == "self_test_missed") is missed
