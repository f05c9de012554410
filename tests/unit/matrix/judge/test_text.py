"""Absolute checks: garbage is seen without anything to compare it with, and healthy text never is."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from matrix.judge.lossless import judge_lossless, judge_reference
from matrix.judge.reference import ReferenceOutput, reference_from
from matrix.judge.text import disagreeing_counts, is_degenerate, judge_text, look_at, without_end
from matrix.preflight.oracle import recorded
from repro.model import CheckResult

Make = Callable[..., Any]
PROMPTS = tuple(f"p{n}" for n in range(20))


def healthy(prompt: str, length: int = 96) -> tuple[int, ...]:
    """Words of a small vocabulary, with a phrase that comes back: what a tiny model says."""
    rng = random.Random(prompt)
    ids = [rng.randrange(40) for _ in range(length)]
    ids[30:45] = ids[10:25]
    return tuple(ids)


def stuck(prompt: str, length: int = 96) -> tuple[int, ...]:
    """Right at first, then token 0: logits that became NaN."""
    return (*healthy(prompt)[:8], *[0] * (length - 8))


def loop(prompt: str, length: int = 96) -> tuple[int, ...]:
    words = healthy(prompt)[:5]
    return tuple(words[at % 5] for at in range(length))


REFERENCE = {p: ReferenceOutput(ids=healthy(p), margins=(3.0,) * 96, text="said") for p in PROMPTS}


@pytest.mark.parametrize(
    ("ids", "text", "signs"),
    [
        ((), None, ("empty",)),
        ((7,) * 96, None, ("one_token", "few_tokens", "loops", "stuck")),
        (stuck("p1"), None, ("few_tokens", "loops", "stuck")),
        (loop("p1"), None, ("loops",)),
        ((1, 2) * 48, None, ("few_tokens", "loops")),
        (healthy("p1"), "the same words again " * 40, ("compresses",)),
        (healthy("p1"), "\N{REPLACEMENT CHARACTER}a" * 30, ("invalid_utf8",)),
        (healthy("p1"), "cut off inside a character \N{REPLACEMENT CHARACTER}", ()),
        (healthy("p1"), "He said so, and then they went home.", ()),
        ((5,) * 8, None, ()),  # too short to say anything of
    ],
)
def test_signs_of_a_broken_text(ids: tuple[int, ...], text: str | None, signs: tuple[str, ...]) -> None:
    assert look_at(ids, text).signs == signs


def test_the_recording_of_a_real_server_is_healthy() -> None:
    found = judge_text(recorded().requests, reference_from(recorded()))
    assert (found.degenerate, found.mostly, found.reference_mostly, found.statement) == (0, False, False, "")
    assert not found.doubtful


def test_half_of_the_outputs_make_an_arm_degenerate(answer: Make, evidence: Make) -> None:
    def arm(bad: int) -> Any:
        return evidence("lossless", *(answer(p, loop(p) if n < bad else healthy(p)) for n, p in enumerate(PROMPTS)))

    assert [is_degenerate(arm(bad)) for bad in (0, 9, 10, 20)] == [False, False, True, True]
    assert not is_degenerate(None)


def test_one_answer_to_every_prompt_was_never_a_reading_of_them(answer: Make) -> None:
    same = judge_text([answer(p, healthy("other")) for p in PROMPTS[:4]], None)
    assert same.mostly
    assert "every prompt has the same answer" in same.statement
    assert not judge_text([answer(p, healthy("other")) for p in PROMPTS[:3]], None).mostly


@pytest.mark.parametrize(("worse", "certain", "doubtful"), [(0, False, False), (4, False, False), (5, False, True)])
def test_few_worse_prompts_leave_it_open(answer: Make, worse: int, certain: bool, doubtful: bool) -> None:
    found = judge_text([answer(p, loop(p) if n < worse else healthy(p)) for n, p in enumerate(PROMPTS)], REFERENCE)
    assert (found.worse_for_certain, found.doubtful) == (certain, doubtful)
    assert found.p_value == pytest.approx(0.5**worse)


# --- what becomes of `lossless` ---------------------------------------------------------------------------------------


@pytest.fixture
def judged(answer: Make, evidence: Make, check_plan: Make) -> Make:
    def judge(outputs: Callable[[str], tuple[int, ...]], reference: Any = REFERENCE, **options: Any) -> CheckResult:
        requests = [answer(p, outputs(p), output_text="said") for p in PROMPTS]
        return judge_lossless(check_plan("lossless"), evidence("lossless", *requests), None, reference, **options)

    return judge


def said_by(outputs: Callable[[str], tuple[int, ...]], margin: float | None = 3.0) -> dict[str, ReferenceOutput]:
    margins = () if margin is None else (margin,) * 96
    return {p: ReferenceOutput(ids=outputs(p), margins=margins, text="said") for p in PROMPTS}


def test_two_arms_that_agree_on_garbage_do_not_pass(judged: Make) -> None:
    result = judged(loop, said_by(loop))
    assert (result.state, result.reason) == ("inconclusive", "text_degenerate")
    assert "20 of 20 outputs equal the reference" in result.detail
    assert "both are suspect" in result.detail


def test_nothing_is_held_against_a_degenerate_reference(judged: Make) -> None:
    result = judged(healthy, said_by(loop))
    assert (result.state, result.reason) == ("inconclusive", "reference_degenerate")


def test_garbage_beside_a_healthy_reference_is_wrong_even_where_no_margin_is_known(judged: Make) -> None:
    result = judged(loop, said_by(healthy, margin=None))
    assert (result.state, result.reason) == ("fail", "text_degenerate")
    assert judged(loop).reason == "content_wrong", "a decided token that differs is the better evidence"
    assert "20 of 20 prompts is degenerate" in judged(loop).detail


def test_equal_ids_whose_text_is_garbled_are_wrong(answer: Make, evidence: Make, check_plan: Make) -> None:
    garbled = [answer(p, healthy(p), output_text="\N{REPLACEMENT CHARACTER}x" * 40) for p in PROMPTS]
    result = judge_lossless(check_plan("lossless"), evidence("lossless", *garbled), None, REFERENCE)
    assert (result.state, result.reason) == ("fail", "text_degenerate")


def test_dummy_weights_speak_garbage_and_that_says_nothing(judged: Make, answer: Make, evidence: Make) -> None:
    assert judged(loop, said_by(loop), real_weights=False).state == "pass"


@pytest.mark.parametrize(("real", "reason"), [(True, "text_degenerate"), (False, None)])
def test_a_reference_that_speaks_garbage_is_no_witness(answer: Make, evidence: Make, real: bool, reason: Any) -> None:
    both = [answer(p, loop(p), margins=margins) for p in PROMPTS for margins in (None, (3.0,) * 96)]
    assert judge_reference(evidence("lossless", *both), real_weights=real).reason == reason


def test_healthy_outputs_pass_with_their_measures(judged: Make) -> None:
    result = judged(healthy)
    assert (result.state, result.reason) == ("pass", None)
    numbers = {m.name: m.value for m in result.measurements}
    assert numbers["degenerate_outputs"] == numbers["invalid_utf8"] == 0
    assert numbers["distinct_8grams"] > 0.8
    assert numbers["token_entropy"] > 4
    assert "outputs_of_other_length" not in numbers


def test_an_output_of_another_length_is_counted(judged: Make) -> None:
    result = judged(lambda prompt: healthy(prompt)[:90] if prompt == "p3" else healthy(prompt))
    assert {m.name: m.value for m in result.measurements}["outputs_of_other_length"] == 1


def test_counts_that_disagree_keep_it_from_passing(answer: Make, evidence: Make, check_plan: Make) -> None:
    lying = [answer(p, healthy(p), usage_tokens=95 if p == "p3" else 96) for p in PROMPTS]
    result = judge_lossless(check_plan("lossless"), evidence("lossless", *lying), None, REFERENCE)
    assert (result.state, result.reason) == ("inconclusive", "token_counts_disagree")
    assert disagreeing_counts(lying) == 1
    assert disagreeing_counts([answer("p1", usage_tokens=None), answer("p2", error="closed", usage_tokens=1)]) == 0


def test_an_end_is_missed_only_where_it_was_expected(answer: Make) -> None:
    ended = [answer(finish_reason="stop"), answer(finish_reason="length"), answer(finish_reason=None, error="closed")]
    assert without_end(ended) == 1
