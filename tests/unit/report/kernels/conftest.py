"""Runs of the kernel checks in which everything happens, beside a server's run of the same architecture."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from report.document import Document, assemble
from report.kernels import chosen
from report.kernels_load import load_kernels
from report.load import load
from repro import baselines, codec
from repro.canonical import canonical_bytes
from repro.kernels.case import cell as cell_of
from repro.kernels.record import ROWS, RUN
from repro.model import CheckState, Measurement
from repro.model.kernels import (
    EvidenceClass,
    KernelArm,
    KernelCell,
    KernelCheck,
    KernelFault,
    KernelResult,
    KernelRun,
    KernelSubject,
)
from repro.store import write_record

RECORDED = Path(__file__).parents[3] / "data" / "kernels"
SERVER = {"sglang": "0.5.23", "triton": "3.8.0"}
NEWEST, OLDER = "20261130T100000Z", "20261129T100000Z"
CLASSES: Mapping[KernelCheck, EvidenceClass] = {
    "kernel-reference": "interpreted",
    "kernel-memory": "interpreted",
    "kernel-emulated": "emulated",
    "kernel-compile": "compiled",
    "kernel-buffers": "emulated",
    "kernel-gpu": "gpu",
}
WRONG = KernelFault(
    kind="wrong_values",
    source="extend_attention.py:740",
    tensor="o",
    element=None,
    row=9,
    detail="row 9 is 12.5 times its bound away",
)


def subject(sglang: str = "0.5.23", triton: str | None = "3.8.0", **changes: Any) -> KernelSubject:
    made = KernelSubject(
        origin="pinned",
        sglang=sglang,
        triton=triton,
        torch="2.13.0",
        source_path="sglang/kernels/ops/attention/extend_attention.py",
        source_sha256="ab" * 32,
        digest=None,
    )
    return replace(made, **changes)


def row(
    check: KernelCheck = "kernel-reference",
    budget: int = 16,
    state: CheckState = "pass",
    *,
    where: KernelCell | None = None,
    planted: str | None = None,
    of: KernelSubject | None = None,
    faults: Sequence[KernelFault] = (),
    reason: str | None = None,
    detail: str = "within its bound",
    **at: Any,
) -> KernelResult:
    at = {"architecture": "sm_103", "shape": "gqa-4-2-128", "dtype": "fp16", "batch": 3, **at}
    return KernelResult(
        check=check,
        evidence_class=CLASSES[check],
        cell=where or replace(cell_of(budget=budget, **at), tile="64x64"),
        subject=of or subject(),
        planted=planted,
        state=state,
        reason=None if state == "pass" else reason or {"fail": "out_of_bound", "not_run": "no_gpu"}.get(state, "power"),
        detail=detail,
        measurements=(
            Measurement(
                name="max_error", at={}, value=5e-4, low=None, high=None, unit="absolute", n=None, basis="measured",
                reason=None,
            ),
        ),
        faults=tuple(faults),
        compiled=None,
        buffers=(),
        wall_s=0.25,
    )  # fmt: skip


def arm(check: KernelCheck, state: str = "complete", reason: str | None = None) -> KernelArm:
    return KernelArm(
        check=check,
        state=state,  # type: ignore[arg-type]
        cases=1,
        caught=1,
        planted=1,
        wall_s=1.0,
        reason=reason,
    )


def kernel_run(run_id: str = NEWEST, arms: Sequence[KernelArm] = ()) -> KernelRun:
    return KernelRun(
        run_id=run_id,
        created_at=f"{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}T{run_id[9:11]}:00:00Z",
        tool_version="0.1.0",
        arms=tuple(arms),
        argv=("repro", "kernels"),
    )


def write_kernels(root: Path, run: KernelRun, rows: Sequence[KernelResult], *, more: bytes = b"") -> Path:
    """The folder of the run; ``more`` is put behind its rows."""
    folder = root / "kernels" / run.run_id
    folder.mkdir(parents=True)
    write_record(folder / RUN, run)
    lines = b"".join(canonical_bytes(codec.encode(one)) + b"\n" for one in rows)
    (folder / ROWS).write_bytes(lines + more)
    return folder


def recorded(name: str) -> tuple[KernelResult, ...]:
    """Rows that were recorded from the real arms, as if the compiler had been the server's."""
    rows, _ = codec.read_lines(RECORDED / f"{name}.jsonl", KernelResult)
    return tuple(
        replace(one, subject=replace(one.subject, triton="3.8.0" if one.subject.triton == "3.9.0" else "3.6.0"))
        if name == "compiled"
        else one
        for one in rows
    )


