"""Absolute checks of outputs: signs that a text is broken, whatever other arms say.

They unmask arms that are broken alike, which no comparison can. Small models loop by nature, and a request that ignores
the end of an answer makes any model loop in the end; so the thresholds lie far from anything that a healthy recording
shows, and where the reference answered the same prompt, an arm is held against it.
"""

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from matrix.judge.reference import Reference, plain_requests
from matrix.judge.results import measured
from repro.model import CheckEvidence, Measurement, RequestRecord

# Healthy recordings: SGLang 0.5.23 on a CPU with the tiny model, 96 tokens for each of 20 shipped prompts and, without
# their text, of 20 windows of Python's documentation. Garbage: one token for ever, and loops from the start on, as NaN
# logits and broken masks give them.
SHORTEST = 16
"""Of fewer tokens nothing is said."""
FEWEST_DISTINCT_8GRAMS = 0.15
"""Healthy: 0.42 to 1.0 (shipped prompts 0.63 to 1.0). Below: a loop that begins in the first seventh of the output."""
LOWEST_ENTROPY_BITS = 2.0
"""A token; healthy: 3.1 to 5.5 (shipped prompts 4.6 to 5.5). Below: fewer than four equally frequent tokens."""
HIGHEST_COMPRESSION = 6.0
"""Text bytes per byte of zlib level 9; healthy: 1.3 to 2.2. From 200 bytes on, because short texts do not compress."""
LONGEST_TAIL = 0.5
"""Share of the output at its end that is one token over and over; healthy: up to 0.44, mostly 0."""
MOST_REPLACED = 0.05
"""Share of characters that are U+FFFD; healthy: 0. An output cut off inside a character ends with up to three."""
MOSTLY = 0.5
"""An arm is degenerate as a whole if at least so many of its outputs are."""
ALIKE = 4
"""Prompts that all have the same answer, from so many on, were not read."""
SURE, LIKELY = 0.001, 0.05
"""One-sided McNemar test over prompts, this arm against the reference: at or below the first it is worse for certain
(ten prompts and none the other way), up to the second nothing is decided."""
_CUT_OFF_CHARACTERS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Looks:
    """Measures of one output. Shares are of its tokens; ``compression`` and ``replaced`` None without a text to look
    at; ``signs`` names what is beyond its threshold."""

    distinct_8grams: float | None
    entropy_bits: float
    tail: float
    compression: float | None
    replaced: float | None
    signs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Absolute:
    """The outputs of an attempt. ``mostly``: it is degenerate as a whole. ``p_value``: of the paired test against the
    reference, None without one. ``statement`` is empty if there is nothing to say."""

    outputs: int
    degenerate: int
    mostly: bool
    reference_mostly: bool
    p_value: float | None
    statement: str
    measurements: tuple[Measurement, ...]

    @property
    def worse_for_certain(self) -> bool:
        return self.p_value is not None and self.p_value <= SURE

    @property
    def doubtful(self) -> bool:
        """Degenerate as a whole, or likely to be worse than the reference."""
        return self.mostly or (self.p_value is not None and self.p_value <= LIKELY)


def look_at(ids: Sequence[int], text: str | None) -> Looks:
    """The measures of one output, and which of them no healthy output has."""
    grams = [tuple(ids[at : at + 8]) for at in range(len(ids) - 7)]
    distinct = len(set(grams)) / len(grams) if grams else None
    entropy = _entropy_bits(ids)
    tail = _tail(ids)
    data = (text or "").encode("utf-8", "replace")
    compression = len(data) / len(zlib.compress(data, 9)) if len(data) >= 200 else None
    replaced = _replaced(text) if text else None
    long_enough = len(ids) >= SHORTEST
    beyond = {
        "empty": not ids,
        "one_token": long_enough and len(set(ids)) == 1,
        "few_tokens": long_enough and entropy < LOWEST_ENTROPY_BITS,
        "loops": long_enough and distinct is not None and distinct < FEWEST_DISTINCT_8GRAMS,
        "stuck": long_enough and tail >= LONGEST_TAIL,
        "compresses": compression is not None and compression > HIGHEST_COMPRESSION,
        "invalid_utf8": replaced is not None and replaced > MOST_REPLACED,
    }
    return Looks(
        distinct_8grams=distinct,
        entropy_bits=entropy,
        tail=tail,
        compression=compression,
        replaced=replaced,
        signs=tuple(sign for sign, is_so in beyond.items() if is_so),
    )


