"""What a bundle is made of: from a finding or a cell and a results directory to the attempts that show the failure."""

from dataclasses import dataclass
from pathlib import Path

from repro.model import BundleOracle, Finding, Plan, Result, Run, Step, Subject, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class GatheredAttempt:
    """One attempt as it lies on disk, its evidence verified. ``directory`` holds `result.json` and what
    ``result.evidence`` names; ``place`` is that directory relative to the results directory. ``step`` is what the
    attempt program was told; None where `step.json` is not there. ``fails``: it shows the failure of the subject."""

    directory: Path
    place: str
    result: Result
    verdict: Verdict
    step: Step | None
    fails: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Contents:
    """All that was gathered for one bundle. Nothing in it is redacted yet.

    ``attempts`` are what the bundle holds, failing ones first: the first one is what `step.json` and `repro.sh` start.
    ``launches`` are all measured attempts of the subject's cells in its runs: their verdicts give k of n.
    ``runs`` and ``plans`` are by run id. ``reference`` is the arm without speculation of the first attempt's run, where
    there is one; ``others`` are the verdicts and results of the other cells of these runs: what is good, what was ruled
    out. ``healthy``: no attempt fails, the bundle holds a working cell. ``notes`` are for the person who packs.
    """

    subject: Subject
    finding: Finding | None
    healthy: bool
    runs: dict[str, Run]
    plans: dict[str, Plan]
    attempts: tuple[GatheredAttempt, ...]
    launches: tuple[tuple[Result, Verdict], ...]
    reference: GatheredAttempt | None
    others: tuple[tuple[Result, Verdict], ...]
    oracle: BundleOracle | None
    notes: tuple[str, ...]

    @property
    def first(self) -> GatheredAttempt:
        """The attempt that the bundle replays."""
        return self.attempts[0]

    @property
    def k_of_n(self) -> tuple[int, int]:
        """Launches that failed, and launches that decided, among ``launches``."""
        decided = [verdict.verdict for _, verdict in self.launches if verdict.verdict in {"pass", "fail", "corrupt"}]
        return sum(name != "pass" for name in decided), len(decided)
