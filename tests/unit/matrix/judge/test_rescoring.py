"""Scores of attempts from the gaps of their tokens."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matrix.judge.rescoring import Ids, Judged, Output, Scales, Scored, Spoken, detection_share, judge, p_value
from repro.model import AttemptScore, Coordinates, ScoredText

TOKENS = 1000
EXACT = Scales(delta=1e-3, exact=True, dtype="float32")
ROUNDED = Scales(delta=0.1, exact=False, dtype="bfloat16")
SHAPES = {"ar": "none", "c7": "chain"}


def judged(gaps: Mapping[str, Sequence[float | None]], scales: Scales) -> Judged:
    """One output for each arm; arms answer alike in length, and differ in their first id."""
    texts: dict[tuple[str, Ids], ScoredText] = {}
    spoken = []
    for number, (cell, found) in enumerate(gaps.items()):
        ids = (number, *range(100, 99 + len(found)))
        texts["p", ids] = ScoredText(
            id=cell, error=None, prompt_tokens=4, logprobs=tuple(-1.0 for _ in found), gaps=tuple(found)
        )
        output = Output(check="lossless", concurrency=1, prompt="p", ids=ids)
        role = "reference" if cell == "ar" else "cell"
        spoken.append(
            Spoken(cell=cell, attempt=1, role=role, coordinates=coordinates(cell), outputs=(output,))  # type: ignore[arg-type]
        )
    return judge(spoken, Scored(texts), scales, [1.0] * TOKENS)


def coordinates(cell: str) -> Coordinates:
    return Coordinates(
        budget=None if cell == "ar" else 8,
        topk=None,
        shape=SHAPES.get(cell, "tree"),  # type: ignore[arg-type]
        graph="eager",
        nvls="nonvls",
        tier="small",
        engine_source="stock",
        variant={},
    )


def gaps_with(count: int, size: float | None = 2.0) -> list[float | None]:
    """So many exceedances, spread out."""
    gaps: list[float | None] = [0.0] * TOKENS
    for at in range(count):
        gaps[at * (TOKENS // count)] = size
    return gaps


def states(result: Judged) -> dict[str, str]:
    return {score.cell: score.state for score in result.scores}


def score_of(result: Judged, cell: str) -> AttemptScore:
    return next(score for score in result.scores if score.cell == cell)


def test_clean_arms_are_sound_in_both_regimes():
    for scales in (EXACT, ROUNDED):
        result = judged({"ar": gaps_with(0), "c7": gaps_with(0), "b8": gaps_with(0)}, scales)
        assert set(states(result).values()) == {"sound"}


@pytest.mark.parametrize("size", [2.0, None])
def test_one_wrong_token_is_enough_in_an_exact_dtype(size):
    result = judged({"ar": gaps_with(0), "c7": gaps_with(0), "b8": gaps_with(1, size)}, EXACT)
    assert states(result) == {"ar": "sound", "c7": "sound", "b8": "wrong"}
    assert score_of(result, "b8").places[0].gap == size


@pytest.mark.parametrize("arms", [("b8", "b16"), ("c7", "b8", "b16", "b32")])
def test_arms_with_the_same_rare_fault_do_not_excuse_each_other(arms):
    healthy = {"ar": gaps_with(0), **{arm: gaps_with(0) for arm in ("c7", "b8", "b16", "b32")}}
    result = judged({**healthy, **{arm: gaps_with(5) for arm in arms}}, EXACT)
    assert {cell for cell, state in states(result).items() if state == "wrong"} == set(arms)
    assert result.calibration is not None
    assert result.calibration.exact


def test_rounding_that_every_arm_shows_is_no_fault():
    result = judged({arm: gaps_with(5, 0.2) for arm in ("ar", "c7", "b8", "b16")}, ROUNDED)
    assert set(states(result).values()) <= {"sound", "unknown"}


def test_many_more_than_usual_is_wrong_where_rounding_shows():
    arms = {"ar": gaps_with(2), "c7": gaps_with(2), "b8": gaps_with(2), "b16": gaps_with(40)}
    assert states(judged(arms, ROUNDED))["b16"] == "wrong"


def test_a_run_is_wrong_where_its_share_is_not():
    late: list[float | None] = [0.0] * (TOKENS - 6) + [2.0] * 6
    arms = {"ar": gaps_with(2), "c7": gaps_with(2), "b8": gaps_with(2), "b16": late}
    assert states(judged(arms, ROUNDED))["b16"] == "wrong"


def test_a_short_run_is_no_sign_since_healthy_exceedances_come_in_clusters():
    three: list[float | None] = [0.0] * (TOKENS - 3) + [0.3] * 3
    arms = {"ar": gaps_with(2), "c7": gaps_with(2), "b8": gaps_with(2), "b16": three}
    assert states(judged(arms, ROUNDED))["b16"] == "sound"


def test_a_reference_that_nothing_agrees_with_accuses_nobody():
    result = judged({arm: gaps_with(300) for arm in ("ar", "c7", "b8")}, EXACT)
    assert "wrong" not in states(result).values()


@settings(max_examples=60)
@given(k=st.integers(0, 60), run=st.integers(0, 6), k0=st.integers(0, 60))
def test_more_exceedances_are_never_less_suspect(k, run, k0):
    p = p_value(k, 900, run, k0, 3600)
    assert 0.0 <= p <= 1.0
    assert p_value(k + 1, 900, run, k0, 3600) <= p + 1e-12


def test_the_limit_counts_on_no_more_witnesses_than_the_worst_placed_attempt_has():
    few = judged({"ar": gaps_with(2), "c7": gaps_with(2), "b8": gaps_with(2), "b16": gaps_with(2)}, ROUNDED)
    assert few.calibration is not None
    assert few.calibration.detection_share == detection_share(TOKENS, 4, 2 * TOKENS, 1.0, exact=False)


def test_the_smallest_concurrency_is_that_whose_outputs_are_wrong_by_themselves():
    lonely, crowded = (0, *range(TOKENS - 1)), (1, *range(TOKENS - 1))
    texts = {
        ("p", ids): ScoredText(id="t", error=None, prompt_tokens=4, logprobs=(-1.0,) * TOKENS, gaps=tuple(gaps))
        for ids, gaps in ((lonely, gaps_with(2)), (crowded, gaps_with(50)))
    }

    def said(cell: str, *levels: tuple[int, Ids]) -> Spoken:
        outputs = tuple(Output(check="load", concurrency=c, prompt="p", ids=ids) for c, ids in levels)
        return Spoken(cell=cell, attempt=1, role="cell", coordinates=coordinates(cell), outputs=outputs)

    arms = [said(cell, (1, lonely)) for cell in ("ar", "c7", "b8")]
    result = judge([*arms, said("b16", (1, lonely), (4, crowded))], Scored(texts), ROUNDED)
    assert score_of(result, "b16").smallest_wrong_concurrency == 4
