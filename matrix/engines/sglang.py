"""A cell as an SGLang command line, for a given release and engine source.

Which flag a release has comes from the flag table, so the same cell is spelled differently from release to release, and
a flag that is missing makes the cell unsupported: nothing is dropped without a word.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from matrix.engines.deployment import Deployment, LaunchProblem, OptionValue, ResolvedLaunch
from matrix.engines.flags import FlagTable, dashed
from matrix.engines.overlay import Overlay
from matrix.engines.speculation import Speculation, speculate
from repro.errors import SpecError
from repro.model import Coordinates

_VARIANTS = {
    "algorithm": "ngram",
    "tp": "a number of GPUs",
    "allreduce": "nccl",
    "debuggraph": "on",
    "graphpadding": "off",
    "graphbs": "batch sizes, separated by dots",
}


@dataclass(kw_only=True, slots=True)
class CommandLine:
    """A launch being made. ``options`` are by flag without dashes, in the order of the command line."""

    table: FlagTable
    release: str
    options: dict[str, OptionValue] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    problems: list[LaunchProblem] = field(default_factory=list)

    def has(self, flag: str) -> bool:
        return self.table.has(self.release, flag)

    def refuse(self, reason: str, source: str | None = None) -> None:
        self.problems.append(LaunchProblem(reason=reason, source=source or f"launch flags of SGLang {self.release}"))

    def first_of(self, *flags: str) -> str:
        """The first flag that the release has, else the first: the check of the whole command line then names it."""
        return next((flag for flag in flags if self.has(flag)), flags[0])


def resolve(
    coordinates: Coordinates, *, deployment: Deployment, overlay: Overlay, version: str, cell: str = "{cell}"
) -> ResolvedLaunch:
    """How the cell is launched; with the problems that make it unsupported, if there are any. Pure.

    ``cell`` is not used here: only the simulated engine is told which cell it plays. Raises SpecError for an unknown
    release or variant.
    """
    del cell
    table = FlagTable.load()
    line = CommandLine(table=table, release=flag_release(table, version, overlay))
    speculation = speculate(coordinates, deployment=deployment, overlay=overlay)
    line.problems += speculation.problems
    line.options["model-path"] = deployment.model
    line.options["host"] = deployment.host
    line.options["port"] = deployment.port
    add_server(line, coordinates, deployment)
    add_speculation(line, speculation, deployment)
    add_graph(line, coordinates, deployment)
    _add_nvls(line, coordinates, deployment)
    add_allreduce(line, coordinates)
    add_deployment(line, deployment, overlay)
    words = to_words(line.options)
    added = {flag.name: flag.takes_value for flag in overlay.added_flags}
    for problem in table.check_argv(line.release, words, added=added, removed=overlay.removed_flags):
        line.refuse(problem)
    return ResolvedLaunch(
        argv=(deployment.python, "-m", "sglang.launch_server", *words),
        environment=dict(sorted(line.environment.items())),
        expectation=speculation.expectation,
        problems=tuple(line.problems),
        returns_logprobs=speculation.returns_logprobs,
    )


def flag_release(table: FlagTable, version: str, overlay: Overlay) -> str:
    """The release whose flags hold for this engine version: itself, without a local suffix, or the overlay's base.

    Raises SpecError if neither is a known release.
    """
    public = version.partition("+")[0]
    if table.knows(public):
        return public
    if overlay.base_release is not None:
        table.flags_of(overlay.base_release)  # a misspelt base is named here
        return overlay.base_release
    table.flags_of(public)
    return public


def add_server(line: CommandLine, coordinates: Coordinates, deployment: Deployment) -> None:
    """Size of the server and its metrics. Raises SpecError for an unknown variant: a misspelt one must not be lost."""
    unknown = set(coordinates.variant) - set(_VARIANTS)
    if unknown:
        known = ", ".join(f"{name} ({what})" for name, what in sorted(_VARIANTS.items()))
        raise SpecError(f"unknown variant {min(unknown)!r}: known: {known}")
    line.options["tp-size"] = tensor_parallel(coordinates, deployment)
    if deployment.max_running_requests is not None:
        line.options["max-running-requests"] = deployment.max_running_requests
    line.options["enable-metrics"] = True  # without its counters no graph replay can be proven


def tensor_parallel(coordinates: Coordinates, deployment: Deployment) -> int:
    """The cell's tensor parallel size: the variant's, else the deployment's. Raises SpecError if it is no number."""
    text = coordinates.variant.get("tp")
    if text is None:
        return deployment.tensor_parallel
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise SpecError(f"variant tp={text}: give a number of GPUs, such as tp=1")
    return int(text)


