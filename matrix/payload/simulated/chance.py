"""Randomness that is the same in every process: a hash of what it is about, in place of a generator's state."""

from hashlib import blake2b
from struct import Struct

_UNIT = 1 / (1 << 64)


def number(*about: object) -> int:
    """64 bits that depend on the arguments alone."""
    return int.from_bytes(blake2b(repr(about).encode(), digest_size=8).digest(), "little")


def share(*about: object) -> float:
    """Evenly distributed in [0, 1)."""
    return number(*about) * _UNIT


_WORDS = Struct("<5q")


def of_context(salt: int, context: tuple[int, int, int, int]) -> int:
    """64 bits for the last four tokens; the inner loop of the engine, hence without `repr`."""
    return int.from_bytes(blake2b(_WORDS.pack(salt, *context), digest_size=8).digest(), "little")
