"""The graph mode of a cell, and its graph variants, in the flags of a release."""

from collections.abc import Mapping

from matrix.engines.command_line import VARIANTS, CommandLine
from matrix.engines.deployment import Deployment, OptionValue
from repro.errors import SpecError
from repro.model import Coordinates


def add_graph(line: CommandLine, coordinates: Coordinates, deployment: Deployment) -> None:
    """The cell's graph mode and the graph variants, in the release's own flags."""
    variant = {name: value for name, value in coordinates.variant.items() if name in _GRAPHS}
    if coordinates.graph == "eager":
        line.options.update(_all_graphs_off(line))
    elif coordinates.graph == "verify-eager":
        _decode_graphs_off(line)
    else:
        _graph_sizes(line, deployment)
        for name, value in variant.items():
            _add_graph_variant(line, name, value)
        return
    for name in variant:
        line.refuse(f"variant {name} needs a cell with CUDA graphs, not {coordinates.graph}", "the matrix spec")


def _all_graphs_off(line: CommandLine) -> Mapping[str, OptionValue]:
    """Every CUDA graph off, the prefill's too.

    Up to 0.5.19 by the old switches, although 0.5.14 has new ones beside them: DFLASH's worker asked the old one about
    the draft's graphs up to 0.5.15.post1 (`srt/speculative/dflash_worker_v2.py`, init_cuda_graphs).
    """
    if line.has("cuda-graph-backend-decode") and not line.has("disable-piecewise-cuda-graph"):
        return {"cuda-graph-backend-decode": "disabled", "cuda-graph-backend-prefill": "disabled"}
    if line.has("disable-piecewise-cuda-graph"):
        return {"disable-cuda-graph": True, "disable-piecewise-cuda-graph": True}
    return {"disable-cuda-graph": True}


def _decode_graphs_off(line: CommandLine) -> None:
    if line.has("cuda-graph-backend-decode"):
        line.options["cuda-graph-backend-decode"] = "disabled"
    elif line.has("disable-decode-cuda-graph"):
        line.options["disable-decode-cuda-graph"] = True
    else:
        line.refuse(f"SGLang {line.release} cannot switch off the decode phase's graphs alone (it can from 0.5.14 on)")


def _graph_sizes(line: CommandLine, deployment: Deployment) -> None:
    if deployment.graph_batch_sizes:
        line.options[line.first_of("cuda-graph-bs-decode", "cuda-graph-bs")] = deployment.graph_batch_sizes
    elif deployment.graph_max_batch is not None:
        line.options[line.first_of("cuda-graph-max-bs-decode", "cuda-graph-max-bs")] = deployment.graph_max_batch


_GRAPHS = ("debuggraph", "graphbs", "graphpadding")


def _add_graph_variant(line: CommandLine, name: str, value: str) -> None:
    if (name, value) == ("debuggraph", "on"):
        line.options["debug-cuda-graph"] = True
    elif (name, value) == ("graphpadding", "off"):
        line.options["disable-cuda-graph-padding"] = True
    elif name == "graphbs" and all(part.isascii() and part.isdigit() and int(part) for part in value.split(".")):
        for flag in ("cuda-graph-max-bs-decode", "cuda-graph-max-bs"):
            line.options.pop(flag, None)
        sizes = tuple(int(part) for part in value.split("."))
        line.options[line.first_of("cuda-graph-bs-decode", "cuda-graph-bs")] = sizes
    else:
        raise SpecError(f"unknown variant {name}={value}: {name} takes {VARIANTS[name]}")
