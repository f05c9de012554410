"""The pseudo language model: after each context one right token and a second choice, with log-probabilities.

The next token depends on the last four tokens alone, so all configurations that work give equal ids, a wrong token
changes all that follow it, and a text can be rescored without having been generated here.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from simulated.chance import number, of_context

VOCABULARY = 32_000
PLAIN = range(10, 30_000)
"""The ids of words. Below them is punctuation, above are the signs that only garbled output has."""

_PUNCTUATION = ("!", ".", ",", ":", ";", "?", "\n", "(", ")", "-")
_ONSETS = ("b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr")
_VOWELS = ("a", "e", "i", "o", "u", "ea")
_CODAS = ("", "n", "r", "s", "t", "l", "m", "nd")
_SIGNS = ("\ufffd", "}}", "||", "\\x", "##", "@@", "~", "^", "<<", "]]")
_SALT = 20_011
_MEAN_MARGIN = 2.2
_REST = 0.3


@dataclass(frozen=True, slots=True)
class Choice:
    """What the model says after a context: the first two tokens and their log-probabilities."""

    first: int
    second: int
    first_logprob: float
    second_logprob: float

    def logprob(self, token: int) -> float:
        """Log-probability of any token; that of the unlikely ones is spread by their number."""
        if token == self.first:
            return self.first_logprob
        if token == self.second:
            return self.second_logprob
        return self.second_logprob - 2.0 - (token * 2_654_435_761 % 6_000) / 1_000


def choose(context: Sequence[int]) -> Choice:
    """The choice after this text. The margin between first and second is exponentially distributed, so ties are rare
    but do occur."""
    last = tuple(context[-4:])
    bits = of_context(_SALT, (0,) * (4 - len(last)) + last)  # type: ignore[arg-type]
    first = PLAIN.start + bits % len(PLAIN)
    second = PLAIN.start + (bits >> 16) % len(PLAIN)
    if second == first:
        second = first + 1 if first + 1 in PLAIN else PLAIN.start
    margin = -_MEAN_MARGIN * math.log1p(-((bits >> 32) / (1 << 32)))
    best = -math.log1p((1 + _REST) * math.exp(-margin))
    return Choice(first, second, best, best - margin)


def garbage(*about: object) -> int:
    """A token that no healthy text has."""
    return PLAIN.stop + number("garbage", *about) % (VOCABULARY - PLAIN.stop)


def encode(text: str) -> list[int]:
    """Ids of a prompt, one for each word. There is no way back: a prompt is never decoded."""
    return [PLAIN.start + number("word", word) % len(PLAIN) for word in re.findall(r"\S+", text)] or [PLAIN.start]


def decode(ids: Sequence[int]) -> str:
    """The text of output ids: made-up words that differ for different ids."""
    return "".join(map(_word, ids))


@cache  # each chunk is decoded from its first token on, which is most of the server's work
def _word(token: int) -> str:
    if token < PLAIN.start:
        return _PUNCTUATION[max(token, 0)]
    if token >= PLAIN.stop:
        return _SIGNS[token % len(_SIGNS)]
    rest, syllables = token, []
    for _ in range(2):
        rest, onset = divmod(rest, len(_ONSETS))
        rest, vowel = divmod(rest, len(_VOWELS))
        syllables.append(_ONSETS[onset] + _VOWELS[vowel])
    return " " + "".join(syllables) + _CODAS[rest % len(_CODAS)]
