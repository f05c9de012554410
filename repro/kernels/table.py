"""What a person reads at the end: how the arms stand, what failed, and what a pass is worth."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

from tabulate import tabulate

from repro.kernels.comparisons import Table, about_code, buffers_table, compiled_table
from repro.model.kernels import EvidenceClass, KernelArm, KernelResult

WORTH: dict[EvidenceClass, str] = {
    "interpreted": "what the kernel computes and touches, as written; not what a compiler or a GPU makes of it",
    "emulated": "the discipline of static buffers; no CUDA graph, no GPU code, no concurrency",
    "compiled": "the code that would be loaded; not that it runs",
    "gpu": "this kernel alone on one GPU; not the other kernels of the graph, the scheduler or several GPUs",
}
SHOWN = 10


def summary(arms: Sequence[KernelArm], rows: Sequence[KernelResult], surveys: Collection[str] = ()) -> str:
    """The table of the arms, what their evidence says, and the first rows that did not pass: of ``surveys``, whose
    failures are findings that a table holds, only how many."""
    lines = [tabulate([_line(arm, rows) for arm in arms], headers=_HEADERS, disable_numparse=True)]
    lines += [f"{arm.check}: {arm.state}: {arm.reason}" for arm in arms if arm.reason]
    classes = dict.fromkeys(row.evidence_class for row in rows)
    lines += ["", *(f"{name}: says {WORTH[name]}" for name in classes), *_refused(rows)]
    found = Counter(row.check for row in rows if row.check in surveys and row.state == "fail" and not row.planted)
    lines += [f"{check}: {count} findings about releases, in the table above" for check, count in found.items()]
    bad = [row for row in rows if row.state in ("fail", "inconclusive") and (row.planted or row.check not in found)]
    if bad:
        lines += ["", *map(_told, bad[:SHOWN])]
    if len(bad) > SHOWN:
        lines.append(f"… and {len(bad) - SHOWN} more in rows.jsonl")
    return "\n".join(lines)


def _refused(rows: Iterable[KernelResult]) -> Iterable[str]:
    """One line for each reason why rows were not applicable, with how many."""
    groups: dict[tuple[str, str | None], list[KernelResult]] = defaultdict(list)
    for row in rows:
        if row.state == "not_applicable":
            groups[row.check, row.reason].append(row)
    for (check, _), group in groups.items():
        yield f"{check}: {len(group)} not applicable, such as {group[0].cell.id}: {group[0].detail}"


def details(rows: Sequence[KernelResult]) -> str:
    """The tables of the arms that have rows, and what they have in common in sentences; empty if there is nothing."""
    tables = (interpreted_table(rows), compiled_table(rows), buffers_table(rows))
    parts = [
        f"{table.title}\n{tabulate(table.rows, headers=table.columns, disable_numparse=True, maxcolwidths=48)}"
        for table in tables
        if table.rows
    ]
    said = [statement.text for statement in about_code(rows)]
    return "\n\n".join((*parts, *(("\n".join(said),) if said else ())))


def interpreted_table(rows: Iterable[KernelResult]) -> Table:
    """One row for each architecture, shape and dtype against the reference: the worst over all budgets."""
    groups: dict[tuple[str, ...], list[KernelResult]] = defaultdict(list)
    for row in rows:
        if row.check == "kernel-reference" and row.planted is None and row.state in ("pass", "fail"):
            cell = row.cell
            groups[str(cell.shape), str(cell.dtype), str(cell.architecture), str(cell.tile)].append(row)
    columns = (
        "shape",
        "dtype",
        "architecture",
        "tile",
        "cases",
        "largest error",
        "of its bound",
        "causal mask",
        "bits",
    )
    return Table(
        title="interpreted against float64: the worst of all budgets",
        columns=columns,
        rows=tuple((*key, str(len(group)), *_worst(group)) for key, group in sorted(groups.items())),
    )


def _worst(group: Sequence[KernelResult]) -> tuple[str, ...]:
    def numbers(name: str) -> list[float]:
        found = (entry for row in group for entry in row.measurements if entry.name == name)
        return [entry.value for entry in found if entry.value is not None]

    error, bound = max(numbers("max_error"), default=0), max(numbers("max_error_of_bound"), default=0)
    causal, bits = min(numbers("causal_distance_of_bound"), default=0), min(numbers("mask_bits_seen"), default=0)
    return f"{error:.1e}", f"{bound:.3f}", f"{causal:.0f} times the bound", f"{bits:.1%}"


_HEADERS = ("arm", "state", "cases", "rows that pass", "fail", "undecided", "planted caught", "seconds")


def _line(arm: KernelArm, rows: Iterable[KernelResult]) -> tuple[str, ...]:
    states = [row.state for row in rows if row.check == arm.check and row.planted is None]
    undecided = states.count("inconclusive") + states.count("not_run")
    numbers = (arm.cases, states.count("pass"), states.count("fail"), undecided)
    return (arm.check, arm.state, *map(str, numbers), f"{arm.caught} of {arm.planted}", f"{arm.wall_s:.0f}")


def _told(row: KernelResult) -> str:
    planted = f" ({row.planted} planted)" if row.planted else ""
    return f"{row.state}: {row.check} {row.cell.id}{planted}: {row.detail[:300]}"
