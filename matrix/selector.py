"""Which cells a run is about: globs over cell ids."""

import fnmatch
import re
from collections.abc import Callable, Iterable


def matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """A predicate that is true for a cell id that any of the shell globs matches, as a whole and case-sensitively."""
    compiled = [re.compile(fnmatch.translate(pattern)) for pattern in patterns]
    return lambda cell: any(pattern.match(cell) for pattern in compiled)
