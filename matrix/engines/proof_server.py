"""Proof of what does not depend on the speculation: graphs, NVLS, and how the server resolved what it was told."""

from collections.abc import Mapping, Sequence

from matrix.engines.flags import FlagTable
from matrix.engines.readback import LogFacts, lookup, number, scalar
from matrix.engines.statement import INFO, LOG, Sources, judged, unknown
from repro.model import Proof, Scalar

_REWRITTEN = {("attention_backend", "intel_amx"): "torch_native"}
"""What SGLang makes of a value: without AMX operators it reports `intel_amx` as `torch_native` (seen on 0.5.23)."""


def graphs(sources: Sources) -> list[Proof]:
    graph = sources.expectation.graph
    return [_replayed(sources), _prefill_replayed(sources), _captured(sources, graph == "eager")]


def _replayed(sources: Sources) -> Proof:
    """Whether decode and verify steps replay graphs. More than half must: since 0.5.16 a step whose width was not
    captured runs eager without a word, and so does a batch that is too large."""
    expected = sources.expectation.graph == "graph"
    if sources.passes is not None:
        replayed, eager = sources.passes.of("decode_cuda_graph"), sources.passes.of("decode_none")
        where = sources.passes.source
    else:
        replayed, eager, where = sources.log.decode_graph, sources.log.decode_none, f"{LOG}: Decode batch … graph:"
    if replayed + eager == 0:
        return unknown("graph_replayed", expected, f"{where}: no decode pass is counted")
    observed = replayed > eager if expected else replayed > 0
    return judged("graph_replayed", expected, observed, f"{where}: {replayed} of {replayed + eager} decode passes")


def _prefill_replayed(sources: Sources) -> Proof:
    expected = False if sources.expectation.graph == "eager" else None
    passes = sources.passes
    if passes is None or passes.of("prefill_cuda_graph") + passes.of("prefill_none") == 0:
        return unknown("prefill_graph_replayed", expected, "/metrics: no prefill pass is counted by graph")
    replayed, eager = passes.of("prefill_cuda_graph"), passes.of("prefill_none")
    where = f"{passes.source}: {replayed} of {replayed + eager} prefill passes"
    return judged("prefill_graph_replayed", expected, replayed > 0, where)


def _captured(sources: Sources, eager: bool) -> Proof:
    expected = "" if eager else _sizes_asked(sources.argv)
    there, value = lookup(sources.info, "decode_cuda_graph_bs")
    sizes = scalar(value) if isinstance(value, list) else None
    if there and isinstance(sizes, str):
        return judged("captured_batch_sizes", expected, sizes, f"{INFO} decode_cuda_graph_bs")
    if sources.log.capture_sizes is not None:
        return judged("captured_batch_sizes", expected, sources.log.capture_sizes, f"{LOG}: Capture … bs=[…]")
    return unknown("captured_batch_sizes", expected, f"{INFO} decode_cuda_graph_bs (from 0.5.21), {LOG}")


def _sizes_asked(argv: Sequence[str]) -> str | None:
    for flag in ("--cuda-graph-bs-decode", "--cuda-graph-bs"):
        if flag in argv:
            rest = argv[argv.index(flag) + 1 :]
            end = next((place for place, word in enumerate(rest) if word.startswith("-")), len(rest))
            return ",".join(rest[:end])
    return None


def nvls(sources: Sources) -> list[Proof]:
    wanted = sources.expectation.nvls == "nvls"
    there, value = lookup(sources.info, "enable_nccl_nvls")
    where = f"{INFO} enable_nccl_nvls"
    requested = (
        judged("nvls_requested", wanted, value, where)
        if there and isinstance(value, bool)
        else unknown("nvls_requested", wanted, where)
    )
    exercised = unknown(
        "nvls_exercised", None, "no profile was taken: decode-size all-reduces usually take another path"
    )
    return [requested, _nvls_initialised(sources.log, wanted), exercised]


def _nvls_initialised(log: LogFacts, wanted: bool) -> Proof:
    where = f"{LOG}: NCCL's lines about NVLS"
    if log.nvls_buffers:
        return judged("nvls_initialised", wanted, True, where)
    if log.nvls_available is False or (log.nccl_speaks and not wanted):
        return judged("nvls_initialised", wanted, False, where)
    if log.nvls_available:
        return unknown("nvls_initialised", wanted, f"{where} say it is available, none that its buffers were set up")
    return unknown(
        "nvls_initialised", wanted, f"{where}: none (NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=INIT,NVLS show them)"
    )


def served(sources: Sources) -> list[Proof]:
    """Facts whose expected value is on the command line: compared with what the server resolved them to."""
    facts = [
        _asked("page_size", ("--page-size",), sources),
        _asked("attention_backend", ("--attention-backend",), sources),
        _asked("max_running_requests", ("--max-running-requests",), sources),
        _asked("tp_size", ("--tp-size", "--tensor-parallel-size"), sources),
    ]
    key = "effective_max_running_requests_per_dp"
    effective = number(lookup(sources.info, key)[1])
    if effective is None:
        return [*facts, unknown("max_running_requests_effective", None, f"{INFO} {key}")]
    return [*facts, judged("max_running_requests_effective", None, effective, f"{INFO} {key}")]


def _asked(key: str, flags: Sequence[str], sources: Sources) -> Proof:
    argv = sources.argv
    text = next((argv[argv.index(flag) + 1] for flag in flags if flag in argv[:-1]), None)
    expected: Scalar = number(text) if number(text) is not None else text
    there, value = lookup(sources.info, key)
    observed = number(value) if number(value) is not None else scalar(value)
    if not there or observed is None:
        return unknown(key, expected, f"{INFO} {key}")
    if isinstance(expected, str) and observed == _REWRITTEN.get((key, expected)):
        expected = observed
    return judged(key, expected, observed, f"{INFO} {key}")


def reported_version(sources: Sources, version: str | None) -> Proof:
    """Compared only where the server reports a release: a private build's version is its own affair."""
    value = lookup(sources.info, "version")[1]
    if not isinstance(value, str):
        return unknown("version", version, f"{INFO} version")
    expected = version if FlagTable.load().knows(value) else None
    return judged("version", expected, value[:200], f"{INFO} version")


def honest_acceptance(environment: Mapping[str, str] | None) -> Proof:
    """SGLANG_SIMULATE_ACC_LEN fakes acceptance; the server states it nowhere, so only its environment can tell."""
    where = "environment SGLANG_SIMULATE_ACC_LEN"
    if environment is None:
        return unknown("acceptance_simulated", False, f"{where}: the server's environment was not recorded")
    return judged("acceptance_simulated", False, "SGLANG_SIMULATE_ACC_LEN" in environment, where)
