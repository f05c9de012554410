"""A bundle file as the ledger sees it: verified, and read without unpacking it."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from repro import codec
from repro.bundle.inside.verify import MANIFEST, REPLAY, Archive, RefusedError, checked
from repro.bundle.records import record_problem
from repro.canonical import sha256_file
from repro.errors import BundleError, RecordError, SpecError
from repro.jsontext import parse
from repro.ledger import entries, store
from repro.ledger.entries import Added
from repro.model import BundleExpectation, Finding, Ledger, LedgerBundle, Manifest, Replay, Result, Subject


@dataclass(frozen=True, kw_only=True, slots=True)
class Noted:
    """``undecided``: why a replay of the bundle can decide nothing, None if it can."""

    subject: Subject
    bundle: LedgerBundle
    statement: str
    first_seen_at: str
    undecided: str | None


def read_bundle(file: Path, folder: Path, *, now: Callable[[], str]) -> Noted:
    """What a bundle says of itself; ``folder`` is the ledger's.

    The rate is that of the runs together with that of the replay before it left. Raises `BundleError` if it does not
    verify, `RecordError` if a record in it is invalid, `SpecError` if nothing fails in it.
    """
    archive = _verified(file)
    manifest = _record(archive, MANIFEST, Manifest)
    expectation = _record(archive, "expectation.json", BundleExpectation)
    replay = _record(archive, REPLAY, Replay) if REPLAY in archive.entries else None
    k = expectation.k + (replay.reproduced if replay is not None else 0)
    n = expectation.n + (replay.launches if replay is not None else 0)
    if not k:
        raise SpecError(f"{file}: shows no failure, only a cell that works; a ledger is about failures")
    subject = manifest.subject
    finding = _record(archive, "finding.json", Finding) if "finding.json" in archive.entries else None
    return Noted(
        subject=subject,
        bundle=LedgerBundle(
            path=Path(os.path.relpath(file, folder)).as_posix(),
            sha256=sha256_file(file),
            digest=manifest.digest,
            architecture=subject.architecture,
            engine_version=subject.engine_version,
            image=subject.image,
            k=k,
            n=max(n, k),
            added_at=now(),
        ),
        statement=finding.statement if finding is not None else expectation.statement,
        first_seen_at=_first_seen(archive) or now(),
        undecided=expectation.undecided,
    )


def note(ledger: Path, file: Path, *, issue: str | None, now: Callable[[], str]) -> tuple[Added, Noted]:
    """Put a bundle into the ledger, which is made if it is not there. Raises as `read_bundle` and `store.update` do."""
    noted = read_bundle(file, ledger.parent, now=now)
    added = store.update(
        ledger,
        lambda before: _both(
            entries.add(
                before,
                noted.subject,
                noted.bundle,
                statement=noted.statement,
                first_seen_at=noted.first_seen_at,
                issue=issue,
            )
        ),
    )
    return added, noted


def _both(added: Added) -> tuple[Ledger, Added]:
    return added.ledger, added


def _verified(file: Path) -> Archive:
    try:
        archive = Archive.read(file)
        problems = checked(archive).problems
    except RefusedError as refusal:
        problems = refusal.problems
    except OSError as error:
        raise SpecError(f"{file}: cannot be read ({error.strerror}); give the path of a bundle") from None
    if problems:
        raise BundleError(f"{file}: {problems[0]}")
    problem = record_problem(archive)
    if problem is not None:
        raise BundleError(f"{file}: {problem}")
    return archive


def _record(archive: Archive, name: str, kind: type[codec.T]) -> codec.T:
    if name not in archive.entries:
        raise RecordError(f"{name}: is not in the bundle; pack it again with this graphrepro")
    return codec.decode(parse(archive.content(name), name), kind, where=name)


def _first_seen(archive: Archive) -> str | None:
    """When the first launch in the bundle began."""
    names = [name for name in archive.entries if name.startswith("results/") and name.endswith("/result.json")]
    return min((_record(archive, name, Result).begun_at for name in names), default=None)
