"""Emulated capture and replay: what is recorded, what is refused, and what stale buffers and grids do to the kernel."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

Ask = Callable[..., list[dict[str, Any]]]
HEADS = {"gqa": [2, 1, 64, 64], "mla": [2, 1, 576, 512]}
TILES = {("gqa", "sm_103"): "64x64", ("gqa", "sm_120"): "64x128"}
TILES |= {("mla", "sm_103"): "16x64", ("mla", "sm_120"): "32x32"}
FAULTS = {
    "mask_sized_for_budget_8": "out_of_bounds",
    "stale_mask_indptr": "wrong_values",
    "stale_mask": "wrong_values",
    "stale_out_cache_loc": "wrong_values",
    "host_sync": "host_sync",
}
NO_EFFECT = {("gqa", "sm_103", 16), ("gqa", "sm_120", 16), ("mla", "sm_120", 16)}
NO_EFFECT |= {("gqa", "sm_103", 32), ("gqa", "sm_120", 32)}
"""Where a grid that was frozen for budget 8 covers all rows all the same, because one tile of queries does."""
WAITS = (
    *("item", "tolist", "cpu", "to", "to device", "numpy", "nonzero", "bool", "int", "index", "mask", "set by mask"),
    *("masked_select", "where", "equal", "unique"),
)


def case(shape: str, architecture: str, budget: int, planted: str | None = None) -> dict[str, Any]:
    return {
        "key": "/".join((shape, architecture, str(budget), planted or "")),
        "cell": {"architecture": architecture, "budget": budget, "dtype": "fp32"},
        "planted": planted,
        "parameters": {"heads": HEADS[shape], "prefixes": [96, 96, 1], "seed": budget},
    }


@pytest.fixture(scope="module")
def replayed(ask_program: Ask) -> dict[str, dict[str, Any]]:
    cases = []
    for shape, architecture in TILES:
        cases += [case(shape, architecture, 16, fault) for fault in FAULTS]
        cases += [case(shape, architecture, budget, "grid_of_budget_8") for budget in (16, 32)]
        cases.append(case(shape, architecture, 16))
    cases.append(case("gqa", "sm_103", 8, "grid_of_budget_4"))
    cases.append(case("gqa", "sm_103", 8, "mask_sized_for_budget_8"))
    return {row["key"]: row for row in ask_program("emulated", cases) if row["kind"] == "row"}


def numbers(row: dict[str, Any]) -> dict[str, float]:
    return {number["name"]: number["value"] for number in row["measurements"]}


@pytest.mark.parametrize(("shape", "architecture"), TILES)
def test_replays_are_right_whatever_the_buffers_held_before(
    replayed: dict[str, dict[str, Any]], shape: str, architecture: str
) -> None:
    row = replayed[f"{shape}/{architecture}/16/"]
    assert (row["state"], row["cell"]) == ("pass", {"tile": TILES[shape, architecture]})
    measured = numbers(row)
    assert measured["replays"] == 4
    assert measured["operations_recorded"] == (2 if shape == "mla" else 3)
    assert 0 < measured["max_error_of_bound"] <= 1
    assert measured["rows_checked"] == 4 * 3 * 17
    assert measured["lanes_checked"] > 10_000


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("shape", "architecture"), TILES)
def test_fault_shows_in_its_own_way(
    replayed: dict[str, dict[str, Any]], shape: str, architecture: str, fault: str
) -> None:
    row = replayed[f"{shape}/{architecture}/16/{fault}"]
    assert (row["state"], row["faults"][0]["kind"]) == ("pass", FAULTS[fault])
    if fault == "mask_sized_for_budget_8":
        assert row["faults"][0]["tensor"] == "mask"
        assert row["faults"][0]["source"].startswith("extend_attention.py:")
    if fault == "stale_mask_indptr":
        assert row["faults"][0]["row"] >= 17, "the first request's mask starts at 0 in every step"


@pytest.mark.parametrize("budget", [16, 32])
@pytest.mark.parametrize(("shape", "architecture"), TILES)
def test_grid_of_a_smaller_budget_shows_where_it_has_fewer_tiles(
    replayed: dict[str, dict[str, Any]], shape: str, architecture: str, budget: int
) -> None:
    row = replayed[f"{shape}/{architecture}/{budget}/grid_of_budget_8"]
    assert row["state"] == "pass", row["detail"]
    if (shape, architecture, budget) in NO_EFFECT:
        assert row["detail"].startswith("no effect, as expected")
        assert row["faults"] == []
    else:
        first = {"sm_103": 16, "sm_120": 32}[architecture]
        assert [(fault["kind"], fault["row"]) for fault in row["faults"]] == [("rows_not_written", first)]


def test_fault_that_shows_nowhere_is_a_miss(replayed: dict[str, dict[str, Any]]) -> None:
    row = replayed["gqa/sm_103/8/mask_sized_for_budget_8"]
    assert (row["state"], row["reason"]) == ("fail", "not_caught")
    assert row["detail"].startswith("expected out_of_bounds in mask")


def test_unknown_fault_is_no_verdict(replayed: dict[str, dict[str, Any]]) -> None:
    assert replayed["gqa/sm_103/8/grid_of_budget_4"]["state"] == "inconclusive"


INSIDE = r"""
import importlib, importlib.util, json, os, sys
os.environ["TRITON_INTERPRET"] = "1"
import torch
spec = importlib.util.spec_from_file_location("beside_torch", sys.argv[1] + "/__init__.py",
                                              submodule_search_locations=[sys.argv[1]])
