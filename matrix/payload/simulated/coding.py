"""Answers to coding tasks, scripted: where a question holds a text of `coding_answers.json`, that answer is said, a
word a token, in place of made-up words. A token that a fault spoils is a made-up word all the same."""

import json
import re
from functools import lru_cache
from pathlib import Path

from simulated.engine import Sequence
from simulated.language import choose, decode

ANSWERS = Path(__file__).with_name("coding_answers.json")
_PIECE = re.compile(r"\s*\S+\s*?(?=\s|$)|\s+$")


def scripted(question: str, *, wrong: bool) -> tuple[str, ...]:
    """The pieces of the answer, one for each token; empty for a question without one. `wrong`: one that looks like a
    solution and is none."""
    for entry in _entries():
        if entry["question"] in question:
            return tuple(_PIECE.findall(entry["wrong" if wrong else "right"]))
    return ()


def spelled(sequence: Sequence, pieces: tuple[str, ...], begin: int) -> str:
    """The text of the ids from `begin` on."""
    tokens, start = sequence.prompt + sequence.ids, len(sequence.prompt)
    said = []
    for at in range(begin, len(sequence.ids)):
        right = choose(tokens[: start + at][-4:]).first == sequence.ids[at] and at < len(pieces)
        said.append(pieces[at] if right else decode([sequence.ids[at]]))
    return "".join(said)


@lru_cache(maxsize=1)
def _entries() -> tuple[dict[str, str], ...]:
    return tuple(json.loads(ANSWERS.read_bytes())["answers"])
