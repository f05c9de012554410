"""Votes: arms that answered the same prompts, which of them agree, which one stands alone. None is presumed right.

Two arms agree in an exact dtype if no output leaves the other's at a token that is no tie. Elsewhere rounding splits
healthy arms too: there the scores of rescoring decide, and two arms that are both wrong agree if they stay together
longer than either stays with the reference.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from matrix.judge.reference import Reference, plain_requests
from matrix.judge.text import is_degenerate
from repro.model import AttemptScore, Calibration, CheckEvidence, Coordinates, Result, Vote

Ids: TypeAlias = tuple[int, ...]
Gaps: TypeAlias = Mapping[tuple[str, Ids], tuple[float | None, ...]]
"""(prompt, output ids) -> how far each token lies below the reference's own choice, nats."""
Opinion: TypeAlias = Literal["agree", "differ", "unknown"]

_TOGETHER = 0.01
"""One-sided sign test over prompts, that two wrong arms stay together longer than with the reference."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """What an attempt answered when each prompt came alone. ``degenerate``: its text is broken whatever others say, so
    that it has no vote. ``state``: that of its score, None without one."""

    cell: str
    attempt: int
    coordinates: Coordinates
    outputs: Mapping[str, Ids]
    degenerate: bool
    state: Literal["sound", "wrong", "unknown"] | None


def arm_of(result: Result, evidence: CheckEvidence | None, score: AttemptScore | None) -> Arm | None:
    """The arm that an attempt is, from its `lossless` evidence; None if it has no vote: a self-test, the second launch
    of the reference, one that explains another, or one that did not answer."""
    if result.role in {"self-test", "reference-again"} or result.explains is not None or evidence is None:
        return None
    answered = [r for r in plain_requests(evidence) if r.error is None and r.output_ids and not r.cancelled]
    outputs = {request.prompt: request.output_ids for request in answered if request.concurrency == 1}
    if not outputs:
        return None
    return Arm(
        cell=result.cell,
        attempt=result.attempt,
        coordinates=result.coordinates,
        outputs=outputs,
        degenerate=result.coordinates.tier != "dummy" and is_degenerate(evidence),
        state=score.state if score is not None else None,
    )


def judge_votes(
    arms: Iterable[Arm],
    *,
    reference: str,
    calibration: Calibration | None,
    gaps: Gaps,
    margins: Reference | None,
) -> tuple[Vote, ...]:
    """Votes of `ar`, the eager arm and the cell at each budget, then of all arms; and, if more arms agree against the
    reference than with it, that vote, in which the cell ``reference`` is the odd one. A cell has one voice, its first
    attempt's. Fewer than three arms are no vote."""
    voices: dict[str, Arm] = {}
    for arm in sorted(arms, key=lambda arm: (arm.cell != reference, arm.cell, arm.attempt)):
        voices.setdefault(arm.cell, arm)
    if len(voices) < 3:
        return ()
    poll = _Poll(voices, reference, calibration, gaps, margins)
    against = poll.against_reference()
    groups = [group for group in _groups(voices, reference) if len(group) < len(voices)]
    votes = [poll.vote(group, outvoted=bool(against)) for group in (*groups, tuple(voices))]
    named = any(vote.odd == reference for vote in votes)
    return (*votes, poll.outvoted(against)) if against and not named else tuple(votes)


def _groups(voices: Mapping[str, Arm], reference: str) -> list[tuple[str, ...]]:
    """(`ar`, eager, cell) for each cell that uses graphs and has its eager arm here."""
    if reference not in voices:
        return []
    by_place = {_place(arm.coordinates): cell for cell, arm in voices.items()}
    found: list[tuple[str, ...]] = []
    for cell, arm in voices.items():
        eager = by_place.get(_place(replace(arm.coordinates, graph="eager")))
        if arm.coordinates.graph != "eager" and eager is not None and len({reference, eager, cell}) == 3:
            found.append((reference, eager, cell))
    return found


def _place(c: Coordinates) -> tuple[object, ...]:
    return c.budget, c.topk, c.shape, c.graph, c.nvls, c.tier, c.engine_source, tuple(sorted(c.variant.items()))


