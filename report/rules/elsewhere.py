"""The same cells on other machines: whether a failure is one of an architecture."""

from collections.abc import Sequence
from dataclasses import dataclass

from report.load import LoadedCell, LoadedRun
from report.rules.settings import Setting, budgets, listed, machine


@dataclass(frozen=True, kw_only=True, slots=True)
class Elsewhere:
    scope: tuple[str, ...] = ()
    hypotheses: tuple[str, ...] = ()


def other_machines(run: LoadedRun, failing: Sequence[LoadedCell], runs: Sequence[LoadedRun]) -> Elsewhere:
    """What runs on other architectures say of the budgets that fail here. That a failure belongs to an architecture is
    a hypothesis whatever they say: machines differ in more than that."""
    if not run.about_gpus or run.planted:
        return Elsewhere()
    here = machine(run)
    others = [other for other in runs if machine(other) != here and other.about_gpus and not other.planted]
    fault = f"That it is a fault of {here} itself"
    scope: list[str] = []
    hypotheses: list[str] = []
    for other in sorted(others, key=machine):
        same = [cell for cell in other.cells if cell.summary.n and _like_any(cell, failing)]
        for cell in same:
            told = f"{cell.summary.k} of {cell.summary.n} at {budgets([cell])}, {Setting.of(cell.coordinates).words}"
            if cell.summary.k:
                scope.append(f"{machine(other)} failed too: {told}")
            else:
                scope.append(f"{machine(other)} did not: {told}")
                hypotheses.append(
                    f"{fault}: {machine(other)} had {told}, but the two runs differ in {_differences(cell, failing)}."
                )
    if not scope:
        hypotheses.append(f"{fault}, and not one of every architecture: no other architecture ran {budgets(failing)}.")
    return Elsewhere(scope=tuple(scope), hypotheses=tuple(dict.fromkeys(hypotheses)))


def _like_any(cell: LoadedCell, failing: Sequence[LoadedCell]) -> bool:
    """Same budget and shape; other coordinates that differ are told."""
    at = cell.coordinates
    return any(
        (at.budget, at.shape, at.tier) == (there.coordinates.budget, there.coordinates.shape, there.coordinates.tier)
        for there in failing
    )


def _differences(cell: LoadedCell, failing: Sequence[LoadedCell]) -> str:
    """What else is not the same, or not known to be: the machine always is not."""
    ours = Setting.of(cell.coordinates)
    theirs = [Setting.of(there.coordinates) for there in failing if there.coordinates.budget == cell.coordinates.budget]
    found = ["the whole machine"]
    for axis, name in (("graph", "graph mode"), ("nvls", "NVLS")):
        values = {there.known(axis) for there in theirs}  # type: ignore[arg-type]
        if ours.known(axis) is None or None in values:  # type: ignore[arg-type]
            found.append(f"maybe {name} (not stated)")
        elif values != {ours.known(axis)}:  # type: ignore[arg-type]
            found.append(name)
    topks = {there.coordinates.topk for there in failing if there.coordinates.budget == cell.coordinates.budget}
    if topks != {cell.coordinates.topk}:
        found.append("top-k" if None not in topks | {cell.coordinates.topk} else "maybe top-k (not stated)")
    return listed(found)
