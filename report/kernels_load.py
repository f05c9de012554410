"""Folders of the kernel checks -> their runs, with every line that could not be used named. Reads, never writes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from repro import codec
from repro.errors import RecordError
from repro.escape import one_line
from repro.jsontext import parse
from repro.kernels.record import ROWS, RUN
from repro.model import Problem
from repro.model.kernels import KernelResult, KernelRun

FOLDER = "kernels"
_MOST_LINES = 20
"""Bad lines of one file that are named; of more, their number is told."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedKernelRun:
    """``directory`` is relative to the results directory."""

    run: KernelRun
    directory: str
    rows: tuple[KernelResult, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedKernels:
    """``runs``: newest first."""

    runs: tuple[LoadedKernelRun, ...]
    problems: tuple[Problem, ...]

    def since(self, moment: datetime) -> "LoadedKernels":
        """Without the runs that began before the moment."""
        kept = tuple(one for one in self.runs if datetime.fromisoformat(one.run.created_at) >= moment)
        return LoadedKernels(runs=kept, problems=self.problems)


def load_kernels(roots: Sequence[Path]) -> LoadedKernels:
    """All runs of the kernel checks below the results directories ``roots``, or such a run itself.

    What cannot be read becomes a problem; the order of ``roots`` and of files on disk makes no difference.
    """
    runs: dict[str, LoadedKernelRun] = {}
    problems: list[Problem] = []
    for root in sorted(roots):
        for folder in _folders(root.resolve(), problems):
            found = _load(folder, problems)
            if found is not None and runs.setdefault(found.run.run_id, found) is not found:
                twice = "the same run is in two of the given results directories; it is shown once"
                problems.append(Problem(path=f"{found.directory}/{RUN}", problem=twice))
    ordered = sorted(runs.values(), key=lambda one: (one.run.created_at, one.run.run_id), reverse=True)
    harmless = {Problem(path=one_line(p.path), problem=one_line(p.problem)) for p in problems}
    return LoadedKernels(
        runs=tuple(ordered), problems=tuple(sorted(harmless, key=lambda problem: (problem.path, problem.problem)))
    )


def _folders(root: Path, problems: list[Problem]) -> Iterable[Path]:
    """The folders of runs below a results directory, below its `kernels`, or the folder of one run. Links are not
    followed."""
    if _is_run(root):
        return [root]
    place = root if root.name == FOLDER else root / FOLDER
    if place.is_symlink():
        problems.append(Problem(path=FOLDER, problem="is a symbolic link, which is not followed; name its target"))
        return []
    try:
        inside = sorted(entry for entry in place.iterdir() if not entry.name.startswith("."))
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(Problem(path=FOLDER, problem=f"cannot be read ({error.strerror}); make it readable"))
        return []
    for entry in inside:
        if entry.is_symlink():
            said = "is a symbolic link, which is not followed; name its target as a results directory instead"
            problems.append(Problem(path=_shown(entry), problem=said))
    return [entry for entry in inside if not entry.is_symlink() and _is_run(entry)]


def _is_run(path: Path) -> bool:
    return any((path / name).exists() or (path / name).is_symlink() for name in (RUN, ROWS))


def _shown(folder: Path) -> str:
    return f"{FOLDER}/{folder.name.encode('utf-8', 'backslashreplace').decode()}"


def _load(folder: Path, problems: list[Problem]) -> LoadedKernelRun | None:
    place = _shown(folder)
    try:
        run = codec.read(_plain(folder / RUN, f"{place}/{RUN}"), KernelRun, where=f"{place}/{RUN}")
    except RecordError as error:
        problems.append(_problem(f"{place}/{RUN}", error))
        return None
    if folder.parent.name == FOLDER and folder.name != run.run_id:
        said = f"belongs to another place: it says run {run.run_id}; rename the folder"
        problems.append(Problem(path=f"{place}/{RUN}", problem=said))
        return None
    return LoadedKernelRun(run=run, directory=place, rows=_rows(folder, f"{place}/{ROWS}", problems))


def _rows(folder: Path, where: str, problems: list[Problem]) -> tuple[KernelResult, ...]:
    """The rows that can be used: a bad line costs itself, and a last line that a kill has cut is said to be one."""
    path = folder / ROWS
    if not path.exists() and not path.is_symlink():
        return ()  # nothing was asked, or not yet
    try:
        *lines, rest = _plain(path, where).read_bytes().split(b"\n")
    except (RecordError, OSError) as error:
        problems.append(_problem(where, error))
        return ()
    rows: list[KernelResult] = []
    bad: list[Problem] = []
    for number, line in enumerate(lines, start=1):
        place = f"{where}:{number}"
        try:
            rows.append(codec.decode(parse(line, place), KernelResult, where=place))
        except RecordError as error:
            bad.append(_problem(place, error))
    problems += bad[:_MOST_LINES]
    if len(bad) > _MOST_LINES:
        more = f"{len(bad) - _MOST_LINES} more lines are no records of this kind"
        problems.append(Problem(path=where, problem=more))
    if rest:
        cut = f"the last line is cut off after {len(rest)} bytes: its case is left, and the same command asks it again"
        problems.append(Problem(path=f"{where}:{len(lines) + 1}", problem=cut))
    return tuple(rows)


def _plain(path: Path, where: str) -> Path:
    """The path, if it is a regular file. Raises `RecordError`."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise RecordError(f"{where}: is not a regular file, and links are not followed; put the file itself there")
    return path


def _problem(where: str, error: Exception) -> Problem:
    said = f"cannot be read ({error.strerror})" if isinstance(error, OSError) else str(error)
    return Problem(path=where, problem=said.removeprefix(f"{where}: "))
