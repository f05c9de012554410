"""Bundles -> entries: one for each failure, however many architectures and cells it shows on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from repro.canonical import sha256_of
from repro.causes import same_failure
from repro.model import Ledger, LedgerBundle, LedgerEntry, Signature, Subject


@dataclass(frozen=True, kw_only=True, slots=True)
class Added:
    """What became of a bundle. ``how``: a new entry, a further bundle of one, or one that was there already."""

    ledger: Ledger
    entry: LedgerEntry
    how: Literal["new", "merged", "known"]
    reopened: bool


def add(
    ledger: Ledger,
    subject: Subject,
    bundle: LedgerBundle,
    *,
    statement: str,
    first_seen_at: str,
    issue: str | None = None,
) -> Added:
    """The ledger with the bundle in it. A closed entry reopens when the bundle shows its failure on an engine that it
    was not known on. Of a bundle that is there already it takes the issue, and where the file lies now."""
    found = matching(ledger, subject.signature, engine=subject.engine, planted=subject.planted)
    if found is None:
        entry = _new(subject, bundle, statement=statement, first_seen_at=first_seen_at, issue=issue)
        entry = replace(entry, id=_free(entry.id, ledger))
        return Added(ledger=Ledger(entries=(*ledger.entries, entry)), entry=entry, how="new", reopened=False)
    same = any(one.sha256 == bundle.sha256 for one in found.bundles)
    merged = _merged(found, subject, bundle, first_seen_at=first_seen_at)
    entry = replace(_placed(found, bundle) if same else merged, issue=issue or found.issue)
    reopened = found.status == "closed" and entry.status == "reopened"
    return Added(ledger=changed(ledger, entry), entry=entry, how="known" if same else "merged", reopened=reopened)


def matching(ledger: Ledger, signature: Signature, *, engine: str, planted: bool) -> LedgerEntry | None:
    """The entry of this failure: the one of the very same signature, else the only one that says the same failure.

    A signature without a subsystem matches any; where several entries fit it, none is taken. Failures of another engine
    and planted ones are never the same.
    """
    fitting = alike(ledger, signature, engine=engine, planted=planted)
    exact = [entry for entry in fitting if entry.signature == signature]
    if exact:
        return exact[0]
    return fitting[0] if len(fitting) == 1 else None


def alike(ledger: Ledger, signature: Signature, *, engine: str, planted: bool) -> tuple[LedgerEntry, ...]:
    """Every entry that may be this failure."""
    return tuple(
        entry
        for entry in ledger.entries
        if (entry.engine, entry.planted) == (engine, planted) and same_failure(entry.signature, signature)
    )


def changed(ledger: Ledger, entry: LedgerEntry) -> Ledger:
    """The ledger with the entry of this id replaced."""
    return Ledger(entries=tuple(entry if one.id == entry.id else one for one in ledger.entries))


def with_names(known: Sequence[str], more: Iterable[str | None]) -> tuple[str, ...]:
    """Each name once, in the order in which they came."""
    return tuple(dict.fromkeys([*known, *(name for name in more if name)]))


def _new(
    subject: Subject, bundle: LedgerBundle, *, statement: str, first_seen_at: str, issue: str | None
) -> LedgerEntry:
    return LedgerEntry(
        id=_id(subject),
        signature=subject.signature,
        statement=statement,
        engine=subject.engine,
        planted=subject.planted,
        targets=(subject.target,),
        architectures=with_names((), (bundle.architecture,)),
        cells=with_names((), subject.cells),
        first_seen_at=first_seen_at,
        engine_versions_bad=with_names((), (bundle.engine_version,)),
        engine_versions_good=(),
        bundles=(bundle,),
        issue=issue,
        status="open",
        closed_at=None,
        checks=(),
    )


def _merged(entry: LedgerEntry, subject: Subject, bundle: LedgerBundle, *, first_seen_at: str) -> LedgerEntry:
    """The entry with one more bundle. It takes the more exact of the two signatures, and keeps its id."""
    seen_anew = entry.status == "closed" and bundle.engine_version not in entry.engine_versions_bad
    return replace(
        entry,
        signature=entry.signature if entry.signature.subsystem is not None else subject.signature,
        targets=with_names(entry.targets, (subject.target,)),
        architectures=with_names(entry.architectures, (bundle.architecture,)),
        cells=with_names(entry.cells, subject.cells),
        first_seen_at=min(entry.first_seen_at, first_seen_at),
        engine_versions_bad=with_names(entry.engine_versions_bad, (bundle.engine_version,)),
        engine_versions_good=tuple(v for v in entry.engine_versions_good if v != bundle.engine_version),
        bundles=(*entry.bundles, bundle),
        status="reopened" if seen_anew else entry.status,
        closed_at=None if seen_anew else entry.closed_at,
    )


def _placed(entry: LedgerEntry, bundle: LedgerBundle) -> LedgerEntry:
    """The entry with the path of a bundle that was moved."""
    bundles = (replace(one, path=bundle.path) if one.sha256 == bundle.sha256 else one for one in entry.bundles)
    return replace(entry, bundles=tuple(bundles))


def _id(subject: Subject) -> str:
    signature = subject.signature
    said: dict[str, object] = {
        "signature": [signature.kind, signature.phase, signature.subsystem],
        "engine": subject.engine,
        "planted": subject.planted,
    }
    return f"l-{sha256_of(said)[:10]}"


def _free(name: str, ledger: Ledger) -> str:
    """An entry whose signature became more exact keeps its id: another of the old signature needs another one."""
    taken = {entry.id for entry in ledger.entries}
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free
