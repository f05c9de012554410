"""Proof of configuration on recordings of the real server, on lines as the sources print them, and on odd input."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix.engines.overlay import load_overlay
from matrix.engines.proof import prove
from repro.model import Expectation, Proof

RECORDED = Path(__file__).parents[3] / "data" / "sglang-0.5.23"

EAGER = Expectation(
    algorithm="DDTREE",
    width=17,
    topk_requested=8,
    topk_effective=8,
    window=None,
    graph="eager",
    nvls="nonvls",
    note=None,
)
GRAPH = dataclasses.replace(EAGER, graph="graph", nvls="nvls", window=2048)
PR = dataclasses.replace(GRAPH, topk_effective=3)
AR = dataclasses.replace(EAGER, algorithm=None, width=None, topk_requested=None, topk_effective=None)

PR_INFO: dict[str, Any] = {
    "version": "0.5.15.post1",
    "speculative_algorithm": "DDTREE",
    "speculative_num_draft_tokens": 8,  # the block size, not the width
    "speculative_eagle_topk": 1,
    "speculative_draft_window_size": 2048,
    "enable_nccl_nvls": True,
    "page_size": 1,
    "attention_backend": "triton",
    "max_running_requests": 128,
    "tp_size": 8,
    "internal_states": [{"effective_max_running_requests_per_dp": 128}],
}
PR_LOG = (
    "[2026-07-20 10:00:00 TP0] Initialized DDTree worker. block_size=8, tree_budget=16, max_tree_nodes=17",
    "[10:00:01 TP0] Capture target verify CUDA graph begin. backend=full, num_tokens_per_bs=17, bs=[1, 2, 128]",
    "host:1:2 [0] NCCL INFO NVLS comm 0x55 headRank 0 nHeads 8 nvlsRanks 8 buffSize 1048576",
)
REPLAYED = (
    'sglang:cuda_graph_passes_total{mode="decode_cuda_graph",tp_rank="0"} 90\n'
    'sglang:cuda_graph_passes_total{mode="decode_none",tp_rank="0"} 10\n'
    'sglang:cuda_graph_passes_total{mode="prefill_cuda_graph",tp_rank="0"} 5\n'
)


def by_fact(proofs: tuple[Proof, ...]) -> dict[str, Proof]:
    assert len({proof.fact for proof in proofs}) == len(proofs)
    assert all(proof.source for proof in proofs)
    assert all(proof.observed is None for proof in proofs if proof.state == "unknown")
    return {proof.fact: proof for proof in proofs}


def states(proofs: tuple[Proof, ...]) -> dict[str, str]:
    return {fact: proof.state for fact, proof in by_fact(proofs).items()}


def recorded(cell: str, expectation: Expectation, **more: Any) -> dict[str, Proof]:
    given = {
        "server_info": json.loads((RECORDED / f"{cell}-server_info.json").read_text()),
        "metrics_end": (RECORDED / f"{cell}-metrics.txt").read_text(),
        "log_lines": (RECORDED / f"{cell}-server.log").read_text().splitlines(),
        "argv": ("--max-running-requests", "8", "--attention-backend", "intel_amx", "--tp-size", "1"),
        "version": "0.5.23",
        "environment": {},
    }
    return by_fact(prove(expectation, overlay=load_overlay("cpu-ddtree"), **{**given, **more}))


def test_a_recorded_tree_on_a_cpu() -> None:
    facts = recorded("b16t8", EAGER, histograms=[[1, 1, 3], [2]])
    for name in ("algorithm", "width", "topk", "graph_replayed", "prefill_graph_replayed", "captured_batch_sizes"):
        assert facts[name].state == "proven", name
    assert (facts["width"].observed, facts["topk"].observed) == (17, 8)
    assert "0 of 39 decode passes" in facts["graph_replayed"].source
    assert facts["attention_backend"].observed == "torch_native"
    assert {fact for fact, proof in facts.items() if proof.state == "contradicted"} == set()
    assert {fact for fact, proof in facts.items() if proof.state == "unknown"} == {
        "graph_width",
        "nvls_initialised",
        "nvls_exercised",
    }


def test_a_recorded_server_without_speculation() -> None:
    facts = recorded("ar", AR)
    assert facts["algorithm"].state == "proven"
    assert {"width", "topk", "graph_width"}.isdisjoint(facts)
    assert recorded("ar", EAGER)["algorithm"].state == "contradicted"
    assert recorded("b16t8", AR)["algorithm"].state == "contradicted"


def test_another_width_or_top_k_is_a_contradiction() -> None:
    facts = recorded("b16t8", dataclasses.replace(EAGER, width=33, topk_effective=4))
    assert (facts["width"].state, facts["width"].observed) == ("contradicted", 17)
    assert (facts["topk"].state, facts["topk"].observed) == ("contradicted", 8)


def test_a_graph_cell_that_ran_eager_is_a_contradiction() -> None:
    proof = recorded("b16t8", dataclasses.replace(EAGER, graph="graph"))["graph_replayed"]
    assert (proof.state, proof.observed) == ("contradicted", False)


def test_without_metrics_the_log_tells() -> None:
    proof = recorded("b16t8", EAGER, metrics_end=None)["graph_replayed"]
    assert (proof.state, proof.source[:10]) == ("proven", "server.log")


def pull_request(expectation: Expectation = PR, **more: Any) -> tuple[Proof, ...]:
    given: dict[str, Any] = {
        "server_info": PR_INFO,
        "metrics_end": REPLAYED,
        "log_lines": PR_LOG,
        "argv": ("--page-size", "1", "--max-running-requests", "128", "--cuda-graph-max-bs-decode", "128"),
        "version": "0.5.15.post1",
        "environment": {"SGLANG_DDTREE_MAX_TOPK": "8"},
    }
    return prove(expectation, overlay=load_overlay("pr29907"), **{**given, **more})


def test_the_pull_request_proves_its_width_by_its_log() -> None:
    facts = by_fact(pull_request())
    assert (facts["width"].state, facts["width"].observed) == ("proven", 17)
    assert (facts["topk"].state, facts["topk"].observed) == ("proven", 3)
    assert "derived" in facts["topk"].source
    assert facts["graph_replayed"].state == "proven"
    assert "90 of 100" in facts["graph_replayed"].source
    assert facts["captured_batch_sizes"].observed == "1,2,128"
    assert facts["nvls_initialised"].state == "proven"
    assert facts["nvls_exercised"].state == "unknown"
    assert facts["window"].state == "proven"


def test_the_pull_request_without_its_line_is_unknown() -> None:
    facts = by_fact(pull_request(log_lines=()))
    assert (facts["width"].state, facts["topk"].state) == ("unknown", "unknown")


def test_another_budget_in_the_log_is_a_contradiction() -> None:
    other = PR_LOG[0].replace("tree_budget=16, max_tree_nodes=17", "tree_budget=32, max_tree_nodes=33")
    facts = by_fact(pull_request(log_lines=(other,)))
    assert (facts["width"].state, facts["width"].observed) == ("contradicted", 33)
    assert (facts["topk"].state, facts["topk"].observed) == ("contradicted", 5)
    both = by_fact(pull_request(log_lines=(*PR_LOG, other)))
    assert (both["width"].state, both["width"].observed) == ("contradicted", "17, 33")
    assert both["topk"].state == "unknown"


def test_a_captured_width_of_its_own_is_recorded_not_judged() -> None:
    """It is the fault looked for: it must not void the cell that shows it."""
    log = tuple(line.replace("num_tokens_per_bs=17", "num_tokens_per_bs=8") for line in PR_LOG)
    proof = by_fact(pull_request(log_lines=log))["graph_width"]
    assert (proof.expected, proof.observed, proof.state) == (None, 8, "proven")


def test_a_spine_without_a_requested_top_k() -> None:
    spine = dataclasses.replace(PR, width=8, topk_requested=None, topk_effective=None)
    line = PR_LOG[0].replace("tree_budget=16, max_tree_nodes=17", "tree_budget=7, max_tree_nodes=8")
    proof = by_fact(pull_request(spine, log_lines=(line,)))["topk"]
    assert (proof.expected, proof.observed, proof.state) == (None, 1, "proven")
    assert "topk" not in by_fact(pull_request(spine, log_lines=()))


def test_more_accepted_than_the_width_allows() -> None:
    facts = by_fact(pull_request(histograms=[[5, 0, 1], [0] * 17 + [1]]))
    assert (facts["width"].state, facts["width"].observed) == ("contradicted", 18)
    assert states(pull_request(histograms=[[0] * 16 + [1, 0, 0]]))["width"] == "proven"


def test_a_silent_fallback_to_eager() -> None:
    mostly = REPLAYED.replace(" 10\n", " 91\n")
    assert states(pull_request(metrics_end=mostly))["graph_replayed"] == "contradicted"
    assert states(pull_request(metrics_start=REPLAYED, metrics_end=REPLAYED))["graph_replayed"] == "unknown"
    assert states(pull_request(metrics_end=None))["graph_replayed"] == "unknown"


def test_a_prefill_graph_in_an_eager_cell() -> None:
    metrics = REPLAYED.replace("decode_cuda_graph", "decode_idle")
    facts = by_fact(pull_request(dataclasses.replace(PR, graph="eager"), metrics_end=metrics))
    assert facts["graph_replayed"].state == "proven"
    assert facts["prefill_graph_replayed"].state == "contradicted"
    facts = by_fact(pull_request(dataclasses.replace(PR, graph="verify-eager"), metrics_end=metrics))
    assert facts["prefill_graph_replayed"].state == "proven"


@pytest.mark.parametrize(
    ("lines", "wanted", "state", "observed"),
    [
        (("NCCL INFO NVLS comm 0x1 headRank 0 nHeads 8",), True, "proven", True),
        (("NCCL INFO NVLS comm 0x1 headRank 0 nHeads 8",), False, "contradicted", True),
        (("NCCL INFO NVLS multicast support is not available on dev 0",), True, "contradicted", False),
        (("NCCL INFO NVLS multicast support is available on dev 0",), True, "unknown", None),
        (("NCCL INFO Bootstrap timings",), False, "proven", False),
        (("NCCL INFO Bootstrap timings",), True, "unknown", None),
        ((), False, "unknown", None),
    ],
)
def test_nvls(lines: tuple[str, ...], wanted: bool, state: str, observed: bool | None) -> None:
    expectation = dataclasses.replace(PR, nvls="nvls" if wanted else "nonvls")
    facts = by_fact(pull_request(expectation, log_lines=lines))
    assert (facts["nvls_initialised"].state, facts["nvls_initialised"].observed) == (state, observed)
    assert facts["nvls_requested"].state == ("proven" if wanted else "contradicted")


def test_what_the_command_line_asked_for() -> None:
    argv = (
        "--page-size",
        "64",
        "--tp-size",
        "4",
        "--attention-backend",
        "fa3",
        "--cuda-graph-bs-decode",
        "1",
        "2",
        "--x",
    )
    facts = by_fact(pull_request(argv=argv))
    for name in ("page_size", "tp_size", "attention_backend", "captured_batch_sizes"):
        assert facts[name].state == "contradicted", name
    assert facts["captured_batch_sizes"].expected == "1,2"
    assert facts["max_running_requests"].expected is None
    assert by_fact(pull_request(argv=("--page-size",)))["page_size"].state == "proven"


def test_version_and_faked_acceptance() -> None:
    other = {**PR_INFO, "version": "0.5.23"}
    assert states(pull_request(server_info=other))["version"] == "contradicted"
    private = {**PR_INFO, "version": "0.5.16.dev3+gabc"}
    assert by_fact(pull_request(server_info=private))["version"].expected is None
    assert states(pull_request(environment={"SGLANG_SIMULATE_ACC_LEN": "4"}))["acceptance_simulated"] == "contradicted"
    assert states(pull_request(environment=None))["acceptance_simulated"] == "unknown"


def test_an_algorithm_that_the_overlay_does_not_know() -> None:
    facts = states(prove(PR, overlay=load_overlay("stock"), server_info=PR_INFO))
    assert (facts["algorithm"], facts["width"], facts["topk"]) == ("proven", "unknown", "unknown")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(PR_INFO)), inner, max_size=8),
    max_leaves=12,
)


@given(info=JSON, metrics=st.none() | st.text(max_size=80), lines=st.lists(st.text(max_size=80), max_size=3))
def test_nothing_makes_it_raise(info: object, metrics: str | None, lines: list[str]) -> None:
    for expectation in (EAGER, PR, AR):
        for source in ("cpu-ddtree", "pr29907"):
            by_fact(
                prove(
                    expectation,
                    overlay=load_overlay(source),
                    server_info=info,
                    metrics_start=metrics,
                    metrics_end=metrics,
                    log_lines=lines,
                    histograms=[[1, 2]],
                    argv=lines,
                )
            )
