"""Rules, statements and ids."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from report.findings import find
from report.load import load
from repro.model import Finding

A, B = "sm_103-b12t4-graph-nvls", "sm_103-b16t8-graph-nvls"
CELL = "cpu-b8t4-eager-nonvls"


def found(root: Path) -> tuple[Finding, ...]:
    return find(load([root]).newest())


def of_kind(root: Path, kind: str) -> list[Finding]:
    return [finding for finding in found(root) if finding.kind == kind]


def crash(make: SimpleNamespace, cell: str, attempt: int, subsystem: str | None = "attention", **changes: object):
    detail = "ended in serving: cuda_illegal_memory_access"
    diagnosis = make.illegal_access(subsystem)
    return make.Launch(cell, attempt, "crashed", detail, checks=(), diagnosis=diagnosis, **changes)


def gpu_run(make: SimpleNamespace, root: Path, *launches, run_id: str = "r1") -> Path:
    planned = {launch.cell: sum(other.cell == launch.cell for other in launches) for launch in launches}
    make.write_run(root, make.run_record("b300", run_id), launches, planned=planned)
    return root


def test_what_is_found_in_a_run_where_everything_happens(all_states: Path) -> None:
    assert [(finding.kind, finding.severity) for finding in found(all_states)] == [
        ("failing_region", "high"),
        ("corrupt_output", "high"),
        ("cuda_illegal_memory_access", "high"),
        ("acceptance_at_floor", "medium"),
        ("graph_replayed_contradicted", "medium"),
        ("topk_not_honoured", "medium"),
        ("tie", "low"),
        ("lost", "low"),
        ("unfinished", "low"),
        ("eager_correct", "info"),
        ("acceptance_by_budget", "info"),
        ("no_failure", "info"),
    ]


def test_one_cause_in_several_cells_is_one_finding(all_states: Path) -> None:
    (finding,) = of_kind(all_states, "cuda_illegal_memory_access")
    assert finding.cells == (A, B)
    assert "3 of 4 launches over 2 cells" in finding.statement
    assert f"{A} 1 of 1" in finding.statement
    assert f"{B} 2 of 3, 95 % interval 21 % to 94 %" in finding.statement
    assert len(finding.evidence) == 3
    assert finding.evidence[0].path == f"b300/20261130-b300/cells/{A}/1/evidence/server.log"


def test_two_located_subsystems_are_two_findings(tmp_path: Path, make: SimpleNamespace) -> None:
    root = gpu_run(make, tmp_path, crash(make, A, 1), crash(make, B, 1, "collective"), crash(make, B, 2, None))
    assert len(of_kind(root, "cuda_illegal_memory_access")) == 3


def test_an_unlocated_failure_joins_the_only_located_one(tmp_path: Path, make: SimpleNamespace) -> None:
    root = gpu_run(make, tmp_path, crash(make, A, 1, None), crash(make, B, 1))
    (finding,) = of_kind(root, "cuda_illegal_memory_access")
    assert finding.cells == (A, B)


def test_one_of_one_is_worded_as_such(tmp_path: Path, make: SimpleNamespace) -> None:
    (finding,) = found(gpu_run(make, tmp_path, crash(make, A, 1)))
    assert "the only launch" in finding.statement
    assert "not how often" in finding.statement
    assert "interval" not in finding.statement


def test_a_failure_counts_only_launches_that_decided(tmp_path: Path, make: SimpleNamespace) -> None:
    root = gpu_run(make, tmp_path, crash(make, A, 1), make.Launch(A, 2, "lost", "contact lost", checks=()))
    assert "the only launch" in of_kind(root, "cuda_illegal_memory_access")[0].statement


@pytest.mark.parametrize(("launches", "bound"), [(1, "95 %"), (3, "63 %"), (10, "26 %"), (59, "5.0 %")])
def test_a_healthy_matrix_says_how_sure_that_makes_us(
    tmp_path: Path, make: SimpleNamespace, launches: int, bound: str
) -> None:
    cells = [make.Launch(CELL, n) for n in range(1, launches + 1)]
    make.write_run(tmp_path, make.run_record(), cells, planned={CELL: launches})
    (finding,) = found(tmp_path)
    assert finding.kind == "no_failure"
    assert f"below {bound} at 95 % confidence" in finding.statement
    assert f"No failure in {launches} launch" in finding.statement


def test_what_did_not_decide_is_not_counted_as_healthy(tmp_path: Path, make: SimpleNamespace) -> None:
    tie = make.check("lossless", "inconclusive", "tie", "a tie")
    launches = [make.Launch(CELL, 1), make.Launch(CELL, 2, checks=make.checks(lossless=tie))]
    make.write_run(tmp_path, make.run_record(), launches, planned={CELL: 2})
    (healthy,) = of_kind(tmp_path, "no_failure")
    assert "No failure in 1 launch over" in healthy.statement
    assert "1 launch of these cells did not decide" in healthy.statement


def test_a_run_with_a_failure_is_not_healthy(all_states: Path) -> None:
    (healthy,) = of_kind(all_states, "no_failure")
    assert all(cell.startswith("cpu-") for cell in healthy.cells)


def test_a_contradicted_proof_is_told_once(all_states: Path) -> None:
    (finding,) = of_kind(all_states, "graph_replayed_contradicted")
    assert "graph_replayed should be True" in finding.statement
    assert "configuration_not_proven" not in {other.kind for other in found(all_states)}


def test_an_unproven_configuration_is_told_too(tmp_path: Path, make: SimpleNamespace) -> None:
    unproven = make.replace(make.proof(), observed=None, state="unknown")
    make.write_run(tmp_path, make.run_record(), [make.Launch(CELL, proof=(unproven,))], planned={CELL: 1})
    (finding,) = found(tmp_path)
    assert finding.kind == "configuration_not_proven"


def test_planted_findings_say_so_and_come_last(all_states: Path, planted: Path) -> None:
    findings = find(load([all_states, planted]).newest())
    flags = [finding.planted for finding in findings]
    assert flags == sorted(flags)
    assert any(flags)
    assert all(finding.statement.startswith("PLANTED FAULT") == finding.planted for finding in findings)


def test_a_planted_fault_that_nothing_noticed_is_found(planted: Path) -> None:
    (finding,) = of_kind(planted, "planted_fault_unnoticed")
    assert finding.cells == ("sim-b32t8-eager-nonvls",)
    assert "--inject sim-b32t8-eager-nonvls=slow" in finding.next


def test_a_planted_run_is_never_called_healthy(tmp_path: Path, make: SimpleNamespace) -> None:
    fault = make.Planted(fault="slow", number=None)
    make.write_run(tmp_path, make.run_record("sim"), [make.Launch(CELL, planted=fault)], planned={CELL: 1})
    assert "no_failure" not in {finding.kind for finding in found(tmp_path)}


def test_a_refused_configuration_is_told(tmp_path: Path, make: SimpleNamespace) -> None:
    launch = make.Launch(CELL, outcome="refused", detail="unknown flag", checks=())
    make.write_run(tmp_path, make.run_record(), [launch], planned={CELL: 3})
    (finding,) = found(tmp_path)
    assert (finding.kind, finding.severity) == ("refused", "info")
    assert finding.next.startswith("python -m repro diagnose ")


def test_ids_are_short_hashes_and_unique(all_states: Path, planted: Path) -> None:
    ids = [finding.id for finding in find(load([all_states, planted]).newest())]
    assert all(re.fullmatch(r"f-[0-9a-f]{10}", name) for name in ids)
    assert len(set(ids)) == len(ids)


def test_the_order_of_runs_makes_no_difference(all_states: Path, planted: Path) -> None:
    runs = load([all_states, planted]).newest()
    assert find(runs) == find(runs[::-1])


def test_an_id_outlives_its_run_and_the_cells_that_happened_to_fail(tmp_path: Path, make: SimpleNamespace) -> None:
    one = found(gpu_run(make, tmp_path / "one", crash(make, A, 1), run_id="monday"))
    other = found(gpu_run(make, tmp_path / "other", crash(make, B, 1), make.Launch(B, 2), run_id="tuesday"))
    assert one[0].id == other[0].id
    elsewhere = found(gpu_run(make, tmp_path / "third", crash(make, A, 1, "collective")))
    assert elsewhere[0].id != one[0].id


def test_a_planted_failure_has_another_id_than_a_real_one(tmp_path: Path, make: SimpleNamespace) -> None:
    fault = make.Planted(fault="hang", number=None)
    real = found(gpu_run(make, tmp_path / "real", crash(make, A, 1)))
    mock = found(gpu_run(make, tmp_path / "mock", crash(make, A, 1, planted=fault)))
    assert real[0].id != mock[0].id


def test_much_evidence_is_cut_and_counted(tmp_path: Path, make: SimpleNamespace) -> None:
    (finding,) = found(gpu_run(make, tmp_path, *(crash(make, A, n) for n in range(1, 21))))
    assert len(finding.evidence) == 12
    assert "8 more" in finding.evidence[-1].text


def test_hostile_text_stays_on_one_visible_line(hostile: Path) -> None:
    for finding in found(hostile):
        for text in (finding.statement, finding.next, *(link.text for link in finding.evidence)):
            assert text.isprintable()
            assert "\n" not in text
