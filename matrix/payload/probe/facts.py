"""How a fact is made, and how a probe that fails becomes unknown facts instead of a failure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Value = str | int | float | bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """`value` None exactly when `status` is `unknown`; then `reason` says why."""

    value: Value | None
    status: Literal["verified", "declared", "unknown"]
    reason: str | None

    def fields(self) -> dict[str, Value | None]:
        """As stored."""
        return {"value": self.value, "status": self.status, "reason": self.reason}


class Unknown(Exception):  # noqa: N818  # not an error of the program: the answer of a probe
    """Raised by a probe with the reason why there is no value."""


def verified(value: Value) -> Fact:
    """A fact read from the thing itself."""
    return Fact(value=value, status="verified", reason=None)


def unknown(reason: str) -> Fact:
    """A fact that could not be found out."""
    return Fact(value=None, status="unknown", reason=reason)


def gather(names: tuple[str, ...], probe: Callable[[], Mapping[str, Value]]) -> dict[str, Fact]:
    """The facts of one probe, exactly those named. Whatever it raises, or leaves out, is an unknown fact."""
    try:
        found = probe()
    except Unknown as problem:
        return {name: unknown(str(problem)) for name in names}
    except Exception as problem:  # noqa: BLE001  # a probe must never cost the attempt
        return {name: unknown(f"the probe failed: {type(problem).__name__}") for name in names}
    return {name: verified(found[name]) if name in found else unknown("not stated") for name in names}
