"""The GPU arm as far as a CPU can show it: the cells with an interpreter and a recorder in the place of CUDA."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="runs in the engine environment: nox -s engine-cpu")

HERE = Path(__file__).resolve().parent
START = HERE.parents[1] / "repro" / "kernels" / "beside_torch" / "start.py"
HEADS = {"gqa": [4, 2, 64, 64], "mla": [2, 1, 576, 512]}
REPLAYED = ("replay-same", "replay-refreshed", "long-then-short", "short-then-long")
MODES = ("eager", "eager-graph-dtypes", *REPLAYED)
PLANTED = {
    "causal_mask": "eager",
    "slot_of_another_request": "eager-graph-dtypes",
    "stale_mask": "replay-refreshed",
    "stale_mask_indptr": "replay-refreshed",
    "stale_kv_indices": "long-then-short",
    "mask_sized_for_budget_8": "replay-refreshed",
    "mask_never_written": "replay-refreshed",
}
ROUNDS = 2


def case(
    mode: str,
    *,
    budget: int = 9,
    batch: int = 3,
    planted: str | None = None,
    shape: str = "gqa",
    wanted: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    key = f"{shape} {mode} {budget} {batch} {planted} {wanted} {' '.join(more)}"
    cell = {"architecture": wanted, "budget": budget, "batch": batch, "mode": mode, "dtype": "fp16"}
    parameters = {"heads": HEADS[shape], "rounds": ROUNDS, "longest": 70, "seed": budget}
    return {"key": key, "cell": cell, "planted": planted, "parameters": parameters, **more}


CASES = {
    **{mode: case(mode) for mode in MODES},
    "one request": case("replay-refreshed", batch=1),
    **{fault: case(mode, budget=16, batch=2, planted=fault) for fault, mode in PLANTED.items()},
    "grid shows": case("replay-refreshed", budget=32, batch=1, shape="mla", planted="grid_of_budget_8"),
    "grid hides": case("replay-refreshed", budget=32, planted="grid_of_budget_8"),
    "other GPU": case("eager", wanted="sm_90"),
    "gives up": case("eager-graph-dtypes", broken=True, device="sm_120"),
}


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(HERE / "gpu_on_cpu.py")],
        input=json.dumps(list(CASES.values())),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    by_key = {row["key"]: row for row in map(json.loads, done.stdout.splitlines())}
    return {"control": by_key["control"], **{name: by_key[asked["key"]] for name, asked in CASES.items()}}


def number(row: dict[str, Any], name: str) -> float | None:
    (found,) = (number["value"] for number in row["measurements"] if number["name"] == name)
    return found  # type: ignore[no-any-return]


@pytest.mark.parametrize("mode", [*MODES, "one request"])
def test_each_mode_is_within_rounding_in_each_round(rows: dict[str, dict[str, Any]], mode: str) -> None:
    row = rows[mode]
    assert row["state"] == "pass", row["detail"]
    assert "(an interpreter, driver " in row["detail"]
    assert row["cell"] == {"tile": "64x64", "architecture": "sm_103"}
    batch = CASES[mode]["cell"]["batch"]
    assert number(row, "rows_checked") == ROUNDS * batch * 10
    assert (number(row, "rows_not_written"), number(row, "rounds_wrong")) == (0, 0)
    assert 0 < (number(row, "max_error_of_bound") or 0) <= 1
    assert (number(row, "causal_distance_of_bound") or 0) > 1
    assert [number(row, f"grid_{axis}") for axis in "xyz"] == [batch, 4, 1]


@pytest.mark.parametrize("mode", MODES)
def test_graphs_are_captured_once_and_replayed_each_round(rows: dict[str, dict[str, Any]], mode: str) -> None:
    graph = (1, ROUNDS) if mode in REPLAYED else (0, 0)
    assert (rows[mode]["captures"], rows[mode]["replays"]) == graph


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_fault_is_caught_in_rows_that_it_disturbs(rows: dict[str, dict[str, Any]], fault: str) -> None:
    row = rows[fault]
    assert (row["state"], row["reason"]) == ("pass", None)
    assert row["detail"].startswith("caught: ")
    assert (number(row, "rounds_wrong") or 0) > 0
    assert row["faults"][0]["tensor"] == "o"
    assert ", head " in row["faults"][0]["detail"]


def test_grid_left_over_from_a_smaller_budget_shows_where_the_tile_is_small(rows: dict[str, dict[str, Any]]) -> None:
    shows, hides = rows["grid shows"], rows["grid hides"]
    assert (shows["state"], shows["faults"][0]["kind"], shows["faults"][0]["row"]) == ("pass", "rows_not_written", 16)
    assert number(shows, "rows_not_written") == ROUNDS * (33 - 16)
    assert (hides["state"], hides["reason"]) == ("not_run", "not_visible")


def test_named_architecture_that_is_not_here_is_not_run(rows: dict[str, dict[str, Any]]) -> None:
    assert (rows["other GPU"]["state"], rows["other GPU"]["reason"]) == ("not_run", "other_gpu")
    assert "sm_90 is asked for; here is sm_103" in rows["other GPU"]["detail"]


def test_error_of_cuda_is_the_cases_result_and_the_end_of_the_process(rows: dict[str, dict[str, Any]]) -> None:
    row = rows["gives up"]
    assert (row["state"], row["reason"], row["faults"][0]["kind"]) == ("fail", "cuda_error", "cuda_error")
    assert "an illegal memory access was encountered" in row["detail"]
    assert row["cell"] == {"architecture": "sm_120"}
    assert row["lost"]
    assert not rows["eager"]["lost"]


def test_reference_of_the_device_is_compared_with_the_cpus(rows: dict[str, dict[str, Any]]) -> None:
    assert rows["control"]["apart"] == 0.0


def test_capture_comes_after_launches_on_a_stream_of_their_own(rows: dict[str, dict[str, Any]]) -> None:
    warm = ["on the other stream", "run", "run", "back", "synchronize"]
    assert rows["control"]["said"] == [*warm, "capture", "run", "captured"]


@pytest.mark.parametrize("program", ["gpu", "gpu_sanitizer"])
def test_program_ends_before_its_first_case_where_there_is_no_gpu(program: str, tmp_path: Path) -> None:
    request = {
        "protocol": 1,
        "parent": os.getpid(),
        "paths": [],
        "scratch": str(tmp_path),
        "sglang": None,
        "cases": [case("eager")],
    }
    done = subprocess.run(
        [sys.executable, str(START), program],
        input=json.dumps(request),
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("no GPU: torch ")
