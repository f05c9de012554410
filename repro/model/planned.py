"""What is to be run: cells, plans, steps, runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from repro.model.words import CheckName, Depth, Graph, Nvls, Phase, Role, Scalar, Shape, SkipState, Tier


@dataclass(frozen=True, kw_only=True, slots=True)
class Coordinates:
    """One point of the matrix. ``budget`` 0 is no speculation (``ar``, shape ``none``)."""

    budget: int
    topk: int | None
    shape: Shape
    graph: Graph
    nvls: Nvls
    tier: Tier
    engine_source: str
    variant: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A point with its id, which is a function of the coordinates and of the spec's defaults alone."""

    id: str
    coordinates: Coordinates


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedCell:
    """A cell as `matrix list` shows it. ``reason`` and ``source`` are given when it is unsupported."""

    id: str
    coordinates: Coordinates
    state: Literal["planned", "unsupported"]
    reason: str | None
    source: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CellList:
    target: str
    cells: tuple[ListedCell, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """``source``: `stock`, or the name of an overlay such as `pr29907` or `cpu-ddtree`."""

    name: Literal["sglang", "simulated"]
    version: str
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Planted:
    """A fault put into an attempt on purpose. ``number`` is None when the fault's own default holds."""

    fault: str
    number: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PlantedRule:
    """`--inject CELLGLOB=FAULT[:N]`: which cells get which fault."""

    cells: str
    fault: str
    number: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeats:
    """How often each level of `throughput` is measured: ``warm_up`` rounds that are not counted, then at least
    ``at_least`` and at most ``at_most`` rounds, until the 95 % t-interval of the total rate lies within ``relative`` of
    its mean on either side."""

    warm_up: int
    at_least: int
    at_most: int
    relative: float


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckPlan:
    """One check of a step. A check that cannot apply has ``applicable`` False and says why; it is not judged. In a plan
    it may still have prompts, because other checks are judged by them; `step.json`, which only says what to send, calls
    it applicable then.

    ``prompts`` 0 means that the check sends nothing of its own and is judged from the others' evidence (`acceptance`
    reads the requests of `lossless`). At concurrency c a check sends max(prompts, 2 c) requests when c > 1, going round
    the prompts, else each prompt once. ``margins`` asks for a second pass, at concurrency 1, with the top-2
    log-probabilities of every output token. ``tie_margin`` (nats) is the gap below which a first difference is a tie.
    ``repeats`` is for `throughput` alone. ``cancel_every``: each n-th request of `load` is given up by the client
    in mid-way; None for no request. ``peer`` names a load generator that measures beside our own.
    """

    check: CheckName
    applicable: bool
    reason: str | None
    prompts: int
    max_new_tokens: int
    concurrency: tuple[int, ...]
    margins: bool
    tie_margin: float | None
    repeats: Repeats | None
    cancel_every: int | None
    peer: Literal["sglang.bench_serving"] | None
    limit_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseLimit:
    phase: Phase
    limit_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Expectation:
    """What the engine must prove about itself for the cell to count.

    ``width`` is the number of query rows a request has in a verify step (budget + 1); None without speculation.
    ``topk_effective`` is what the engine source makes of ``topk_requested``; ``note`` says so when they differ.
    """

    algorithm: str | None
    width: int | None
    topk_requested: int | None
    topk_effective: int | None
    window: int | None
    graph: Graph
    nvls: Nvls
    note: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanStep:
    """A cell with everything resolved that can be resolved without the machine.

    ``argv`` and ``environment`` may hold the placeholders ``{python}``, ``{port}``, ``{model}``, ``{draft_model}``,
    ``{payload}`` and ``{script}``; the attempt's own `step.json` has none. ``image`` is an image digest, or None for an
    environment on the host.
    """

    cell: str
    coordinates: Coordinates
    role: Role
    engine: Engine
    image: str | None
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    checks: tuple[CheckPlan, ...]
    limits: tuple[PhaseLimit, ...]
    launches: int
    expectation: Expectation
    planted: Planted | None
    forecast_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Skip:
    cell: str
    state: SkipState
    reason: str
    source: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """``hours`` as expected; ``hours_worst`` if every phase and check ran into its limit."""

    launches: int
    hours: float
    hours_worst: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    target: str
    architecture: str
    depth: Depth
    spec_sha256: str
    prompts_sha256: str
    load_shape: str
    steps: tuple[PlanStep, ...]
    skips: tuple[Skip, ...]
    forecast: Forecast


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """Exactly one of ``text`` and ``input_ids`` is given."""

    id: str
    text: str | None
    input_ids: tuple[int, ...] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptSet:
    name: str
    source: str
    prompts: tuple[Prompt, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """An output that is to be rescored: what some arm of the run answered to a prompt. Equal answers are one text."""

    id: str
    prompt: str
    output_ids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseMark:
    """The phase begins when a log line holds one of ``texts``."""

    phase: Phase
    texts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class StopLadder:
    """Seconds to wait after each signal on the way to the end of a server.

    One that hangs gets all of them: its stacks are taken for at most ``dump_s``, and ``dump_signal``, if the engine has
    one, makes it dump what it knows, for as long again; then SIGINT and SIGTERM to the launcher, and SIGKILL to all
    that is left. Any other begins with SIGTERM.
    """

    dump_s: float
    dump_signal: Literal["SIGQUIT"] | None
    int_s: float
    term_s: float
    kill_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """`step.json`: all that the attempt program is told. Nothing in it is a placeholder.

    ``tasks`` are the questions of `coding`, sent to the chat endpoint with the template options ``chat``; ``texts``
    what `rescoring` scores, known only once the other launches of the run have ended.
    ``explains``: an attempt with evidence hooks armed names the attempt of its cell that it explains; None for a
    measured one.
    """

    run_id: str
    target: str
    cell: str
    attempt: int
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    host: str
    port: int
    checks: tuple[CheckPlan, ...]
    prompts: tuple[Prompt, ...]
    tasks: tuple[Prompt, ...]
    chat: Mapping[str, Scalar]
    texts: tuple[Text, ...]
    limits: tuple[PhaseLimit, ...]
    marks: tuple[PhaseMark, ...]
    stop: StopLadder
    planted: Planted | None
    explains: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """`run.json`: an invocation of a plan, written at its start. A non-empty ``planted`` marks a test of the tool.
    ``armed_relaunch``: a failing cell was to be launched once more, with evidence hooks armed."""

    run_id: str
    target: str
    created_at: str
    tool_version: str
    runtime: Literal["local", "docker", "slurm"]
    depth: Depth
    plan_sha256: str
    planted: tuple[PlantedRule, ...]
    armed_relaunch: bool
