"""What it means: verdicts, baselines, comparisons, findings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from repro.model.result import Fact
from repro.model.words import Graph, Nvls, Shape, VerdictName


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
