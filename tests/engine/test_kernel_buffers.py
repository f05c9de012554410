"""What the installed SGLang's own code allocates for graph capture, and what the verify of a tree needs of it."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch", reason="runs in the engine environment: nox -s engine-cpu")
pytestmark = pytest.mark.engine

ARRANGEMENTS = {"tree": (13, 13), "block": (8, 8), "step": (8, 13)}


def case(name: str, *, version: str = "0.5.23", planted: str | None = None) -> dict[str, Any]:
    draft_tokens, runner_width = ARRANGEMENTS[name]
    sizes = {
        "draft_tokens": draft_tokens,
        "runner_width": runner_width,
        "width": 13,
        "max_batch": 128,
        "context": 262144,
    }
    return {
        "key": f"{version}-{name}/{planted}",
        "cell": {"id": f"{version}-{name}"},
        "planted": planted,
        "parameters": {"root": "", "version": version, **sizes},
    }


@pytest.fixture(scope="module")
def documents(ask_program: Callable[..., list[dict[str, Any]]]) -> list[dict[str, Any]]:
    asked = [case("tree", planted="half_of_mask"), *map(case, ARRANGEMENTS), case("tree", version="0.5.12")]
    return ask_program("buffers", asked)


@pytest.fixture(scope="module")
def rows(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {document["key"]: document for document in documents if document["kind"] == "row"}


def buffer(row: dict[str, Any], name: str) -> dict[str, Any]:
    return next(entry for entry in row["buffers"] if entry["buffer"] == name)


def test_a_cut_allocation_is_caught(rows: dict[str, dict[str, Any]]) -> None:
    row = rows["0.5.23-tree/half_of_mask"]
    assert row["state"] == "pass"
    mask = buffer(row, "tree_mask")
    assert mask["allocated"] * 2 == buffer(rows["0.5.23-tree/None"], "tree_mask")["allocated"]


def test_a_server_set_to_the_tree_has_room(rows: dict[str, dict[str, Any]]) -> None:
    row = rows["0.5.23-tree/None"]
    assert (row["state"], row["faults"]) == ("pass", [])
    mask = buffer(row, "tree_mask")
    assert mask["allocated"] == 128 * 13 * (262144 + 13)
    assert mask["needed"] == 128 * 13 * (262143 + 13)
    assert mask["allocated_formula"] == "max_batch * draft_tokens^2 + max_batch * draft_tokens * context"


def test_a_width_that_only_the_step_says_overruns_the_mask_and_the_check_accepts_it(
    rows: dict[str, dict[str, Any]],
) -> None:
    row = rows["0.5.23-step/None"]
    assert (row["state"], row["reason"]) == ("fail", "short_buffer")
    assert [fault["tensor"] for fault in row["faults"]] == ["tree_mask"]
    assert buffer(row, "tree_mask")["allocated"] == 128 * 8 * (262144 + 8)
    assert "own check accepts" in row["detail"]
    assert "the tree builder writes into it whatever its size" in row["detail"]
    first = {entry["at"]["batch"]: entry["value"] for entry in row["measurements"]}
    assert first[1] is None
    assert 128 * 13 * (first[128] + 13) > 128 * 8 * (262144 + 8) >= 128 * 13 * (first[128] - 1 + 13)


def test_a_graph_captured_for_blocks_is_not_replayed_for_trees(rows: dict[str, dict[str, Any]]) -> None:
    row = rows["0.5.23-block/None"]
    assert (row["state"], row["reason"]) == ("not_applicable", "graph_refused")


def test_a_release_that_is_not_at_hand_is_said(rows: dict[str, dict[str, Any]]) -> None:
    row = rows["0.5.12-tree/None"]
    assert (row["state"], row["reason"]) == ("not_run", "wheel_missing")
    assert "0.5.12" in row["detail"]


def test_flashinfer_has_room_in_bits(documents: list[dict[str, Any]]) -> None:
    own = [
        entry for entry in documents if entry["kind"] == "row" and str(entry["cell"].get("id")).endswith(".flashinfer")
    ]
    outcomes = {entry["cell"]["id"]: (entry["state"], entry["reason"]) for entry in own}
    assert outcomes == {
        "0.5.23-tree.flashinfer": ("pass", None),
        "0.5.23-block.flashinfer": ("not_applicable", "graph_refused"),
        "0.5.23-step.flashinfer": ("pass", None),
    }
    mask = buffer(own[0], "tree_mask_bytes")
    assert mask["needed"] == 128 * ((13 * (262143 + 13) + 7) // 8)
    assert mask["allocated_formula"] == "max_batch * runner_width * context"


def test_rows_name_the_backends_file(documents: list[dict[str, Any]]) -> None:
    subject = documents[0]
    assert subject["kind"] == "subject"
    assert subject["source_path"] == "sglang/srt/layers/attention/triton_backend.py"
    assert subject["origin"] == "release"
