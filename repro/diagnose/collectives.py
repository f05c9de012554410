"""Collectives that ran into their time limit: which rank kept the others waiting."""

from collections.abc import Sequence
from dataclasses import dataclass

from repro.diagnose.timeline import Placed

_TIMEOUT = "collective-timeout"
_STATE = "collective-state"


@dataclass(frozen=True, kw_only=True, slots=True)
class Laggard:
    """The rank that did not come to a collective for which ``waiting`` ranks waited; None: the log does not show it."""

    rank: str | None
    waiting: tuple[str, ...]
    events: tuple[Placed, ...]


def laggard(placed: Sequence[Placed]) -> Laggard | None:
    """Who lags behind in the time-outs of collectives; None if there are none."""
    timeouts = [item for item in placed if _TIMEOUT in item.event.pattern.tags]
    if not timeouts:
        return None
    waiting = {_number(item) for item in timeouts} - {None}
    waited_for = max((_integer(item, "seq") for item in timeouts), default=0)
    behind = {
        rank
        for item in placed
        if _STATE in item.event.pattern.tags
        and (rank := _number(item)) is not None
        and "enqueued" in item.event.groups
        and _integer(item, "enqueued") < waited_for
    }
    seen = {rank for item in placed if (rank := _number(item)) is not None}
    missing = behind or (seen - waiting if len(waiting) > 1 else set())
    return Laggard(
        rank=min(missing, key=_by_number) if missing else None,
        waiting=tuple(sorted((rank for rank in waiting if rank is not None), key=_by_number)),
        events=tuple(timeouts),
    )


def _number(item: Placed) -> str | None:
    rank = item.event.groups.get("rank") or item.event.rank
    digits = "".join(mark for mark in (rank or "").split(" ")[-1] if mark.isdigit())
    return digits or None


def _by_number(rank: str) -> int:
    return int(rank)


def _integer(item: Placed, name: str) -> int:
    value = item.event.groups.get(name, "")
    return int(value) if value.isdigit() else 0
