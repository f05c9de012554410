"""Rescoring: what the reference thinks of every token that a run has said. Pure.

A token lies above δ when the reference, given all before it, would have said another token that it finds more likely
by more than δ nats. The share of such tokens is compared with the share in arms believed healthy, and so is the longest
run of them; all tokens count, also those after a first difference.

Two regimes. In an *exact* dtype (float32) rounding moves a log-probability by 1e-5, so no healthy token reaches
δ = 1e-3: a single one above it is wrong, as long as no healthy arm has one. Elsewhere healthy verify steps of another
width do differ by rounding: there Fisher's exact test (one-sided) compares k of n with the counts of the healthy arms,
and a run of length r has at most the chance n p (10 p)^(r-1), p being the 99 % upper bound of the healthy share: where
the reference is unsure of one token, it often is of the next. The smaller p-value, doubled (Bonferroni), is held
against ALPHA. Tokens of one prompt are not alike, but every arm answers the same prompts, so what makes a prompt hard
is on both sides; and each token is scored after the text as it stands, so that one wrong token does not make the next
one wrong.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import fmean
from typing import Literal

from repro.intervals import upper_bound, wilson
from repro.model import (
    AttemptScore,
    Calibration,
    CheckName,
    Coordinates,
    NullArm,
    Role,
    ScoredText,
    TokenPlace,
)

ALPHA = 1e-4
"""Chance of a false alarm for one attempt: below 1 % for a run of a hundred."""
POWER = 0.95
MAX_PLACES = 10
_RUN_CONFIDENCE = 0.99
_LOCALLY = 10
"""Healthy exceedances come in clusters: after one, the next token is taken to be so many times as likely to be one."""

Ids = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """What an attempt said: to which prompt, in which check and at which concurrency."""

    check: CheckName
    concurrency: int
    prompt: str
    ids: Ids


@dataclass(frozen=True, kw_only=True, slots=True)
class Spoken:
    """All outputs of one attempt."""

    cell: str
    attempt: int
    role: Role
    coordinates: Coordinates
    outputs: tuple[Output, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """Of one set of outputs, each text once: tokens, those above δ, the longest run of them, the largest gap (inf: not
    finite), the sum of log-probabilities of ``finite`` tokens; ``unscored`` outputs have no scores, ``problem`` says
    why the first of them has none."""

    outputs: int
    tokens: int
    above: int
    longest_run: int
    largest: float
    logprobs: float
    finite: int
    unscored: int
    problem: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Scales:
    """How a run is measured: δ (nats), whether rounding stays below it, and the dtype that says so."""

    delta: float
    exact: bool
    dtype: str


class Scored:
    """The reference's scores of texts. An output that is the beginning of a scored text is scored too."""

    def __init__(self, texts: Mapping[tuple[str, Ids], ScoredText]) -> None:
        self._exactly = texts
        self._longest: dict[tuple[str, Ids], ScoredText] = {}
        by_prompt: dict[str, list[Ids]] = {}
        for prompt, ids in texts:
            by_prompt.setdefault(prompt, []).append(ids)
        self._by_prompt = {prompt: sorted(known, key=len) for prompt, known in by_prompt.items()}

    def of(self, prompt: str, ids: Ids) -> ScoredText | None:
        """The scores of a text that begins with this output; None if there is none."""
        found = self._exactly.get((prompt, ids))
        if found is not None:
            return found
        key = (prompt, ids)
        if key not in self._longest:
            longer = (known for known in self._by_prompt.get(prompt, ()) if known[: len(ids)] == ids)
            host = next(longer, None)
            if host is None:
                return None
            self._longest[key] = self._exactly[prompt, host]
        return self._longest[key]

    def gaps(self, prompt: str, ids: Ids) -> tuple[float | None, ...] | None:
        """Nats below the reference's choice for each token, None where that is not finite; None without scores."""
        text = self.of(prompt, ids)
        return None if text is None or text.error is not None else text.gaps[: len(ids)]