def judge_text(requests: Iterable[RequestRecord], reference: Reference | None) -> Absolute:
    """The absolute checks over the answered requests of an attempt; a prompt counts once, and is degenerate if any of
    its outputs is."""
    answered = [request for request in requests if request.error is None and not request.cancelled]
    looks = [(request, look_at(request.output_ids, request.output_text)) for request in answered]
    signs: dict[str, tuple[str, ...]] = {}
    for request, look in looks:
        signs[request.prompt] = tuple(dict.fromkeys((*signs.get(request.prompt, ()), *look.signs)))
    answers = {request.prompt: request.output_ids for request in answered}
    alike = _all_alike(answers)
    bad = [prompt for prompt, found in signs.items() if found]
    mostly = alike or (bool(signs) and len(bad) >= MOSTLY * len(signs))
    there = {p: bool(look_at(o.ids, o.text).signs) for p, o in (reference or {}).items() if p in signs}
    more = sum(not there[prompt] for prompt in bad if prompt in there)
    fewer = sum(is_bad and not signs[prompt] for prompt, is_bad in there.items())
    return Absolute(
        outputs=len(signs),
        degenerate=len(bad),
        mostly=mostly,
        reference_mostly=_all_alike({p: o.ids for p, o in (reference or {}).items()})
        or (bool(there) and sum(there.values()) >= MOSTLY * len(there)),
        p_value=_mcnemar(more, fewer) if there else None,
        statement=_statement(signs, bad, there, alike),
        measurements=_measurements([look for _, look in looks], len(bad), len(signs)),
    )


def is_degenerate(evidence: CheckEvidence | None) -> bool:
    """Whether an attempt's plain outputs are degenerate as a whole, which no comparison was needed to see.
    Requests that brought no tokens are another matter."""
    requests = plain_requests(evidence) if evidence is not None else ()
    return judge_text((request for request in requests if request.output_ids), None).mostly


def without_end(requests: Iterable[RequestRecord]) -> int:
    """How many answers ran into their limit where an end was to be expected: only for requests that do not ignore it,
    such as those of `coding`."""
    return sum(request.error is None and request.finish_reason == "length" for request in requests)


def disagreeing_counts(requests: Iterable[RequestRecord]) -> int:
    """How many answers hold another number of ids than the engine counted."""
    return sum(
        request.error is None and request.usage_tokens is not None and request.usage_tokens != len(request.output_ids)
        for request in requests
    )


def _entropy_bits(ids: Sequence[int]) -> float:
    total = len(ids)
    return -sum(n / total * math.log2(n / total) for n in Counter(ids).values()) if total else 0.0


def _tail(ids: Sequence[int]) -> float:
    """The share at the end of the output that is its last token over and over; 0 if it stands alone."""
    length = next((at for at, token in enumerate(reversed(ids)) if token != ids[-1]), len(ids))
    return length / len(ids) if length > 1 else 0.0


def _replaced(text: str) -> float:
    """Share of U+FFFD, those of a character that the end cut off apart."""
    end = len(text) - len(text.rstrip("\N{REPLACEMENT CHARACTER}"))
    found = text.count("\N{REPLACEMENT CHARACTER}") - min(end, _CUT_OFF_CHARACTERS)
    return found / len(text)


def _all_alike(answers: Mapping[str, tuple[int, ...]]) -> bool:
    different = set(answers.values())
    return len(answers) >= ALIKE and len(different) == 1 and len(next(iter(different))) >= SHORTEST


def _mcnemar(more: int, fewer: int) -> float:
    """Exact one-sided test: the chance of at least ``more`` of the differing prompts, were both sides alike."""
    n = more + fewer
    return float(sum(math.comb(n, k) for k in range(more, n + 1)) / 2**n)


def _statement(signs: Mapping[str, tuple[str, ...]], bad: Sequence[str], there: Mapping[str, bool], alike: bool) -> str:
    if not bad and not alike:
        return ""
    counted = Counter(sign for found in signs.values() for sign in found)
    names = ", ".join(f"{sign} {n}" for sign, n in sorted(counted.items()))
    same = "; every prompt has the same answer" if alike else ""
    beside = f", {sum(there.values())} of the reference's" if there else ""
    return f"the text of {len(bad)} of {len(signs)} prompts is degenerate ({names or 'one answer'}){beside}{same}"


def _measurements(looks: Sequence[Looks], degenerate: int, prompts: int) -> tuple[Measurement, ...]:
    grams = [look.distinct_8grams for look in looks if look.distinct_8grams is not None]
    ratios = [look.compression for look in looks if look.compression is not None]
    texts = [look.replaced for look in looks if look.replaced is not None]
    found = [measured("degenerate_outputs", degenerate, "count", n=prompts)] if prompts else []
    if grams:
        found.append(measured("distinct_8grams", round(median(grams), 4), "share", n=len(grams)))
    if looks:
        entropy = round(median(look.entropy_bits for look in looks), 3)
        found.append(measured("token_entropy", entropy, "bits", n=len(looks)))
    if ratios:
        found.append(measured("compression_ratio", round(median(ratios), 3), "ratio", n=len(ratios)))
    if texts:
        found.append(measured("invalid_utf8", sum(share > MOST_REPLACED for share in texts), "count", n=len(texts)))
    return tuple(found)