def every_kernel_state(root: Path) -> Path:
    """Every state of arms and rows, in two runs, the newer one with a bad line and a last line that a kill cut."""
    caught = row(budget=16, planted="hidden_root_bit", detail="caught: row 9")
    missed = row("kernel-memory", 16, "fail", planted="stale_kv_indptr", reason="missed", detail="nothing was seen")
    reference = [row(budget=budget) for budget in (4, 8, 9, 12, 16)]
    bad = [
        row(budget=budget, state="fail", faults=[WRONG], detail="row 9 is 12.5 times its bound away")
        for budget in (31, 32)
    ]
    open_row = row(budget=24, state="inconclusive", detail="no row could tell a tree from a chain")
    refused = row(budget=16, state="not_applicable", reason="bf16_interpreted", dtype="bf16", detail="bf16 is refused")
    memory = [row("kernel-memory", budget) for budget in (8, 16)]
    emulated = [row("kernel-emulated", 8), row("kernel-emulated", 16, planted="stale_mask"), row("kernel-emulated", 16)]
    arms = [
        arm("kernel-reference"),
        arm("kernel-memory", "broken", "planted and not caught: stale_kv_indptr"),
        arm("kernel-emulated", "unfinished", "12 cases are left: the same command goes on with them"),
        arm("kernel-compile"),
        arm("kernel-buffers"),
        arm("kernel-gpu", "not_run", "no GPU on this machine"),
    ]
    rows = [caught, *reference, *bad, open_row, refused, missed, *memory, *emulated]
    compiled = recorded("compiled")
    rows += [replace(compiled[0], planted="other_types", compiled=None, detail="caught"), *compiled]
    rows += recorded("buffers")
    write_kernels(root, kernel_run(NEWEST, arms), rows, more=b'{"record": "kernel-result"}\n{"record": "kern')
    other = subject("0.5.15", "3.6.0", origin="release")
    old = [row(budget=budget, of=other) for budget in (8, 16)] + [row(budget=8, planted="causal_mask", of=other)]
    old += [row(budget=8), row("kernel-gpu", 16, "fail", faults=[WRONG], of=other, batch=2, dtype="bf16")]
    old += [row("kernel-gpu", 16, planted="stale_mask", of=other, batch=2, dtype="bf16")]
    write_kernels(root, kernel_run(OLDER, [arm("kernel-reference"), arm("kernel-gpu")]), old)
    return root


def servers(make: SimpleNamespace, root: Path) -> Path:
    """A run on sm_103: budget 8 passes, 16 crashes, both with the pinned code; 32 crashes with another Triton."""
    names = [f"sm_103-{arm_name}-graph-nvls" for arm_name in ("b8t4", "b16t8", "b32t8")]
    crash = {"outcome": "crashed", "detail": "ended", "checks": (), "diagnosis": make.illegal_access()}
    launches = [
        make.Launch(names[0], packages=SERVER),
        *(make.Launch(names[1], number, packages=SERVER, **crash) for number in (1, 2)),
        make.Launch(names[2], packages={**SERVER, "triton": "3.6.0"}, **crash),
    ]
    make.write_run(root, make.run_record("b300", "server"), launches, planned={names[0]: 1, names[1]: 2, names[2]: 1})
    return root


def document(*roots: Path) -> Document:
    return assemble(load(roots), None, baselines.load(), tool_version="0.1.0", kernels=chosen(load_kernels(roots)))


@pytest.fixture
def write() -> SimpleNamespace:
    """The makers of this module by name."""
    return SimpleNamespace(**globals())


@pytest.fixture
def beside_server(make: SimpleNamespace, tmp_path: Path) -> Path:
    """A results directory with a server's run and every state of the kernel checks."""
    return every_kernel_state(servers(make, tmp_path / "results"))


@pytest.fixture
def kernels_only(tmp_path: Path) -> Path:
    return every_kernel_state(tmp_path / "results")


@pytest.fixture
def told() -> Callable[..., Document]:
    return document
