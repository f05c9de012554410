"""What a person reads at the end: how the arms stand, what failed, and what a pass is worth."""

from collections.abc import Iterable, Sequence

from tabulate import tabulate

from repro.model.kernels import EvidenceClass, KernelArm, KernelResult

WORTH: dict[EvidenceClass, str] = {
    "interpreted": "what the kernel computes and touches, as written; not what a compiler or a GPU makes of it",
    "emulated": "the discipline of static buffers; no CUDA graph, no GPU code, no concurrency",
    "compiled": "the code that would be loaded; not that it runs",
    "gpu": "this kernel alone on one GPU; not the other kernels of the graph, the scheduler or several GPUs",
}
SHOWN = 10


def summary(arms: Sequence[KernelArm], rows: Sequence[KernelResult]) -> str:
    """The table of the arms, what their evidence says, and the first cases that did not pass."""
    lines = [tabulate([_line(arm, rows) for arm in arms], headers=_HEADERS, disable_numparse=True)]
    lines += [f"{arm.check}: {arm.state}: {arm.reason}" for arm in arms if arm.reason]
    classes = dict.fromkeys(row.evidence_class for row in rows)
    lines += ["", *(f"{name}: says {WORTH[name]}" for name in classes)]
    refused = {row.reason: row for row in rows if row.state == "not_applicable"}
    lines += [f"{row.check}: not applicable: {row.detail}" for row in refused.values()]
    bad = [row for row in rows if row.state in ("fail", "inconclusive")]
    if bad:
        lines += ["", *map(_told, bad[:SHOWN])]
    if len(bad) > SHOWN:
        lines.append(f"… and {len(bad) - SHOWN} more in rows.jsonl")
    return "\n".join(lines)


_HEADERS = ("arm", "state", "cases", "pass", "fail", "undecided", "planted caught", "seconds")


def _line(arm: KernelArm, rows: Iterable[KernelResult]) -> tuple[str, ...]:
    states = [row.state for row in rows if row.check == arm.check and row.planted is None]
    undecided = states.count("inconclusive") + states.count("not_run")
    numbers = (arm.cases, states.count("pass"), states.count("fail"), undecided)
    return (arm.check, arm.state, *map(str, numbers), f"{arm.caught} of {arm.planted}", f"{arm.wall_s:.0f}")


def _told(row: KernelResult) -> str:
    planted = f" ({row.planted} planted)" if row.planted else ""
    return f"{row.state}: {row.check} {row.cell.id}{planted}: {row.detail[:300]}"