sys.modules["beside_torch"] = importlib.util.module_from_spec(spec)
recorder = importlib.import_module("beside_torch.recorder")
emulated = importlib.import_module("beside_torch.emulated")
protocol = importlib.import_module("beside_torch.protocol")
found = {}

waits = {
    "item": lambda t: t[0].item(),
    "tolist": lambda t: t.tolist(),
    "cpu": lambda t: t.cpu(),
    "to": lambda t: t.to("cpu"),
    "to device": lambda t: t.to(device=torch.device("cpu")),
    "numpy": lambda t: t.numpy(),
    "nonzero": lambda t: t.nonzero(),
    "bool": lambda t: bool(t[0] > 0),
    "int": lambda t: range(int(t[1])),
    "index": lambda t: [0, 1, 2][t.long()[1]],
    "mask": lambda t: t[t > 0],
    "set by mask": lambda t: t.__setitem__(t > 0, 5),
    "masked_select": lambda t: t.masked_select(t > 0),
    "where": lambda t: torch.where(t > 0),
    "equal": lambda t: torch.equal(t, t),
    "unique": lambda t: torch.unique(t),
}
for name, wait in waits.items():
    graph = recorder.Recorder()
    try:
        with graph:
            wait(torch.arange(4.0))
        found[name] = "recorded"
    except recorder.HostSyncError:
        found[name] = "refused"

static, out = torch.arange(4.0), torch.zeros(4)
graph = recorder.Recorder()
with graph:
    shifted = static[1:] + 1
    out[1:] = shifted * 2
    out.view(2, 2)
    out[torch.tensor([0])] = static[:1]
found["eager again"] = static[0].item()
static.copy_(torch.tensor([9.0, 10.0, 20.0, 30.0]))
out.zero_()
graph.replay()
found["nodes"] = len(graph.nodes)
found["out"] = out.tolist()
found["shifted"] = shifted.tolist()

seen = protocol.Row(state="fail", reason="rows_not_written", detail="seen",
                    faults=(protocol.Fault("rows_not_written", "seen", tensor="o", row=16),))
well = protocol.Row(state="pass", detail="well")
judged = {
    "where it must": emulated.planted_row("rows_not_written", "o", frozenset({16, 17}), seen),
    "in another row": emulated.planted_row("rows_not_written", "o", frozenset({17}), seen),
    "in another way": emulated.planted_row("wrong_values", "o", frozenset({16}), seen),
    "in another tensor": emulated.planted_row("rows_not_written", "k_buffer", frozenset({16}), seen),
    "missed": emulated.planted_row("rows_not_written", "o", frozenset({16}), well),
    "no effect": emulated.planted_row(None, "o", frozenset(), well),
    "effect where none was expected": emulated.planted_row(None, "o", frozenset({16}), seen),
}
found["judged"] = {name: row.state for name, row in judged.items()}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def inside() -> dict[str, Any]:
    """What a process of its own found: the recorder works with Triton as an interpreter only."""
    folder = Path(__file__).resolve().parents[2] / "repro" / "kernels" / "beside_torch"
    assert importlib.util.find_spec("triton") is not None
    done = subprocess.run(
        [sys.executable, "-c", INSIDE, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("wait", WAITS)
def test_whatever_waits_for_the_device_is_refused(inside: dict[str, Any], wait: str) -> None:
    assert inside[wait] == "refused"


def test_recorded_operations_run_again_on_the_same_tensors(inside: dict[str, Any]) -> None:
    assert inside["out"] == [9.0, 22.0, 42.0, 62.0]
    assert inside["shifted"] == [11.0, 21.0, 31.0]
    assert inside["eager again"] == 0.0, "nothing is refused behind the captured region"
    assert inside["nodes"] == 4, "a view is no work"


@pytest.mark.parametrize(
    ("how", "state"),
    [
        ("where it must", "pass"),
        ("in another row", "fail"),
        ("in another way", "fail"),
        ("in another tensor", "fail"),
        ("missed", "fail"),
        ("no effect", "pass"),
        ("effect where none was expected", "fail"),
    ],
)
def test_planted_fault_must_show_exactly_as_it_should(inside: dict[str, Any], how: str, state: str) -> None:
    assert inside["judged"][how] == state
