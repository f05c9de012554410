"""What a rule makes: a finding without its id."""

from dataclasses import dataclass, field

from report.load import LoadedAttempt, LoadedCell, LoadedRun
from repro.causes import Severity


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """``family`` is the rule and ``subject`` what tells two findings of one rule and kind apart. ``k`` of ``n``
    launches rank it; ``attempts`` are its evidence, in words of their own verdicts."""

    run: LoadedRun
    family: str
    kind: str
    severity: Severity
    statement: str
    cells: tuple[LoadedCell, ...]
    next: str
    subject: str = ""
    scope: tuple[str, ...] = ()
    not_tested: tuple[str, ...] = ()
    hypotheses: tuple[str, ...] = ()
    settle: str | None = None
    attempts: tuple[LoadedAttempt, ...] = field(default=())
    k: int = 0
    n: int = 0
