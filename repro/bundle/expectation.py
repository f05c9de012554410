"""When a launch counts as having shown a bundle's failure: made from the attempts that showed it, and tried on them."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from repro import codec
from repro.bundle.contents import Contents, GatheredAttempt
from repro.bundle.inside import judging
from repro.bundle.patterns import Redact, common_pattern
from repro.causes import causes, same_failure
from repro.model import BundleExpectation, Outcome, Phase, Result

BY_KIND = frozenset({"no_tokens", "requests_failed"})
"""Failures of a launch that came to its end which are told by its requests alone."""
_AT_FLOOR = "acceptance_at_floor"
_ANY_FAILURE: tuple[Outcome, ...] = ("crashed", "hung", "oom", "killed", "refused")
_TOGETHER: tuple[tuple[Phase, ...], ...] = (("launch", "weights_load"), ("graph_capture",), ("warmup", "serving"))
"""Phases that signatures do not tell apart either: which of them a log line falls into may depend on timing."""
_SAID: dict[str, str] = {
    "hung": "the server hangs",
    "oom": "the server runs out of memory",
    "refused": "the server refuses to start",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rule:
    """How many prompts must differ, and what that can decide, in words."""

    differing_prompts: int | None
    words: str


def expectation(contents: Contents, *, redact: Redact = str, hidden: bool = False) -> BundleExpectation:
    """The rules for the subject of the bundle; ``redact`` is what its log lines go through. ``hidden``: prompts are
    withheld, and the reference's ids with them.

    Every rule has been tried on the attempts that show the failure and on those that do not: where none tells them
    apart, ``undecided`` says why.
    """
    failing = shown(contents)
    k, n = rate(contents)
    plain = BundleExpectation(
        kind=contents.subject.signature.kind,
        signature=contents.subject.signature,
        outcomes=_ANY_FAILURE,
        phases=(),
        patterns=(),
        differing_prompts=None,
        acceptance_at_most=None,
        undecided=None,
        k=k,
        n=n,
        statement=f"no failure was seen in {_launches(n)} of {contents.first.result.cell}",
    )
    if not failing:
        return plain
    completed = failing[0].result.outcome == "completed"
    alike = [attempt for attempt in failing if (attempt.result.outcome == "completed") == completed]
    if completed:
        return _tried(_of_content(plain, contents, alike, hidden=hidden), contents, alike)
    return _tried(_of_end(plain, contents, alike, redact), contents, alike)


def shown(contents: Contents) -> list[GatheredAttempt]:
    """The attempts that show the failure, of the cell that the bundle replays."""
    cell = contents.first.result.cell
    return [attempt for attempt in contents.attempts if attempt.fails and attempt.result.cell == cell]


def rate(contents: Contents) -> tuple[int, int]:
    """(launches that showed this failure, launches that decided) of the cell that the bundle replays."""
    k = n = 0
    for result, verdict in contents.launches:
        if result.cell != contents.first.result.cell:
            continue
        shows = any(same_failure(cause.signature, contents.subject.signature) for cause in causes(result, verdict))
        k += shows and not contents.healthy
        n += shows or verdict.verdict in {"pass", "fail", "corrupt"}
    return k, n


def _of_end(
    plain: BundleExpectation, contents: Contents, failing: Sequence[GatheredAttempt], redact: Redact
) -> BundleExpectation:
    """For a server that died or hung."""
    outcomes = tuple(dict.fromkeys(attempt.result.outcome for attempt in failing))
    seen = {judging.end_of(attempt.directory).phase for attempt in failing}
    phases = tuple(phase for group in _TOGETHER if seen & set(group) for phase in group)
    lines = [
        attempt.result.diagnosis.evidence[0].text
        for attempt in failing
        if attempt.result.diagnosis is not None and attempt.result.diagnosis.evidence
    ]
    logs = [attempt.directory / "evidence" / "server.log" for attempt in failing]
    healthy = [attempt.directory / "evidence" / "server.log" for attempt in _healthy(contents)]
    pattern = common_pattern(lines, logs, healthy, redact) if len(lines) == len(failing) else None
    where = " or ".join(sorted(seen)) if seen <= {phase for group in _TOGETHER for phase in group} else "its life"
    told = f", and its log says: {pattern.says}" if pattern is not None else "; no line of its log is known to tell it"
    statement = f"{_SAID.get(outcomes[0], 'the server dies')} in {where}{told}"
    return replace(
        plain,
        outcomes=outcomes,
        phases=phases,
        patterns=(pattern,) if pattern is not None else (),
        statement=_with_rate(statement, plain),
    )


def _of_content(
    plain: BundleExpectation, contents: Contents, failing: Sequence[GatheredAttempt], *, hidden: bool
) -> BundleExpectation:
    """For a server that came to its end and was wrong."""
    made = replace(plain, outcomes=("completed",))
    kind = plain.kind
    if kind in BY_KIND:
        words = "requests succeed and bring no token" if kind == "no_tokens" else "requests fail while the server lives"
        return replace(made, statement=_with_rate(words, plain))
    if kind == _AT_FLOOR:
        words = f"at most {judging.FLOOR:g} tokens per verify step: nothing that was drafted is accepted"
        return replace(made, acceptance_at_most=judging.FLOOR, statement=_with_rate(words, plain))
    withheld = "the rules of a bundle cannot decide it: its prompts are withheld"
    rule = _Rule(differing_prompts=None, words=withheld) if hidden else _differing(contents, failing)
    if rule.differing_prompts is None:
        return replace(made, undecided=rule.words, statement=_with_rate(f"{kind}: {rule.words}", plain))
    return replace(made, differing_prompts=rule.differing_prompts, statement=_with_rate(rule.words, plain))


def _differing(contents: Contents, failing: Sequence[GatheredAttempt]) -> _Rule:
    """How many prompts must be answered otherwise than the reference did.

    More than in any healthy launch. Where numbers are not exact, a near tie may flip: then half way between the
    healthy launches and the failing ones.
    """
    oracle = None if contents.oracle is None else codec.encode(contents.oracle)
    counts = [judging.answers_of(attempt.directory, oracle) for attempt in failing]
    prompts = max((count.compared for count in counts), default=0)
    if not prompts:
        reason = _only_codes(failing) or "no answer of a reference is there to compare with"
        return _Rule(differing_prompts=None, words=f"the rules of a bundle cannot decide it: {reason}")
    seen = [count.differing for count in counts]
    healthy = _healthy_differing(contents, oracle)
    exact = is_exact(failing[0].result, failing[0])
    most = max(seen)
    least = healthy + 1 if exact else healthy + max(1, (min(seen) - healthy + 1) // 2)
    if most < least:
        reason = _only_codes(failing) or "only rescoring tells its wrong tokens from ties"
        told = f"healthy launches differ from the reference in up to {healthy} prompts, these in {most}: {reason}"
        return _Rule(differing_prompts=None, words=f"the rules of a bundle cannot decide it: {told}")
    words = f"at least {least} of {prompts} prompts are answered otherwise than by the reference"
    beside = f" (seen: {_range(seen)}; in healthy launches at most {healthy})"
    limits = "" if exact else "; numbers are not exact here: near ties flip, and fewer wrong prompts are not told"
    return _Rule(differing_prompts=least, words=f"{words}{beside}{limits}")


def _only_codes(failing: Sequence[GatheredAttempt]) -> str | None:
    """Why nothing but the coding tasks shows it, if so."""
    wrong = {check.check for attempt in failing for check in attempt.result.checks if check.state == "fail"}
    return "only the coding tasks show it, whose answers must be run in a sandbox" if wrong == {"coding"} else None


def _healthy(contents: Contents) -> list[GatheredAttempt]:
    """The attempts at hand in which nothing failed."""
    reference = [] if contents.reference is None else [contents.reference]
    passed = [attempt for attempt in contents.attempts if not attempt.fails]
    return [
        attempt
        for attempt in (*reference, *passed)
        if attempt.verdict is not None and attempt.verdict.verdict == "pass"
    ]


def _healthy_differing(contents: Contents, oracle: dict[str, object] | None) -> int:
    """The most prompts in which a launch that passed differs from the reference."""
    at_hand = [judging.answers_of(attempt.directory, oracle).differing for attempt in _healthy(contents)]
    passed = [r for r, v in (*contents.launches, *contents.others) if v.verdict == "pass"]
    return max([0, *at_hand, *(_differing_in(result) for result in passed)])


def _differing_in(result: Result) -> int:
    lossless = next((check for check in result.checks if check.check == "lossless"), None)
    return len({difference.prompt for difference in lossless.differences}) if lossless is not None else 0


def is_exact(result: Result, attempt: GatheredAttempt) -> bool:
    """Whether rounding cannot flip a token: the simulated engine, and 32-bit floats."""
    words = () if attempt.step is None else attempt.step.argv
    return result.engine.name == "simulated" or any(
        word == "--dtype" and value == "float32" for word, value in pairwise(words)
    )


def _tried(made: BundleExpectation, contents: Contents, failing: Sequence[GatheredAttempt]) -> BundleExpectation:
    """The expectation, if it tells the failing attempts from the healthy ones; else without what does not."""
    oracle = None if contents.oracle is None else codec.encode(contents.oracle)

    def reproduced(rules: BundleExpectation) -> Callable[[GatheredAttempt], bool]:
        document = codec.encode(rules)
        return lambda attempt: judging.judge(attempt.directory, document, oracle).state == "reproduced"

    states = Counter(map(reproduced(made), failing))
    if made.undecided is None and not states[True] and made.patterns:
        made = replace(made, patterns=())
        states = Counter(map(reproduced(made), failing))
    problem = None
    if not states[True]:
        problem = "its rules do not tell the attempts that it was made from"
    elif any(map(reproduced(made), _healthy(contents))):
        problem = "its rules also hold for launches in which nothing failed"
    if problem is None or made.undecided is not None:
        return made
    return replace(
        made, outcomes=("completed",), phases=(), patterns=(), differing_prompts=None, acceptance_at_most=None,
        undecided=f"the rules of a bundle cannot decide it: {problem}",
    )  # fmt: skip


def _with_rate(words: str, plain: BundleExpectation) -> str:
    return f"{words}: seen in {plain.k} of {_launches(plain.n)}"


def _launches(n: int) -> str:
    return f"{n} launch{'' if n == 1 else 'es'}"


def _range(counts: Sequence[int]) -> str:
    return str(counts[0]) if len(set(counts)) == 1 else f"{min(counts)} to {max(counts)}"
