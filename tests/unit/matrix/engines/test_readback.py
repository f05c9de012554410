"""What is read back from `/server_info`, `/metrics` and the log, odd input included."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix.engines.readback import graph_passes, lookup, number, read_log, samples, scalar


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (17, 17),
        ("17", 17),
        (" 17 ", 17),
        (17.0, 17),
        ("17.0", 17),
        (-1, -1),
        (True, None),
        (None, None),
        ("", None),
        ("17b", None),
        (17.5, None),
        (math.nan, None),
        (math.inf, None),
        (10**30, None),
        ("9" * 5000, None),
        ([17], None),
        ({}, None),
        (b"17", None),
        ("²", None),
    ],
)
def test_numbers(value: object, read: int | None) -> None:
    assert number(value) == read


def test_scalars() -> None:
    assert scalar([1, 2, "4"]) == "1,2,4"
    assert scalar([]) == ""
    assert scalar(["a"]) is None
    assert scalar({"a": 1}) is None
    assert scalar("x" * 1000) == "x" * 200
    assert scalar(True) is True


def test_lookup_prefers_the_top() -> None:
    info = {"a": 1, "internal_states": [{"a": 2, "b": 3}]}
    assert lookup(info, "a") == (True, 1)
    assert lookup(info, "b") == (True, 3)
    assert lookup(info, "c") == (False, None)
    odd_ones: tuple[object, ...] = (
        None,
        [],
        "text",
        {"internal_states": None},
        {"internal_states": [None]},
        {"internal_states": []},
    )
    for odd in odd_ones:
        assert lookup(odd, "a") == (False, None)


METRICS = """
# HELP sglang:cuda_graph_passes_total passes
sglang:cuda_graph_passes_total{mode="decode_cuda_graph",model_name="a \\"b\\", {c}",tp_rank="0"} 10.0
sglang:cuda_graph_passes_total{mode="decode_cuda_graph",tp_rank="1"} 10.0
sglang:cuda_graph_passes_total{mode="decode_none",tp_rank="0"} 2
sglang:other 1
broken{ 3
sglang:cuda_graph_passes_total{mode="decode_none"} many
sglang:cuda_graph_passes_total{mode="prefill_none"} NaN
"""


def test_metrics() -> None:
    found = list(samples(METRICS))
    assert found[0][1]["model_name"] == 'a \\"b\\", {c}'
    assert [name for name, _, _ in found].count("sglang:other") == 1
    passes = graph_passes(None, METRICS)
    assert passes is not None
    assert (passes.of("decode_cuda_graph"), passes.of("decode_none"), passes.of("prefill_none")) == (20, 2, 0)
    later = graph_passes(METRICS, METRICS.replace("10.0", "15.0"))
    assert later is not None
    assert (later.of("decode_cuda_graph"), later.of("decode_none")) == (10, 0)
    assert graph_passes(METRICS, METRICS.replace("10.0", "1.0")) is None  # another server's counters
    assert graph_passes(METRICS, None) is None
    assert graph_passes(None, "") is None


@pytest.mark.parametrize(
    ("line", "widths", "sizes"),
    [
        (
            "[2026-07-01 TP0] Capture target verify CUDA graph begin. backend=full, num_tokens_per_bs=17, bs=[1, 2, 4]",
            [17],
            "1,2,4",
        ),
        ("Capture target verify CUDA graph begin. backend=full, num_tokens_per_req=9, avail mem=9.00 GB", [9], None),
        ("Capture target decode CUDA graph end. bs=[1, 2], elapsed=2.00 s", [], "1,2"),
        ("Capture cuda graph bs [1, 2, 4, 8]", [], "1,2,4,8"),
        ("Capture draft decode CUDA graph begin. backend=full, num_tokens_per_bs=4, bs=[7]", [], None),
        ("Capture target prefill CUDA graph begin. bs=[512]", [], None),
    ],
)
def test_capture_lines(line: str, widths: list[int], sizes: str | None) -> None:
    facts = read_log([line], [])
    assert (facts.capture_widths, facts.capture_sizes) == (widths, sizes)


def test_decode_and_nccl_lines() -> None:
    facts = read_log(
        [
            "Decode batch, #running-req: 1, accept len: 2.00, cuda graph: True, gen throughput (token/s): 3.0",
            "Decode batch, #running-req: 1, accept len: 2.00, cpu graph: False, gen throughput (token/s): 3.0",
            "h:1:2 [0] NCCL INFO NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 24)",
            "h:1:2 [0] NCCL INFO NVLS comm 0x55 headRank 0 nHeads 8 nvlsRanks 8 buffSize 1048576",
            "x" * 1_000_000,
        ],
        [],
    )
    assert (facts.decode_graph, facts.decode_none) == (1, 1)
    assert facts.nccl_speaks
    assert facts.nvls_buffers
    assert facts.nvls_available is True


@given(st.text(max_size=300), st.text(max_size=300))
def test_no_text_makes_it_raise(log: str, metrics: str) -> None:
    read_log(log.splitlines(), [r"(\d+)"])
    graph_passes(metrics, metrics)
    graph_passes(None, f'sglang:cuda_graph_passes_total{{mode="{metrics}"}} 1e99\n')
