"""Reports of compute-sanitizer, and what a cell is worth with them.

The reports are put together here in the forms that NVIDIA's manual (docs.nvidia.com/compute-sanitizer) shows for each
tool; the lines of a program that never used CUDA are those of version 2026.4.0.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro.kernels.beside_torch import gpu_sanitizer
from repro.kernels.beside_torch.gpu_report import Finding, parse
from repro.kernels.beside_torch.gpu_sanitizer import command, find, verdict
from repro.kernels.beside_torch.protocol import Row

CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
NO_HAZARD = "========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
NO_CUDA = """\
========= COMPUTE-SANITIZER
========= Error: process didn't terminate successfully
=========     The application may have hit an error when dereferencing Unified Memory from the host.
========= Error: Target application terminated before first instrumented API call
"""
OUT_OF_BOUNDS = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 1 bytes
=========     at _fwd_kernel+0x3f50 in extend_attention.py:740
=========     by thread (32,0,0) in block (1,5,0)
=========     Access to 0x7f2a98000681 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f2a98000000 of size 1,665 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: launch [0x1a2b] in __triton_launcher.so
=========
========= Invalid __global__ read of size 1 bytes
=========     at _fwd_kernel+0x3f50 in extend_attention.py:740
=========     by thread (33,0,0) in block (1,5,0)
=========     Access to 0x7f2a98000682 is out of bounds
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call to \
cudaDeviceSynchronize.
=========     Saved host backtrace up to driver entry point at error
=========
========= ERROR SUMMARY: 3 errors
"""
MISALIGNED = """\
========= Invalid __global__ write of size 4 bytes
=========     at 0x60 in memcheck_demo.cu:6:unaligned_kernel(void)
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x400100001 is misaligned
========= ERROR SUMMARY: 1 error
"""
RACE = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at _fwd_kernel+0x1230 in extend_attention.py:520
=========     and Read access at _fwd_kernel+0x1f40 in extend_attention.py:536 [508 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
OLDER_RACE = """\
========= Warning: Race reported between Read access at 0xb0 in raceGroupBasic.cu:6:sumKernel(int *, int *)
=========     and Write access at 0x50 in raceGroupBasic.cu:4:sumKernel(int *, int *) [508 hazards]
========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)
"""
UNINITIALIZED = """\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 1 bytes
=========     at _fwd_kernel+0x70 in extend_attention.py:740
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
=========
========= Uninitialized __global__ memory read of size 4 bytes
=========     at vectorized_elementwise_kernel(int, float *)+0x70 in Loops.cuh:41
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
=========
========= ERROR SUMMARY: 2 errors
"""
BARRIER = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at _fwd_kernel+0xe0 in extend_attention.py:610
=========     by thread (0,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 1 error
"""
WELL = Row(state="pass", detail="2 rounds", cell={"tile": "64x64"}, measurements=[{"name": "max_error"}])


def kinds(text: str) -> list[tuple[str, str | None, str | None, int]]:
    return [(found.code, found.kernel, found.source, found.times) for found in parse(text).findings]


@pytest.mark.parametrize(
    ("text", "errors", "found"),
    [
        (CLEAN, 0, []),
        (NO_HAZARD, 0, []),
        (NO_CUDA, None, []),
        ("", None, []),
        ("no report\n========= \n=========     alone\n", None, []),
        (
            OUT_OF_BOUNDS,
            3,
            [("out_of_bounds", "_fwd_kernel", "extend_attention.py:740", 2), ("cuda_error", None, None, 1)],
        ),
        (MISALIGNED, 1, [("misaligned", "unaligned_kernel", "memcheck_demo.cu:6", 1)]),
        (RACE, 1, [("race", "_fwd_kernel", "extend_attention.py:520", 1)]),
        (OLDER_RACE, 1, [("race", "sumKernel", "raceGroupBasic.cu:6", 1)]),
        (
            UNINITIALIZED,
            2,
            [
                ("uninitialized_read", "_fwd_kernel", "extend_attention.py:740", 1),
                ("uninitialized_read", "vectorized_elementwise_kernel", "Loops.cuh:41", 1),
            ],
        ),
        (BARRIER, 1, [("barrier_error", "_fwd_kernel", "extend_attention.py:610", 1)]),
    ],
)
def test_report_of_each_tool(text: str, errors: int | None, found: list[Finding]) -> None:
    assert parse(text).errors == errors
    assert kinds(text) == found


def test_finding_says_how_far_outside_and_nothing_of_the_host() -> None:
    detail = parse(OUT_OF_BOUNDS).findings[0].detail
    assert "1 bytes after the nearest allocation at 0x7f2a98000000 of size 1,665 bytes" in detail
    assert "Host Frame" not in detail


def judged(tool: str, text: str, own: Row | None = WELL, planted: str | None = None) -> Row:
    return verdict(tool, planted, parse(text), own, text)


def test_clean_report_leaves_the_cell_its_own_result() -> None:
    row = judged("memcheck", CLEAN)
    assert (row.state, row.reason, row.detail) == ("pass", None, "memcheck: 0 errors; 2 rounds")
    assert row.cell == {"tile": "64x64"}
    assert [number["name"] for number in row.measurements] == ["max_error", "sanitizer_findings"]
    wrong = Row(state="fail", reason="wrong_values", detail="off")
    assert (judged("racecheck", NO_HAZARD, wrong).state, judged("racecheck", NO_HAZARD, wrong).reason) == (
        "fail",
        "wrong_values",
    )


@pytest.mark.parametrize(
    ("tool", "text", "reason", "kind"),
    [
        ("memcheck", OUT_OF_BOUNDS, "out_of_bounds", "out_of_bounds"),
        ("racecheck", RACE, "race", "cuda_error"),
        ("initcheck", UNINITIALIZED, "uninitialized_read", "cuda_error"),
        ("synccheck", BARRIER, "barrier_error", "cuda_error"),
    ],
)
def test_finding_in_the_kernel_fails_a_cell_whose_values_are_right(
    tool: str, text: str, reason: str, kind: str
) -> None:
    row = judged(tool, text)
    assert (row.state, row.reason) == ("fail", reason)
    assert row.faults[0].kind == kind
    assert row.faults[0].source is not None
    assert row.faults[0].detail.startswith(f"{tool}: ")


def test_finding_in_another_kernel_is_counted_and_no_fault() -> None:
    row = judged("initcheck", UNINITIALIZED.replace("at _fwd_kernel+", "at fill_kernel+"))
    assert (row.state, row.faults) == ("pass", [])
    assert "2 kinds of them in other kernels" in row.detail


@pytest.mark.parametrize(
    ("text", "own", "reason"),
    [
        (NO_CUDA, WELL, "sanitizer_failed"),
        ("", WELL, "sanitizer_failed"),
        (CLEAN, None, "no_result"),
        (
            "========= COMPUTE-SANITIZER\n========= Strange new thing\n========= ERROR SUMMARY: 1 error\n",
            WELL,
            "unknown_report",
        ),
    ],
)
def test_silence_is_no_clean_bill(text: str, own: Row | None, reason: str) -> None:
    row = judged("memcheck", text, own)
    assert (row.state, row.reason) == ("inconclusive", reason)


@pytest.mark.parametrize(
    ("planted", "text", "state"),
    [
        ("mask_sized_for_budget_8", OUT_OF_BOUNDS, "pass"),
        ("mask_sized_for_budget_8", CLEAN, "fail"),
        ("mask_sized_for_budget_8", MISALIGNED, "fail"),
        ("mask_sized_for_budget_8", NO_CUDA, "inconclusive"),
        ("mask_never_written", UNINITIALIZED, "pass"),
    ],
)
def test_planted_fault_must_be_in_the_report(planted: str, text: str, state: str) -> None:
    row = judged("memcheck", text, None, planted)
    assert row.state == state
    assert (row.reason is None) == (state == "pass")


@pytest.fixture
def executable(tmp_path: Path) -> Callable[..., Path]:
    def make(name: str, text: str = "#!/bin/sh\n") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make


def test_sanitizer_is_found_in_its_wheel_then_on_path_then_in_a_toolkit(
    executable: Callable[..., Path], tmp_path: Path
) -> None:
    where = {"PATH": str(tmp_path / "bin"), "CUDA_HOME": str(tmp_path / "cuda")}
    assert find([str(tmp_path / "site")], {"CUDA_HOME": str(tmp_path / "none"), "PATH": ""}) is None
    toolkit = executable("cuda/bin/compute-sanitizer")
    assert find([str(tmp_path / "site")], where) == str(toolkit)
    on_path = executable("bin/compute-sanitizer")
    assert find([str(tmp_path / "site")], where) == str(on_path)
    wheel = executable("site/nvidia/cu13/bin/compute-sanitizer")
    assert find([str(tmp_path / "site")], where) == str(wheel)


def test_command_reports_to_a_file_and_looks_at_the_kernel(executable: Callable[..., Path]) -> None:
    binary = executable("compute-sanitizer", "\x7fELF")
    words = command(str(binary), "memcheck", "report.txt")
    assert words[:3] == [str(binary), "--tool", "memcheck"]
    assert words[words.index("--log-file") + 1] == "report.txt"
    assert words[words.index("--kernel-name") + 1] == "kns=_fwd_kernel"
    assert "--kernel-name" not in command(str(binary), "initcheck", "report.txt")
    assert command(str(executable("wrapper")), "memcheck", "report.txt")[0] == "sh"


STAND_IN = """#!/bin/sh
# Stands for compute-sanitizer: runs what follows its options, and writes a report.
while [ "$1" != "--log-file" ]; do shift; done
log=$2
while [ "${1##*/}" = "$1" ]; do shift; done
shift
while [ "${1##*/}" = "$1" ]; do shift; done
"$@"
printf '========= COMPUTE-SANITIZER\\n========= ERROR SUMMARY: 0 errors\\n' > "$log"
"""
CELL = """
import json, os, sys
request = json.load(sys.stdin)
assert request["parent"] is None
key = request["cases"][0]["key"]
said = f"{os.environ['PYTORCH_NO_CUDA_MEMORY_CACHING']} {os.environ['TRITON_DISABLE_LINE_INFO']} {sys.argv[1]}"
print("noise")
row = {"state": "pass", "reason": None, "detail": said, "cell": {}, "measurements": [], "faults": [], "wall_s": 1.0}
print(json.dumps({"kind": "row", "key": key, **row}))
"""


def test_cell_runs_below_the_sanitizer_with_an_allocation_for_each_tensor(
    executable: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = tmp_path / "cell.py"
    cell.write_text(CELL)
    monkeypatch.setattr(gpu_sanitizer, "START", cell)
    case: dict[str, Any] = {"key": "a", "planted": None, "parameters": {"tool": "memcheck"}}
    sanitizer = executable("compute-sanitizer", STAND_IN)
    row = gpu_sanitizer.ask(str(sanitizer), {"protocol": 1, "parent": os.getpid(), "cases": [case]}, case)
    assert (row.state, row.detail) == ("pass", "memcheck: 0 errors; 1 0 gpu")


def test_missing_sanitizer_is_not_run_and_says_what_to_install() -> None:
    row = gpu_sanitizer.ask(None, {}, {})
    assert (row.state, row.reason) == ("not_run", "no_sanitizer")
    assert "nvidia-cuda-sanitizer-api" in row.detail
