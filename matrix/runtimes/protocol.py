"""What every runtime can do. One contract suite (`tests/contract/test_runtimes.py`) holds them all to it."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptOrder:
    """An attempt to start: ``directory`` holds `step.json`; ``label`` marks every process that the attempt starts.

    ``image`` is the step's image digest, None for an environment on the host. ``limit_s`` is after how long the runtime
    ends the attempt from outside: longer than the attempt program's own limits together, or None for never.
    """

    directory: Path
    label: str
    image: str | None = None
    limit_s: float | None = None


EndReason: TypeAlias = Literal["oom", "killed", "runtime_error", "lost", "abandoned"]
"""What a runtime knows of an end that the attempt program cannot know: a process of the attempt was killed for want of
memory; somebody else stopped or killed the attempt; the runtime itself failed; contact to it was lost for good; the
attempt could not be ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How the attempt program ended. ``status`` is its exit status, negative for a signal; None if it was abandoned or
    never began. ``reason`` is None for an end that the evidence explains, or that we asked for."""

    status: int | None
    detail: str
    reason: EndReason | None = None


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

    def environment(self, image: str | None) -> Mapping[str, str]:
        """What the runtime adds to a server's environment, such as the image's own variables; a step's go before."""

    def reap_leftovers(self, prefix: str) -> int:
        """End what a dead harness left behind: everything labelled with the prefix. Returns how many were ended."""

    def start(self, order: AttemptOrder) -> AbstractContextManager[Handle]:
        """Start an attempt. Whatever happens, leaving the context leaves nothing of it behind.

        Raises UnavailableError if it cannot be started.
        """
