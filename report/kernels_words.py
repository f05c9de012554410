"""The kernel checks in sentences: what each class of evidence is worth, and what the rows say of one budget."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from report.kernels import (
    CHECKS,
    SURVEYS,
    Code,
    Kernels,
    ShownArm,
    budgets_in,
    budgets_of,
    code_of,
    code_words,
    codes_of,
    counted,
    tally,
)
from repro.kernels.comparisons import Table
from repro.kernels.statements import WORKS, about_budget, version_key
from repro.kernels.table import WORTH
from repro.model.kernels import EvidenceClass, KernelCheck, KernelResult

NO_LAUNCH = (
    "A row of these checks asks one kernel, without a server: it is no launch, and counts in no cell and in no verdict."
)
NOT_MEASURED = "Nothing that ran on a CPU is evidence of what a GPU does."
CLAIM = (
    "Launches are reported to fail above budget {works} on sm_103. Here each budget stands beside budget {works}, in "
    "what these checks looked at: where the two are alike, no difference in that explains a failure which begins "
    "between them; where they differ, nothing is shown to fail. None of it is a verdict."
)
FAILURE: Mapping[EvidenceClass, str] = {
    "interpreted": "the kernel's text is wrong, or the metadata that it was given",
    "emulated": "sizes or metadata do not fit",
    "compiled": "the code cannot be made, or does not keep the architecture's limits",
    "gpu": "this kernel is wrong by itself, on that GPU",
}
CANNOT: Mapping[EvidenceClass, str] = {
    "interpreted": "that compiled code is right: no compiler, tensor core, bf16 or concurrency took part; NumPy ran "
    "one block after the other",
    "emulated": "that a CUDA graph works: none was captured. It is no evidence about graphs on a GPU",
    "compiled": "that the code computes what it should: it ran nowhere",
    "gpu": "that the other kernels of the captured forward, the scheduler, several GPUs or overlapping streams are "
    "right",
}
_RUNS: tuple[KernelCheck, ...] = ("kernel-reference", "kernel-memory", "kernel-emulated", "kernel-gpu")
"""Arms that execute the kernel: what they say of a budget are counts of cases."""
_HOW = {
    "kernel-reference": "results beside float64, in the tiles of {where}",
    "kernel-memory": "accesses to memory, in the tiles of {where}",
    "kernel-emulated": "replays on refreshed static buffers, in the tiles of {where}",
    "kernel-gpu": "runs on a GPU of {where}",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetWords:
    """What the rows say of a budget on an architecture (None: what depends on none), and last what they do not."""

    architecture: str | None
    budget: int
    lines: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def anchor(self) -> str:
        return budget_anchor(self.architecture, self.budget)


def budget_anchor(architecture: str | None, budget: int) -> str:
    """The place on the page that says what is known of a budget on an architecture."""
    return f"kernels--{architecture or 'any'}--b{budget}"


def classes_table(kernels: Kernels) -> Table:
    """What a row of each class of evidence can and cannot show."""
    found = dict.fromkeys(arm.evidence_class for arm in kernels.arms)
    return Table(
        title="What such evidence can and cannot show",
        columns=("evidence", "says", "a failure means", "a pass does not show"),
        rows=tuple((name, WORTH[name], FAILURE[name], CANNOT[name]) for name in found),
    )


def overview(kernels: Kernels) -> tuple[str, ...]:
    """The first lines: what was asked, what failed, what does not count."""
    if not kernels:
        return ()
    asked = [row for row in kernels.rows if row.check not in SURVEYS]
    surveyed = [row for row in kernels.rows if row.check in SURVEYS]
    runs = dict.fromkeys(arm.run_id for arm in kernels.arms)
    names = ", ".join(dict.fromkeys(f"{arm.name} ({arm.evidence_class})" for arm in kernels.arms))
    head = f"Kernel checks, run{'s' if len(runs) > 1 else ''} {', '.join(runs)}: {names}."
    if asked:
        head += f" Cases: {counted(tally(asked))}."
    if found := tally(surveyed).failed:
        head += (
            f" Buffers of {len(codes_of(surveyed))} releases: {found} cases in which they do not fit, by release below."
        )
    return (head, *(said for arm in kernels.arms if (said := arm_line(arm))), f"{NO_LAUNCH} {NOT_MEASURED}")


def arm_line(arm: ShownArm) -> str:
    """How an arm stands that is not complete; empty for one that is."""
    words = {"broken": "is broken", "unfinished": "is unfinished", "not_run": "was not run"}
    said = words.get(arm.state)
    return f"{arm.check} {said} in run {arm.run_id}: {arm.reason or 'no reason is recorded'}." if said else ""


def by_budget(kernels: Kernels, works: int = WORKS) -> tuple[BudgetWords, ...]:
    """For each architecture and budget that rows speak about; then what depends on no architecture."""
    told: list[BudgetWords] = []
    for architecture in (*kernels.architectures, None):
        rows = [row for row in kernels.rows if row.cell.architecture == architecture]
        told += [_of(rows, architecture, budget, works) for budget in budgets_of(rows)]
    return tuple(told)


def _of(rows: Sequence[KernelResult], architecture: str | None, budget: int, works: int) -> BudgetWords:
    statements = about_budget(rows, architecture or "", budget, works)
    ran = [row for row in rows if row.check == "kernel-gpu" and budget in budgets_in(row) and row.state != "not_run"]
    lines = [
        f"{one.evidence_class}{_compiler(one.sglang, one.triton)}: {one.text}"
        for one in sorted(statements, key=lambda one: version_key(one.triton or ""))
        if one.sense != "unknown"
    ]
    unknown = [one.text for one in statements if one.sense == "unknown" and not (ran and one.architecture)]
    lines += list(_executed(rows, architecture, budget, works))
    if architecture is not None and not ran and not unknown:
        unknown.append(f"this kernel was not run on a GPU of {architecture}: what compiled code does is not shown")
    if ran:
        unknown.append(f"what {CANNOT['gpu'].removeprefix('that ').removesuffix(' are right')} do is not shown")
    return BudgetWords(architecture=architecture, budget=budget, lines=tuple(lines), unknown=tuple(unknown))


def _compiler(sglang: Iterable[str], triton: str | None) -> str:
    """The code of a sentence that is about a compiler; releases are named in the others."""
    return f" (sglang {', '.join(sglang)}, Triton {triton})" if triton is not None else ""


def _executed(rows: Sequence[KernelResult], architecture: str | None, budget: int, works: int) -> Iterable[str]:
    """Counts of the arms that execute the kernel, for this budget and the one that works."""
    groups: dict[tuple[int, Code], list[KernelResult]] = {}
    for row in rows:
        if row.check in _RUNS:
            groups.setdefault((CHECKS.index(row.check), code_of(row)), []).append(row)
    for (check, code), group in sorted(groups.items(), key=lambda item: (item[0][0], code_words(item[0][1]))):
        here = [row for row in group if budget in budgets_in(row)]
        if here:
            how = _HOW[CHECKS[check]].format(where=architecture or "no stated architecture")
            text = f"{here[0].evidence_class} ({code_words(code)}): {how}: {counted(tally(here))}"
            there = [row for row in group if works in budgets_in(row)]
            yield text + (f"; of budget {works}: {counted(tally(there))}" if there and works != budget else "")
