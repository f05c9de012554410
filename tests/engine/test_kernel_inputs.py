"""Inputs of a verify step, the float64 reference and its bound: none of it needs Triton."""

import importlib
import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

FOLDER = Path(__file__).resolve().parents[2] / "repro" / "kernels" / "beside_torch"
HEADS = {"gqa": (4, 2, 32, 32), "mla": (2, 1, 576, 512), "mha": (2, 2, 48, 32)}


def module(name: str) -> ModuleType:
    """A module of the package beside torch, made importable as its programs make it."""
    if "beside_torch" not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            "beside_torch", FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)]
        )
        package = importlib.util.module_from_spec(spec)
        sys.modules["beside_torch"] = package
        spec.loader.exec_module(package)
    return importlib.import_module(f"beside_torch.{name}")


inputs, tolerance, comparison = module("inputs"), module("tolerance"), module("comparison")


def step(budget: int = 8, heads: str = "gqa", dtype: str = "fp32", prefixes: tuple[int, ...] = (5, 70, 1)) -> Any:
    cell = {"budget": budget, "dtype": dtype}
    return inputs.build(inputs.problem(cell, {"heads": HEADS[heads], "prefixes": prefixes, "seed": budget}))


@pytest.mark.parametrize("seed", range(20))
def test_tree_grows_best_first(seed: int) -> None:
    large = inputs.best_first_parents(33, seed)
    assert len(large) == 33
    assert large[0] == -1
    assert all(0 <= parent < node for node, parent in enumerate(large) if node)
    assert inputs.best_first_parents(9, seed) == large[:9]


def test_depth_and_width_of_trees_are_those_of_a_draft() -> None:
    depths, children = [0], [0]
    for parent in inputs.best_first_parents(10_000, 3)[1:]:
        depths.append(depths[parent] + 1)
        children.append(0)
        children[parent] += 1
        if len(depths) > 2000:
            break
    assert max(depths) <= 7
    assert max(children) <= 6


def test_mask_is_the_ancestors_and_the_row_itself() -> None:
    parents = inputs.best_first_parents(20, 5)
    mask = inputs.ancestor_mask(parents, 24)
    for row in range(24):
        seen, node = set(), row if row < 20 else -1
        while node >= 0:
            seen.add(node)
            node = parents[node]
        assert set(mask[row].nonzero().flatten().tolist()) == seen


@pytest.mark.parametrize("budget", [4, 7, 8, 9, 12, 15, 16, 24, 31, 32])
def test_verify_of_a_budget_has_budget_plus_one_rows(budget: int) -> None:
    at = step(budget).tensors
    rows = budget + 1
    assert at["qo_indptr"].tolist() == [0, rows, 2 * rows, 3 * rows]
    assert at["kv_indptr"].tolist() == [0, 5, 75, 76]
    cells = [rows * (prefix + rows) for prefix in (5, 70, 1)]
    assert at["mask_indptr"].tolist() == [0, cells[0], sum(cells[:2]), sum(cells)]
    assert len(at["mask"]) == sum(cells)
    assert {name: at[name].dtype for name in ("qo_indptr", "kv_indptr", "mask", "mask_indptr")} == {
        "qo_indptr": torch.int64,
        "kv_indptr": torch.int32,
        "mask": torch.uint8,
        "mask_indptr": torch.int64,
    }


def test_slots_are_shuffled_and_of_one_request_each() -> None:
    at = step().tensors
    slots = at["kv_indices"].tolist()
    assert slots[-1] == 0, "the padded request looks at slot 0"
    assert len(set(slots)) == len(slots)
    assert slots[:5] != sorted(slots[:5]) or slots[5:75] != sorted(slots[5:75])


def test_rows_beyond_a_smaller_tree_and_of_a_padded_slot_see_no_drafted_key() -> None:
    made = step(16)
    assert made.problem.nodes == (17, 13, 0)
    assert made.trees[1][13:].any() == torch.tensor(False)
    assert made.trees[2].any() == torch.tensor(False)
    assert bool(made.trees[0].diagonal().all())


@pytest.mark.parametrize("heads", HEADS)
def test_reference_is_the_attention_that_torch_has(heads: str) -> None:
    made = step(12, heads)
    found = tolerance.expected(made, tolerance.INTERPRETER, 64).output
    asked, at = made.problem, made.tensors
    for index, tree in enumerate(made.trees):
        rows = slice(index * 13, index * 13 + 13)
        slots = at["kv_indices"][int(at["kv_indptr"][index]) : int(at["kv_indptr"][index + 1])]
        keys = torch.cat([at["k_buffer"][slots], at["k_extend"][rows]]).double()
        values = torch.cat([at["v_buffer"][slots], at["v_extend"][rows]]).double()
        mask = torch.cat([torch.ones(13, len(slots), dtype=torch.bool), tree], 1)
        right = torch.nn.functional.scaled_dot_product_attention(
            at["q"][rows].double().transpose(0, 1)[None],
            keys.transpose(0, 1)[None],
            values.transpose(0, 1)[None],
            attn_mask=mask,
            scale=1 / math.sqrt(192 if heads == "mla" else asked.key_dim),
            enable_gqa=True,
        )
        assert torch.allclose(found[rows], right[0].transpose(0, 1), rtol=0, atol=1e-12)


