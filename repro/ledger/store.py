"""`ledger.json` on disk: read, and changed under a lock, whole or not at all."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from repro import codec
from repro.atomic import write_atomic
from repro.canonical import pretty_bytes
from repro.errors import RecordError, SpecError, UnavailableError
from repro.jsontext import REMEDY
from repro.model import Ledger, LedgerEntry

DEFAULT = Path("ledger.json")
_WAIT_S = 10.0
_REMEDY = "take it from the last commit, or mend it by hand: what it says of earlier launches is nowhere else"

T = TypeVar("T")


def read(path: Path) -> Ledger:
    """The ledger. Raises `SpecError` if there is none, `RecordError` if it is invalid."""
    if not path.exists():
        _refuse_other(path)
        raise SpecError(f"{path}: there is no such ledger; `python -m repro ledger add BUNDLE` begins one")
    return _read(path)


def update(path: Path, change: Callable[[Ledger], tuple[Ledger, T]]) -> T:
    """Read the ledger anew (empty if there is none), change it and write it back; what else ``change`` gives.

    Nobody else changes it meanwhile; a kill leaves the old file or the new one. Raises `UnavailableError` if it cannot
    be locked or written, and whatever ``change`` raises: then nothing was written.
    """
    with _locked(path):
        _refuse_other(path)
        before = _read(path) if path.exists() else Ledger(entries=())
        after, given = change(before)
        if after != before or not path.exists():
            write_atomic(path, pretty_bytes(codec.encode(after)))
    return given


def _read(path: Path) -> Ledger:
    _refuse_other(path)
    try:
        ledger = codec.read(path, Ledger)
    except RecordError as error:
        raise RecordError(str(error).replace(REMEDY, _REMEDY)) from None
    problem = _contradiction(ledger)
    if problem is not None:
        raise RecordError(f"{path}: {problem}")
    return ledger


def _refuse_other(path: Path) -> None:
    """A link would be replaced by the ledger and what it leads to stay as it is; to open a pipe would wait for ever."""
    if path.is_symlink():
        raise SpecError(f"{path}: is a symbolic link, which is not followed; name the ledger that it leads to")
    if path.exists() and not path.is_file():
        raise SpecError(f"{path}: is not a regular file; name the ledger's own path")


def _contradiction(ledger: Ledger) -> str | None:
    """What no schema can say and a merge by hand brings: one id twice, of which the next change would lose one."""
    seen: set[str] = set()
    for number, entry in enumerate(ledger.entries):
        if entry.id in seen:
            return (
                f"/entries/{number}/id: {entry.id} is there twice; make one entry of the two, with the bundles and "
                "checks of both"
            )
        seen.add(entry.id)
        for place, bundle in enumerate(entry.bundles):
            if bundle.k > bundle.n:
                return f"/entries/{number}/bundles/{place}: k of n is {bundle.k} of {bundle.n}; {_REMEDY}"
    return None


def entry_of(ledger: Ledger, name: str) -> LedgerEntry:
    """The entry of that id. Raises `SpecError`."""
    for entry in ledger.entries:
        if entry.id == name:
            return entry
    known = ", ".join(entry.id for entry in ledger.entries) or "none"
    raise SpecError(f"the ledger has no entry {name!r}; it has: {known}")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    if not path.parent.is_dir():  # FileLock would make it
        raise UnavailableError(f"{path}: there is no such folder; make it, or name another ledger")
    guard = FileLock(path.with_name(f".{path.name}.lock"), timeout=_WAIT_S)
    try:
        guard.acquire()
    except Timeout:
        raise UnavailableError(f"{path} is in use by another graphrepro process; wait for it or end it") from None
    except (OSError, NotImplementedError) as error:
        raise UnavailableError(f"{path} cannot be locked ({error}); use a local, writable disk") from None
    try:
        yield
    finally:
        guard.release()
