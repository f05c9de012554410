"""The run directory: where records lie, how they get there whole, and how they are read back with nothing dropped.

    results/<target>/<run-id>/run.json, plan.json
    results/<target>/<run-id>/cells/<cell-id>/<attempt>/step.json, result.json, verdict.json, evidence/…

Names from disk and from records are checked before they become paths, and symbolic links are never followed: a run
directory may have come from another machine.
"""

import contextlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

import schemas
from repro import codec
from repro.atomic import sync_directory, unwritable, write_atomic, write_new
from repro.canonical import pretty_bytes, sha256_file
from repro.errors import RecordError, SpecError, UnavailableError
from repro.model import EvidenceFile, Plan, Problem, Result, Run

__all__ = ["Finished", "RunDirectory", "create", "lock", "scan", "verify_evidence", "write_atomic", "write_record"]

_NAME = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]{0,199}")
_VISIBLE = re.compile(r"[^.].*", re.DOTALL)
_NUMBER = re.compile(r"[1-9][0-9]{0,5}")


def write_record(path: Path, record: object) -> None:
    """Put the record's document at ``path``. Raises as `codec.encode` and `write_atomic` do."""
    write_atomic(path, pretty_bytes(codec.encode(record)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """The results of a run's finished attempts by cell and number: ``measured``, and those with evidence hooks
    ``armed``, which count nowhere; ``problems``: one for each that cannot be used. ``earlier``: by cell and number, the
    version of a result that an earlier graphrepro wrote."""

    measured: tuple[Result, ...]
    armed: tuple[Result, ...]
    problems: tuple[Problem, ...]
    earlier: Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """One run on disk. The results directory is two levels up: problems name paths relative to it."""

    path: Path

    def run(self) -> Run:
        """`run.json`. Raises `RecordError`."""
        return self._read("run.json", Run)

    def plan(self) -> Plan:
        """`plan.json`. Raises `RecordError`."""
        return self._read("plan.json", Plan)

    def attempt(self, cell: str, number: int) -> Path:
        """The directory of an attempt, which need not exist. Raises `RecordError` for what is no cell id or number."""
        if not _NAME.fullmatch(cell) or not _NUMBER.fullmatch(str(number)):
            raise RecordError(f"{cell[:80]!r} / {number} is no attempt; give a cell id of the plan and a number from 1")
        return self.path / "cells" / cell / str(number)

    def attempts(self) -> tuple[tuple[tuple[str, int], ...], tuple[Problem, ...]]:
        """(cell, number) of each attempt directory, finished or not, sorted; and what lies among them that is none."""
        found: list[tuple[str, int]] = []
        problems: list[Problem] = []
        for cell in self._below(self.path / "cells", _NAME, "a cell", problems):
            numbers = self._below(cell, _NUMBER, "an attempt", problems)
            found += ((cell.name, int(number.name)) for number in numbers)
        return tuple(sorted(found)), tuple(problems)

    def _below(self, path: Path, name: re.Pattern[str], what: str, problems: list[Problem]) -> list[Path]:
        """The directories of that name; what else is there, or that nothing can be read, becomes a problem."""
        try:
            fitting, strays = _directories(path, name)
        except OSError as error:
            problems.append(self._problem(path, _unreadable(error)))
            return []
        problems += [self._problem(stray, f"is not the directory of {what}") for stray in strays]
        return fitting

    def results(self) -> tuple[tuple[Result, ...], tuple[Problem, ...]]:
        """The results of the finished measured attempts by cell and number, and a problem for each that cannot be used.

        Those with evidence hooks armed are not among them, since they count nowhere: `armed_results` has them. Raises
        `RecordError` if `run.json` itself is invalid.
        """
        found = self.read_results()
        return found.measured, found.problems

    def armed_results(self) -> tuple[Result, ...]:
        """The results of attempts that only explain others; problems are told by `results`."""
        return self.read_results().armed

    def read_results(self) -> Finished:
        """What `results` and `armed_results` have, read once. Raises as `results` does."""
        run = self.run()
        results: list[Result] = []
        earlier: dict[tuple[str, int], int] = {}
        attempts, strays = self.attempts()
        problems = list(strays)
        place = self.relative(self.path)
        present = schemas.version("result")
        for cell, number in attempts:
            path = f"{self.path}/cells/{cell}/{number}/result.json"
            if not _may_exist(path):
                continue  # it was killed, or is still running
            where = f"{place}/cells/{cell}/{number}/result.json"
            try:
                result, version = _read_file(path, Result, where)
            except RecordError as error:
                problems.append(Problem(path=where, problem=_without_place(error, where)))
                continue
            if version != present:
                earlier[cell, number] = version
            if (result.run_id, result.target, result.cell, result.attempt) == (run.run_id, run.target, cell, number):
                results.append(result)
            else:
                said = f"{result.target}, {result.run_id}, {result.cell}, attempt {result.attempt}"
                moved = f"belongs to another place: it says {said}; move it back"
                problems.append(Problem(path=where, problem=moved))
        return Finished(
            measured=tuple(result for result in results if result.explains is None),
            armed=tuple(result for result in results if result.explains is not None),
            problems=tuple(problems),
            earlier=earlier,
        )

    def relative(self, path: Path) -> str:
        """A path in this run as records and messages show it: from the results directory on."""
        return _shown(Path(self.path.parent.name, self.path.name, path.relative_to(self.path)))

    def _read(self, name: str, kind: type[codec.T]) -> codec.T:
        path = self.path / name
        return _read_file(str(path), kind, self.relative(path))[0]

    def _problem(self, path: Path, text: str) -> Problem:
        return Problem(path=self.relative(path), problem=text)


def _read_file(path: str, kind: type[codec.T], where: str) -> tuple[codec.T, int]:
    """The record, and the version that it was written in."""
    if _is_other(path):
        raise RecordError(f"{where}: is not a regular file, and links are not followed; put the file itself there")
    return codec.read_versioned(path, kind, where=where)


def create(results_root: Path, run: Run, plan: Plan) -> RunDirectory:
    """Make the directory of a new run, with `run.json` and `plan.json` in it: it is there whole or not at all.

    Raises `RecordError` if a record is invalid, `UnavailableError` if the run exists or cannot be written.
    """
    documents = {name: pretty_bytes(codec.encode(record)) for name, record in (("run.json", run), ("plan.json", plan))}
    target = results_root / run.target
    final = target / run.run_id
    temporary = target / f".{run.run_id}.{secrets.token_hex(8)}.tmp"
    if os.path.lexists(final):
        raise UnavailableError(f"{final} exists already; choose another run id or results directory")
    try:
        (temporary / "cells").mkdir(parents=True)
        for name, data in documents.items():
            write_new(temporary / name, data)
        sync_directory(temporary)
        temporary.rename(final)
        sync_directory(target)
    except OSError as error:
        raise unwritable(final, error) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return RunDirectory(final)


def scan(results_root: Path, target: str | None) -> tuple[tuple[RunDirectory, ...], tuple[Problem, ...]]:
    """The runs below a results directory (or a target's directory, or in a run directory), sorted by run id.

    ``target`` keeps only its runs. A run whose `run.json` is missing, invalid or in the wrong place is a problem, not a
    run. Raises `SpecError` if there is no such directory.
    """
    if not results_root.is_dir():
        raise SpecError(f"{results_root} is not a directory; give a results directory, or a run below one")
    # The user may point at a link; below it none is followed. Resolved, the names of the levels above are known.
    root = results_root.resolve()
    unreadable: list[Problem] = []
    paths, links = _run_directories(root, unreadable)
    runs: list[tuple[str, str, RunDirectory]] = []
    problems = [*(_link_problem(link) for link in links), *unreadable]
    for path in paths:
        directory = RunDirectory(path)
        where = directory.relative(path / "run.json")
        try:
            run = directory.run()
        except RecordError as error:
            if target is None or path == root or path.parent.name == target:
                problems.append(Problem(path=where, problem=_without_place(error, where)))
            continue
        if target is not None and run.target != target:
            continue
        # A copy under another name would count every attempt twice; what the user points at has no other.
        if path != root and (path.name != run.run_id or (path.parent != root and path.parent.name != run.target)):
            said = f"it says run {run.run_id} of {run.target}; rename the directory"
            problems.append(Problem(path=where, problem=f"belongs to another place: {said}"))
            continue
        runs.append((run.run_id, run.target, directory))
    runs.sort(key=lambda item: item[:2])
    return tuple(directory for _, _, directory in runs), tuple(sorted(problems, key=lambda problem: problem.path))


def verify_evidence(result: Result, attempt_dir: Path) -> tuple[Problem, ...]:
    """A problem for each evidence file that is missing, is a link, or differs in size or digest from what the result
    says of it. Paths are relative to the results directory."""
    shown = Path(*attempt_dir.absolute().parts[-5:])  # target, run, "cells", cell, number
    found = ((item, _evidence_problem(item, attempt_dir)) for item in result.evidence)
    return tuple(
        Problem(path=_shown(shown / item.path.lstrip("/")), problem=problem) for item, problem in found if problem
    )


@contextlib.contextmanager
def lock(run_dir: Path) -> Iterator[None]:
    """Hold the run for this process until the context ends. Raises `UnavailableError` if it cannot be held."""
    if not run_dir.is_dir():  # FileLock would make it
        raise UnavailableError(f"run {run_dir.name} is not there; it was removed or renamed")
    guard = FileLock(run_dir / ".lock", timeout=0)
    try:
        guard.acquire()
    except Timeout:
        raise UnavailableError(
            f"run {run_dir.name} is in use by another graphrepro process; wait for it or end it"
        ) from None
    except (OSError, NotImplementedError) as error:
        raise UnavailableError(f"run {run_dir.name} cannot be locked ({error}); use a local, writable disk") from None
    try:
        yield
    finally:
        guard.release()


def _shown(path: Path) -> str:
    """A path as text that can be stored: file names need not be UTF-8."""
    return os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")


def _is_other(path: str) -> bool:
    """Whether there is something that is no regular file; a link is none."""
    try:
        return not stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False  # reading it says why


def _directories(path: Path, name: re.Pattern[str]) -> tuple[list[Path], list[Path]]:
    """Real directories with such a name, and everything else but hidden files; both sorted."""
    if path.is_symlink() or not path.is_dir():
        return [], [path] if os.path.lexists(path) else []
    fitting: list[Path] = []
    strays: list[Path] = []
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and name.fullmatch(entry.name):
                fitting.append(Path(entry.path))
            elif not entry.name.startswith("."):  # our own temporary and lock files begin so
                strays.append(Path(entry.path))
    return sorted(fitting), sorted(strays)


def _may_exist(path: str | Path) -> bool:
    """Whether it is there, or its directory does not let us know: then reading it says why."""
    try:
        os.lstat(path)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def _unreadable(error: OSError) -> str:
    return f"cannot be read ({error.strerror}); make it readable"


def _looks_like_run(path: Path) -> bool:
    return any(_may_exist(path / name) for name in ("run.json", "plan.json", "cells"))


def _run_directories(root: Path, unreadable: list[Problem]) -> tuple[list[Path], list[Path]]:
    """Directories that hold a run at any of the three levels, and links to directories on the way."""
    if _looks_like_run(root):
        return [root], []
    children, links = _visible_directories(root, unreadable)
    runs = [child for child in children if _looks_like_run(child)]
    for target in children:
        if target not in runs:
            below, more = _visible_directories(target, unreadable)
            runs += (run for run in below if _looks_like_run(run))
            links += more
    return runs, links


def _visible_directories(path: Path, unreadable: list[Problem]) -> tuple[list[Path], list[Path]]:
    try:
        fitting, strays = _directories(path, _VISIBLE)
    except OSError as error:
        unreadable.append(Problem(path=_shown(Path(path.parent.name, path.name)), problem=_unreadable(error)))
        return [], []
    return fitting, [stray for stray in strays if stray.is_symlink() and stray.is_dir()]


def _link_problem(link: Path) -> Problem:
    return Problem(
        path=_shown(Path(link.parent.name, link.name)),
        problem="is a symbolic link, which is not followed; name its target as a results directory instead",
    )


def _evidence_problem(item: EvidenceFile, attempt_dir: Path) -> str | None:
    parts = item.path.split("/")
    if not all(parts) or {".", ".."} & set(parts):
        return "leads out of the attempt's directory"
    steps = [attempt_dir.joinpath(*parts[: depth + 1]) for depth in range(len(parts))]
    if any(step.is_symlink() for step in steps):
        return "is reached through a symbolic link, which is not followed"
    path = steps[-1]
    if not path.is_file():
        return "is missing"
    try:
        same = path.stat().st_size == item.size_bytes and sha256_file(path) == item.sha256
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None if same else "is not the file that the result lists (size or SHA-256): it was changed after the attempt"


def _without_place(error: RecordError, where: str) -> str:
    return str(error).removeprefix(f"{where}: ")
