"""Which failures of a server bring the verify kernel alone along, and that nothing in the file is redacted."""

import json
import shutil
from pathlib import Path

import pytest

from repro.bundle.cleaning import cleaned, learn
from repro.bundle.evidence import Source
from repro.kernels.comparisons import compiled_table
from repro.kernels.for_bundle import asked_for, rows_about
from repro.kernels.reproducer import reproducer
from repro.model import Coordinates, Signature
from repro.redact import Policy, Redactor


def where(budget: int = 16, graph: str = "graph", source: str = "release") -> Coordinates:
    return Coordinates(
        budget=budget,
        topk=4,
        shape="tree",
        graph=graph,  # type: ignore[arg-type]
        nvls="default",  # type: ignore[arg-type]
        tier="full",
        engine_source=source,
        variant={},
    )


def signature(kind: str = "engine_exception", subsystem: str | None = None) -> Signature:
    return Signature(kind=kind, phase="serving", subsystem=subsystem)


@pytest.mark.parametrize(
    "found",
    [
        signature(subsystem="attention"),
        signature("cuda_illegal_memory_access"),
        signature("cuda_illegal_memory_access", "moe"),
        signature("corrupt_output"),
    ],
)
def test_failure_that_may_be_one_of_attention_brings_it_along(found: Signature) -> None:
    asked = asked_for(found, where(12), "sm_103")
    assert asked is not None
    assert (asked.budget, asked.mode, asked.architecture, asked.dtype) == (12, "replay-refreshed", "sm_103", "bf16")


def test_eager_cell_is_run_eagerly_and_a_cpu_in_a_dtype_that_it_can_interpret() -> None:
    asked = asked_for(signature("corrupt_output"), where(9, "eager"), None)
    assert asked is not None
    assert (asked.budget, asked.mode, asked.architecture, asked.dtype) == (9, "eager", "sm_103", "fp16")


@pytest.mark.parametrize(
    ("found", "budget"),
    [(signature("oom_gpu_init"), 16), (signature(subsystem="moe"), 16), (signature("corrupt_output"), 0)],
)
def test_other_failures_and_cells_without_a_tree_do_not(found: Signature, budget: int) -> None:
    assert asked_for(found, where(budget), "sm_103") is None


def test_simulated_engine_has_no_kernel() -> None:
    assert asked_for(signature("corrupt_output"), where(source="simulated"), None) is None


@pytest.mark.parametrize("architecture", ["sm_103", None])
def test_nothing_in_the_file_looks_like_a_secret(architecture: str | None) -> None:
    asked = asked_for(signature("corrupt_output"), where(), architecture)
    assert asked is not None
    data = reproducer(asked)
    redactor = Redactor(
        Policy(hosts=("worker-7",), users=("somebody",), folders=(), words=(), hide_prompts=False, prompts=())
    )
    source = Source(path="kernel/verify_attention_repro.py", data=data, form="text")
    learn(source, redactor)
    kept = cleaned(source, redactor)
    assert kept.raw() == data
    assert redactor.report() == ()


RECORDED = Path(__file__).parents[3] / "data" / "kernels" / "compiled.jsonl"


@pytest.fixture
def checked(tmp_path: Path) -> Path:
    """Results with two runs of kernel checks, of which the newer asked another SGLang."""
    for name in ("20260101T000000Z", "20260102T000000Z"):
        (tmp_path / "kernels" / name).mkdir(parents=True)
    older, newer = sorted((tmp_path / "kernels").iterdir())
    shutil.copy(RECORDED, older / "rows.jsonl")
    rows = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    for row in rows:
        row["subject"]["sglang"] = "0.0.1"
    (newer / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_rows_about_the_same_sglang_budget_and_architecture_come_along(checked: Path) -> None:
    version = json.loads(RECORDED.read_text().splitlines()[0])["subject"]["sglang"]
    rows = rows_about(checked, 12, "sm_103", version)
    assert rows
    assert {row.cell.architecture for row in rows} <= {None, "sm_103"}
    assert {row.subject.sglang for row in rows} == {version}
    assert all(row.planted is None for row in rows)
    assert all(row.compiled is None or row.compiled.cubin_sha256 for row in rows)
    assert compiled_table(rows).rows
    assert not rows_about(checked, 12, "sm_103", "9.9.9")
    assert not rows_about(checked, 5, "sm_103", version)
    assert not rows_about(checked / "elsewhere", 12, "sm_103", version)


def test_rows_are_left_as_they_are_by_redaction(checked: Path) -> None:
    data = (checked / "kernels" / "20260101T000000Z" / "rows.jsonl").read_bytes()
    source = Source(path="kernel/rows.jsonl", data=data, form="lines")
    redactor = Redactor(Policy())
    learn(source, redactor)
    cleaned(source, redactor)
    assert redactor.report() == ()
