"""How documents of earlier schema versions become documents of the present one: one function for each n -> n + 1."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Migration: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]

MIGRATIONS: Mapping[tuple[str, int], Migration] = {}
"""(record, n) -> the function that turns a document of version n into one of version n + 1, ``schema_version`` apart.
It returns a new document. A field that the old version did not have becomes null with a reason, never a guess."""


def migrate(
    document: Mapping[str, Any],
    record: str,
    *,
    to: int,
    migrations: Mapping[tuple[str, int], Migration] = MIGRATIONS,
) -> dict[str, Any]:
    """The document at version ``to``. Raises KeyError if no function starts from a version on the way."""
    current = dict(document)
    for step in range(current["schema_version"], to):
        function = migrations.get((record, step))
        if function is None:
            raise KeyError(record, step)
        current = {**function(current), "schema_version": step + 1}
    return current
