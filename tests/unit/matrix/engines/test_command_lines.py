"""Cells as command lines: golden lines per release and source, and what makes a cell unsupported.

`GRAPHREPRO_UPDATE_GOLDEN=1 pytest` on this file writes `command_lines.txt` anew; read the difference.
"""

import dataclasses
import os
from pathlib import Path

import pytest

from matrix.cell import Defaults, make_cell
from matrix.engines import RESOLVERS
from matrix.engines.deployment import ChatSettings, Deployment, OptionValue, ResolvedLaunch
from matrix.engines.flags import FlagTable
from matrix.engines.overlay import Overlay, load_overlay
from repro.errors import SpecError
from repro.model import Coordinates, Graph, Nvls

GOLDEN = Path(__file__).with_name("command_lines.txt")
DEFAULTS = Defaults(architecture="sm_103", tier="full", engine_source="pr29907")
B300 = Deployment(
    draft_model="{draft_model}",
    tensor_parallel=8,
    window=2048,
    block_size=8,
    max_running_requests=128,
    graph_max_batch=128,
    options={"trust-remote-code": True, "page-size": 1, "attention-backend": "triton", "decode-log-interval": 1},
)
RELEASES = ("0.5.15.post1", "0.5.18", "0.5.20", "0.5.23")


def resolved(
    token: str,
    graph: Graph = "graph",
    nvls: Nvls = "nvls",
    *,
    source: str = "pr29907",
    version: str = "0.5.15.post1",
    variant: dict[str, str] | None = None,
    deployment: Deployment = B300,
    overlay: Overlay | None = None,
) -> ResolvedLaunch:
    overlay = overlay or load_overlay(source)
    cell = make_cell(token, graph=graph, nvls=nvls, defaults=DEFAULTS, engine_source=source, variant=variant)
    return RESOLVERS[overlay.engine](
        cell.coordinates, deployment=deployment, overlay=overlay, version=version, cell=cell.id
    )


def reasons(launch: ResolvedLaunch) -> str:
    return " | ".join(problem.reason for problem in launch.problems)


