"""Runs for the judges, made from what `oracle_recordings.py` has recorded: healthy arms, and one with a fault.

In the exact regime the recordings are taken as they are. For the inexact regime rounding is made up: the margin between
the reference's first two choices is moved by Gaussian noise, and an arm says the second choice where that changes the
sign. Such a token lies its margin below the reference's choice. An arm with a planted token says the second choice too,
which is the wrong token that is hardest to see.
"""

import gzip
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from matrix.judge.acceptance import judge_acceptance
from matrix.judge.lossless import judge_lossless
from matrix.judge.reference import ReferenceOutput
from matrix.judge.rescoring import Ids, Judged, Output, Scales, Scored, Spoken, judge
from matrix.judge.text import judge_text
from repro.model import CheckEvidence, CheckPlan, Coordinates, RequestRecord, Role, ScoredText

EXACT = Scales(delta=1e-3, exact=True, dtype="float32")
INEXACT = Scales(delta=0.25, exact=False, dtype="bfloat16")  # δ of the specs b300 and rtxpro6000
SECOND_CHOICE = 100_000  # added to an id: the recordings do not name the reference's second choice
PROMPTS = 20
SUSPECT = "b16-graph"
COORDINATES: Mapping[str, tuple[int, Literal["none", "chain", "tree"], Literal["graph", "eager"]]] = {
    "ar": (0, "none", "eager"),
    "chain-eager": (7, "chain", "eager"),
    "b8-eager": (8, "tree", "eager"),
    "b16-eager": (16, "tree", "eager"),
    "b32-eager": (32, "tree", "eager"),
    "b32-graph": (32, "tree", "graph"),
    SUSPECT: (16, "tree", "graph"),
}
Numbers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """An output, and the reference's scores of it; NaN where a score is not finite."""

    prompt: str
    concurrency: int
    ids: Ids
    gaps: Numbers
    margins: Numbers
    verify_calls: int | None


