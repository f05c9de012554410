"""What happened: environments, diagnoses, scores, results."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from repro.model.planned import Coordinates, Engine, Expectation, Planted
from repro.model.words import CheckName, CheckState, Outcome, Phase, Role, Scalar


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