def add_speculation(line: CommandLine, speculation: Speculation, deployment: Deployment) -> None:
    """The overlay's options for the shape, and the draft's window under the name that the release gives it."""
    line.options.update(speculation.options)
    line.environment.update(speculation.environment)
    if speculation.takes_window and deployment.window is not None:
        # Renamed in 0.5.12; the old name was an alias up to 0.5.19.
        flag = line.first_of("speculative-draft-window-size", "speculative-dflash-draft-window-size")
        line.options[flag] = deployment.window


def add_graph(line: CommandLine, coordinates: Coordinates, deployment: Deployment) -> None:
    """The cell's graph mode and the graph variants, in the release's own flags."""
    variant = {name: value for name, value in coordinates.variant.items() if name in _GRAPH_VARIANTS}
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


_GRAPH_VARIANTS = ("debuggraph", "graphbs", "graphpadding")


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
        raise SpecError(f"unknown variant {name}={value}: {name} takes {_VARIANTS[name]}")


def _add_nvls(line: CommandLine, coordinates: Coordinates, deployment: Deployment) -> None:
    """NVLS on by SGLang's flag; off also in the environment, so that a value is not inherited from the host's.

    SGLang sets NCCL_NVLS_ENABLE to 1 with the flag, and to 0 only where it is unset (`srt/entrypoints/engine.py`,
    _set_envs_and_config).
    """
    if coordinates.nvls == "nonvls":
        line.environment["NCCL_NVLS_ENABLE"] = "0"
        return
    line.options["enable-nccl-nvls"] = True
    line.environment["NCCL_NVLS_ENABLE"] = "1"
    if tensor_parallel(coordinates, deployment) == 1:
        line.refuse("NVLS at tensor parallel size 1: there is no collective that could use it", "NCCL's documentation")


def add_allreduce(line: CommandLine, coordinates: Coordinates) -> None:
    """`allreduce=nccl`: without custom and fused all-reduce the decode-size ones take NCCL, hence NVLS if it is on."""
    value = coordinates.variant.get("allreduce")
    if value is None:
        return
    if value != "nccl":
        raise SpecError(f"unknown variant allreduce={value}: allreduce takes {_VARIANTS['allreduce']}")
    line.options["disable-custom-all-reduce"] = True
    # Before 0.5.10 the fused one was no default that needed an off switch.
    if line.has("enforce-disable-flashinfer-allreduce-fusion"):
        line.options["enforce-disable-flashinfer-allreduce-fusion"] = True


def add_deployment(line: CommandLine, deployment: Deployment, overlay: Overlay) -> None:
    """What all cells share, below what the cell decides; a problem where the deployment says otherwise."""
    chat = deployment.chat
    for flag, text in (
        ("chat-template", chat.template),
        ("reasoning-parser", chat.reasoning_parser),
        ("tool-call-parser", chat.tool_call_parser),
    ):
        if text is not None:
            line.options[flag] = text
    for flag, value in sorted(deployment.options.items()):
        decided = line.options.setdefault(flag, value)
        if to_words({flag: decided}) != to_words({flag: value}):
            line.refuse(f"the deployment gives {flag} = {value}, but the cell needs {decided}", "the matrix spec")
    shared = {**overlay.environment, **deployment.environment}
    for name, text in shared.items():
        if line.environment.setdefault(name, text) != text:
            line.refuse(
                f"the deployment gives {name}={text}, but the cell needs {line.environment[name]}", "the matrix spec"
            )
    if "SGLANG_SIMULATE_ACC_LEN" in shared:
        line.refuse("SGLANG_SIMULATE_ACC_LEN fakes the acceptance: take it out of the environment", "SGLang")


def to_words(options: Mapping[str, OptionValue]) -> tuple[str, ...]:
    """Options as words of a command line: True is the bare flag, False nothing, a list several words."""
    words: list[str] = []
    for flag, value in options.items():
        if value is False:
            continue
        words.append(dashed(flag))
        if value is True:
            continue
        words += [str(value)] if isinstance(value, str | int | float) else [str(part) for part in value]
    return tuple(words)