def computed(made: Any, key_tile: int) -> Any:
    """The kernel's algorithm in plain torch, in its own precision: keys in tiles, a running maximum, float32 sums."""
    asked, at, outputs = made.problem, made.tensors, []
    dtype = at["q"].dtype
    for index, tree in enumerate(made.trees):
        rows = slice(index * asked.rows, (index + 1) * asked.rows)
        slots = at["kv_indices"][int(at["kv_indptr"][index]) : int(at["kv_indptr"][index + 1])]
        group = asked.query_heads // asked.key_heads
        queries = at["q"][rows].float().transpose(0, 1)
        maximum = torch.full(queries.shape[:2], -torch.inf)
        total = torch.zeros(queries.shape[:2])
        sums = torch.zeros(*queries.shape[:2], asked.value_dim)
        parts = (
            (at["k_buffer"][slots], at["v_buffer"][slots], torch.ones(asked.rows, len(slots), dtype=torch.bool)),
            (at["k_extend"][rows], at["v_extend"][rows], tree),
        )
        for keys, values, mask in parts:
            for start in range(0, len(keys), key_tile):
                tile = slice(start, start + key_tile)
                key = keys[tile].float().repeat_interleave(group, 1).transpose(0, 1)
                scores = (queries @ key.transpose(1, 2)) * torch.tensor(asked.scale).float()
                scores = scores.masked_fill(~mask[None, :, tile], -torch.inf)
                top = torch.maximum(maximum, scores.amax(-1).clamp(min=-1e20))
                weights = torch.exp(scores - top[..., None])
                value = values[tile].repeat_interleave(group, 1).transpose(0, 1)
                sums = sums * torch.exp(maximum - top)[..., None] + weights.to(dtype).float() @ value.float()
                total = total * torch.exp(maximum - top) + weights.sum(-1)
                maximum = top
        outputs.append((sums / total[..., None]).to(dtype).transpose(0, 1))
    return torch.cat(outputs)


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("size", [0.03, 1.0, 4.0])
def test_bound_holds_for_the_algorithm_whatever_the_size_of_the_inputs(heads: str, dtype: str, size: float) -> None:
    made = step(16, heads, dtype)
    for name in ("q", "k_buffer", "k_extend"):
        made.tensors[name].mul_(size)
    for key_tile in (32, 64, 128):
        found = tolerance.expected(made, tolerance.INTERPRETER, key_tile)
        error = (computed(made, key_tile).double() - found.output).abs()
        assert bool((error <= found.bound).all())


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_bound_shows_what_single_mask_bits_do(dtype: str) -> None:
    made = step(16, dtype=dtype)
    found = tolerance.expected(made, tolerance.INTERPRETER, 64, power=True)
    assert found.seen is not None
    assert found.seen > 0.95
    right = computed(made, 64)
    assert comparison.compared(made, right, found, "64x64").state == "pass"
    made.trees[0][16, 0] = False
    row = comparison.compared(made, computed(made, 64), found, "64x64")
    assert (row.state, row.reason, [fault.row for fault in row.faults]) == ("fail", "wrong_values", [16])


def test_rows_that_were_never_written_are_told_from_wrong_ones() -> None:
    made = step(16)
    found = tolerance.expected(made, tolerance.INTERPRETER, 64)
    output = computed(made, 64)
    output[20:22] = math.nan
    output[3, 1, 2] += 0.5
    row = comparison.compared(made, output, found, "64x64")
    assert row.reason == "rows_not_written"
    assert [(fault.kind, fault.row, fault.element) for fault in row.faults] == [
        ("rows_not_written", 20, 20 * 4 * 32),
        ("wrong_values", 3, 3 * 4 * 32 + 32 + 2),
    ]
    assert "row 3 of request 1" in row.faults[0].detail
    assert [number["value"] for number in row.measurements[:2]] == [None, None]


def test_chain_for_a_tree_is_far_outside() -> None:
    made = step(16, dtype="fp16")
    found = tolerance.expected(made, tolerance.INTERPRETER, 64)
    chain = tolerance.expected(made, tolerance.INTERPRETER, 64, causal=True)
    row = comparison.with_power(comparison.compared(made, computed(made, 64), found, "64x64"), made, found, chain)
    distance = next(number for number in row.measurements if number["name"] == "causal_distance_of_bound")
    assert row.state == "pass"
    assert distance["value"] > 10


def test_nothing_to_look_at_has_no_right_value() -> None:
    made = step(8, prefixes=(5, 70, 0))
    found = tolerance.expected(made, tolerance.INTERPRETER, 64)
    assert found.output[18:].isnan().all()
    assert not found.output[:18].isnan().any()


def test_fault_that_was_planted_must_show_where_it_is() -> None:
    made = step(8)
    found = tolerance.expected(made, tolerance.INTERPRETER, 64)
    well = comparison.compared(made, computed(made, 64), found, "64x64")
    made.trees[0][8, 0] = False
    wrong = comparison.compared(made, computed(made, 64), found, "64x64")
    assert comparison.planted_row(frozenset({8}), well).state == "fail"
    assert comparison.planted_row(frozenset({7}), wrong).state == "fail"
    assert comparison.planted_row(frozenset({8}), wrong).state == "pass"


def test_tensor_between_guard_pages_ends_where_nobody_may_touch() -> None:
    guarded = module("guarded")
    with guarded.Guarded() as pages:
        placed = pages.place("t", torch.arange(100, dtype=torch.int32))
        (extent,) = pages.extents
        assert placed.tolist() == list(range(100))
        assert extent.end % 4096 == 0
        assert extent.elements == 100
        assert (extent.element(extent.end), extent.element(extent.start - 4)) == (100, -1)
        assert (extent.distance(extent.start), extent.distance(extent.end)) == (0, 1)
        del placed
    assert pages.extents == []
