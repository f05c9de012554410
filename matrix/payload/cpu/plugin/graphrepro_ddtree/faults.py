"""Planted faults as data: their names, their numbers, and where the wanted one is read from. Standard library only.

`../../faults.json` says the same for programs that cannot import this package, with meanings and effects; a test
compares them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FAULT_VARIABLE = "GRAPHREPRO_FAULT"
FILE_VARIABLE = "GRAPHREPRO_FAULT_FILE"

ANY = ("none", "NGRAM", "DDTREE")
TREES = ("NGRAM", "DDTREE")


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A fault that can be planted: its default number, None if it takes none, and the algorithms it works with."""

    name: str
    number: int | None
    algorithms: tuple[str, ...]


KINDS = {
    kind.name: kind
    for kind in (
        Kind(name="stale-mask", number=None, algorithms=TREES),
        Kind(name="causal-mask", number=None, algorithms=TREES),
        Kind(name="useless-trees", number=None, algorithms=TREES),
        Kind(name="wrong-token", number=200, algorithms=ANY),
        Kind(name="wrong-at-concurrency", number=3, algorithms=ANY),
        Kind(name="wrong-late", number=90, algorithms=ANY),
        Kind(name="nan", number=25, algorithms=ANY),
        Kind(name="nan-padding", number=None, algorithms=("DDTREE",)),
        Kind(name="scheduler-exception", number=25, algorithms=ANY),
        Kind(name="sigkill", number=25, algorithms=ANY),
        Kind(name="segfault", number=25, algorithms=ANY),
        Kind(name="exit", number=25, algorithms=ANY),
        Kind(name="host-hang", number=25, algorithms=ANY),
        Kind(name="no-tokens", number=None, algorithms=ANY),
    )
}


class FaultError(ValueError):
    """A fault that cannot be planted: unknown, badly written, or not possible with the server's algorithm."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A fault to plant; `number` is 0 for one that takes none."""

    name: str
    number: int

    def require(self, algorithm: str | None) -> None:
        """FaultError if the server's speculative algorithm (None for no speculation) cannot show this fault."""
        allowed = KINDS[self.name].algorithms
        if (algorithm or "none") not in allowed:
            raise FaultError(
                f"fault {self.name!r} cannot be planted with algorithm {algorithm}; it works with {', '.join(allowed)}"
            )


def parse(text: str) -> Fault | None:
    """`name` or `name:number` -> the fault; None for empty text; FaultError for anything else."""
    name, colon, number = text.strip().partition(":")
    if not name and not colon:
        return None
    kind = KINDS.get(name)
    if kind is None:
        raise FaultError(f"unknown fault {name!r}; the names are {', '.join(KINDS)}")
    if not colon:
        return Fault(name=name, number=kind.number or 0)
    if kind.number is None:
        raise FaultError(f"fault {name!r} takes no number, but got {number!r}")
    if not (number.isascii() and number.isdecimal() and int(number) > 0):
        raise FaultError(f"fault {name!r} needs a number of 1 or more, not {number!r}")
    return Fault(name=name, number=int(number))


class FixedSource:
    """The same fault for the server's whole life."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    def read(self) -> Fault | None:
        """The fault."""
        return self._fault


class FileSource:
    """A file with the fault's text, read again whenever it changes; no file or an empty one means no fault.

    Replace the file by renaming another over it: a half-written name would be an unknown fault.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._fault: Fault | None = None

    def read(self) -> Fault | None:
        """The fault that the file asks for now; FaultError if it cannot be understood."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            self._seen = self._fault = None
            return None
        seen = (status.st_mtime_ns, status.st_size, status.st_ino)
        if seen != self._seen:
            self._fault = parse(self._path.read_text(encoding="utf-8"))
            self._seen = seen
        return self._fault


Source = FixedSource | FileSource


def source_from(environment: Mapping[str, str]) -> Source | None:
    """Where the environment says to look for a fault, None for nowhere; SystemExit with one line if it is wrong."""
    text, path = environment.get(FAULT_VARIABLE, ""), environment.get(FILE_VARIABLE, "")
    try:
        if text.strip() and path:
            raise FaultError(f"set {FAULT_VARIABLE} or {FILE_VARIABLE}, not both")
        if path:
            source = FileSource(Path(path).absolute())
            source.read()
            return source
        fault = parse(text)
    except FaultError as problem:
        variable = FILE_VARIABLE if path else FAULT_VARIABLE
        raise SystemExit(f"graphrepro_ddtree: {variable}: {problem}") from None
    return None if fault is None else FixedSource(fault)
