"""`verify_attention_repro.py` as text: which case it is of, and that its code is that of the programs beside torch."""

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from repro.cli import main
from repro.errors import SpecError
from repro.kernels.arms import ARMS
from repro.kernels.case import Selection, cell
from repro.kernels.reproducer import (
    BESIDE_TORCH,
    FILE_NAME,
    Asked,
    asked_by_cell,
    asked_by_id,
    asked_singly,
    reproducer,
)
from repro.kernels.single_file import NAMESPACE

ASKED = Asked(budget=16, shape="gqa-4-2-128", batch=3, dtype="fp16", mode="eager", architecture="sm_103")
NOTHING = dict.fromkeys(("budgets", "shapes", "architectures", "dtype", "batch", "mode"))


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("sm_103-b16-gqa-4-2-128-fp16-bs3", ASKED),
        ("sm_103-b16-gqa-4-2-128-fp16-bs3-empty", ASKED),
        (
            "sm_90-b9-mla-12-1-576-512-bf16-bs2-replay-refreshed",
            Asked(
                budget=9,
                shape="mla-12-1-576-512",
                batch=2,
                dtype="bf16",
                mode="replay-refreshed",
                architecture="sm_90",
            ),
        ),
        ("b16-gqa-4-2-128-fp16-bs3-eager-graph-dtypes-memcheck", replace(ASKED, mode="eager-graph-dtypes")),
        ("b16-gqa-4-2-128-fp16-bs3-eager-graph-dtypes", replace(ASKED, mode="eager-graph-dtypes")),
    ],
)
def test_id_of_a_cell_spells_its_case(text: str, asked: Asked) -> None:
    assert asked_by_id(text) == asked


@pytest.mark.parametrize(
    "text", ["", "b16", "sm_103-b16-gqa-4-2-128", "b16-bs128-0.5.23-tree", "sm_103-b16-gqa-3-2-64-fp16"]
)
def test_what_has_no_reproducer_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="give"):
        asked_by_id(text)


@pytest.mark.parametrize("arm", ["reference", "emulated", "gpu"])
def test_every_cell_of_an_arm_that_runs_the_kernel_has_one(arm: str) -> None:
    everything = Selection(
        budgets=None, shapes=None, architectures=None, quick=False, tritons=(), wheels=None, releases=None
    )
    for case in ARMS[arm].plan(everything):
        assert asked_by_id(case.cell.id) == asked_by_cell(case.cell)
        assert asked_by_cell(case.cell).budget == case.cell.budget


def test_cell_without_a_budget_is_refused() -> None:
    with pytest.raises(SpecError, match="name another cell"):
        asked_by_cell(cell(shape="gqa-4-2-128", dtype="fp16"))


def test_what_is_given_singly_goes_before_the_cell() -> None:
    given = {**NOTHING, "budgets": [9], "mode": "replay-same"}
    assert asked_singly("sm_103-b16-gqa-4-2-128-fp16-bs3", **given) == replace(ASKED, budget=9, mode="replay-same")  # type: ignore[arg-type]
    assert asked_singly(None, **NOTHING) == ASKED
    with pytest.raises(SpecError, match="--budget with 2 values"):
        asked_singly(None, **{**NOTHING, "budgets": [8, 9]})  # type: ignore[arg-type]


def test_same_case_has_the_same_bytes_and_another_only_another_case() -> None:
    first, other = reproducer(ASKED).decode(), reproducer(replace(ASKED, budget=9, mode="replay-same")).decode()
    assert first == reproducer(ASKED).decode()
    differing = [pair for pair in zip(first.splitlines(), other.splitlines(), strict=True) if pair[0] != pair[1]]
    assert len(differing) == 4, "the sentence, budget, mode and seed"


def test_its_code_is_that_of_the_programs_beside_torch() -> None:
    text = reproducer(ASKED).decode()
    sources = "\n".join([NAMESPACE, *(path.read_text() for path in sorted(BESIDE_TORCH.glob("*.py")))])
    definitions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert {"build", "expected", "compared", "launch", "main"} <= {node.name for node in definitions}
    for node in definitions:
        assert (ast.get_source_segment(text, node) or "?") in sources, node.name


def test_it_imports_the_standard_library_and_torch_only() -> None:
    tree = ast.parse(reproducer(ASKED))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} - sys.stdlib_module_names == {"torch"}


def test_it_names_no_path_of_this_machine() -> None:
    text = reproducer(ASKED).decode()
    assert str(Path(__file__).parents[4]) not in text
    assert str(Path.home()) not in text


def test_without_torch_it_says_so_in_one_line(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(reproducer(ASKED))
    (tmp_path / "torch.py").write_text("raise ImportError('No module named torch')")
    done = subprocess.run([sys.executable, FILE_NAME], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "CANNOT RUN No module named torch\n", "")


def test_command_writes_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "--reproducer", str(tmp_path), "--cell", "sm_103-b16-gqa-4-2-128-fp16-bs3"]) == 0
    assert (tmp_path / FILE_NAME).read_bytes() == reproducer(ASKED)
    assert "budget 16, gqa-4-2-128, 3 requests, fp16, eager, sm_103" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [
        ["--cell", "sm_103-b16-gqa-4-2-128-fp16-bs3"],
        ["--reproducer", "x.py", "--cell", "nothing"],
        ["--reproducer", "x.py", "--budget", "8", "9"],
        ["--reproducer", "x.py", "--requests", "1000"],
    ],
)
def test_command_refuses_what_names_no_case(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["kernels", *options]) == 2
    assert "give" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
