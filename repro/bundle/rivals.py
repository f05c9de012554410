"""What the same runs say of neighbouring settings: what was ruled out, and with how many launches."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from repro.bundle.contents import Contents
from repro.causes import causes, same_failure
from repro.model import Coordinates, Result, Signature, Verdict
from repro.shares import failed
from repro.verdict import cell_verdict

_SHAPES = {"tree": "tree", "chain": "flat chain", "none": "no speculation"}
_GRAPHS = {"graph": "CUDA graphs", "eager": "eager", "verify-eager": "eager for the decode phase alone"}
_NVLS = {"nvls": "NVLS", "nonvls": "no NVLS"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Rival:
    """Another arm of the same runs. ``differs``: in which settings from the failing one. ``says``: its launches.
    ``k`` of ``n`` failed, ``alike`` of them in the same way; ``n`` 0: nothing is known."""

    cell: str
    differs: tuple[str, ...]
    k: int
    n: int
    alike: int
    says: str


def setting(where: Coordinates) -> str:
    """`tree of budget 16 with top-k 8, CUDA graphs, NVLS`."""
    arm = _SHAPES[where.shape]
    if where.budget:
        arm += f" of budget {where.budget}" + (f" with top-k {where.topk}" if where.topk not in (None, 1) else "")
    more = [f"{name} {value}" for name, value in sorted(where.variant.items())]
    return ", ".join([arm, _GRAPHS[where.graph], _NVLS[where.nvls], *more])


def rivals(contents: Contents) -> tuple[Rival, ...]:
    """The other arms, those that differ in the fewest settings first; an arm without a decided launch comes last."""
    failing = contents.first.result
    by_cell: dict[str, list[tuple[Result, Verdict]]] = {}
    for result, verdict in contents.others:
        by_cell.setdefault(result.cell, []).append((result, verdict))
    signature = contents.subject.signature
    found = [_rival(cell, launches, failing, signature) for cell, launches in sorted(by_cell.items())]
    return tuple(sorted(found, key=lambda rival: (rival.n == 0, len(rival.differs), rival.k, rival.cell)))


def sentences(found: Sequence[Rival]) -> tuple[str, ...]:
    """What single differences say, in words that claim no more than the launches do."""
    said: list[str] = []
    for rival in found:
        if rival.n and len(rival.differs) == 1:
            verb = "did not fail" if rival.k == 0 else "failed too" if rival.alike else "failed in another way"
            said.append(f"With {rival.differs[0]} and all else equal it {verb}: {rival.says}.")
    return tuple(said)


def _rival(cell: str, launches: Sequence[tuple[Result, Verdict]], failing: Result, signature: Signature) -> Rival:
    summary = cell_verdict(cell, [verdict for _, verdict in launches])
    undecided = f"{summary.verdict.replace('_', ' ')}: no launch decided"
    told = failed(summary.k, summary.n) if summary.n else undecided
    alike = sum(_alike(result, verdict, signature) for result, verdict in launches)
    if summary.k > alike:
        told += f", {alike} of them in this way" if alike else ", but not in this way"
    return Rival(
        cell=cell,
        differs=tuple(_differences(launches[0][0], failing)),
        k=summary.k,
        n=summary.n,
        alike=alike,
        says=told,
    )


def _alike(result: Result, verdict: Verdict, signature: Signature) -> bool:
    """Whether a launch failed in the way that the bundle is about."""
    if verdict.verdict not in {"fail", "corrupt"}:
        return False
    return any(same_failure(cause.signature, signature) for cause in causes(result, verdict))


def _differences(one: Result, other: Result) -> Iterable[str]:
    here, there = one.coordinates, other.coordinates
    if here.engine_source != there.engine_source:
        yield f"engine source {here.engine_source}"
    if here.shape != there.shape:
        yield _SHAPES[here.shape]
    elif here.budget != there.budget:  # budgets are run with a top-k that goes with them: one step, not two
        yield f"budget {here.budget}" + (f" (top-k {here.topk})" if here.topk != there.topk else "")
    elif here.budget and here.topk != there.topk:
        yield f"top-k {here.topk}"
    if here.graph != there.graph:
        yield _GRAPHS[here.graph]
    if here.nvls != there.nvls:
        yield _NVLS[here.nvls]
    if here.tier != there.tier:
        yield f"tier {here.tier}"
    for name in sorted({*here.variant, *there.variant}):
        if here.variant.get(name) != there.variant.get(name):
            yield f"{name} {here.variant.get(name, 'as by default')}"
