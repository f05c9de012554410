"""The real kernel of the installed SGLang, compiled for GPUs that are not here."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch", reason="runs in the engine environment: nox -s engine-cpu")
pytestmark = [pytest.mark.engine, pytest.mark.slow]

MLA = {"query_heads": 12, "key_heads": 1, "key_dim": 576, "value_dim": 512}


def case(architecture: str, mode: str, *, planted: str | None = None, dtype: str = "bf16") -> dict[str, Any]:
    identity = f"{architecture}-{mode}"
    return {
        "key": f"{identity}/{planted}",
        "cell": {"id": identity, "architecture": architecture, "batch": 2, "dtype": dtype},
        "planted": planted,
        "parameters": {"mode": mode, "budgets": [8, 12, 16], "triton": "", "disassembler": "", **MLA},
    }


@pytest.fixture(scope="module")
def rows(ask_program: Callable[..., list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    planted = [case("sm_120", "graph", planted=name) for name in ("over_shared_memory", "bad_ptx", "dead_compiler")]
    asked = [
        *planted,
        case("sm_103", "graph"),
        case("sm_103", "eager"),
        case("sm_100", "graph"),
        case("sm_120", "graph"),
    ]
    return {document["key"]: document for document in ask_program("compile", asked) if document["kind"] == "row"}


def test_what_is_planted_is_caught_as_what_it_is(rows: dict[str, dict[str, Any]]) -> None:
    assert rows["sm_120-graph/over_shared_memory"]["state"] == "pass"
    assert rows["sm_120-graph/over_shared_memory"]["faults"][0]["tensor"] == "shared memory"
    assert rows["sm_120-graph/bad_ptx"]["state"] == "pass"
    assert "ptxas" in rows["sm_120-graph/bad_ptx"]["faults"][0]["detail"]
    assert rows["sm_120-graph/dead_compiler"]["state"] == "pass"
    assert "SIGABRT" in rows["sm_120-graph/dead_compiler"]["detail"]


def test_budgets_share_their_code_and_16_needs_a_second_tile_on_10_3_alone(rows: dict[str, dict[str, Any]]) -> None:
    blackwell, workstation = rows["sm_103-graph/None"], rows["sm_120-graph/None"]
    assert blackwell["compiled"]["ptx_target"] == "sm_103a"
    assert workstation["compiled"]["ptx_target"] == "sm_120a"
    assert (blackwell["cell"]["tile"], workstation["cell"]["tile"]) == ("16x64", "32x32")
    assert blackwell["cell"]["budgets"] == workstation["cell"]["budgets"] == [8, 12, 16]
    assert blackwell["compiled"]["query_tiles"] == [[8, 1], [12, 1], [16, 2]]
    assert workstation["compiled"]["query_tiles"] == [[8, 1], [12, 1], [16, 1]]


def test_a_graph_runs_other_code_than_an_eager_step(rows: dict[str, dict[str, Any]]) -> None:
    graph, eager = rows["sm_103-graph/None"]["compiled"], rows["sm_103-eager/None"]["compiled"]
    assert graph["cubin_sha256"] != eager["cubin_sha256"]
    assert graph["ptx_sha256"] != eager["ptx_sha256"]


def test_ptx_of_10_0_and_10_3_differs_in_the_target_alone(rows: dict[str, dict[str, Any]]) -> None:
    server, newer = rows["sm_100-graph/None"]["compiled"], rows["sm_103-graph/None"]["compiled"]
    assert server["ptx_sha256"] == newer["ptx_sha256"]
    assert server["ptx_target"] != newer["ptx_target"]
    assert server["ptx_sha256"] != rows["sm_120-graph/None"]["compiled"]["ptx_sha256"]
