"""Sentences about budgets, from rows that were recorded: SGLang 0.5.23 compiled by Triton 3.8.0 and 3.9.0, and the
buffers of 0.5.15.post1 and 0.5.23."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from repro import codec
from repro.kernels.comparisons import about_code, buffers_table, compiled_table
from repro.kernels.statements import Statement, about_budget, version_key
from repro.model.kernels import KernelResult

DATA = Path(__file__).parents[3] / "data" / "kernels"


def recorded(name: str) -> list[KernelResult]:
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [codec.decode(json.loads(line), KernelResult, where=name) for line in lines]


@pytest.fixture(scope="module")
def compiled() -> list[KernelResult]:
    return recorded("compiled.jsonl")


@pytest.fixture(scope="module")
def buffers() -> list[KernelResult]:
    return recorded("buffers.jsonl")


def by_triton(statements: tuple[Statement, ...], version: str) -> list[Statement]:
    return [statement for statement in statements if statement.triton == version]


def test_budget_12_runs_the_code_and_the_grid_of_budget_8_on_10_3(compiled: list[KernelResult]) -> None:
    said = by_triton(about_budget(compiled, "sm_103", 12), "3.8.0")
    assert [statement.sense for statement in said] == ["alike"]
    assert said[0].text == (
        "on sm_103, 13 query rows (budget 12) and 9 (budget 8) run the same compiled code and the same grid, in all 4"
        " launches compiled (gqa-64-8-128, mla-12-1-576-512; graph, eager)"
    )
    assert len(said[0].cells) == 4
    unknown = about_budget(compiled, "sm_103", 12)[-1]
    assert (unknown.sense, unknown.triton) == ("unknown", None)
    assert "no code was run on sm_103" in unknown.text


def test_budget_16_takes_a_second_program_on_10_3_and_not_on_12_0(compiled: list[KernelResult]) -> None:
    blackwell = by_triton(about_budget(compiled, "sm_103", 16), "3.8.0")
    assert [statement.sense for statement in blackwell] == ["alike", "apart"]
    assert "the same grid" not in blackwell[0].text
    assert blackwell[1].text == (
        "on sm_103, for mla-12-1-576-512 (tile 16x64) the query rows of budget 16 take 2 programs,"
        " and those of budget 8 1"
    )
    workstation = by_triton(about_budget(compiled, "sm_120", 16), "3.8.0")
    assert [statement.sense for statement in workstation] == ["alike", "unknown"]
    later = by_triton(about_budget(compiled, "sm_120", 32), "3.8.0")
    assert "apart" in {statement.sense for statement in later}


def test_other_code_for_one_budget_sets_it_apart(compiled: list[KernelResult]) -> None:
    """A row of its own for budget 12, as where its machine code is another."""
    row = next(row for row in compiled if row.cell.architecture == "sm_103" and row.subject.triton == "3.8.0")
    assert row.compiled is not None
    rest = tuple(budget for budget in row.cell.budgets if budget != 12)
    changed = [
        replace(row, cell=replace(row.cell, budgets=rest)),
        replace(
            row,
            cell=replace(row.cell, id=f"{row.cell.id}.code2", budgets=(12,)),
            compiled=replace(row.compiled, cubin_sha256="0" * 64),
        ),
    ]
    said = about_budget(changed, "sm_103", 12)
    assert said[0].sense == "apart"
    assert "budget 12 runs other compiled code than budget 8" in said[0].text


def test_a_launch_without_code_is_said(compiled: list[KernelResult]) -> None:
    row = next(row for row in compiled if row.cell.architecture == "sm_103")
    failed = replace(row, state="fail", reason="ptxas_failed", detail="ptxas fatal: (C7508)", compiled=None)
    said = about_budget([failed], "sm_103", 12)
    assert (said[0].sense, said[0].evidence_class) == ("apart", "compiled")
    assert "no code that can be launched: ptxas fatal: (C7508)" in said[0].text


def test_planted_rows_and_other_architectures_say_nothing(compiled: list[KernelResult]) -> None:
    assert about_budget([replace(row, planted="bad_ptx") for row in compiled], "sm_103", 12) == ()
    assert about_budget(compiled, "sm_121", 12) == ()


def test_rows_of_one_budget_alone_say_nothing(compiled: list[KernelResult]) -> None:
    alone = [replace(row, cell=replace(row.cell, budgets=(12,))) for row in compiled]
    assert about_budget(alone, "sm_103", 12) == ()


def test_buffers_compare_the_budget_with_the_one_that_works(buffers: list[KernelResult]) -> None:
    said = {statement.text: statement for statement in about_budget(buffers, "sm_103", 12)}
    short = next(text for text in said if text.startswith("sglang 0.5.23, Triton backend, where graphs are captured"))
    assert "too short for long prefixes" in short
    assert short.endswith("with budget 8 as well")
    assert said[short].sense == "alike"
    assert said[short].architecture is None
    apart = about_budget(buffers, "sm_103", 12, works=7)
    step = next(one for one in apart if one.text.startswith("sglang 0.5.23, Triton backend, where graphs are captured"))
    assert step.sense == "apart"
    assert step.text.endswith("with budget 7 the buffers are large enough and the metadata fits the tree")


def test_sentences_about_no_one_budget(compiled: list[KernelResult]) -> None:
    said = [statement.text for statement in about_code(compiled) if statement.triton == "3.8.0"]
    assert (
        "for mla-12-1-576-512 the grid gains a second tile of query rows at 17 on sm_100, sm_103, at 33 on sm_90,"
        " sm_120 (seen up to 33 rows)"
    ) in said
    assert "for mla-12-1-576-512, PTX of sm_100 and sm_103 differs only in the target that it names" in said
    assert any(
        text.startswith("on sm_103, for gqa-64-8-128, eager steps and graphs run other compiled code") for text in said
    )
    assert (
        "for gqa-64-8-128, matrices are multiplied on sm_90 by wgmma (HGMMA); sm_100, sm_103 by tcgen05 (UTCHMMA)"
        " in tensor memory; sm_120 by mma.sync (HMMA)"
    ) in said


def test_tritons_are_compared_in_numbers_and_never_by_hash(compiled: list[KernelResult]) -> None:
    text = "sglang 0.5.23 on sm_103, for gqa-64-8-128 in graphs: Triton 3.8.0 204 registers and 0 B of stack"
    said = [statement for statement in about_code(compiled) if statement.text.startswith(text)]
    assert len(said) == 1
    assert said[0].text.endswith("Triton 3.9.0 200 registers and 0 B of stack")
    assert said[0].triton is None


def test_a_grid_that_is_not_that_of_the_tile_has_no_boundary(compiled: list[KernelResult]) -> None:
    strange = [
        replace(row, compiled=replace(row.compiled, query_tiles=((8, 3), (12, 3)))) for row in compiled if row.compiled
    ]
    assert not [statement for statement in about_code(strange) if "gains a second tile" in statement.text]


def test_tables_have_a_row_for_each_code_and_each_arrangement(
    compiled: list[KernelResult], buffers: list[KernelResult]
) -> None:
    code = compiled_table(compiled)
    assert all(len(row) == len(code.columns) for row in code.rows)
    assert len(code.rows) == len({row.compiled.cubin_sha256 for row in compiled if row.compiled})
    tiles = {row[code.columns.index("query tiles")] for row in code.rows if row[1] == "mla-12-1-576-512"}
    assert "1; 2 from budget 16; 3 from budget 32" in tiles
    table = buffers_table(buffers)
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert [row[0] for row in table.rows] == ["0.5.15.post1"] * 6 + ["0.5.23"] * 6


def test_releases_are_ordered_by_their_numbers() -> None:
    versions = ["0.5.9", "0.5.23", "0.5.15.post1", "0.5.15", "0.5.16"]
    assert sorted(versions, key=version_key) == ["0.5.9", "0.5.15", "0.5.15.post1", "0.5.16", "0.5.23"]
