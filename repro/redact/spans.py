"""A part of a secret that goes over several lines."""

from typing import NamedTuple


class Span(NamedTuple):
    """Bytes of a log that belong to one secret; ``value`` is all of it."""

    start: int
    end: int
    value: str
