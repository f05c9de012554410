"""The records: one frozen dataclass for each fact that is stored.

Rules that hold for all of them:

- No field has a default. What is unknown is ``None``, and a reason stands beside it.
- Sequences are tuples; mappings are read-only by convention.
- Times are seconds (``_s``) since the start of the attempt, or UTC in ISO 8601 (``_at``).
- ``RECORDS`` names the kinds that exist as files or as printed documents. Each has a JSON Schema of the same name in
  ``schemas/`` and is read and written through :mod:`repro.codec`, which adds ``record`` and ``schema_version``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Shape: TypeAlias = Literal["tree", "chain", "none"]
Graph: TypeAlias = Literal["graph", "eager", "verify-eager"]
Nvls: TypeAlias = Literal["nvls", "nonvls"]
Tier: TypeAlias = Literal["kernel", "small", "dummy", "full"]
Depth: TypeAlias = Literal["screen", "rates", "full"]
Role: TypeAlias = Literal["reference", "cell", "extra", "self-test", "reference-again"]
CheckName: TypeAlias = Literal["launch", "coding", "lossless", "acceptance", "load", "throughput", "power", "rescoring"]
CheckState: TypeAlias = Literal["pass", "fail", "inconclusive", "not_run", "not_applicable"]
Outcome: TypeAlias = Literal[
    "completed", "crashed", "hung", "refused", "oom", "killed", "runtime_error", "lost", "bad_evidence"
]
VerdictName: TypeAlias = Literal["pass", "fail", "corrupt", "inconclusive", "void", "unsupported", "not_run"]
Phase: TypeAlias = Literal[
    "image_build",
    "container_start",
    "launch",
    "weights_load",
    "graph_capture",
    "warmup",
    "serving",
    "shutdown",
    "none",
]
SkipState: TypeAlias = Literal["unsupported", "deselected", "over_budget"]
Scalar: TypeAlias = str | int | float | bool | None


# --- what is to be run ------------------------------------------------------------------------------------------------


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


# --- what the attempt program leaves (evidence) -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestRecord:
    """One request of a check client.

    Times are seconds since the start of the attempt. ``token_times`` holds (seconds, cumulative number of output ids)
    for each chunk that brought ids; empty when the reply was not streamed. ``margins[i]`` is the log-probability of the
    first choice minus that of the second for output token i. ``verify_calls`` and ``accept_histogram`` are the engine's
    own figures for this request. ``error`` is None exactly when the reply was complete, or was ``cancelled``: given up
    by the client on purpose, so that its ids are the beginning of an answer. ``repeat`` counts the rounds of a level
    from 1; 0 is a warm-up round. ``asked_tokens`` is the number of tokens asked for; None where it was not recorded.
    """

    prompt: str
    concurrency: int
    repeat: int
    cancelled: bool
    asked_tokens: int | None
    begun_s: float
    first_token_s: float | None
    ended_s: float
    status: int | None
    error: str | None
    finish_reason: str | None
    output_ids: tuple[int, ...]
    output_text: str | None
    usage_tokens: int | None
    verify_calls: int | None
    accept_histogram: tuple[int, ...] | None
    margins: tuple[float, ...] | None
    token_times: tuple[tuple[float, int], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundCount:
    """What the server's own counters gained over one round of a level; None where it has no such counter."""

    concurrency: int
    repeat: int
    generated_tokens: int | None
    finished_requests: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckEvidence:
    """`evidence/checks/<check>.json`: the raw requests of one check, in the order in which they ended."""

    check: CheckName
    begun_s: float
    ended_s: float
    complete: bool
    stopped_because: str | None
    requests: tuple[RequestRecord, ...]
    server_accept_length: float | None
    counts: tuple[RoundCount, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredText:
    """The reference's opinion of a text, for each of its output tokens: the log-probability (nats) of the token itself,
    and how far it lies below the reference's own first choice there (0: it is that choice). None: not finite, or not
    given. ``error`` is None exactly when the server scored every token."""

    id: str
    error: str | None
    prompt_tokens: int | None
    logprobs: tuple[float | None, ...]
    gaps: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RescoreEvidence:
    """`evidence/rescoring.json`: the texts of the step, scored by this launch."""

    begun_s: float
    ended_s: float
    complete: bool
    stopped_because: str | None
    texts: tuple[ScoredText, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskOutcome:
    """What became of an answer to a coding task. ``code_sha256``: of the code found in the answer, None if none was."""

    task: str
    state: Literal["passed", "failed", "no_answer", "no_code", "timed_out", "out_of_memory", "crashed", "not_judged"]
    detail: str
    code_sha256: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CodingJudgement:
    """`evidence/coding.json`: the answers to the coding tasks, run against their hidden tests on the host.

    ``sandbox`` names the image that the code ran in; None, with a ``reason``, if none could be had: then nothing was
    run and every task is `not_judged`."""

    sandbox: str | None
    reason: str | None
    tasks: tuple[TaskOutcome, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PowerSample:
    at_s: float
    gpu: int
    power_w: float | None
    temperature_c: float | None
    sm_clock_mhz: float | None
    memory_used_mib: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PowerEvidence:
    """`evidence/power.json`. ``reason`` says why there are no samples; None when there are some."""

    reason: str | None
    samples: tuple[PowerSample, ...]


TimelineEvent: TypeAlias = Literal[
    "attempt-begun",
    "server-started",
    "phase-begun",
    "phase-ended",
    "phase-limit",
    "check-begun",
    "check-ended",
    "server-exited",
    "signal-sent",
    "evidence-taken",
    "interrupted",
    "port-taken",
    "not-started",
    "attempt-ended",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelineEntry:
    """One line of `evidence/timeline.jsonl`, appended as it happens; it is what survives a kill of the attempt program.

    ``status`` is the launcher's exit status as its parent sees it: negative for a signal. ``detail`` is free text for a
    person, never parsed.
    """

    at_s: float
    at: str
    event: TimelineEvent
    phase: Phase | None
    check: CheckName | None
    status: int | None
    detail: str | None


# --- what happened ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """A fact about the machine or the engine. ``verified``: read from the thing itself; ``declared``: taken from the
    spec; ``unknown``: value None, ``reason`` says why."""

    value: Scalar
    status: Literal["verified", "declared", "unknown"]
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """On what an attempt ran: the fields of the comparability key and more, by name; and the engine's packages."""

    facts: Mapping[str, Fact]
    packages: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLine:
    """``offset_bytes`` is where the line starts in the file, ``line`` counts from 1."""

    file: str
    line: int
    offset_bytes: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Component:
    kernel: str | None
    function: str | None
    file: str | None
    rank: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """What makes two failures the same one; an unlocated ``subsystem`` (None) matches any."""

    kind: str
    phase: Literal["start", "capture", "serving", "shutdown", "none"]
    subsystem: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """What a log says. ``kind`` is one of the kinds in `docs/diagnosis.md`."""

    kind: str
    phase: Phase
    role: Literal["root", "symptom", "none"]
    component: Component
    confidence: Literal["high", "medium", "low"]
    evidence: tuple[LogLine, ...]
    follow_ons: tuple[LogLine, ...]
    signature: Signature
    next_step: str
    known: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseTiming:
    phase: Phase
    state: Literal["completed", "failed", "timed_out", "interrupted"]
    begun_s: float
    ended_s: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """One statement about the configuration that really ran, and where it was read.

    ``unknown`` about ``graph_replayed``, ``width`` or ``topk`` keeps a cell from counting as much as a contradiction.
    """

    fact: str
    expected: Scalar
    observed: Scalar
    state: Literal["proven", "contradicted", "unknown"]
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """A number with its unit. ``at`` holds the conditions, such as the concurrency.

    A number that is withheld or unknown has value None and a ``reason``. ``low`` and ``high`` bound a range where the
    source states one.
    """

    name: str
    at: Mapping[str, int]
    value: float | None
    low: float | None
    high: float | None
    unit: str
    n: int | None
    basis: Literal["measured", "stated", "derived", "inferred"]
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Where the output for a prompt first leaves the reference. ``margin`` is the reference's own top-2 gap there."""

    prompt: str
    concurrency: int
    at: int
    expected: int | None
    got: int | None
    margin: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """``reason`` is a code such as `acceptance_at_floor`; ``detail`` says it in words."""

    check: CheckName
    state: CheckState
    reason: str | None
    detail: str
    measurements: tuple[Measurement, ...]
    differences: tuple[Difference, ...]
    histogram: tuple[int, ...] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class NullArm:
    """An attempt believed healthy, and how many of its tokens lie further than δ below the reference's choice."""

    cell: str
    attempt: int
    tokens: int
    above: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """What rescoring in this run is measured against.

    ``delta`` (nats): a gap above it is an exceedance. ``exact``: in this dtype rounding does not reach δ, so that a
    single exceedance is wrong. ``arms`` give the null distribution. ``alpha`` is the chance of a false alarm for one
    attempt. ``visible_share``: of wrong tokens that are the reference's second choice, how many lie above δ.
    ``detection_share``: the smallest share of wrong tokens that an attempt of ``tokens`` tokens would be caught at with
    95 % power; None if none could be computed.
    """

    dtype: str
    exact: bool
    delta: float
    alpha: float
    arms: tuple[NullArm, ...]
    tokens: int
    largest_gap: float | None
    visible_share: float | None
    detection_share: float | None
    statement: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SelfTest:
    """A fault planted where it must be found. ``place`` says where: recorded outputs, copies in the rescoring launch,
    or a launch of its own."""

    place: Literal["recorded", "copies", "launch"]
    planted: str
    state: Literal["caught", "missed", "not_run"]
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenPlace:
    """A token that the reference finds wrong: which output, where, and by how much (nats)."""

    prompt: str
    check: CheckName
    concurrency: int
    at: int
    got: int
    gap: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptScore:
    """What rescoring says of all outputs of one attempt.

    ``above`` of ``tokens`` lie further than δ below the reference's choice (``low`` to ``high``: 95 % interval of the
    share), ``longest_run`` of them in a row; ``p_value`` is that of the stated test against the null arms;
    ``perplexity`` is that of the outputs under the reference. ``places`` are the first few, worst first.
    """

    cell: str
    attempt: int
    state: Literal["sound", "wrong", "unknown"]
    reason: str | None
    detail: str
    outputs: int
    tokens: int
    above: int
    low: float | None
    high: float | None
    longest_run: int
    largest_gap: float | None
    p_value: float | None
    perplexity: float | None
    smallest_wrong_concurrency: int | None
    places: tuple[TokenPlace, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Vote:
    """Arms that answered the same prompts, and the one that differs from all others while those agree; ``odd`` is None
    if there is no such arm."""

    arms: tuple[str, ...]
    odd: str | None
    statement: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Rescoring:
    """What the last launch of a run found about all of its outputs. Without ``calibration`` nothing was judged, and
    ``reason`` says why."""

    reason: str | None
    calibration: Calibration | None
    self_tests: tuple[SelfTest, ...]
    scores: tuple[AttemptScore, ...]
    votes: tuple[Vote, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceFile:
    """``path`` is relative to the attempt's directory."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """`result.json`: what happened in one attempt, never whether it is good.

    ``explains`` as in its step: such an attempt counts in no k of n, no throughput and no baseline. ``rescoring`` is
    what this launch, the last of its run, found about the outputs of all; None in every other result.
    """

    run_id: str
    target: str
    cell: str
    coordinates: Coordinates
    role: Role
    attempt: int
    engine: Engine
    planted: Planted | None
    begun_at: str
    ended_at: str
    wall_s: float
    outcome: Outcome
    outcome_detail: str
    exit_status: int | None
    phases: tuple[PhaseTiming, ...]
    expectation: Expectation
    proof: tuple[Proof, ...]
    checks: tuple[CheckResult, ...]
    diagnosis: Diagnosis | None
    environment: Environment
    evidence: tuple[EvidenceFile, ...]
    explains: int | None
    rescoring: Rescoring | None


# --- what it means ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """`verdict.json`, derived from the run's results alone and rebuilt at will. ``reasons`` are codes."""

    run_id: str
    cell: str
    attempt: int
    verdict: VerdictName
    reasons: tuple[str, ...]
    statement: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineSource:
    """``sha256`` is the digest of the file that was imported, and ``imported_at`` when; both None for what was written
    down by hand."""

    title: str
    reference: str
    dated: str | None
    sha256: str | None
    imported_at: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineNumber:
    """A number of an earlier result, as a `Measurement` has it. ``values`` has one for each fresh launch, and is empty
    where the source does not give them apart; then it counts as a single number."""

    name: str
    at: Mapping[str, int]
    value: float | None
    low: float | None
    high: float | None
    unit: str
    n: int | None
    values: tuple[float, ...]
    basis: Literal["measured", "stated", "derived", "inferred"]
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureCount:
    """k launches failed or were corrupt, of the n that decided."""

    k: int
    n: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """An earlier result. Coordinates that the source does not state are None, with a reason in ``unknown``, which maps
    a field name to why its value is not known. ``failures`` is None where launches are not counted; ``unread`` names
    the fields of an imported file that nothing was taken from."""

    name: str
    source: BaselineSource
    target: str | None
    budget: int | None
    topk: int | None
    shape: Shape | None
    graph: Graph | None
    nvls: Nvls | None
    outcome: str | None
    stated: tuple[str, ...]
    measurements: tuple[BaselineNumber, ...]
    failures: FailureCount | None
    facts: Mapping[str, Fact]
    unknown: Mapping[str, str]
    unread: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedNumber:
    """Both sides of one number. ``change`` is None when no verdict may be given, and ``reason`` says why.

    ``ours_n`` and ``baseline_n`` count launches. ``ratio`` is that of the geometric means over launches, ours over the
    baseline's, with a 95 % interval where both sides have repeats. ``p`` is of the test of a difference, and
    ``p_corrected`` corrected for the number of tests; ``margin`` is the share within which the sides could be called
    equivalent.
    """

    name: str
    at: Mapping[str, int]
    unit: str
    ours: float | None
    ours_low: float | None
    ours_high: float | None
    ours_n: int | None
    baseline: float | None
    baseline_low: float | None
    baseline_high: float | None
    baseline_n: int | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    p: float | None
    p_corrected: float | None
    margin: float | None
    change: Literal["regression", "improvement", "equivalent", "undecided"] | None
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """A cell beside a baseline. ``cell`` is None when no run has a cell at the baseline's coordinates. ``changed`` says
    which facts differ because they are the subject of the comparison."""

    cell: str | None
    target: str | None
    baseline: str
    comparable: Literal["comparable", "unverified", "not_comparable"]
    reasons: tuple[str, ...]
    unknown: tuple[str, ...]
    changed: tuple[str, ...]
    change: Literal["regression", "improvement", "equivalent", "undecided"] | None
    numbers: tuple[ComparedNumber, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedUp:
    """How much faster a cell is than another arm at a concurrency, with the 95 % interval over launches where both have
    repeats. ``steps`` is the ratio of tokens a verify step and ``step_time`` that of the time a step takes: their
    quotient is the speed-up but for what lies outside of steps. ``step_time_basis`` says whether it was measured on
    both sides or follows from the others. ``reason`` says why there is no ratio."""

    over: Literal["ar", "chain"]
    cell: str | None
    ratio: float | None
    low: float | None
    high: float | None
    steps: float | None
    step_time: float | None
    step_time_basis: Literal["measured", "derived"] | None
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BestConfiguration:
    """The cell with the highest rate at a concurrency among those that passed and never failed. ``rate`` is the mean
    over ``n`` launches, with its 95 % interval if there are several. ``failure_bound`` is the 95 % upper bound of the
    probability that a launch fails. ``not_shown_slower`` are the other stable cells whose rate may be as high."""

    target: str
    concurrency: int
    cell: str
    rate: float
    low: float | None
    high: float | None
    unit: str
    n: int
    failure_bound: float
    not_shown_slower: tuple[str, ...]
    speedups: tuple[SpeedUp, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedLevel:
    """A tree over another arm at one concurrency; `undecided` where the interval holds 1, or there is none."""

    concurrency: int
    ratio: float
    low: float | None
    high: float | None
    state: Literal["faster", "slower", "undecided"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Crossover:
    """Where a tree stops being faster than another arm as concurrency grows: after ``last_faster`` and at the latest at
    ``first_slower``, both of them measured. `crosses` needs a decision on both; `stops_between` rests on ratios without
    a decision; the other states hold at all levels measured."""

    target: str
    cell: str
    over: Literal["ar", "chain"]
    other: str
    state: Literal["crosses", "stops_between", "always_faster", "never_faster", "mixed"]
    last_faster: int | None
    first_slower: int | None
    levels: tuple[SpeedLevel, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceLink:
    """``path`` is relative to the results directory."""

    cell: str
    attempt: int
    path: str | None
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing a human should act on. The ``id`` is a function of target, kind, signature and coordinates, so that it
    is the same in every report about the same failure.

    ``scope`` says where it holds and ``not_tested`` where that is not known, a line each; ``hypotheses`` are the
    explanations that the runs do not tell apart. ``settle`` is a command whose outcome would; None if there is none.
    ``bundle`` is the command that packs what reproduces it; None if there is nothing to pack."""

    id: str
    statement: str
    kind: str
    severity: Literal["high", "medium", "low", "info"]
    planted: bool
    cells: tuple[str, ...]
    scope: tuple[str, ...]
    not_tested: tuple[str, ...]
    evidence: tuple[EvidenceLink, ...]
    hypotheses: tuple[str, ...]
    settle: str | None
    bundle: str | None
    next: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A record that could not be used, or a thing that is missing: named and counted, never dropped."""

    path: str
    problem: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportedRun:
    run_id: str
    target: str
    created_at: str
    state: Literal["complete", "unfinished"]
    planned: int
    finished: int
    planted: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """`findings.json`."""

    tool_version: str
    runs: tuple[ReportedRun, ...]
    findings: tuple[Finding, ...]
    comparisons: tuple[Comparison, ...]
    best: tuple[BestConfiguration, ...]
    crossovers: tuple[Crossover, ...]
    problems: tuple[Problem, ...]


# --- the host ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class PausedUnit:
    """A service that a run has stopped, on disk before it is stopped, and until it is ready again.

    ``was_active`` False: it did not run before, and is never started. ``timer`` is the transient timer that starts it
    if nobody else does. ``ready_url`` answers with a 2xx status when the service is ready; None: no such address known.
    """

    unit: str
    scope: Literal["system", "user"]
    was_active: bool
    paused_at: str
    run: str
    timer: str
    ready_url: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PreflightLine:
    """One question put to the host. ``advice`` is what to do: given exactly when the state is not `ok`."""

    check: str
    state: Literal["ok", "problem", "unknown"]
    detail: str
    advice: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Preflight:
    """The host against a plan, before any GPU time is spent."""

    target: str
    runtime: Literal["local", "docker", "slurm"]
    lines: tuple[PreflightLine, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuProcess:
    """A process that holds memory of a GPU. ``ours``: it carries the attempt's label; None where nobody can tell."""

    pid: int
    memory_mib: float | None
    ours: bool | None


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuState:
    """A GPU at one moment; None where the driver does not say. ``recovery_action`` is the driver's word, such as `none`
    or `gpu_reset`; ``throttling`` names what holds the clocks down."""

    gpu: int
    temperature_c: float | None
    power_w: float | None
    power_limit_w: float | None
    sm_clock_mhz: float | None
    memory_clock_mhz: float | None
    memory_used_mib: float | None
    throttling: tuple[str, ...]
    ecc_uncorrected: int | None
    remap_pending: bool | None
    remap_failed: bool | None
    recovery_action: str | None
    processes: tuple[GpuProcess, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Xid:
    """An error that the driver reported. ``gpu`` is None if the device named is none of the host's visible GPUs."""

    code: int
    gpu: int | None
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuHealth:
    """`evidence/gpu-health.json`: all GPUs of the host around an attempt. ``suspect`` says why its hardware is not to
    be trusted, empty if nothing does; ``unknown`` what could not be read, and why."""

    before: tuple[GpuState, ...]
    after: tuple[GpuState, ...]
    xids: tuple[Xid, ...]
    suspect: tuple[str, ...]
    unknown: tuple[str, ...]


RECORDS: Mapping[str, type] = {
    "cells": CellList,
    "plan": Plan,
    "prompts": PromptSet,
    "step": Step,
    "run": Run,
    "check-evidence": CheckEvidence,
    "rescore-evidence": RescoreEvidence,
    "coding-judgement": CodingJudgement,
    "power-evidence": PowerEvidence,
    "timeline-entry": TimelineEntry,
    "environment": Environment,
    "diagnosis": Diagnosis,
    "result": Result,
    "verdict": Verdict,
    "baseline": Baseline,
    "finding": Finding,
    "findings": Findings,
    "paused-unit": PausedUnit,
    "preflight": Preflight,
    "gpu-health": GpuHealth,
}
"""Record name -> dataclass, for every kind that exists as a document of its own."""
