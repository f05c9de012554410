"""What stands in the report of the kernel checks: of each arm and each code, the rows of the newest run that has any.

The rows of an arm that is broken, because it missed what was planted, are kept and counted, and nothing is concluded
from them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from report.kernels_load import LoadedKernelRun, LoadedKernels
from repro.kernels.statements import version_key
from repro.model import Problem
from repro.model.kernels import EvidenceClass, KernelCheck, KernelResult

ArmState: TypeAlias = Literal["complete", "unfinished", "broken", "not_run"]
Code: TypeAlias = tuple[str, str | None]
"""Versions of SGLang and of Triton; None: the row depends on no Triton."""

CHECKS: tuple[KernelCheck, ...] = get_args(KernelCheck)
SURVEYS: tuple[KernelCheck, ...] = ("kernel-buffers",)
"""Arms that compare many releases: what fails in them is about a release, and stands in a table of its own."""
NOTHING_COUNTS = "nothing that it says counts"
CLASS_OF: dict[KernelCheck, EvidenceClass] = {
    "kernel-reference": "interpreted",
    "kernel-memory": "interpreted",
    "kernel-emulated": "emulated",
    "kernel-compile": "compiled",
    "kernel-buffers": "emulated",
    "kernel-gpu": "gpu",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """Cases by how they came out; ``undecided`` are inconclusive or were not run, ``refused`` are not applicable."""

    passed: int
    failed: int
    undecided: int
    refused: int

    @property
    def cases(self) -> int:
        return self.passed + self.failed + self.undecided + self.refused

    @property
    def decided(self) -> int:
        return self.passed + self.failed

    @property
    def word(self) -> str:
        """The worst that came out, as a state."""
        return (
            "fail"
            if self.failed
            else "inconclusive"
            if self.undecided
            else "pass"
            if self.passed
            else "not_applicable"
            if self.refused
            else "not_run"
        )


def tally(rows: Iterable[KernelResult]) -> Tally:
    """Of rows that were not planted."""
    states = [row.state for row in rows if row.planted is None]
    return Tally(
        passed=states.count("pass"),
        failed=states.count("fail"),
        undecided=states.count("inconclusive") + states.count("not_run"),
        refused=states.count("not_applicable"),
    )


def counted(found: Tally) -> str:
    """`24 of 24 pass`; `2 of 24 fail, 1 undecided`."""
    decided = f"{found.failed} of {found.decided} fail" if found.failed else f"{found.passed} of {found.decided} pass"
    parts = [decided] if found.decided else []
    parts += [f"{found.undecided} undecided"] if found.undecided else []
    parts += [f"{found.refused} not applicable"] if found.refused else []
    return ", ".join(parts) or "no case"


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownArm:
    """An arm of one run, with the rows of it that are shown. ``reason`` says why it is not complete."""

    run_id: str
    created_at: str
    directory: str
    check: KernelCheck
    state: ArmState
    reason: str | None
    rows: tuple[KernelResult, ...]

    @property
    def name(self) -> str:
        return self.check.removeprefix("kernel-")

    @property
    def counts(self) -> bool:
        """Whether anything may be concluded from its rows."""
        return self.state != "broken"

    @property
    def tally(self) -> Tally:
        return tally(self.rows)

    @property
    def codes(self) -> tuple[Code, ...]:
        return codes_of(self.rows)

    @property
    def planted(self) -> tuple[int, int]:
        """(caught, tried) of the faults that were put in on purpose."""
        tried = [row for row in self.rows if row.planted is not None and row.state != "not_run"]
        return sum(row.state == "pass" for row in tried), len(tried)

    @property
    def evidence_class(self) -> EvidenceClass:
        return self.rows[0].evidence_class if self.rows else CLASS_OF[self.check]

    @property
    def cost_s(self) -> float:
        return sum(row.wall_s for row in self.rows)


@dataclass(frozen=True, kw_only=True, slots=True)
class OlderRun:
    """A run of the kernel checks of which nothing is shown, or that others have replaced in part."""

    run_id: str
    created_at: str
    arms: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernels:
    """``arms``: in the order of the checks, newest first. ``hidden``: rows about other architectures than asked for."""

    arms: tuple[ShownArm, ...] = ()
    older: tuple[OlderRun, ...] = ()
    problems: tuple[Problem, ...] = ()
    hidden: int = 0

    def __bool__(self) -> bool:
        return bool(self.arms)

    @property
    def rows(self) -> tuple[KernelResult, ...]:
        """Rows of arms that count, what was planted left out."""
        return tuple(row for arm in self.arms if arm.counts for row in arm.rows if row.planted is None)

    @property
    def architectures(self) -> tuple[str, ...]:
        found = {row.cell.architecture for row in self.rows if row.cell.architecture is not None}
        return tuple(sorted(found, key=lambda name: int(name.removeprefix("sm_"))))

    @property
    def budgets(self) -> tuple[int, ...]:
        return budgets_of(self.rows)

    def about(self, architectures: Iterable[str]) -> "Kernels":
        """Without the rows about other architectures; those that depend on none stay."""
        kept = set(architectures)
        return self._where(lambda row: row.cell.architecture is None or row.cell.architecture in kept)

    def _where(self, holds: Callable[[KernelResult], bool]) -> "Kernels":
        arms = [replace(arm, rows=tuple(row for row in arm.rows if holds(row))) for arm in self.arms]
        pairs = list(zip(self.arms, arms, strict=True))
        return replace(
            self,
            arms=tuple(now for before, now in pairs if now.rows or not before.rows),
            hidden=self.hidden + sum(len(before.rows) - len(now.rows) for before, now in pairs),
        )


NO_KERNELS = Kernels()


def code_of(row: KernelResult) -> Code:
    return row.subject.sglang, row.subject.triton


def codes_of(rows: Iterable[KernelResult]) -> tuple[Code, ...]:
    """Each code once, earlier releases first."""
    return tuple(sorted({code_of(row) for row in rows}, key=lambda code: (version_key(code[0]), code[1] or "")))


def code_words(code: Code) -> str:
    sglang, triton = code
    return f"sglang {sglang}" + (f", Triton {triton}" if triton is not None else "")


def budgets_of(rows: Iterable[KernelResult]) -> tuple[int, ...]:
    return tuple(sorted({budget for row in rows for budget in budgets_in(row)}))


def budgets_in(row: KernelResult) -> tuple[int, ...]:
    """The budgets that a row speaks about."""
    return (row.cell.budget,) if row.cell.budget is not None else row.cell.budgets


def chosen(loaded: LoadedKernels) -> Kernels:
    """Of each arm and code, the newest run that has rows of it; an arm without any rows from the newest run alone."""
    taken: set[tuple[KernelCheck, Code | None]] = set()
    arms: list[ShownArm] = []
    older: list[OlderRun] = []
    for one in loaded.runs:
        left: list[str] = []
        for check in CHECKS:
            arm, replaced = _arm(one, check, taken)
            arms += [arm] if arm is not None else []
            left += [check.removeprefix("kernel-")] if replaced else []
        if left:
            older.append(OlderRun(run_id=one.run.run_id, created_at=one.run.created_at, arms=", ".join(left)))
    ordered = sorted(arms, key=lambda arm: CHECKS.index(arm.check))
    return Kernels(arms=tuple(ordered), older=tuple(older), problems=loaded.problems)


def _arm(
    one: LoadedKernelRun, check: KernelCheck, taken: set[tuple[KernelCheck, Code | None]]
) -> tuple[ShownArm | None, bool]:
    """What of an arm of a run is shown, and whether newer runs have taken anything of it."""
    every = tuple(row for row in one.rows if row.check == check)
    stated = next((arm for arm in one.run.arms if arm.check == check), None)
    if not every and stated is None:
        return None, False
    fresh = {code for code in map(code_of, every) if (check, code) not in taken}
    rows = tuple(row for row in every if code_of(row) in fresh)
    if not rows and any(name == check for name, _ in taken):
        return None, True
    taken |= {(check, code) for code in fresh} or {(check, None)}
    state, reason = _state(every, stated.state if stated else None, stated.reason if stated else None)
    shown = ShownArm(
        run_id=one.run.run_id,
        created_at=one.run.created_at,
        directory=one.directory,
        check=check,
        state=state,
        reason=reason,
        rows=rows,
    )
    return shown, len(rows) < len(every)


def _state(rows: tuple[KernelResult, ...], stated: ArmState | None, reason: str | None) -> tuple[ArmState, str | None]:
    """How an arm stands. What the rows show of planted faults goes before what the run's record says of itself."""
    missed = sorted({str(row.planted) for row in rows if row.planted is not None and row.state not in _TRIED})
    if missed:
        return "broken", f"planted and not caught: {', '.join(missed[:3])}; {NOTHING_COUNTS}"
    if stated is None:
        return "unfinished", "the run's record does not say how this arm ended"
    if stated == "complete" and not any(row.planted is not None and row.state == "pass" for row in rows):
        return "broken", f"its rows hold no planted fault that was caught; {NOTHING_COUNTS}"
    return stated, reason


_TRIED = ("pass", "not_run")