def count(outputs: Sequence[Output], scored: Scored, delta: float) -> Counts:
    """Counts each text once, however often it was said, and of texts that begin alike the longest."""
    tokens = above = longest = finite = unscored = 0
    largest, logprobs, problem = 0.0, 0.0, None
    for prompt, ids in distinct(outputs):
        text = scored.of(prompt, ids)
        if text is None or text.error is not None:
            unscored += 1
            problem = problem or (text.error if text is not None else "the text was not sent")
            continue
        run = 0
        for gap, logprob in zip(text.gaps[: len(ids)], text.logprobs[: len(ids)], strict=True):
            size = math.inf if gap is None else gap
            run = run + 1 if size > delta else 0
            tokens, above, longest = tokens + 1, above + (size > delta), max(longest, run)
            largest = max(largest, size)
            if logprob is not None:
                logprobs, finite = logprobs + logprob, finite + 1
    return Counts(
        outputs=len(outputs),
        tokens=tokens,
        above=above,
        longest_run=longest,
        largest=largest,
        logprobs=logprobs,
        finite=finite,
        unscored=unscored,
        problem=problem,
    )


def distinct(outputs: Sequence[Output]) -> list[tuple[str, Ids]]:
    """(prompt, ids) of all outputs, without those that are the beginning of another."""
    kept: list[tuple[str, Ids]] = []
    for prompt, ids in sorted({(output.prompt, output.ids) for output in outputs}, reverse=True):
        if not kept or kept[-1][0] != prompt or kept[-1][1][: len(ids)] != ids:
            kept.append((prompt, ids))
    return kept


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """Calibration and scores of a run; without calibration ``reason`` says why."""

    reason: str | None
    calibration: Calibration | None
    scores: tuple[AttemptScore, ...]


def judge(spoken: Sequence[Spoken], scored: Scored, scales: Scales, margins: Sequence[float] = ()) -> Judged:
    """The scores of all attempts. ``margins``: the reference's own top-2 gaps, by which the detection limit is found.

    An arm of the null distribution that turns out wrong is taken out of it, and all are judged again. If nothing at all
    agrees with the reference, it is the reference that cannot be believed, and every state is `unknown`.
    """
    counts = {(s.cell, s.attempt): count(s.outputs, scored, scales.delta) for s in spoken}
    heard = [s for s in spoken if counts[s.cell, s.attempt].tokens]
    if not heard:
        why = next((c.problem for c in counts.values() if c.problem), "no attempt of this run left an output")
        return Judged(reason=f"nothing was scored: {why}", calibration=None, scores=())
    wrong: frozenset[tuple[str, int]] = frozenset()
    for _ in range(len(heard) + 1):
        null = [s for s in heard if _believed(s) and (s.cell, s.attempt) not in wrong]
        scores = {(s.cell, s.attempt): _score(s, counts, null, scored, scales) for s in spoken}
        found = frozenset(key for key, score in scores.items() if score.state == "wrong")
        if found == wrong:
            break
        wrong = wrong | found
    null = [s for s in heard if _believed(s) and (s.cell, s.attempt) not in wrong]
    if all((s.cell, s.attempt) in wrong for s in heard):
        scores = {key: _doubted(score) for key, score in scores.items()}
    calibration = _calibration(null, counts, scales, margins)
    ordered = tuple(scores[s.cell, s.attempt] for s in sorted(spoken, key=lambda s: (s.cell, s.attempt)))
    return Judged(reason=None, calibration=calibration, scores=ordered)


def _believed(s: Spoken) -> bool:
    """Arms that the null distribution comes from: `ar`, eager cells, and chains."""
    return s.role != "self-test" and (s.coordinates.graph == "eager" or s.coordinates.shape != "tree")


def _score(
    s: Spoken,
    counts: Mapping[tuple[str, int], Counts],
    null: Sequence[Spoken],
    scored: Scored,
    scales: Scales,
) -> AttemptScore:
    mine = counts[s.cell, s.attempt]
    others = [arm for arm in null if arm.cell != s.cell]
    alike = [arm for arm in others if arm.coordinates.shape != "none" or s.coordinates.shape == "none"]
    if scales.exact and _plain_is_clean(others, counts):
        alike = [arm for arm in alike if not counts[arm.cell, arm.attempt].above]
    usual = [counts[arm.cell, arm.attempt] for arm in alike]
    state, reason, told, p = verdict(mine, usual, scales)
    interval = wilson(mine.above, mine.tokens)
    places = _places(s, scored, scales.delta) if mine.above else ()
    return AttemptScore(
        cell=s.cell,
        attempt=s.attempt,
        state=state,
        reason=reason,
        detail=told,
        outputs=mine.outputs,
        tokens=mine.tokens,
        above=mine.above,
        low=round(interval[0], 8) if interval else None,
        high=round(interval[1], 8) if interval else None,
        longest_run=mine.longest_run,
        largest_gap=round(mine.largest, 6) if math.isfinite(mine.largest) else None,
        p_value=p,
        perplexity=round(math.exp(min(-mine.logprobs / mine.finite, 700.0)), 4) if mine.finite else None,
        smallest_wrong_concurrency=_smallest(s, scored, usual, scales) if state == "wrong" else None,
        places=places,
    )


