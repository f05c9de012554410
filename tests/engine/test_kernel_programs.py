"""The programs that interpret SGLang's real kernel, each in a process of its own."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

Ask = Callable[..., list[dict[str, Any]]]
HEADS = {"gqa-2-1-64": [2, 1, 64, 64], "mla-2-1-576-512": [2, 1, 576, 512]}
FAULTS = {
    "mask_sized_for_budget_8": ("mask", "load"),
    "stale_mask_indptr": ("mask", "load"),
    "output_sized_for_budget_8": ("o", "store"),
    "stale_kv_indptr": ("kv_indices", "load"),
}


def case(
    key: str, budget: int, *, dtype: str = "fp16", shape: str = "gqa-2-1-64", planted: str | None = None, last: int = 1
) -> dict[str, Any]:
    cell = {"architecture": "sm_103", "budget": budget, "dtype": dtype}
    parameters = {"heads": HEADS[shape], "prefixes": [37, 130, last], "seed": budget}
    return {"key": key, "cell": cell, "planted": planted, "parameters": parameters}


def rows(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By key; under ``subject`` which code they are about."""
    assert documents[0]["kind"] == "subject"
    found = {document["key"]: document for document in documents if document["kind"] == "row"}
    return {**found, "subject": documents[0]}


@pytest.fixture(scope="module")
def referred(ask_program: Ask) -> dict[str, dict[str, Any]]:
    cases = [
        *(case(f"{shape} {dtype}", 8, dtype=dtype, shape=shape) for shape in HEADS for dtype in ("fp32", "fp16")),
        *(case(fault, 8, planted=fault) for fault in ("causal_mask", "hidden_root", "slot_of_another_request")),
        case("empty", 8, last=0),
        case("bf16", 8, dtype="bf16"),
        case("unknown fault", 8, planted="no_such_fault"),
    ]
    return rows(ask_program("reference", cases))


def numbers(row: dict[str, Any]) -> dict[str, float]:
    return {number["name"]: number["value"] for number in row["measurements"]}


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize(("shape", "tile"), [("gqa-2-1-64", "64x64"), ("mla-2-1-576-512", "16x64")])
def test_kernel_is_within_rounding_of_float64(
    referred: dict[str, dict[str, Any]], shape: str, tile: str, dtype: str
) -> None:
    row = referred[f"{shape} {dtype}"]
    assert (row["state"], row["cell"]) == ("pass", {"tile": tile})
    assert numbers(row)["max_error"] < (1e-4 if dtype == "fp32" else 1e-2)
    assert 0 < numbers(row)["max_error_of_bound"] <= 1
    assert numbers(row)["causal_distance_of_bound"] > 2
    assert numbers(row)["mask_bits_seen"] > 0.9


@pytest.mark.parametrize("fault", ["causal_mask", "hidden_root", "slot_of_another_request"])
def test_planted_fault_is_caught_in_its_row(referred: dict[str, dict[str, Any]], fault: str) -> None:
    row = referred[fault]
    assert (row["state"], row["reason"]) == ("pass", None)
    assert row["faults"][0]["kind"] == "wrong_values"
    assert row["faults"][0]["row"] is not None
    if fault == "hidden_root":
        assert row["faults"][0]["row"] == 8


def test_rows_with_nothing_to_look_at_are_written_as_0(referred: dict[str, dict[str, Any]]) -> None:
    row = referred["empty"]
    assert row["state"] == "pass"
    assert numbers(row)["rows_without_keys"] == 9
    assert numbers(row)["rows_without_keys_nan"] == 0


def test_bf16_is_refused_because_the_interpreter_gets_it_wrong(referred: dict[str, dict[str, Any]]) -> None:
    row = referred["bf16"]
    assert (row["state"], row["reason"]) == ("not_applicable", "bf16_in_interpreter")
    assert "here 16 for" not in row["detail"], "the interpreter has learnt bf16: use it"


def test_what_goes_wrong_in_the_program_is_no_verdict_on_the_kernel(referred: dict[str, dict[str, Any]]) -> None:
    assert (referred["unknown fault"]["state"], referred["unknown fault"]["reason"]) == (
        "inconclusive",
        "program_error",
    )


@pytest.fixture(scope="module")
def touched(ask_program: Ask) -> dict[str, dict[str, Any]]:
    cases = [
        *(case(fault, 16, planted=fault) for fault in FAULTS),
        case("clean", 16),
        case("missed", 8, planted="output_sized_for_budget_8"),
    ]
    return rows(ask_program("memory", cases))


def test_kernel_stays_inside_its_tensors(touched: dict[str, dict[str, Any]]) -> None:
    row = touched["clean"]
    assert (row["state"], row["faults"]) == ("pass", [])
    assert numbers(row)["lanes_checked"] > 10_000


@pytest.mark.parametrize("fault", FAULTS)
def test_stray_access_is_named_by_line_and_element(touched: dict[str, dict[str, Any]], fault: str) -> None:
    tensor, access = FAULTS[fault]
    row = touched[fault]
    (found,) = row["faults"]
    assert (row["state"], found["tensor"], found["kind"]) == ("pass", tensor, "out_of_bounds")
    assert found["detail"].startswith(access)
    assert found["element"] > 0
    name, _, line = found["source"].partition(":")
    kernel = Path(importlib.util.find_spec("sglang").origin).parents[1] / touched["subject"]["source_path"]
    assert kernel.name == name
    text = kernel.read_text().splitlines()[int(line) - 1 : int(line) + 10]
    assert any(f"tl.{access}(" in part for part in text)
    assert f"killed at {found['source']}" in row["detail"]


def test_fault_that_shows_nowhere_is_a_miss(touched: dict[str, dict[str, Any]]) -> None:
    """Sized for budget 8 at budget 8: nothing is wrong, and the arm would be broken."""
    row = touched["missed"]
    assert (row["state"], row["reason"]) == ("fail", "not_caught")
    assert "the pointer checker missed it" in row["detail"]
