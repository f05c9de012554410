"""`ledger.json` on disk: read, and changed under a lock, whole or not at all."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from repro import codec
from repro.atomic import write_atomic
from repro.canonical import pretty_bytes
from repro.errors import SpecError, UnavailableError
from repro.model import Ledger, LedgerEntry

DEFAULT = Path("ledger.json")
_WAIT_S = 10.0

T = TypeVar("T")


def read(path: Path) -> Ledger:
    """The ledger. Raises `SpecError` if there is none, `RecordError` if it is invalid."""
    if not path.exists():
        raise SpecError(f"{path}: there is no such ledger; `python -m repro ledger add BUNDLE` begins one")
    return codec.read(path, Ledger)


def update(path: Path, change: Callable[[Ledger], tuple[Ledger, T]]) -> T:
    """Read the ledger anew (empty if there is none), change it and write it back; what else ``change`` gives.

    Nobody else changes it meanwhile; a kill leaves the old file or the new one. Raises `UnavailableError` if it cannot
    be locked or written, and whatever ``change`` raises: then nothing was written.
    """
    with _locked(path):
        before = codec.read(path, Ledger) if path.exists() else Ledger(entries=())
        after, given = change(before)
        if after != before or not path.exists():
            write_atomic(path, pretty_bytes(codec.encode(after)))
    return given


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