Lines = Mapping[str, Line]
Arms = Mapping[str, Sequence[Line]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What the judges say of an arm, and whether rescoring finds anything wrong with the ``others``. ``limit``: the
    share of wrong tokens that rescoring says it can see."""

    rescoring: bool
    lossless: bool
    text: bool
    acceptance: bool
    others: bool
    smallest: int | None
    limit: float | None

    @property
    def corrupt_or_useless(self) -> bool:
        return self.rescoring or self.acceptance


def rounds(file: Path) -> list[tuple[int, int, str, dict[str, Line]]]:
    """(launch, set, fault, outputs by prompt) of each recorded round."""
    data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    documents = [json.loads(line) for line in data.decode().splitlines()]
    return [(d["launch"], d["set"], d["fault"], {a["prompt"]: line(a) for a in d["answers"]}) for d in documents]


def line(answer: Mapping[str, Any]) -> Line:
    """Of the document of an answer."""
    return Line(
        prompt=answer["prompt"],
        concurrency=answer["concurrency"],
        ids=tuple(answer["ids"]),
        gaps=np.array(answer["gaps"], dtype=float),
        margins=np.array(answer["margins"], dtype=float),
        verify_calls=answer["verify_calls"],
    )


def by_fault(file: Path) -> dict[str, dict[str, Line]]:
    """The recorded outputs of all sets, by fault and prompt."""
    found: dict[str, dict[str, Line]] = {}
    for _, _, fault, lines in rounds(file):
        found.setdefault(fault, {}).update(lines)
    return found


# --- noise and planted tokens -----------------------------------------------------------------------------------------

Noise = Callable[[np.random.Generator, int], float | Numbers]
"""(generator, number of the prompt) -> standard deviation, nats, for all tokens of the output or for each."""


def second_choices(said: Line, where: NDArray[np.bool_]) -> Line:
    """The output with the reference's second choice at these places. What follows keeps its scores."""
    if not where.any():
        return said
    ids = np.where(where, np.array(said.ids) + SECOND_CHOICE, said.ids)
    gaps = np.where(where, said.margins, said.gaps)
    return Line(
        prompt=said.prompt,
        concurrency=said.concurrency,
        ids=tuple(ids.tolist()),
        gaps=gaps,
        margins=said.margins,
        verify_calls=said.verify_calls,
    )


def rounded(said: Line, sd: float | Numbers, chance: np.random.Generator) -> Line:
    """The output of an arm whose margins differ from the reference's by such noise; wrong tokens stay as they are."""
    moved = said.margins + chance.normal(0.0, 1.0, len(said.margins)) * sd
    return second_choices(said, (moved < 0) & (said.gaps == 0))


def one_in(lines: Sequence[Line], every: int, chance: np.random.Generator) -> list[Line]:
    """One wrong token in so many, at a random place of each stretch over all outputs."""
    total = sum(len(said.ids) for said in lines)
    places = {begin + int(chance.integers(every)) for begin in range(0, total, every)}
    return _at(lines, lambda at, _, __: at in places)


def at_share(lines: Sequence[Line], share: float, chance: np.random.Generator) -> list[Line]:
    """Each token is wrong with this chance."""
    return _at(lines, lambda _, __, ___: chance.random() < share)


def late(lines: Sequence[Line], chance: np.random.Generator) -> list[Line]:
    """Half of the tokens in the last tenth of each output, by chance."""
    return _at(lines, lambda _, at, n: at >= n - n // 10 and chance.random() < 0.5)


def _at(lines: Sequence[Line], is_wrong: Callable[[int, int, int], bool]) -> list[Line]:
    """``is_wrong`` is asked with the place among all tokens, the place in the output, and the output's length."""
    changed, before = [], 0
    for said in lines:
        n = len(said.ids)
        changed.append(second_choices(said, np.array([is_wrong(before + at, at, n) for at in range(n)])))
        before += n
    return changed


# --- judging ----------------------------------------------------------------------------------------------------------


def judged(arms: Arms, scales: Scales, *, limit: bool = True) -> Judged:
    """Rescoring of a run. Without ``limit`` no detection limit is computed, which takes most of the time."""
    texts: dict[tuple[str, Ids], ScoredText] = {}
    spoken = []
    for cell, lines in arms.items():
        outputs = []
        for said in lines:
            if (said.prompt, said.ids) not in texts:
                gaps = tuple(None if gap != gap else gap for gap in said.gaps.tolist())
                texts[said.prompt, said.ids] = ScoredText(
                    id=f"t{len(texts)}", error=None, prompt_tokens=None, logprobs=(None,) * len(gaps), gaps=gaps
                )
            check: Literal["lossless", "load"] = "lossless" if said.concurrency == 1 else "load"
            outputs.append(Output(check=check, concurrency=said.concurrency, prompt=said.prompt, ids=said.ids))
        role: Role = "reference" if cell == "ar" else "cell"
        spoken.append(Spoken(cell=cell, attempt=1, role=role, coordinates=coordinates(cell), outputs=tuple(outputs)))
    margins = [margin for said in arms["ar"] for margin in said.margins.tolist()] if limit else []
    return judge(spoken, Scored(texts), scales, margins)


def found_in(arms: Arms, scales: Scales, suspect: str = SUSPECT) -> Found:
    """What each judge makes of the arm ``suspect``."""
    told = judged(arms, scales)
    wrong = {score.cell: score for score in told.scores if score.state == "wrong"}
    reference = {
        said.prompt: ReferenceOutput(ids=said.ids, margins=tuple(said.margins.tolist()), text=None)
        for said in arms["ar"]
    }
    evidence = _evidence(arms[suspect])
    plan = _plan(scales.delta)
    absolute = judge_text(evidence.requests, reference)
    return Found(
        rescoring=suspect in wrong,
        lossless=judge_lossless(plan, evidence, None, reference).reason == "content_wrong",
        text=absolute.worse_for_certain,
        acceptance=judge_acceptance(plan, evidence).state == "fail",
        others=bool(wrong.keys() - {suspect}),
        smallest=wrong[suspect].smallest_wrong_concurrency if suspect in wrong else None,
        limit=told.calibration.detection_share if told.calibration is not None else None,
    )


def coordinates(cell: str) -> Coordinates:
    """Of an arm of these runs."""
    budget, shape, graph = COORDINATES[cell]
    return Coordinates(
        budget=budget,
        topk=None,
        shape=shape,
        graph=graph,
        nvls="nonvls",
        tier="small",
        engine_source="stock",
        variant={},
    )


def _plan(delta: float) -> CheckPlan:
    return CheckPlan(
        check="lossless",
        applicable=True,
        reason=None,
        prompts=PROMPTS,
        max_new_tokens=96,
        concurrency=(1,),
        margins=False,
        tie_margin=delta,
        repeats=None,
        cancel_every=None,
        peer=None,
        limit_s=60.0,
    )


def _evidence(lines: Iterable[Line]) -> CheckEvidence:
    return CheckEvidence(
        check="lossless",
        begun_s=0.0,
        ended_s=1.0,
        complete=True,
        stopped_because=None,
        requests=tuple(_request(said) for said in lines),
        server_accept_length=None,
        counts=(),
    )


def _request(said: Line) -> RequestRecord:
    return RequestRecord(
        prompt=said.prompt,
        concurrency=said.concurrency,
        repeat=1,
        cancelled=False,
        asked_tokens=len(said.ids),
        begun_s=0.0,
        first_token_s=0.1,
        ended_s=1.0,
        status=200,
        error=None,
        finish_reason="length",
        output_ids=said.ids,
        output_text=None,
        usage_tokens=len(said.ids),
        verify_calls=said.verify_calls,
        accept_histogram=None,
        margins=None,
        token_times=(),
    )
