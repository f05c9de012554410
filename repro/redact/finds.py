"""What was found in a text, and where."""

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias, get_args

Category: TypeAlias = Literal[
    "secret",
    "word",
    "prompt",
    "email",
    "uuid",
    "serial",
    "path",
    "mac",
    "ip",
    "phone",
    "host",
    "user",
    "name",
    "variable",
]

ORDER: tuple[Category, ...] = get_args(Category)
"""Where two finds overlap, both are replaced, by the pseudonym of the one that stands here first."""

_RANK = {category: rank for rank, category in enumerate(ORDER)}


class Find(NamedTuple):
    """Characters ``start`` to ``end`` of a text are to be replaced. ``value`` is what the pseudonym stands for."""

    start: int
    end: int
    category: Category
    value: str


def merged(finds: Iterable[Find]) -> list[Find]:
    """Finds in order, none overlapping another: overlapping ones become one over all their characters."""
    result: list[Find] = []
    for find in sorted(finds, key=lambda find: (find.start, -find.end)):
        if find.start >= find.end:
            continue
        if result and find.start < result[-1].end:
            last = result[-1]
            first = min((last, find), key=lambda one: (_RANK[one.category], one.start))
            result[-1] = Find(last.start, max(last.end, find.end), first.category, first.value)
        else:
            result.append(find)
    return result
