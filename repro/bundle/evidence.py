"""What of an attempt goes into a bundle, what stays where it is, and what would be dropped first."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias

from repro import codec
from repro.bundle.contents import GatheredAttempt
from repro.bundle.inside.verify import name_problem
from repro.bundle.trim import outside_of, trim
from repro.canonical import pretty_bytes, sha256_file
from repro.model import LeftOut

Form: TypeAlias = Literal["document", "lines", "text", "program"]
"""How a file is redacted: as JSON, as lines of JSON, as text; a program of ours is not."""

LARGEST_BYTES = 8_000_000
"""A larger file of evidence that is no log stays outside."""
KERNEL_RANK, LAST_LOG_RANK = 6, 7
_SERVER_LOG = "evidence/server.log"
_RANKS = (
    (1, re.compile(r"evidence/(?:power|warmup|server_info.*)\.json|evidence/metrics.*\.txt")),
    (2, re.compile(r"evidence/checks/.*")),
    (3, re.compile(r"attempt\.log|evidence/(?:coding|rescoring)\.json|evidence/(?:stacks|peer)/.*")),
    (4, re.compile(re.escape(_SERVER_LOG))),
)
_OTHER_RANK = 5
_FORMS: dict[str, Form] = {".json": "document", ".jsonl": "lines", ".txt": "text", ".log": "text"}


def form_of(name: str) -> Form:
    """How a file of that name is redacted; as text if nothing is known of its kind."""
    return _FORMS.get(PurePosixPath(name).suffix, "text")


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A file on its way into the bundle: its unredacted bytes lie in ``data``, a file of the caller's own or the bytes
    themselves. ``rank``, ``turn`` and ``where`` are as in `repro.bundle.archive.Packed`."""

    path: str
    data: bytes | Path
    form: Form
    cut: str | None = None
    rank: int = 0
    turn: int = 0
    where: str | None = None

    def read(self) -> bytes:
        return self.data if isinstance(self.data, bytes) else self.data.read_bytes()


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """``notes`` are for the person who packs."""

    sources: tuple[Source, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]


def folder_of(attempt: GatheredAttempt) -> str:
    """Where the attempt lies in a bundle."""
    return f"results/{attempt.result.cell}/{attempt.result.attempt}"


def evidence_of(attempt: GatheredAttempt, scratch: Path, *, turn: int, is_first: bool) -> Evidence:
    """The records and the evidence of one attempt. Cut logs are written into ``scratch``, a directory of the caller's.

    Core dumps and whole logs always stay outside, and so does what is no text, or too large. ``is_first``: it is the
    attempt that the bundle replays, whose log goes last when the bundle is too large. Raises OSError for a file that
    cannot be read.
    """
    sources = list(_records(attempt))
    left_out: list[LeftOut] = []
    notes: list[str] = []
    for item in attempt.result.evidence:
        where = f"{attempt.place}/{item.path}"
        reason = _stays_outside(item.path, item.size_bytes)
        if reason is not None:
            left_out.append(LeftOut(where=where, size_bytes=item.size_bytes, sha256=item.sha256, reason=reason))
            continue
        source = Source(
            path=f"{folder_of(attempt)}/{item.path}",
            data=attempt.directory.joinpath(*item.path.split("/")),
            form=_FORMS[PurePosixPath(item.path).suffix],
            rank=LAST_LOG_RANK if is_first and item.path == _SERVER_LOG else rank_of(item.path),
            turn=turn,
            where=where,
        )
        if PurePosixPath(item.path).suffix == ".log":
            log, whole = _cut_log(attempt, source, scratch / f"{turn}-{len(sources)}.log", item.path, notes)
            sources.append(log)
            if whole is not None:
                left_out.append(LeftOut(where=where, size_bytes=item.size_bytes, sha256=item.sha256, reason=whole))
        else:
            sources.append(source)
    own_log = _own_log(attempt, scratch / f"{turn}-attempt.log", turn)
    return Evidence(sources=(*sources, *own_log), left_out=tuple(left_out), notes=tuple(notes))


def rank_of(path: str) -> int:
    """When a file of an attempt is dropped from a bundle that is too large: the lower, the earlier."""
    return next((rank for rank, pattern in _RANKS if pattern.fullmatch(path)), _OTHER_RANK)


def _records(attempt: GatheredAttempt) -> Iterator[Source]:
    records = {"result": attempt.result, "verdict": attempt.verdict, "step": attempt.step}
    for name, record in records.items():
        if record is not None:
            data = pretty_bytes(codec.encode(record))
            yield Source(path=f"{folder_of(attempt)}/{name}.json", data=data, form="document")


def _stays_outside(path: str, size_bytes: int) -> str | None:
    """Why a file of evidence is not packed; None if it is."""
    suffix = PurePosixPath(path).suffix
    if path.startswith("evidence/dumps/") or re.search(r"(?:^|/)(?:gpu)?core(?:dump)?[._]", path):
        return "a dump always stays outside: it may hold prompts and memory"
    if suffix not in _FORMS:
        return "is of no kind that can be searched for secrets"
    if suffix != ".log" and size_bytes > LARGEST_BYTES:
        return f"is larger than {LARGEST_BYTES:,} bytes"
    if name_problem(f"results/c/1/{path}") is not None:
        return "has a name that some systems cannot have"
    return None


def _cut_log(
    attempt: GatheredAttempt, source: Source, scratch: Path, path: str, notes: list[str]
) -> tuple[Source, str | None]:
    """(the log as it is packed, why the whole one stays outside)."""
    found = trim(attempt.directory.joinpath(*path.split("/")), outside_of(attempt.result), scratch)
    if found.cut is None:
        return source, None
    scratch.write_bytes(found.data)
    if not found.same:
        notes.append(f"{attempt.place}/{path}: the cut log is not diagnosed as the whole one is; keep the whole one")
    packed = Source(
        path=source.path,
        data=scratch,
        form="text",
        cut=found.cut,
        rank=source.rank,
        turn=source.turn,
        where=source.where,
    )
    return packed, f"whole log; the bundle holds it without {found.cut}"


def _own_log(attempt: GatheredAttempt, scratch: Path, turn: int) -> tuple[Source, ...]:
    """The attempt program's own log, which is no evidence of the engine and has no hash in the result."""
    path = attempt.directory / "attempt.log"
    if path.is_symlink() or not path.is_file():
        return ()
    found = trim(path, outside_of(attempt.result), scratch)
    scratch.write_bytes(found.data)
    return (
        Source(
            path=f"{folder_of(attempt)}/attempt.log",
            data=scratch,
            form="text",
            cut=found.cut,
            rank=rank_of("attempt.log"),
            turn=turn,
            where=f"{attempt.place}/attempt.log",
        ),
    )


def further(first: GatheredAttempt, cells_and_numbers: Iterator[tuple[str, int]]) -> Iterator[LeftOut]:
    """The results of attempts of the same run that a bundle does not hold."""
    cells = first.directory.parents[1]
    place = PurePosixPath(first.place).parents[1]
    for cell, number in cells_and_numbers:
        path = cells / cell / str(number) / "result.json"
        yield LeftOut(
            where=str(place / cell / str(number) / "result.json"),
            size_bytes=path.stat().st_size,
            sha256=sha256_file(path),
            reason="a further launch that failed alike",
        )