def _golden() -> str:
    blocks = []
    cells: list[tuple[str, Graph, Nvls, dict[str, str]]] = [
        ("b16t8", "graph", "nvls", {}),
        ("b16t8", "eager", "nonvls", {}),
        ("b8t4", "verify-eager", "nvls", {}),
        ("c7", "graph", "nonvls", {}),
        ("n8", "graph", "nvls", {}),
        ("ar", "graph", "nonvls", {}),
        ("b8t4", "graph", "nvls", {"allreduce": "nccl"}),
        ("b16t8", "graph", "nonvls", {"tp": "1", "debuggraph": "on", "graphbs": "1.2"}),
    ]
    for source in ("stock", "pr29907", "cpu-ddtree", "simulated"):
        for version in RELEASES if source != "simulated" else ("1",):
            for token, graph, nvls, variant in cells:
                launch = resolved(token, graph, nvls, source=source, version=version, variant=variant)
                name = make_cell(token, graph=graph, nvls=nvls, defaults=DEFAULTS, variant=variant).id
                lines = [f"# {source} {version} {name}", *(f"! {problem.reason}" for problem in launch.problems)]
                if not launch.problems:
                    words = [f"{key}={value}" for key, value in launch.environment.items()] + list(launch.argv)
                    lines += [" ".join(words)]
                if launch.expectation.note:
                    lines.append(f"~ {launch.expectation.note}")
                blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def test_golden_command_lines() -> None:
    text = _golden()
    if os.environ.get("GRAPHREPRO_UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("version", FlagTable.load().versions)
@pytest.mark.parametrize("source", ["stock", "pr29907", "cpu-ddtree"])
def test_every_flag_exists_in_its_release(version: str, source: str) -> None:
    table, overlay = FlagTable.load(), load_overlay(source)
    known = table.flags_of(version) | {f"--{flag.name}" for flag in overlay.added_flags}
    graphs: tuple[Graph, ...] = ("graph", "eager", "verify-eager")
    for token in ("ar", "c7", "n8", "b16t8"):
        for graph in graphs:
            launch = resolved(token, graph, source=source, version=version)
            if not launch.problems:
                assert {word for word in launch.argv if word.startswith("--")} <= known


def test_the_window_changes_its_name() -> None:
    assert "--speculative-dflash-draft-window-size" in resolved("c7", version="0.5.11").argv
    assert "--speculative-draft-window-size" in resolved("c7", version="0.5.12").argv
    assert not any("window" in word for word in resolved("ar").argv)


def test_eager_switches_off_every_graph() -> None:
    assert resolved("ar", "eager", source="stock", version="0.5.9").argv.count("--disable-cuda-graph") == 1
    for version in ("0.5.10", "0.5.15.post1", "0.5.19"):
        argv = resolved("ar", "eager", source="stock", version=version).argv
        assert {"--disable-cuda-graph", "--disable-piecewise-cuda-graph"} <= set(argv)
    argv = resolved("ar", "eager", source="stock", version="0.5.20").argv
    assert argv[argv.index("--cuda-graph-backend-prefill") + 1] == "disabled"
    assert "--disable-cuda-graph" not in argv


def test_verify_eager_needs_a_flag_of_its_own() -> None:
    assert "from 0.5.14" in reasons(resolved("ar", "verify-eager", source="stock", version="0.5.13"))
    assert not resolved("ar", "verify-eager", source="stock", version="0.5.14").problems


def test_nvls_off_is_said_in_the_environment() -> None:
    assert resolved("b8t4", nvls="nonvls").environment["NCCL_NVLS_ENABLE"] == "0"
    launch = resolved("b8t4", nvls="nvls")
    assert launch.environment["NCCL_NVLS_ENABLE"] == "1"
    assert "--enable-nccl-nvls" in launch.argv
    assert "tensor parallel size 1" in reasons(resolved("b8t4", variant={"tp": "1"}))


def test_nccl_all_reduce_where_the_off_switch_exists() -> None:
    both = {"--disable-custom-all-reduce", "--enforce-disable-flashinfer-allreduce-fusion"}
    assert both <= set(resolved("n8", source="stock", variant={"allreduce": "nccl"}).argv)
    old = resolved("n8", source="stock", version="0.5.9", variant={"allreduce": "nccl"})
    assert not old.problems
    assert both - set(old.argv) == {"--enforce-disable-flashinfer-allreduce-fusion"}


def test_graph_variants() -> None:
    argv = resolved("n8", source="stock", variant={"graphbs": "1"}).argv
    assert argv[argv.index("--cuda-graph-bs-decode") + 1] == "1"
    assert "--cuda-graph-max-bs-decode" not in argv
    argv = resolved("n8", source="stock", variant={"debuggraph": "on", "graphpadding": "off"}).argv
    assert {"--debug-cuda-graph", "--disable-cuda-graph-padding"} <= set(argv)
    old = resolved("n8", source="stock", version="0.5.10", variant={"debuggraph": "on"})
    assert "SGLang 0.5.10 has no flag --debug-cuda-graph" in reasons(old)
    assert "needs a cell with CUDA graphs" in reasons(resolved("n8", "eager", source="stock", variant={"graphbs": "1"}))


@pytest.mark.parametrize(
    "variant",
    [{"tpp": "1"}, {"tp": "one"}, {"tp": "0"}, {"allreduce": "ring"}, {"graphbs": "0"}, {"debuggraph": "off"}],
)
@pytest.mark.parametrize("source", ["stock", "simulated"])
def test_a_wrong_variant_is_an_error(source: str, variant: dict[str, str]) -> None:
    with pytest.raises(SpecError, match="variant"):
        resolved("n8", source=source, variant=variant)


def test_a_chain_of_ngram_is_an_error() -> None:
    coordinates = Coordinates(
        budget=7,
        topk=1,
        shape="chain",
        graph="graph",
        nvls="nvls",
        tier="full",
        engine_source="stock",
        variant={"algorithm": "ngram"},
    )
    with pytest.raises(SpecError, match="only ngram trees"):
        RESOLVERS["sglang"](coordinates, deployment=B300, overlay=load_overlay("stock"), version="0.5.23")


def test_what_the_source_makes_of_the_request() -> None:
    expectation = resolved("b16t8").expectation
    assert (expectation.algorithm, expectation.width) == ("DDTREE", 17)
    assert (expectation.topk_requested, expectation.topk_effective) == (8, 3)
    assert expectation.note == "pr29907 makes top-k 3 of the requested 8 at budget 16"
    assert resolved("b16t8").environment["SGLANG_DDTREE_MAX_TOPK"] == "8"
    assert not resolved("b16t8").returns_logprobs
    spine = resolved("b7").expectation
    assert (spine.topk_requested, spine.topk_effective) == (None, None)
    assert spine.note == "no top-k is requested; pr29907 makes it 1"
    chain = resolved("c7").expectation
    assert (chain.algorithm, chain.width, chain.topk_effective, chain.window) == ("DFLASH", 8, 1, 2048)
    assert "block size is 8" in (resolved("c4").expectation.note or "")
    tree = resolved("b16t8", "eager", "nonvls", source="cpu-ddtree", version="0.5.23").expectation
    assert (tree.topk_effective, tree.window, tree.note) == (8, None, None)
    assert resolved("ar").expectation.width is None
    blind = resolved("b16t8", deployment=dataclasses.replace(B300, block_size=None)).expectation
    assert blind.topk_effective is None
    assert "block size is not known" in (blind.note or "")


def test_what_a_source_cannot_do() -> None:
    assert reasons(resolved("b8t4", source="stock")).startswith("engine source 'stock' has no tree speculation")
    assert "needs a draft model" in reasons(resolved("b8t4", deployment=dataclasses.replace(B300, draft_model=None)))
    assert "DFLASH" in reasons(resolved("c7", source="stock", version="0.5.9"))


def test_the_source_constrains_the_deployment() -> None:
    without = dataclasses.replace(B300, options={})
    argv = resolved("b8t4", deployment=without).argv
    assert argv[argv.index("--page-size") + 1] == "1"
    assert "--page-size" not in resolved("c7", deployment=without).argv
    paged = resolved("b8t4", deployment=dataclasses.replace(B300, options={"page-size": 64}))
    assert "only page size 1, but the deployment gives page-size = 64" in reasons(paged)
    sampling = dataclasses.replace(B300, options={"speculative-use-rejection-sampling": True})
    assert "does not support rejection sampling" in reasons(resolved("b8t4", deployment=sampling))


def test_the_cell_and_the_deployment_may_not_contradict() -> None:
    options = {"cuda-graph-backend-decode": "full", "cuda-graph-backend-prefill": "disabled"}
    deployment = dataclasses.replace(B300, options=options)
    launch = resolved("ar", "eager", source="stock", version="0.5.23", deployment=deployment)
    assert reasons(launch) == "the deployment gives cuda-graph-backend-decode = full, but the cell needs disabled"
    inherited = dataclasses.replace(B300, environment={"NCCL_NVLS_ENABLE": "1"})
    assert "NCCL_NVLS_ENABLE=1, but the cell needs 0" in reasons(resolved("ar", nvls="nonvls", deployment=inherited))
    faked = dataclasses.replace(B300, environment={"SGLANG_SIMULATE_ACC_LEN": "4"})
    assert "fakes the acceptance" in reasons(resolved("ar", deployment=faked))


@pytest.mark.parametrize(
    ("options", "token", "graph", "said"),
    [
        ({"cuda-graph-config": "{}"}, "n8", "graph", "overrules the cell's graph mode"),
        ({"disable-cuda-graph": True}, "n8", "graph", "the cell is to replay graphs"),
        ({"enable-symm-mem": True}, "n8", "graph", "the cell is to run without NVLS"),
        ({"speculative-algorithm": "NGRAM"}, "ar", "graph", "the cell is to run without speculation"),
        ({"tensor-parallel-size": 4}, "ar", "graph", "gives tensor-parallel-size = 4, but the cell needs 8"),
        ({"disable-cuda-graph": False, "enable-symm-mem": False}, "n8", "graph", ""),
        ({"tensor-parallel-size": 8}, "ar", "eager", ""),
    ],
)
@pytest.mark.parametrize("source", ["stock", "simulated"])
def test_the_deployment_may_not_overrule_the_cell(
    source: str, options: dict[str, OptionValue], token: str, graph: Graph, said: str
) -> None:
    deployment = dataclasses.replace(B300, options=options)
    launch = resolved(token, graph, "nonvls", source=source, version="0.5.23", deployment=deployment)
    assert said in reasons(launch)
    assert bool(launch.problems) is bool(said)


def test_a_flag_of_the_deployment_that_the_release_lacks() -> None:
    deployment = dataclasses.replace(B300, options={"cuda-graph-max-bs": 8})
    assert "ambiguous" in reasons(resolved("ar", source="stock", version="0.5.23", deployment=deployment))


def test_chat_settings_and_lists() -> None:
    deployment = dataclasses.replace(
        B300, chat=ChatSettings(reasoning_parser="kimi", template="x.jinja"), graph_batch_sizes=(1, 2, 8)
    )
    argv = resolved("ar", source="stock", version="0.5.23", deployment=deployment).argv
    assert argv[argv.index("--reasoning-parser") + 1] == "kimi"
    assert argv[argv.index("--chat-template") + 1] == "x.jinja"
    place = argv.index("--cuda-graph-bs-decode")
    assert argv[place + 1 : place + 4] == ("1", "2", "8")


def test_private_versions() -> None:
    assert not resolved("b8t4", version="0.5.16.dev12+gabc").problems  # the overlay's base release holds
    assert not resolved("n8", source="stock", version="0.5.23+ours").problems
    with pytest.raises(SpecError, match=r"unknown SGLang release '0\.5\.16\.dev12'"):
        resolved("n8", source="stock", version="0.5.16.dev12")
    misspelt = dataclasses.replace(load_overlay("pr29907"), base_release="0.5.15.post2")
    with pytest.raises(SpecError, match=r"unknown SGLang release '0\.5\.15\.post2'"):
        resolved("b8t4", version="dev", overlay=misspelt)


def test_the_simulated_engine_is_told_its_cell_and_launch() -> None:
    launch = resolved("b16t8", source="simulated", version="1")
    assert launch.argv[:3] == ("{python}", "{payload}", "simulated")
    assert launch.argv[launch.argv.index("--cell") + 1] == "sm_103-b16t8-graph-nvls+simulated"
    assert launch.argv[launch.argv.index("--launch") + 1] == "{attempt}"
    assert not launch.problems
