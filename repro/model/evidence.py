"""What the attempt program leaves beside the engine."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from repro.model.words import CheckName, Phase


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
