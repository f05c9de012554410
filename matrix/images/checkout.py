"""A user's checkout of the engine, as files of a build context."""

import io
import subprocess
import tarfile
from pathlib import Path

from matrix.images.context import Entry, folder_entries
from repro.errors import SpecError

PACKAGE = "python/sglang"


def committed(checkout: Path, commit: str) -> dict[str, Entry]:
    """The engine's package as it is in a commit of the checkout, and `engine/COMMIT`, which names it.

    Raises SpecError if the folder is no git checkout or lacks the commit.
    """
    packed = _git(checkout, "archive", "--format=tar", commit, "--", PACKAGE)
    found = {"engine/COMMIT": Entry(content=f"{commit}\n".encode())}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                found[f"engine/{member.name}"] = Entry(content=file.read(), executable=bool(member.mode & 0o100))
    return found


def working_tree(checkout: Path) -> dict[str, Entry]:
    """The engine's package as it lies there, changes that are not committed included. Raises SpecError without one."""
    package = checkout / PACKAGE
    if not (package / "__init__.py").is_file():
        raise SpecError(f"engine checkout {checkout}: no {PACKAGE}/__init__.py: give the folder of SGLang's repository")
    return folder_entries(package, f"engine/{PACKAGE}")


def head(checkout: Path) -> str:
    """The checkout's commit, with `+changes` where files differ from it; `no git` where nobody can tell."""
    try:
        commit = _git(checkout, "rev-parse", "HEAD").decode().strip()
        changed = bool(_git(checkout, "status", "--porcelain", "--", PACKAGE).strip())
    except SpecError:
        return "no git"
    return f"{commit}+changes" if changed else commit


def _git(checkout: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(checkout), *arguments]
    try:
        answer = subprocess.run(command, capture_output=True, check=False)
    except OSError as problem:
        raise SpecError(f"engine checkout {checkout}: git cannot be started: {problem.strerror}") from problem
    if answer.returncode != 0:
        lines = answer.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise SpecError(f"engine checkout {checkout}: git {arguments[0]}: {lines[-1]}")
    return answer.stdout
