"""The script: what the server does in which cell and launch (record `simulation`, see `schemas/simulation.json`)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from simulated.chance import share

SCRIPTS = Path(__file__).with_name("scripts")
PHASES = ("launch", "weights_load", "graph_capture", "warmup")


class BadScript(ValueError):  # noqa: N818
    """A script that cannot be read, or does not have the form of one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Speed:
    """Seconds: to the first token; of a decode step; more for each row of a verify step, and for each further request
    in the batch. Eager steps take `eager_factor` times as long, and all vary by a share of `jitter`."""

    ttft_s: float
    step_s: float
    per_row_s: float
    per_request_s: float
    eager_factor: float
    jitter: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Behaviour:
    """What one launch does. `acceptance` maps budgets to tokens per verify step, `faults` names to numbers."""

    seed: int
    phases_s: Mapping[str, float]
    speed: Speed
    acceptance: Mapping[int, float]
    faults: Mapping[str, int]

    def with_faults(self, faults: Mapping[str, int]) -> "Behaviour":
        """The same behaviour with these faults in place of the script's."""
        return replace(self, faults=faults)


def find(name: str) -> Path:
    """The file of a script: one shipped here by its name, any other by its path."""
    shipped = SCRIPTS / f"{name}.json"
    return shipped if "/" not in name and shipped.is_file() else Path(name)


def read(path: Path, *, cell: str, launch: int, known: Mapping[str, int | None]) -> Behaviour:
    """The behaviour of this launch: the defaults, changed by each rule that matches, in order. BadScript otherwise.

    A rule with a probability holds in a launch or not, by a draw that depends on seed, cell, launch and rule alone.
    """
    try:
        raw = json.loads(path.read_bytes())
        if raw["record"] != "simulation" or raw["schema_version"] != 1:
            raise BadScript(f"{path.name} is not a 'simulation' of schema version 1")
        seed, merged = int(raw["seed"]), _base(raw["defaults"])
        for index, rule in enumerate(raw["rules"]):
            if _holds(rule, index, seed=seed, cell=cell, launch=launch):
                _merge(merged, rule)
        return _behaviour(seed, merged, known)
    except BadScript:
        raise
    except (OSError, KeyError, TypeError, ValueError) as problem:
        raise BadScript(f"{path.name}: {type(problem).__name__}: {problem}") from None


def _base(defaults: Mapping[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {"phases_s": dict.fromkeys(PHASES, 0.0), "speed": {}, "acceptance": {}, "faults": []}
    _merge(merged, defaults)
    return merged


def _merge(merged: dict[str, Any], change: Mapping[str, Any]) -> None:
    for part in ("phases_s", "speed", "acceptance"):
        merged[part] = {**merged[part], **change.get(part, {})}
    merged["faults"] = [*merged["faults"], *change.get("faults", [])]


def _holds(rule: Mapping[str, Any], index: int, *, seed: int, cell: str, launch: int) -> bool:
    launches = rule.get("launches")
    return (
        fnmatchcase(cell, rule["cells"])
        and (launches is None or launch in launches)
        and share("rule", seed, cell, launch, index) < rule.get("probability", 1.0)
    )


def _behaviour(seed: int, merged: Mapping[str, Any], known: Mapping[str, int | None]) -> Behaviour:
    faults = {}
    for entry in merged["faults"]:
        name, number = entry["name"], entry.get("number")
        if name not in known:
            raise BadScript(f"unknown fault {name!r}; the names are {', '.join(known)}")
        faults[name] = int(number if number is not None else known[name] or 0)
    phases = {phase: float(merged["phases_s"][phase]) for phase in PHASES}
    return Behaviour(
        seed=seed,
        phases_s=phases,
        speed=Speed(**{name: float(value) for name, value in merged["speed"].items()}),
        acceptance={int(budget): float(mean) for budget, mean in merged["acceptance"].items()},
        faults=faults,
    )
