"""The pseudo language model and the acceptance that goes with it."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import language
from simulated.acceptance import Acceptance, mean_for
from simulated.language import VOCABULARY, choose, decode, encode, garbage

TOKENS = st.lists(st.integers(0, VOCABULARY - 1), max_size=12)


@given(TOKENS)
def test_a_choice(context):
    choice = choose(context)
    assert choice == choose(context[-4:])
    assert choice.first != choice.second
    assert choice.first_logprob >= choice.second_logprob
    assert math.exp(choice.first_logprob) + math.exp(choice.second_logprob) <= 1
    other = 31_999 - choice.first % 2
    assert choice.logprob(other) <= choice.second_logprob - 2 or other in (choice.first, choice.second)


def test_the_same_in_every_process():
    program = "from simulated.language import choose; print(choose([1, 2, 3, 4]))"
    payload = Path(language.__file__).parents[1]
    words, environment = [sys.executable, "-c", program], {"PYTHONPATH": str(payload)}
    assert subprocess.check_output(words, env=environment, text=True).strip() == repr(choose([1, 2, 3, 4]))


def test_margins_are_like_those_of_a_model():
    margins = sorted(choose([n]).first_logprob - choose([n]).second_logprob for n in range(10_000))
    assert 0 < sum(margin < 1e-3 for margin in margins) < 30
    assert margins[5_000] == pytest.approx(2.2 * math.log(2), abs=0.1)


def test_texts_do_not_loop():
    text = [7]
    for _ in range(3_000):
        text.append(choose(text).first)
    assert len({tuple(text[at : at + 8]) for at in range(2_992)}) == 2_992


@given(TOKENS)
def test_decoding(ids):
    assert decode(ids) == "".join(decode([token]) for token in ids)
    decode(ids).encode()


def test_different_tokens_are_different_words():
    plain = [decode([token]) for token in language.PLAIN]
    assert len(set(plain)) > 0.95 * len(plain)


def test_prompts():
    assert encode("a b a")[0] == encode("a b a")[2] != encode("a b a")[1]
    assert encode(" ") == [language.PLAIN.start]
    assert garbage(1) == garbage(1) not in language.PLAIN


@pytest.mark.parametrize(
    ("budget", "mean"),
    [(0, 1.0), (1, 2.0), (4, 2.0), (8, 3.0), (16, 4.0), (12, 3 + math.log(1.5) / math.log(2)), (64, 4.0)],
)
def test_mean_by_budget(budget, mean):
    assert mean_for(budget, {4: 2.0, 8: 3.0, 16: 4.0}) == pytest.approx(mean)


def test_no_means_at_all():
    assert mean_for(8, {}) == 1.0


@pytest.mark.parametrize("mean", [1.0, 1.5, 3.37, 7.9, 8.0, 20.0])
def test_draws(mean):
    acceptance = Acceptance(mean, 7)
    draws = [acceptance.draw((0, 0, 0, n)) for n in range(4_000)]
    assert 0 <= min(draws) <= max(draws) <= 7
    assert sum(draws) / len(draws) + 1 == pytest.approx(min(mean, 8.0), abs=0.12)


def test_a_higher_mean_accepts_more_each_time():
    low, high = Acceptance(2.4, 7), Acceptance(3.6, 7)
    assert all(low.draw((0, 1, 2, n)) <= high.draw((0, 1, 2, n)) for n in range(1_000))
