"""A log that was wrapped, coloured, cut, shuffled, collected … says what it said before, as long as a line that decides
is left; and nothing that is sure of another cause if none is.

20 mutations a log; `GRAPHREPRO_MUTATIONS=200` for as many as you like.
"""

import os
from pathlib import Path
from types import ModuleType
from typing import Any

from repro.diagnose.causality import EXPLAINED_BY
from repro.diagnose.timeline import OF_KERNEL

MUTATIONS = int(os.environ.get("GRAPHREPRO_MUTATIONS", "20"))
HEALTHY = Path(__file__).parents[3] / "data" / "diagnosis" / "given" / "logs" / "br58.log"
OOM = "oom_gpu"


def test_mutations(case: Any, mutations: ModuleType, tmp_path: Path) -> None:
    alone = set(case.evidence)  # each of these lines decides alone; of unlabelled logs only all together surely do
    together = alone or {line.line for line in case.diagnose().evidence}
    whole, healthy = mutations.original(case.log.read_bytes()), mutations.original(HEALTHY.read_bytes())
    wrong = []
    for number in range(MUTATIONS):
        mutant = mutations.mutate(whole, healthy, f"{case.id}-{number}")
        log = tmp_path / "mutant.log"
        log.write_bytes(mutant.data)
        found = case.diagnose(log)
        proven = case.role == "none" or bool(case.probes and case.exit_status == 0)
        proven = proven or (case.kernel_log is not None and case.kind in OF_KERNEL)
        problem = None
        if proven or alone & mutant.intact or together <= mutant.intact:
            problem = _kept(case, mutant, found)
        elif not together & mutant.intact:
            problem = _lost(case, found)
        if problem:
            wrong.append(f"{number} {mutant.said}: {problem}")
    assert not wrong, "\n".join(wrong)


def _kept(case: Any, mutant: Any, found: Any) -> str | None:
    """What is wrong though a line that decides is left."""
    memory = not mutant.ordered and case.kind.startswith(OOM) and found.kind.startswith(OOM)  # which one, phases say
    if (found.kind, found.role) != (case.kind, case.role) and not memory:
        return f"{found.kind}, {found.role}"
    return f"phase {found.phase}" if mutant.ordered and found.phase != case.phase else None


def _lost(case: Any, found: Any) -> str | None:
    """What is wrong when no line that decides is left: only another cause that is sure of itself."""
    if (found.kind, found.role) == case.without:
        return None
    consequence = case.kind in EXPLAINED_BY.get(found.kind, ())
    return None if found.role != "root" or found.kind == case.kind or consequence else f"{found.kind} is a root"
