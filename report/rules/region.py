"""The region in which a failure shows: which budgets of a setting had it, which had none, and where it begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from report.load import LoadedCell, LoadedRun
from report.rules.settings import Setting, listed, machine


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """``k`` launches of a cell failed, of the ``n`` that decided."""

    cell: LoadedCell
    k: int
    n: int

    @property
    def budget(self) -> int:
        return self.cell.coordinates.budget


@dataclass(frozen=True, kw_only=True, slots=True)
class Region:
    """One setting of one run, by budget: cells in which launches ``failed``, in which none did (``clean``), and in
    which launches failed of something else (``otherwise``)."""

    machine: str
    setting: Setting
    failed: tuple[Tally, ...]
    clean: tuple[Tally, ...]
    otherwise: tuple[Tally, ...]

    @property
    def above(self) -> int | None:
        """The largest clean budget, if every budget that was run above it failed, and none at or below; else None."""
        if not self.clean or self.setting.shape == "none":
            return None
        edge = max(tally.budget for tally in self.clean)
        bad = [tally.budget for tally in (*self.failed, *self.otherwise)]
        return edge if min(bad) > edge else None

    @property
    def line(self) -> str:
        """One line, with k of n for every budget."""
        where = f"{self.machine}, {self.setting.words}: "
        if self.setting.shape == "none":
            return where + "; ".join(_told(tally) for tally in self.failed)
        parts = [f"failed at {_listed(self.failed)}"]
        if self.clean:
            parts.append(f"did not at {_listed(self.clean)}")
        if self.otherwise:
            parts.append(f"failed of something else at {_listed(self.otherwise)}")
        return where + "; ".join(parts)


def regions(run: LoadedRun, seen: Mapping[str, int]) -> tuple[Region, ...]:
    """The region of a failure, a setting at a time; ``seen`` has for each cell how many launches failed so."""
    by_setting: dict[Setting, list[LoadedCell]] = {}
    for cell in run.cells:
        by_setting.setdefault(Setting.of(cell.coordinates), []).append(cell)
    return tuple(
        _region(machine(run), setting, by_setting[setting], seen)
        for setting in sorted(by_setting)
        if any(cell.id in seen for cell in by_setting[setting])
    )


def _region(where: str, setting: Setting, cells: Sequence[LoadedCell], seen: Mapping[str, int]) -> Region:
    ordered = sorted(cells, key=lambda cell: (cell.coordinates.budget, cell.coordinates.topk or 0, cell.id))
    failed = [Tally(cell=c, k=seen[c.id], n=max(c.summary.n, seen[c.id])) for c in ordered if c.id in seen]
    others = [c for c in ordered if c.id not in seen and c.summary.n]
    return Region(
        machine=where,
        setting=setting,
        failed=tuple(failed),
        clean=tuple(Tally(cell=c, k=0, n=c.summary.n) for c in others if not c.summary.k),
        otherwise=tuple(Tally(cell=c, k=c.summary.k, n=c.summary.n) for c in others if c.summary.k),
    )


def _listed(tallies: Sequence[Tally]) -> str:
    return f"budget{'s' if len(tallies) > 1 else ''} {listed(f'{tally.budget} ({_told(tally)})' for tally in tallies)}"


def _told(tally: Tally) -> str:
    return f"{tally.k} of {tally.n}"


def above_words(region: Region) -> str | None:
    """Where the region begins, as a clause: only of budgets that were run, and with the launches of each."""
    if region.above is None:
        return None
    bad = sorted((*region.failed, *region.otherwise), key=lambda tally: tally.budget)
    told = listed(f"{tally.budget} in {tally.k} of {tally.n} launches" for tally in bad)
    edge = [tally for tally in region.clean if tally.budget == region.above]
    healthy = sum(tally.n for tally in edge)
    return (
        f"launches failed at every budget that was run above {region.above} ({told}), and none at {region.above} "
        f"(0 of {healthy})"
    )


def above_sentence(region: Region) -> str | None:
    """A sentence on where the region begins; None where it is not all of one failure, or begins nowhere."""
    clause = None if region.otherwise else above_words(region)
    return f"On {region.machine}, {region.setting.words}: {clause}." if clause is not None else None


def clean_lines(run: LoadedRun) -> tuple[str, ...]:
    """Where launches of a run decided and none failed, a setting at a time."""
    by_setting: dict[Setting, list[Tally]] = {}
    for cell in sorted(run.cells, key=lambda cell: (cell.coordinates.budget, cell.id)):
        if cell.summary.n and not cell.summary.k:
            by_setting.setdefault(Setting.of(cell.coordinates), []).append(Tally(cell=cell, k=0, n=cell.summary.n))
    return tuple(f"{machine(run)}, {s.words}: none failed at {_listed(by_setting[s])}" for s in sorted(by_setting))
