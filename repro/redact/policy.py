"""What the owner of a machine adds to the rules."""

from collections.abc import Iterable
from dataclasses import dataclass

from repro.errors import SpecError

SHORTEST_WORD = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """``hosts``, ``users`` and ``folders`` (absolute) are known names of this machine. ``words`` are the owner's own: a
    customer, a project, an unreleased model; they are replaced wherever they stand, in either case. With
    ``hide_prompts`` prompts and answers are replaced too, ``prompts`` being texts known beforehand."""

    hosts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    hide_prompts: bool = False
    prompts: tuple[str, ...] = ()


def words_from(lines: Iterable[str], where: str) -> tuple[str, ...]:
    """The words of a file with one a line; empty lines and lines that begin with `#` do not count.

    Raises SpecError for a word that is too short to be looked for everywhere.
    """
    words = []
    for number, line in enumerate(lines, start=1):
        word = line.strip()
        if not word or word.startswith("#"):
            continue
        if len(word) < SHORTEST_WORD:
            raise SpecError(
                f"{where}:{number}: {word!r} is too short; give words of at least {SHORTEST_WORD} characters"
            )
        words.append(word)
    return tuple(dict.fromkeys(words))
