"""How far the oracles of a run can be trusted, and what they say of each attempt: read from the results alone. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from repro.model import AttemptScore, CheckResult, Result

CONTENT_CHECKS = frozenset({"lossless", "load", "coding"})
"""The checks that look at what was said."""
COMPARED = frozenset({"lossless", "load"})
"""Those of them that compare with the reference."""
_AT_A_TIE = frozenset({"tie", "margin_unknown"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Trust:
    """What the oracles of one run found.

    ``ended``: the last launch, which rescores, has a result. ``exact``: a sound score does not excuse a token that the
    reference decided against. ``not_rescored`` says why there are no scores; None if there are. ``missed`` names
    planted faults that were not found, ``outvoted`` is the vote that the reference lost, ``unstable``: the reference
    differed from itself. ``disbelieved``: the scoring launch agrees with no arm at all; ``reference_wrong``: what it
    finds wrong in the reference's own outputs, with which the other arms were compared.
    """

    ended: bool
    exact: bool
    scores: Mapping[tuple[str, int], AttemptScore]
    not_rescored: str | None
    missed: tuple[str, ...]
    outvoted: str | None
    unstable: bool
    disbelieved: str | None = None
    reference_wrong: str | None = None

    def doubt(self, *, compared: bool, wrong: bool) -> tuple[str, str] | None:
        """Why neither a pass nor a corrupt output of this run can be believed: a reason code, and its words. Doubts
        about the reference are about what was ``compared`` with it; one that differs from itself casts doubt on what it
        finds ``wrong``."""
        if self.missed:
            return "oracle_not_trusted", f"planted faults were not found: {', '.join(self.missed)}"
        if compared and self.disbelieved is not None:
            return "reference_not_trusted", self.disbelieved
        if compared and self.outvoted is not None:
            return "reference_outvoted", self.outvoted
        if compared and wrong and self.unstable:
            return "reference_unstable", "the reference differs from itself"
        return None

    def score(self, result: Result) -> AttemptScore | None:
        """What rescoring says of the attempt; None if it did not look at it."""
        return self.scores.get((result.cell, result.attempt))

    def explains(self, check: CheckResult, score: AttemptScore | None) -> bool:
        """Whether a sound score shows that a check which compares first differences saw nothing but rounding."""
        if score is None or score.state != "sound" or check.check not in COMPARED or _ends_elsewhere(check):
            return False
        if check.state == "inconclusive":
            return check.reason in _AT_A_TIE
        return check.state == "fail" and check.reason == "content_wrong" and not self.exact


def trust_in(results: Sequence[Result], caught: Iterable[bool | None]) -> Trust:
    """The oracles of one run. ``caught`` says for each result whether it is a self-test whose planted fault was found
    (False: it was not; None: it is none, or cannot tell)."""
    last = [result for result in results if result.role == "reference-again"]
    completed = [result for result in last if result.outcome == "completed"]
    rescoring = next((result.rescoring for result in completed if result.rescoring is not None), None)
    missed = [result.cell for result, found in zip(results, caught, strict=True) if found is False]
    if rescoring is None:
        why = "the last launch, which rescores, did not" if last else "no launch of this run rescores"
        scores: dict[tuple[str, int], AttemptScore] = {}
        outvoted = disbelieved = reference_wrong = None
        exact = True
    else:
        why = rescoring.reason or ""
        scores = {(score.cell, score.attempt): score for score in rescoring.scores}
        missed += [f"{test.planted} ({test.place})" for test in rescoring.self_tests if test.state == "missed"]
        references = {result.cell for result in last}
        outvoted = next((vote.statement for vote in rescoring.votes if vote.odd in references), None)
        exact = rescoring.calibration is None or rescoring.calibration.exact
        disbelieved = next((s.detail for s in rescoring.scores if s.reason == "reference_not_trusted"), None)
        first = {(result.cell, result.attempt) for result in results if result.role == "reference"}
        wrong = [s for key, s in scores.items() if key in first and s.state == "wrong"]
        reference_wrong = wrong[0].detail if wrong else None
    return Trust(
        ended=bool(last),
        exact=exact,
        scores=scores,
        not_rescored=why or None,
        missed=tuple(dict.fromkeys(missed)),
        outvoted=outvoted,
        disbelieved=disbelieved,
        reference_wrong=reference_wrong,
        unstable=any(_state(result, "lossless") == "fail" for result in completed),
    )


def _ends_elsewhere(check: CheckResult) -> bool:
    """Whether an output is shorter or longer than the reference's: tokens that are not there cannot be scored."""
    counted = any(m.name == "outputs_of_other_length" and m.value for m in check.measurements)
    return counted or any(d.got is None or d.expected is None for d in check.differences)


def _state(result: Result, name: str) -> str | None:
    return next((check.state for check in result.checks if check.check == name), None)
