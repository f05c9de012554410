"""Three arms vote: who stands alone, and when the reference is the one."""

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from matrix.judge.reference import ReferenceOutput
from matrix.judge.votes import Arm, arm_of, judge_votes
from repro import codec
from repro.model import AttemptScore, Calibration, Coordinates, Rescoring, Result, Vote

RECORD: Result = codec.read(Path(__file__).parents[3] / "data" / "records" / "result-v2.json", Result)
KNOWN: Rescoring = RECORD.rescoring  # type: ignore[assignment]
EXACT: Calibration = KNOWN.calibration  # type: ignore[assignment]
ROUNDED = replace(EXACT, exact=False, dtype="bfloat16", delta=0.25)
PROMPTS = tuple(f"p{n}" for n in range(12))
AR, EAGER, GRAPH = "sm_103-ar-eager-nonvls", "sm_103-b16t8-eager-nvls", "sm_103-b16t8-graph-nvls"
CHAIN = "sm_103-c7-graph-nvls"


def said(seed: str, *, like: Mapping[str, tuple[int, ...]] | None = None, until: int = 0) -> dict[str, tuple[int, ...]]:
    """Random answers, that begin as those of another arm."""
    made = {}
    for prompt in PROMPTS:
        rng = random.Random(f"{seed}{prompt}")
        ids = tuple(rng.randrange(1000) for _ in range(40))
        made[prompt] = ((like[prompt][:until] if like else ()) + ids)[:40]
    return made


TRUTH = said("truth")
OTHER = said("other")


def arm(cell: str, outputs: Mapping[str, tuple[int, ...]] = TRUTH, **changes: Any) -> Arm:
    _, name, *graph, nvls = cell.split("-")
    where = Coordinates(
        budget=0 if name == "ar" else 7 if name == "c7" else int(name[1:].partition("t")[0]),
        topk=None if name == "ar" else 8,
        shape="none" if name == "ar" else "chain" if name == "c7" else "tree",
        graph="-".join(graph),  # type: ignore[arg-type]
        nvls=nvls,  # type: ignore[arg-type]
        tier="full",
        engine_source="pr29907",
        variant={},
    )
    facts: dict[str, Any] = {"attempt": 1, "degenerate": False, "state": None, **changes}
    return Arm(cell=cell, coordinates=where, outputs=outputs, **facts)


def votes(*arms: Arm, calibration: Calibration = EXACT, **options: Any) -> tuple[Vote, ...]:
    facts: dict[str, Any] = {"gaps": {}, "margins": MARGINS, **options}
    return judge_votes(arms, reference=AR, calibration=calibration, **facts)


MARGINS = {p: ReferenceOutput(ids=ids, margins=(3.0,) * 40) for p, ids in TRUTH.items()}


def test_arms_that_agree_have_no_odd_one() -> None:
    (everyone,) = votes(arm(AR), arm(EAGER), arm(GRAPH))
    assert everyone == Vote(arms=(AR, EAGER, GRAPH), odd=None, statement="all 3 arms agree")


@pytest.mark.parametrize("odd", [EAGER, GRAPH])
def test_the_one_that_differs_is_named_and_eager_is_not_presumed_right(odd: str) -> None:
    (everyone,) = votes(*(arm(cell, OTHER if cell == odd else TRUTH) for cell in (AR, EAGER, GRAPH)))
    assert everyone.odd == odd
    assert everyone.statement.startswith(f"{odd} stands alone")


def test_two_that_agree_outvote_the_reference() -> None:
    (everyone,) = votes(arm(AR), arm(EAGER, OTHER), arm(GRAPH, OTHER))
    assert everyone.odd == AR


def test_a_reference_that_others_stand_by_is_not_outvoted() -> None:
    """A bug of the tree kernel breaks eager and graphs alike; the chain and other budgets know nothing of it."""
    small, everyone = votes(arm(AR), arm(CHAIN), arm("sm_103-b8t4-eager-nvls"), arm(EAGER, OTHER), arm(GRAPH, OTHER))
    assert (small.arms, small.odd) == ((AR, EAGER, GRAPH), None)
    assert "agree with it" in small.statement
    assert everyone.odd is None
    assert f"not with them: {EAGER}, {GRAPH}" in everyone.statement


def test_a_reference_outvoted_by_most_is_named_even_beside_another_broken_arm() -> None:
    found = votes(arm(AR), arm(EAGER, OTHER), arm(CHAIN, OTHER), arm(GRAPH, said("third")))
    assert [vote.odd for vote in found] == [None, None, AR]
    assert set(found[-1].arms) == {AR, EAGER, CHAIN}


