"""A command line in the making, and the parts of it that the real and the simulated engine share."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from matrix.engines.deployment import Deployment, LaunchProblem, OptionValue
from matrix.engines.flags import FlagTable, dashed
from matrix.engines.overlay import Overlay
from matrix.engines.speculation import Speculation
from repro.errors import SpecError
from repro.model import Coordinates

VARIANTS = {
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


def add_server(line: CommandLine, coordinates: Coordinates, deployment: Deployment) -> None:
    """Size of the server and its metrics. Raises SpecError for an unknown variant: a misspelt one must not be lost."""
    unknown = set(coordinates.variant) - set(VARIANTS)
    if unknown:
        known = ", ".join(f"{name} ({what})" for name, what in sorted(VARIANTS.items()))
        raise SpecError(f"unknown variant {min(unknown)!r}: known: {known}")
    line.options[line.table.name_of(line.release, "tp-size")] = tensor_parallel(coordinates, deployment)
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


def add_allreduce(line: CommandLine, coordinates: Coordinates) -> None:
    """`allreduce=nccl`: without custom and fused all-reduce the decode-size ones take NCCL, hence NVLS if it is on."""
    value = coordinates.variant.get("allreduce")
    if value is None:
        return
    if value != "nccl":
        raise SpecError(f"unknown variant allreduce={value}: allreduce takes {VARIANTS['allreduce']}")
    line.options["disable-custom-all-reduce"] = True
    # Before 0.5.10 the fused one was no default that needed an off switch.
    if line.has("enforce-disable-flashinfer-allreduce-fusion"):
        line.options["enforce-disable-flashinfer-allreduce-fusion"] = True


def add_deployment(line: CommandLine, deployment: Deployment, overlay: Overlay, coordinates: Coordinates) -> None:
    """What all cells share, below what the cell decides; a problem where the deployment says otherwise."""
    chat = deployment.chat
    for flag, text in (
        ("chat-template", chat.template),
        ("reasoning-parser", chat.reasoning_parser),
        ("tool-call-parser", chat.tool_call_parser),
    ):
        if text is not None:
            line.options[flag] = text
    overruling = _decided_by(coordinates)
    for flag, value in sorted(deployment.options.items()):
        name = line.table.name_of(line.release, flag)
        decided = line.options.setdefault(name, value)
        if decided is not value and to_words({name: decided}) != to_words({name: value}):
            line.refuse(f"the deployment gives {flag} = {value}, but the cell needs {decided}", "the matrix spec")
        elif value is not False and flag in overruling:
            line.refuse(f"the deployment gives {flag}, but {overruling[flag]}", "the matrix spec")
    shared = {**overlay.environment, **deployment.environment}
    for name, text in shared.items():
        if line.environment.setdefault(name, text) != text:
            line.refuse(
                f"the deployment gives {name}={text}, but the cell needs {line.environment[name]}", "the matrix spec"
            )
    if "SGLANG_SIMULATE_ACC_LEN" in shared:
        line.refuse("SGLANG_SIMULATE_ACC_LEN fakes the acceptance: take it out of the environment", "SGLang")


def _decided_by(coordinates: Coordinates) -> Mapping[str, str]:
    """Flags that would silently overrule the cell, and why they may not be in its deployment."""
    decided = {"cuda-graph-config": "it overrules the cell's graph mode"}
    if coordinates.graph == "graph":
        off = ("disable-cuda-graph", "disable-decode-cuda-graph")
        decided |= dict.fromkeys(off, "the cell is to replay graphs")
    if coordinates.nvls == "nonvls":
        # Both make SGLang set NCCL_NVLS_ENABLE to 1.
        decided |= dict.fromkeys(("enable-nccl-nvls", "enable-symm-mem"), "the cell is to run without NVLS")
    if coordinates.shape == "none":
        decided["speculative-algorithm"] = "the cell is to run without speculation"
    return decided


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
