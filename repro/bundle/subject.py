"""Which launches of a run show one failure, and what makes it that failure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from repro.causes import Cause, causes, same_failure, unlocated
from repro.model import Finding, Result, Signature, Verdict

FAILED = frozenset({"fail", "corrupt"})
_FAMILIES = frozenset({"failure", "corrupt"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    result: Result
    verdict: Verdict

    @property
    def cause(self) -> Cause | None:
        """Why it failed; None if it did not."""
        return next((cause for cause in causes(self.result, self.verdict) if cause.family in _FAMILIES), None)


def chosen(launches: Sequence[Launch], finding: Finding | None) -> list[Launch]:
    """The failing launches that are the finding's failure, or that of most launches of a cell; in the order in which
    they say most: of the cells those that fail most often first, then those with the smaller budget."""
    failing = [launch for launch in launches if launch.cause is not None]
    if not failing:
        return []
    wanted = _wanted(failing, finding)
    same = [launch for launch in failing if launch.cause is not None and _is_same(launch.cause, wanted)]
    share = {cell: _share(cell, same, launches) for cell in {launch.result.cell for launch in same}}
    return sorted(
        same,
        key=lambda launch: (
            -share[launch.result.cell],
            launch.result.coordinates.budget,
            launch.result.cell,
            launch.result.attempt,
        ),
    )


def signature_of(launch: Launch) -> Signature:
    """That of its failure; of a launch without one, a signature that says so."""
    return launch.cause.signature if launch.cause is not None else unlocated("ok")


def failing_cells(launches: Iterable[Launch]) -> tuple[str, ...]:
    """The cells of these launches, each once, in their order."""
    return tuple(dict.fromkeys(launch.result.cell for launch in launches))


def _wanted(failing: Sequence[Launch], finding: Finding | None) -> Cause:
    """The cause that the bundle is about: that of the finding's first linked launch, of its kind if there is one."""
    found = [launch.cause for launch in failing if launch.cause is not None]
    if finding is not None:
        linked = {(link.cell, link.attempt) for link in finding.evidence}
        by_link = [
            launch.cause
            for launch in failing
            if launch.cause is not None and (launch.result.cell, launch.result.attempt) in linked
        ] or found
        return next((cause for cause in by_link if cause.kind == finding.kind), by_link[0])
    return max(found, key=lambda cause: (sum(_is_same(other, cause) for other in found), -found.index(cause)))


def _is_same(one: Cause, other: Cause) -> bool:
    return (one.family, one.kind) == (other.family, other.kind) and same_failure(one.signature, other.signature)


def _share(cell: str, same: Sequence[Launch], launches: Sequence[Launch]) -> float:
    of_cell = [launch for launch in launches if launch.result.cell == cell]
    return sum(launch.result.cell == cell for launch in same) / len(of_cell)
