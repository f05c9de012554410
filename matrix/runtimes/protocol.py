"""What every runtime can do. One contract suite (`tests/contract/test_runtimes.py`) holds them all to it."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptOrder:
    """An attempt to start: ``directory`` holds `step.json`; ``label`` marks every process that the attempt starts."""

    directory: Path
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How the attempt program ended. ``status`` is its exit status, negative for a signal; None if it was abandoned."""

    status: int | None
    detail: str


class Handle(Protocol):
    """A running attempt."""

    def wait(self, timeout_s: float) -> Ended | None:
        """How it ended, or None if it still runs after ``timeout_s`` seconds."""

    def stop(self) -> None:
        """Ask the attempt to stop its server and end. Returns at once."""

    def kill(self) -> None:
        """End the attempt and everything that it started, now."""


class Runtime(Protocol):
    """``on_owner_death``: `reap`: the attempt dies with the harness, as far as it can, and `reap_leftovers` ends the
    rest; `adopt`: it goes on, and a later harness takes it over."""

    @property
    def name(self) -> Literal["local", "docker", "slurm"]: ...

    @property
    def on_owner_death(self) -> Literal["reap", "adopt"]: ...

    def placeholders(self) -> Mapping[str, str]:
        """Values of ``{python}`` and ``{payload}`` as they are seen where the attempt runs."""

    def reap_leftovers(self, prefix: str) -> int:
        """End what a dead harness left behind: everything labelled with the prefix. Returns how many were ended."""

    def start(self, order: AttemptOrder) -> AbstractContextManager[Handle]:
        """Start an attempt. Whatever happens, leaving the context leaves nothing of it behind.

        Raises UnavailableError if it cannot be started.
        """