def _plain_is_clean(others: Sequence[Spoken], counts: Mapping[tuple[str, int], Counts]) -> bool:
    """Whether `ar` shows that rounding stays below δ. Then an arm that exceeds it is no witness: two arms with the same
    rare fault would excuse each other."""
    plain = [arm for arm in others if arm.coordinates.shape == "none"]
    return bool(plain) and not any(counts[arm.cell, arm.attempt].above for arm in plain)


def verdict(
    mine: Counts, null: Sequence[Counts], scales: Scales
) -> tuple[Literal["sound", "wrong", "unknown"], str | None, str, float | None]:
    """(state, reason code, words, p-value) of outputs against those of arms believed healthy."""
    if not mine.tokens:
        return "unknown", "not_scored", f"no output was scored: {mine.problem or 'there is none'}", None
    k, n = mine.above, mine.tokens
    told = f"{k} of {n} tokens lie more than {scales.delta:g} nats below the reference's choice"
    k0, n0 = sum(c.above for c in null), sum(c.tokens for c in null)
    if scales.exact and k0 == 0:
        if k:
            worst = "" if math.isfinite(mine.largest) else ", and not all are finite"
            return "wrong", "content_wrong", f"{told}{worst}; in {scales.dtype} rounding does not reach that", None
        return _complete(mine, told, None)
    if not n0:
        return "unknown", "no_null", f"{told}; no other arm is believed healthy, so nothing says what is usual", None
    p = p_value(k, n, mine.longest_run, k0, n0)
    told += f", {k0} of {n0} in the arms believed healthy (p = {p:.2g}, longest run {mine.longest_run})"
    if p < ALPHA:
        return "wrong", "content_wrong", told, p
    return _complete(mine, told, p)


def _complete(
    mine: Counts, told: str, p: float | None
) -> tuple[Literal["sound", "unknown"], str | None, str, float | None]:
    if mine.unscored:
        return "unknown", "not_scored", f"{told}; {mine.unscored} outputs were not scored: {mine.problem}", p
    return "sound", None, told, p


def p_value(k: int, n: int, run: int, k0: int, n0: int) -> float:
    """Chance of k of n tokens above δ, or of a run of this length, in an arm like those with k0 of n0; Bonferroni for
    the two tests. Fisher's exact test, one-sided; a union bound for the run."""
    from scipy.stats import hypergeom

    share = float(hypergeom.sf(k - 1, n + n0, k + k0, n)) if k else 1.0
    longest = 1.0
    if run > 1:
        usual = _usual(k0, n0)
        longest = min(1.0, n * usual * min(1.0, _LOCALLY * usual) ** (run - 1))
    return min(1.0, 2 * min(share, longest))


@lru_cache(maxsize=1024)
def _usual(k0: int, n0: int) -> float:
    """Upper bound of the healthy share; many attempts are held against the same arms."""
    return upper_bound(k0, n0, confidence=_RUN_CONFIDENCE)


def _doubted(score: AttemptScore) -> AttemptScore:
    if score.state != "wrong":
        return score
    told = f"{score.detail}; no arm at all agrees with the reference, so it cannot be believed"
    return replace(score, state="unknown", reason="reference_not_trusted", detail=told, smallest_wrong_concurrency=None)


def _places(s: Spoken, scored: Scored, delta: float) -> tuple[TokenPlace, ...]:
    found: dict[tuple[str, int, int], TokenPlace] = {}
    for output in sorted(s.outputs, key=lambda o: (o.concurrency, o.check, o.prompt)):
        for at, gap in enumerate(scored.gaps(output.prompt, output.ids) or ()):
            key = (output.prompt, at, output.ids[at])
            if (gap is None or gap > delta) and key not in found:
                found[key] = TokenPlace(
                    prompt=output.prompt,
                    check=output.check,
                    concurrency=output.concurrency,
                    at=at,
                    got=output.ids[at],
                    gap=gap,
                )
    worst = sorted(found.values(), key=lambda p: (-math.inf if p.gap is None else -p.gap, p.prompt, p.at))
    return tuple(worst[:MAX_PLACES])


