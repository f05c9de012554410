"""A deployment: everything about the server that does not differ from cell to cell, and what a cell becomes on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from repro.model import Expectation

OptionValue: TypeAlias = str | int | float | bool | Sequence[str | int | float]
"""True: the bare flag; False: the flag is not given; a list: several values after one flag."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatSettings:
    """How chat requests become text. ``template_options`` are sent with each request, as `chat_template_kwargs`."""

    template: str | None = None
    reasoning_parser: str | None = None
    tool_call_parser: str | None = None
    template_options: Mapping[str, str | int | bool] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployment:
    """What every cell of a target shares. Texts in braces are placeholders, filled in where the step runs.

    ``options`` maps a flag, without its dashes, to its value. It should hold none that a cell decides (speculation,
    graphs, NVLS, tensor parallel size): those have fields here or come from the overlay, and a conflict between the
    two makes the cell unsupported. ``graph_batch_sizes`` lists the batch sizes to capture; when it is empty,
    ``graph_max_batch`` bounds them, and None leaves the choice to the engine. ``window`` is the draft's attention
    window and ``block_size`` the draft's block, in tokens; both None without a block draft.
    """

    python: str = "{python}"
    model: str = "{model}"
    draft_model: str | None = None
    host: str = "127.0.0.1"
    port: str = "{port}"
    payload: str = "{payload}"
    script: str = "{script}"
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    graph_batch_sizes: tuple[int, ...] = ()
    graph_max_batch: int | None = None
    tensor_parallel: int = 1
    window: int | None = None
    block_size: int | None = None
    max_running_requests: int | None = None
    chat: ChatSettings = field(default_factory=ChatSettings)


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchProblem:
    """Why a cell cannot be launched as asked: it makes the cell `unsupported`, with this reason and its source."""

    reason: str
    source: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedLaunch:
    """How a cell is launched. With ``problems``, the cell is unsupported and the argv is only what could be made.

    ``returns_logprobs`` is False where the algorithm rejects requests that ask for log-probabilities.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    expectation: Expectation
    problems: tuple[LaunchProblem, ...]
    returns_logprobs: bool
