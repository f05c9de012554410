"""What planted faults do to the tokens, and when those that end the engine are due."""

from typing import Protocol

from simulated.chance import share
from simulated.faults import Planted
from simulated.language import Choice, garbage

CRASHES = ("scheduler-exception", "illegal-access", "pool-leak", "oom-serving", "sigkill", "segfault", "exit")
BROKEN_TREES = {"stale-mask": 2.38, "causal-mask": 2.51}
"""Fault -> tokens per verify step at which acceptance stays with it (as measured on the real engine on a CPU)."""

_WRONG_SHARE = {"stale-mask": 0.08, "causal-mask": 0.12}
_SPACING_AT_CONCURRENCY = 10


class Output(Protocol):
    """A request as far as a fault looks at it."""

    id: str
    ids: list[int]
    max_new_tokens: int
    verify_calls: int


class Spoiler:
    """Steps and tokens are counted from the moment a fault comes into force, as in the CPU engine's plugin."""

    def __init__(self, planted: Planted) -> None:
        self._planted = planted
        self.faults: dict[str, int] = {}
        self._steps = 0
        self._since_wrong = 0
        self.refresh()

    def refresh(self) -> None:
        """Looks again which faults are in force."""
        faults = self._planted.now()
        if faults != self.faults:
            self.faults = dict(faults)
            self._steps = self._since_wrong = 0

    def step(self) -> None:
        """Counts a decode or verify step."""
        self._steps += 1

    def due(self, names: tuple[str, ...]) -> str | None:
        """The first of these faults whose step has come."""
        return next((name for name in names if self._steps == self.faults.get(name)), None)

    def drafts_fail(self) -> bool:
        """Whether no draft can be right in this step."""
        return "useless-trees" in self.faults or self._blind()

    def _blind(self) -> bool:
        return "nan-padding" in self.faults or self._steps >= self.faults.get("nan", self._steps + 1)

    def token(self, output: Output, right: Choice, batch: int) -> int:
        """The token that the engine gives where `right` would be right."""
        if self._blind():
            return 0  # the first of equal logits
        done = len(output.ids)
        if done >= self.faults.get("garbled", done + 1):
            return garbage(right.first, done)
        return right.second if self._wrong(output, right, batch) else right.first

    def _wrong(self, output: Output, right: Choice, batch: int) -> bool:
        for name, chance in _WRONG_SHARE.items():
            if name in self.faults and output.verify_calls > (name == "stale-mask"):
                return share(name, right.first, len(output.ids)) < chance
        if len(output.ids) * 100 >= self.faults.get("wrong-late", 101) * max(output.max_new_tokens, 1):
            return True
        spacing = self.faults.get("wrong-token", 0)
        if batch >= self.faults.get("wrong-at-concurrency", batch + 1):
            spacing = _SPACING_AT_CONCURRENCY
        if not spacing:
            return False
        self._since_wrong = (self._since_wrong + 1) % spacing
        return self._since_wrong == 0
