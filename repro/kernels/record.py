"""A run of the kernel checks on disk: `kernels.json` and `rows.jsonl`, in `results/kernels/<run-id>/`.

Rows are appended as cases end, each case at once, so that a kill loses no more than the case in flight.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from repro import canonical, codec, store
from repro.atomic import unwritable
from repro.errors import UnavailableError
from repro.kernels.case import Case
from repro.model.kernels import KernelArm, KernelResult, KernelRun, KernelSubject

ROWS, RUN = "rows.jsonl", "kernels.json"


@dataclass(frozen=True, slots=True)
class Record:
    """One run's folder. ``rows`` are those that were there when it was opened; ``why_new`` says why it does not go on
    with an earlier run of the same command, None if there is none or it does."""

    path: Path
    run: KernelRun
    rows: tuple[KernelResult, ...]
    why_new: str | None

    def append(self, results: Sequence[KernelResult]) -> None:
        """The results of one case, down to the disk. Raises `UnavailableError` if they cannot be written."""
        lines = b"".join(canonical.canonical_bytes(codec.encode(result)) + b"\n" for result in results)
        path = self.path / ROWS
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                written = os.write(descriptor, lines)
                if written < len(lines):
                    raise OSError(28, os.strerror(28))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise unwritable(path, error) from None

    def write(self, arms: Iterable[KernelArm]) -> None:
        """`kernels.json`, whole. Raises `UnavailableError` if it cannot be written."""
        run = self.run
        now = KernelRun(
            run_id=run.run_id,
            created_at=run.created_at,
            tool_version=run.tool_version,
            arms=tuple(arms),
            argv=run.argv,
        )
        store.write_record(self.path / RUN, now)


@contextlib.contextmanager
def opened(
    root: Path, argv: tuple[str, ...], subject: KernelSubject, now: datetime, tool_version: str
) -> Iterator[Record]:
    """The newest unfinished run of the same command and the same code, or else a new one, locked until the end.

    Raises `UnavailableError` if it cannot be made or is in use, RecordError if what it would go on with is invalid.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(root, error) from None
    earlier, why_new = _resumable(root, argv, subject)
    path = earlier or _new(root, now)
    with store.lock(path):
        if earlier is not None:
            yield Record(path, codec.read(path / RUN, KernelRun), read_rows(path, cut=True), None)
            return
        run = KernelRun(
            run_id=path.name,
            created_at=f"{now:%Y-%m-%dT%H:%M:%SZ}",
            tool_version=tool_version,
            arms=(),
            argv=argv,
        )
        yield Record(path, run, (), why_new)


def read_rows(path: Path, *, cut: bool = False) -> tuple[KernelResult, ...]:
    """The results in a run's folder. ``cut``: a last line that a kill has left unfinished is taken off the file.

    Raises `RecordError` for any other bad line.
    """
    rows = path / ROWS
    if not rows.exists():
        return ()
    results, problem = codec.read_lines(rows, KernelResult)
    if problem and cut:
        whole = rows.read_bytes().rpartition(b"\n")
        os.truncate(rows, len(whole[0]) + len(whole[1]))
    return results


def finished_keys(rows: Iterable[KernelResult], cases: Iterable[Case]) -> frozenset[str]:
    """Keys of the cases that have a result of their own."""
    found = {(row.check, row.cell.id, row.planted) for row in rows}
    return frozenset(case.key for case in cases if (case.check, case.cell.id, case.planted) in found)


def same_code(rows: Iterable[KernelResult], subject: KernelSubject) -> bool:
    """Whether rows of the pinned code were measured on what is there now. Rows of other releases or compilers name
    those themselves."""
    return all(
        row.subject.source_sha256 == subject.source_sha256 and row.subject.torch in (subject.torch, None)
        for row in rows
        if (row.subject.sglang, row.subject.triton) == (subject.sglang, subject.triton)
    ) and (not (versions := _versions(rows)) or (subject.sglang, subject.triton) in versions)


def _versions(rows: Iterable[KernelResult]) -> set[tuple[str, str | None]]:
    return {(row.subject.sglang, row.subject.triton) for row in rows}


def _resumable(root: Path, argv: tuple[str, ...], subject: KernelSubject) -> tuple[Path | None, str | None]:
    """The run to go on with; or, if the newest one of this command is none, why."""
    for path in sorted((entry.parent for entry in root.glob(f"*/{RUN}")), reverse=True):
        run = codec.read(path / RUN, KernelRun, where=f"{path.name}/{RUN}")
        if run.argv != argv:
            continue
        if all(arm.state != "unfinished" for arm in run.arms):
            return None, f"{path.name} is finished"
        if not same_code(read_rows(path), subject):
            return None, f"{path.name} asked other code"
        return path, None
    return None, None


def _new(root: Path, now: datetime) -> Path:
    name = f"{now:%Y%m%dT%H%M%SZ}"
    for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
        path = root / f"{name}{suffix}"
        try:
            path.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise unwritable(path, error) from None
        return path
    raise UnavailableError(f"{root / name}: has 999 runs of the same second; wait a second")
