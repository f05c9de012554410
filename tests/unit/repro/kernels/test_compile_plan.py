"""What the compiler arm asks, and how documents of its child become results."""

from collections.abc import Callable
from pathlib import Path

import pytest

from repro.kernels import compile as arm
from repro.kernels.beside_torch import compile as program
from repro.kernels.beside_torch.compiled import family, without_target
from repro.kernels.case import Case, Selection

EVERYTHING = Selection(
    budgets=None, shapes=None, architectures=None, quick=False, wheels=None, tritons=(), releases=None
)
QUICK = Selection(budgets=None, shapes=None, architectures=None, quick=True, wheels=None, tritons=(), releases=None)


def asked(selection: Selection) -> list[Case]:
    return [case for case in arm.plan(selection) if case.planted is None]


def test_every_launch_is_asked_once() -> None:
    cases = asked(EVERYTHING)
    assert len({case.cell.id for case in cases}) == len(cases)
    launches = {(case.cell.architecture, case.cell.shape, case.parameters["mode"], case.cell.batch) for case in cases}
    for architecture in ("sm_90", "sm_100", "sm_103", "sm_120"):
        for shape in arm.SHAPES:
            for mode in ("graph", "eager"):
                assert {(architecture, shape, mode, 1), (architecture, shape, mode, 2)} <= launches


def test_quick_is_one_shape_on_two_architectures() -> None:
    cases = asked(QUICK)
    assert {case.cell.architecture for case in cases} == {"sm_103", "sm_120"}
    assert {case.cell.shape for case in cases} == {"gqa-64-8-128"}
    assert {case.cell.budgets for case in cases} == {(8, 9, 16)}


def test_each_process_plants_its_faults_first_and_has_one_triton(tmp_path: Path) -> None:
    other = tmp_path / "kernels-triton-3.7.1"
    selection = Selection(
        budgets=(8,), shapes=None, architectures=None, quick=True, wheels=None, tritons=(str(other),), releases=None
    )
    groups: dict[str, list[Case]] = {}
    for case in arm.plan(selection):
        groups.setdefault(case.group, []).append(case)
    assert all(len({case.parameters["triton"] for case in cases}) == 1 for cases in groups.values())
    for compiler in ("", str(other)):
        planted = [
            case.planted for case in arm.plan(selection) if case.planted and case.parameters["triton"] == compiler
        ]
        assert planted == ["over_shared_memory", "bad_ptx", "dead_compiler", "other_dtype"]
    assert sum("triton-3.7.1" in case.cell.id for case in arm.plan(selection)) * 2 == len(arm.plan(selection))


def test_the_newest_disassembler_at_hand_is_the_second_choice(tmp_path: Path) -> None:
    folders = []
    for version in ("3.10.0", "3.9.0", "3.6.0"):
        folder = tmp_path / f"kernels-triton-{version}"
        (folder / "triton/backends/nvidia/bin").mkdir(parents=True)
        (folder / "triton/backends/nvidia/bin/nvdisasm").touch()
        folders.append(str(folder))
    selection = Selection(
        budgets=(8,), shapes=None, architectures=None, quick=True, wheels=None, tritons=tuple(folders), releases=None
    )
    assert {Path(str(case.parameters["disassembler"])).parents[4].name for case in arm.plan(selection)} == {
        "kernels-triton-3.10.0"
    }


COMPILED = {
    "ptx_target": "sm_103a",
    "registers": 204,
    "stack_bytes": 0,
    "shared_bytes": 32776,
    "shared_limit_bytes": 232448,
    "tensor_memory_columns": 256,
    "mma": "tcgen05 (UTCHMMA)",
}


@pytest.fixture
def variant() -> Callable[..., dict[str, object]]:
    def make(**changed: object) -> dict[str, object]:
        compiled = {**COMPILED, **changed}
        return {"kind": "variant", "budgets": [8, 9], "tile": "64x64", "compile_s": 1.5, "compiled": compiled}

    return make


def test_code_within_the_limits_passes(variant: Callable[..., dict[str, object]]) -> None:
    row = program.row(variant(), "graph")
    assert (row.state, row.reason, row.cell["budgets"]) == ("pass", None, [8, 9])
    assert "204 registers" in row.detail
    assert "256 columns of tensor memory" in row.detail


def test_the_limit_itself_is_kept_and_one_byte_more_is_not(variant: Callable[..., dict[str, object]]) -> None:
    assert program.row(variant(shared_bytes=232448), "graph").state == "pass"
    over = program.row(variant(shared_bytes=232449), "graph")
    assert (over.state, over.reason) == ("fail", "over_shared_memory")
    assert "232449 bytes" in over.faults[0].detail
    memory = program.row(variant(tensor_memory_columns=513), "graph")
    assert (memory.state, memory.reason) == ("fail", "over_tensor_memory")


def test_what_ptxas_says_is_the_result() -> None:
    message = "Internal Triton PTX codegen error\n`ptxas` stderr:\nptxas fatal   : (C7508) Internal error\n"
    row = program.row({"kind": "failure", "reason": "ptxas_failed", "message": message}, "eager")
    assert (row.state, row.reason, row.detail) == ("fail", "ptxas_failed", "ptxas fatal   : (C7508) Internal error")
    assert row.faults[0].kind == "ptxas"
    assert row.faults[0].detail == message


def test_families_by_machine_code_and_without_it() -> None:
    assert family(frozenset({"UTCHMMA", "LDTM"}), "") == "tcgen05 (UTCHMMA)"
    assert family(frozenset({"HGMMA", "HMMA"}), "") == "wgmma (HGMMA, HMMA)"
    assert family(frozenset({"IMAD", "LDG"}), "mma.sync") == "no matrix instruction"
    assert family(frozenset(), "x\n tcgen05.mma.cta_group\n") == "tcgen05 (from PTX)"


def test_ptx_is_compared_without_its_target() -> None:
    first = "//\n// Generated\n.version 8.8\n.target sm_100a\n.address_size 64\nbody\n"
    second = first.replace("sm_100a", "sm_103a").replace("8.8", "9.0")
    assert without_target(first) == without_target(second) == ".address_size 64\nbody\n"
    assert without_target(first) != without_target(first.replace("body", "other"))