class _Poll:
    """What each pair of arms thinks of the other, asked once."""

    def __init__(
        self,
        voices: Mapping[str, Arm],
        reference: str,
        calibration: Calibration | None,
        gaps: Gaps,
        margins: Reference | None,
    ) -> None:
        self._voices = voices
        self._reference = reference
        self._exact = calibration is None or calibration.exact
        self._delta = calibration.delta if calibration is not None else 0.0
        self._gaps = gaps
        self._margins = margins or {}
        names = list(voices)
        self._opinions: dict[frozenset[str], Opinion] = {
            frozenset({a, b}): self._opinion(voices[a], voices[b])
            for place, a in enumerate(names)
            for b in names[place + 1 :]
        }

    def vote(self, group: Sequence[str], *, outvoted: bool) -> Vote:
        odd = [cell for cell in group if self._stands_alone(cell, [other for other in group if other != cell])]
        if odd and odd[0] == self._reference and not outvoted:
            others = " and ".join(cell for cell in group if cell != odd[0])
            told = f"{others} agree against {odd[0]}, but no fewer arms of the run agree with it: no odd one is named"
            return Vote(arms=tuple(group), odd=None, statement=told)
        if odd:
            others = ", ".join(cell for cell in group if cell != odd[0])
            return Vote(arms=tuple(group), odd=odd[0], statement=f"{odd[0]} stands alone; {others} agree")
        return Vote(arms=tuple(group), odd=None, statement=self._told(group))

    def against_reference(self) -> tuple[str, ...]:
        """The largest set of arms that agree with one another and all differ from the reference, if it is larger than
        the reference's own side; else empty."""
        reference = self._voices.get(self._reference)
        if reference is None:
            return ()
        others = [cell for cell in self._voices if cell != self._reference and not self._voices[cell].degenerate]
        side = [cell for cell in others if self._says(cell, self._reference) == "agree"]
        mine = 0 if reference.degenerate else 1 + len(side)
        largest = self._largest([cell for cell in others if self._says(cell, self._reference) == "differ"])
        return tuple(largest) if len(largest) >= 2 and len(largest) > mine else ()

    def outvoted(self, against: Sequence[str]) -> Vote:
        told = f"{self._reference} stands alone against {len(against)} arms that agree: {', '.join(against)}"
        return Vote(arms=(self._reference, *against), odd=self._reference, statement=told)

    def _stands_alone(self, cell: str, others: Sequence[str]) -> bool:
        return (
            not any(self._voices[other].degenerate for other in others)
            and all(self._says(cell, other) == "differ" for other in others)
            and self._all_agree(others)
        )

    def _all_agree(self, cells: Sequence[str]) -> bool:
        return all(self._says(a, b) == "agree" for place, a in enumerate(cells) for b in cells[place + 1 :])

    def _largest(self, cells: Sequence[str]) -> list[str]:
        """The largest set that agrees pair by pair, grown from each arm in turn."""
        largest: list[str] = []
        for seed in cells:
            grown = [seed]
            for cell in cells:
                if cell not in grown and all(self._says(cell, other) == "agree" for other in grown):
                    grown.append(cell)
            largest = max(largest, grown, key=len)
        return largest

    def _told(self, group: Sequence[str]) -> str:
        broken = [cell for cell in group if self._voices[cell].degenerate]
        aside = f"; no vote, because the text is degenerate: {', '.join(broken)}" if broken else ""
        together = self._largest([cell for cell in group if cell not in broken])
        apart = [cell for cell in group if cell not in together and cell not in broken]
        if len(group) - len(broken) < 2:
            return f"{len(together) or 'no'} arm{'' if together else 's'} of {len(group)} left to agree{aside}"
        if not apart:
            return f"all {len(together)} arms agree{aside}"
        return f"{len(together)} of {len(group)} arms agree, not with them: {', '.join(apart)}{aside}"

    def _says(self, a: str, b: str) -> Opinion:
        return self._opinions[frozenset({a, b})]

    def _opinion(self, a: Arm, b: Arm) -> Opinion:
        states = {self._state(a), self._state(b)}
        if self._exact or not states <= {"sound", "wrong"}:
            return self._by_tokens(a, b)
        if states == {"wrong"}:
            return self._by_length(a, b)
        return "agree" if states == {"sound"} else "differ"

    def _state(self, arm: Arm) -> str | None:
        return "sound" if arm.cell == self._reference else arm.state

    def _by_tokens(self, a: Arm, b: Arm) -> Opinion:
        splits = [self._split(prompt, a.outputs[prompt], b.outputs[prompt]) for prompt in _both(a, b)]
        if "differ" in splits:
            return "differ"
        return "agree" if "agree" in splits else "unknown"

    def _split(self, prompt: str, a: Ids, b: Ids) -> Opinion:
        """`agree`: equal, or parted at a tie; `unknown` where nothing says whether it was one."""
        if a == b:
            return "agree"
        at = _together(a, b)
        if at == min(len(a), len(b)):
            return "differ"
        gap = self._difference(prompt, a, b, at)
        if gap is None:
            return "unknown"
        return "agree" if gap <= self._delta else "differ"

    def _difference(self, prompt: str, a: Ids, b: Ids, at: int) -> float | None:
        """By how much the reference prefers one of the two tokens to the other, after all that they share, nats."""
        below = [gaps[at] for ids in (a, b) if len(gaps := self._gaps.get((prompt, ids), ())) > at]
        known = [gap for gap in below if gap is not None]
        if len(known) == 2:
            return abs(known[0] - known[1])
        said = self._margins.get(prompt)
        if said is None or len(said.margins) <= at or said.ids[:at] != a[:at] or said.ids[at] not in {a[at], b[at]}:
            return None
        return said.margins[at]

    def _by_length(self, a: Arm, b: Arm) -> Opinion:
        """Two arms that the reference finds wrong: do they share more than either shares with it?"""
        said = self._voices[self._reference].outputs if self._reference in self._voices else {}
        longer = shorter = 0
        for prompt in _both(a, b):
            if prompt in said:
                shared = _together(a.outputs[prompt], b.outputs[prompt])
                alone = max(_together(arm.outputs[prompt], said[prompt]) for arm in (a, b))
                longer, shorter = longer + (shared > alone), shorter + (shared < alone)
        n = longer + shorter
        if n == 0:
            return self._by_tokens(a, b)
        p_value = sum(math.comb(n, k) for k in range(longer, n + 1)) / 2**n
        return "agree" if p_value <= _TOGETHER else "differ"


def _both(a: Arm, b: Arm) -> list[str]:
    return [prompt for prompt in a.outputs if prompt in b.outputs]


def _together(a: Ids, b: Ids) -> int:
    """How many tokens two outputs begin with together."""
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
