"""The user's own baselines: a folder of one file each, read beside the shipped ones."""

from collections.abc import Sequence
from pathlib import Path

from repro import codec
from repro.atomic import write_atomic
from repro.errors import RecordError, SpecError, UnavailableError
from repro.model import Baseline, Problem


def store(baseline: Baseline, folder: Path, *, replace: bool) -> Path:
    """Write `<name>.json`, and return its path. Raises SpecError if there is one and it may not be replaced."""
    data = codec.dumps(baseline).encode()  # first of all, for it refuses names that are no file names
    path = folder / f"{baseline.name}.json"
    if path.exists() and not replace:
        raise SpecError(f"{path} is there already; give another --as, or --replace")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise SpecError(f"{folder} is not a directory; give another --baselines") from None
    except OSError as error:
        raise UnavailableError(f"{folder} cannot be made ({error.strerror}); give another --baselines") from None
    write_atomic(path, data)
    return path


def take(folder: Path) -> tuple[tuple[Baseline, ...], tuple[Problem, ...]]:
    """The baselines of a folder by name, and what cannot be read of it; nothing if there is no such folder."""
    found: list[Baseline] = []
    problems: list[Problem] = []
    for path in sorted(folder.glob("*.json")):
        where = f"{folder.name}/{path.name}"
        try:
            baseline = codec.read(path, Baseline, where=where)
        except RecordError as error:
            problems.append(Problem(path=where, problem=str(error).removeprefix(f"{where}: ")))
            continue
        if baseline.name != path.stem:
            problems.append(Problem(path=where, problem=f"holds the baseline {baseline.name}; rename the file"))
            continue
        found.append(baseline)
    return tuple(found), tuple(problems)


def beside(shipped: Sequence[Baseline], own: Sequence[Baseline]) -> tuple[Baseline, ...]:
    """All of them by name; one's own takes the place of a shipped one of the same name."""
    every = {baseline.name: baseline for baseline in (*shipped, *own)}
    return tuple(every[name] for name in sorted(every))