def test_degenerate_arms_have_no_vote() -> None:
    (everyone,) = votes(arm(AR), arm(EAGER, OTHER, degenerate=True), arm(GRAPH, OTHER, degenerate=True))
    assert everyone.odd is None
    assert f"the text is degenerate: {EAGER}, {GRAPH}" in everyone.statement
    assert everyone.statement.startswith("1 arm of 3 left to agree; no vote")
    (nobody,) = votes(*(arm(cell, degenerate=True) for cell in (AR, EAGER, GRAPH)))
    assert nobody.statement.startswith("no arms of 3 left to agree; no vote")
    (broken,) = votes(arm(AR, OTHER, degenerate=True), arm(EAGER), arm(GRAPH))
    assert broken.odd == AR


def test_two_arms_are_no_vote_and_a_cell_has_one_voice() -> None:
    assert votes(arm(AR), arm(GRAPH, OTHER)) == ()
    assert votes(arm(AR), arm(GRAPH), arm(GRAPH, OTHER, attempt=2)) == ()


def parted(at: int) -> dict[str, tuple[int, ...]]:
    return said("parted", like=TRUTH, until=at)


def test_a_tie_parts_no_arms() -> None:
    ties = {p: ReferenceOutput(ids=ids, margins=(3.0,) * 20 + (1e-4,) * 20) for p, ids in TRUTH.items()}
    arms = (arm(AR), arm(EAGER), arm(GRAPH, parted(20)))
    assert votes(*arms, margins=ties)[0].odd is None
    assert votes(*arms)[0].odd == GRAPH
    unknown = votes(*arms, margins=None)[0]
    assert unknown.odd is None
    assert f"not with them: {GRAPH}" in unknown.statement


def test_gaps_tell_a_tie_where_the_reference_said_something_else() -> None:
    one, two = parted(5), {p: (*ids[:30], 5000, *ids[31:]) for p, ids in parted(5).items()}
    arms = (arm(AR, said("ar")), arm(EAGER, one), arm(GRAPH, two))
    even = {(p, ids): (2.0,) * 40 for outputs in (one, two) for p, ids in outputs.items()}
    uneven = {**even, **dict.fromkeys(two.items(), (9.0,) * 40)}
    assert votes(*arms, gaps=even, margins=None)[0].odd is None, ()
    ar = dict.fromkeys(said("ar").items(), (0.0,) * 40)
    assert votes(*arms, gaps={**even, **ar}, margins=None)[0].odd == AR
    assert votes(*arms, gaps={**uneven, **ar}, margins=None)[0].odd is None


def test_an_output_that_ends_early_is_a_difference() -> None:
    short = {p: ids[:30] for p, ids in TRUTH.items()}
    assert votes(arm(AR), arm(EAGER), arm(GRAPH, short))[0].odd == GRAPH


def test_in_an_inexact_dtype_scores_decide() -> None:
    """Healthy arms part by rounding there, each at its own place."""
    arms = (arm(AR), arm(EAGER, parted(10), state="sound"), arm(GRAPH, said("g", like=TRUTH, until=15), state="sound"))
    assert votes(*arms, calibration=ROUNDED)[0].statement == "all 3 arms agree"
    wrong = (*arms[:2], replace(arms[2], state="wrong"))
    assert votes(*wrong, calibration=ROUNDED)[0].odd == GRAPH


def test_two_wrong_arms_agree_if_they_stay_together_longer_than_with_the_reference() -> None:
    apart = said("apart", like=TRUTH, until=3)
    twin = said("twin", like=apart, until=25)
    alike = votes(arm(AR), arm(EAGER, apart, state="wrong"), arm(GRAPH, twin, state="wrong"), calibration=ROUNDED)
    assert alike[0].odd == AR
    lone = said("lone", like=TRUTH, until=3)
    unlike = votes(arm(AR), arm(EAGER, apart, state="wrong"), arm(GRAPH, lone, state="wrong"), calibration=ROUNDED)
    assert unlike[0].odd is None


def test_the_arm_that_an_attempt_is(answer: Any, evidence: Any) -> None:
    cell = replace(RECORD, role="cell", explains=None)
    asked = evidence(
        "lossless", answer("p1"), answer("p1", margins=(1.0,) * 4), answer("p2", error="closed"), answer("p3", ())
    )
    score: AttemptScore = replace(KNOWN.scores[0], state="sound", reason=None)
    found = arm_of(cell, asked, score)
    assert found is not None
    assert (found.outputs, found.degenerate, found.state) == ({"p1": (1, 2, 3, 4)}, False, "sound")
    assert arm_of(replace(cell, role="self-test"), asked, score) is None
    assert arm_of(replace(cell, role="reference-again"), asked, score) is None
    assert arm_of(replace(cell, explains=1), asked, score) is None
    assert arm_of(cell, None, None) is None
    assert arm_of(cell, evidence("lossless", answer("p1", (), error="closed")), None) is None
