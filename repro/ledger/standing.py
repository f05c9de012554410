"""Where an entry stands after a check: it is closed only by launches enough on all of its architectures, reopened by a
single sighting, and never changed by launches that say nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from repro.ledger.entries import with_names
from repro.model import LedgerCheck, LedgerEntry


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """One architecture, by the checks since anything else was said of it. ``engine``: that of the last of them;
    ``launches`` clean ones on it, of ``needed``. ``hidden``: another failure came instead."""

    architecture: str | None
    engine: str | None
    launches: int
    needed: int
    seen: bool
    hidden: bool

    @property
    def clean(self) -> bool:
        return not self.seen and not self.hidden and self.engine is not None and 0 < self.needed <= self.launches


def engine_of(check: LedgerCheck) -> str | None:
    """What tells engines apart: the version where it is known, else the image."""
    return check.engine_version or check.image


def standing(entry: LedgerEntry, architecture: str | None) -> Standing:
    """Of one architecture. Clean checks of the same engine and image add up; what stands before another is past."""
    checks = [check for check in entry.checks if check.architecture == architecture and check.answer != "could_not_run"]
    if not checks:
        return Standing(architecture=architecture, engine=None, launches=0, needed=0, seen=False, hidden=False)
    last = checks[-1]
    clean = _last_clean(checks)
    return Standing(
        architecture=architecture,
        engine=engine_of(last),
        launches=sum(check.launches for check in clean),
        needed=max((check.needed for check in clean), default=last.needed),
        seen=last.answer == "still_there",
        hidden=last.answer == "another_failure",
    )


def clean_before(entry: LedgerEntry, architecture: str | None, engine_version: str | None, image: str | None) -> int:
    """Clean launches that were made on just this engine, and that further ones add to."""
    if engine_version is None and image is None:
        return 0
    checks = [check for check in entry.checks if check.architecture == architecture]
    last = _last_clean([check for check in checks if check.answer != "could_not_run"])
    same = last and (last[-1].engine_version, last[-1].image) == (engine_version, image)
    return sum(check.launches for check in last) if same else 0


def after(entry: LedgerEntry, check: LedgerCheck) -> LedgerEntry:
    """The entry with the check, and what that makes of its status."""
    engine = engine_of(check)
    told = replace(entry, checks=(*entry.checks, check))
    if check.answer == "still_there":
        return replace(
            told,
            architectures=with_names(told.architectures, (check.architecture,)),
            engine_versions_bad=with_names(told.engine_versions_bad, (check.engine_version,)),
            engine_versions_good=tuple(v for v in told.engine_versions_good if v != check.engine_version),
            status="reopened" if told.status == "closed" else told.status,
            closed_at=None,
        )
    if check.answer != "not_seen" or told.status == "closed" or missing(told, engine):
        return told
    return replace(
        told,
        status="closed",
        closed_at=check.at,
        engine_versions_good=with_names(told.engine_versions_good, (check.engine_version,)),
    )


def missing(entry: LedgerEntry, engine: str | None) -> tuple[str, ...]:
    """What keeps the entry from being closed on this engine, a line each; empty if nothing does."""
    if engine is None:
        return ("which engine it was is not known: name it with --engine-version",)
    if engine in entry.engine_versions_bad:
        return (f"{engine} is an engine that it was seen on: what else was changed is not known here",)
    lines = [_lacking(standing(entry, architecture), engine) for architecture in architectures(entry)]
    return tuple(line for line in lines if line is not None)


def architectures(entry: LedgerEntry) -> tuple[str | None, ...]:
    """Those that must be clean; None for bundles that name none."""
    unnamed = (None,) if any(bundle.architecture is None for bundle in entry.bundles) else ()
    return (*entry.architectures, *unnamed)


def _lacking(at: Standing, engine: str) -> str | None:
    where = at.architecture or "the machine of the bundle"
    if at.seen:
        return f"{where}: still there with {at.engine}"
    if at.hidden:
        return f"{where}: another failure hides it with {at.engine}"
    if at.engine != engine:
        return f"{where}: not asked with {engine}"
    if not at.clean:
        return f"{where}: {at.launches} clean launches of the {at.needed} needed with {engine}"
    return None


def _last_clean(checks: Sequence[LedgerCheck]) -> list[LedgerCheck]:
    """The clean checks at the end of the list that are of one engine and image."""
    found: list[LedgerCheck] = []
    for check in reversed(checks):
        same = not found or (check.engine_version, check.image) == (found[0].engine_version, found[0].image)
        if check.answer != "not_seen" or not same:
            break
        found.insert(0, check)
    return found