def _smallest(s: Spoken, scored: Scored, null: Sequence[Counts], scales: Scales) -> int | None:
    """The smallest concurrency whose outputs are wrong by themselves; None if they are so only all together."""
    for level in sorted({output.concurrency for output in s.outputs}):
        mine = count([output for output in s.outputs if output.concurrency == level], scored, scales.delta)
        if verdict(mine, null, scales)[0] == "wrong":
            return level
    return None


def _calibration(
    null: Sequence[Spoken],
    counts: Mapping[tuple[str, int], Counts],
    scales: Scales,
    margins: Sequence[float],
) -> Calibration:
    arms = [
        NullArm(cell=s.cell, attempt=s.attempt, tokens=counts[s.cell, s.attempt].tokens, above=c.above)
        for s in sorted(null, key=lambda s: (s.cell, s.attempt))
        for c in [counts[s.cell, s.attempt]]
    ]
    above = sum(arm.above for arm in arms)
    largest = max((counts[s.cell, s.attempt].largest for s in null), default=None)
    visible = fmean(margin > scales.delta for margin in margins) if margins else None
    n = min((c.tokens for c in counts.values() if c.tokens), default=0)
    exact = scales.exact and above == 0
    limit = detection_share(n, *_fewest_witnesses(null, counts), visible, exact=exact) if n and visible else None
    return Calibration(
        dtype=scales.dtype,
        exact=exact,
        delta=scales.delta,
        alpha=ALPHA,
        arms=tuple(arms),
        tokens=n,
        largest_gap=round(largest, 6) if largest is not None and math.isfinite(largest) else None,
        visible_share=round(visible, 6) if visible is not None else None,
        detection_share=limit,
        statement=_statement(n, limit, visible, scales, exact=exact),
    )


def _fewest_witnesses(null: Sequence[Spoken], counts: Mapping[tuple[str, int], Counts]) -> tuple[int, int]:
    """(above, tokens) of what the worst placed attempt is held against: it speculates, so that `ar` is none of its
    witnesses, and it is itself the arm of the null distribution that said most."""
    tokens: dict[str, int] = {}
    above = 0
    for s in null:
        if s.coordinates.shape != "none":
            mine = counts[s.cell, s.attempt]
            tokens[s.cell] = tokens.get(s.cell, 0) + mine.tokens
            above += mine.above
    total = sum(tokens.values())
    left = total - max(tokens.values()) if len(tokens) > 1 else total
    return (math.ceil(above * left / total), left) if total else (0, 0)


def _statement(n: int, limit: float | None, visible: float | None, scales: Scales, *, exact: bool) -> str:
    if limit is None:
        why = "the reference gave no margins" if visible is None else f"{n} tokens are too few"
        return f"no detection limit can be stated: {why}"
    how = "one token above δ is wrong" if exact else f"false alarm {ALPHA:g} for each attempt"
    return (
        f"an attempt of {n} tokens would be found wrong with 95 % power from {100 * limit:.2g} % wrong tokens on "
        f"({scales.dtype}, δ = {scales.delta:g} nats, {how})"
    )


def detection_share(n: int, k0: int, n0: int, visible: float | None, *, exact: bool) -> float | None:
    """The smallest share of wrong tokens at which n tokens are found wrong with 95 % power; None if there is none.

    A wrong token is taken for the reference's second choice, the hardest to see: it lies above δ with the chance
    ``visible``. Beside it stand the tokens that lie there in healthy arms. The test on the share alone is counted.
    """
    if not visible:
        return None
    if exact:
        share = (1 - (1 - POWER) ** (1 / n)) / visible
        return round(share, 8) if share <= 1 else None
    least = _critical(n, k0, n0)
    if least is None:
        return None
    from scipy.stats import binom

    usual = k0 / n0
    low, high = 0.0, 1.0
    if binom.sf(least - 1, n, min(1.0, usual + visible)) < POWER:
        return None
    for _ in range(40):
        middle = (low + high) / 2
        if binom.sf(least - 1, n, min(1.0, usual + middle * visible)) >= POWER:
            high = middle
        else:
            low = middle
    return round(high, 8)


def _critical(n: int, k0: int, n0: int) -> int | None:
    """The smallest number of tokens above δ that is significant by itself."""
    if not n0:
        return None
    low, high = 1, n
    if p_value(high, n, 0, k0, n0) >= ALPHA:
        return None
    while low < high:
        middle = (low + high) // 2
        if p_value(middle, n, 0, k0, n0) < ALPHA:
            high = middle
        else:
            low = middle + 1
    return low
