"""Where answers run: what a sandbox is to those who use it, and the one that is none.

An answer gets a container of its own. Into it go the code and the tests' expressions; what comes out are values, or the
claim of values: what is expected never enters, so nothing that the answer prints, replaces or kills can make a wrong
answer pass. Code that a model wrote never runs anywhere else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from matrix.coding.tasks import Case


class SandboxError(Exception):
    """An answer could not be run, for a reason that is not the answer's. One line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """How an answer ended, and what it reported: text that it may have forged, a line of JSON for each test."""

    ended: Literal["exited", "signalled", "timed_out", "out_of_memory", "flooded"]
    status: int
    report: str


class Sandbox(Protocol):
    """Where answers run. ``image`` names the image that they run in, None if there is none; ``reason`` says why."""

    @property
    def image(self) -> str | None: ...

    @property
    def reason(self) -> str | None: ...

    def run(self, code: str, cases: Sequence[Case], label: str) -> Ran:
        """Runs the code, then the cases. Raises SandboxError."""
        ...

    def reap_leftovers(self, prefix: str) -> int:
        """Removes what a dead run left whose label starts with the prefix; how many."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class NoSandbox:
    """Nothing is run."""

    reason: str = "no sandbox was asked for"
    image: None = None

    def run(self, code: str, cases: Sequence[Case], label: str) -> Ran:
        del code, cases, label
        raise SandboxError(self.reason)

    def reap_leftovers(self, prefix: str) -> int:
        del prefix
        return 0
