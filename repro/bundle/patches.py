"""Local patches of an engine as diffs: an environment on this host against the wheel it was installed from, or a
checkout against its commit."""

import difflib
import json
import shutil
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from repro.errors import SpecError
from repro.model import PackagePatches, PatchedFile

_MOST_DIFF_BYTES = 200_000
"""More than that is another engine, not a patch: the files beyond are only named."""
_TEXTS = frozenset(
    {".py", ".pyi", ".json", ".toml", ".md", ".txt", ".cu", ".cuh", ".h", ".hpp", ".cpp", ".cc", ".c", ".jinja"}
)
_GIT_S = 60.0


def local_patches(environment: Path, *, wheel: Path | None, package: str = "sglang") -> PackagePatches | None:
    """The patched files of a package in an environment with `lib/python3.*/site-packages`.

    A package that is installed from a checkout is compared with the checkout's commit, any other with ``wheel``; None
    without one. Raises SpecError if the environment has no such package, or the wheel is not one of it.
    """
    site = _site(environment, package)
    checkout = _checkout(site, package)
    if checkout is not None:
        return _of_checkout(package, checkout)
    return None if wheel is None else _bounded(package, _against_wheel(site, wheel, package))


def _site(environment: Path, package: str) -> Path:
    for folder in sorted(environment.glob("lib/python3.*/site-packages")):
        if (folder / package).is_dir() or any(folder.glob(f"{package}-*.dist-info")):
            return folder
    raise SpecError(f"{environment}: has no package {package}; give the environment of the engine")


def _checkout(site: Path, package: str) -> Path | None:
    """The folder of an editable installation."""
    for said in sorted(site.glob(f"{package}-*.dist-info/direct_url.json")):
        try:
            origin = json.loads(said.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        url = str(origin.get("url", ""))
        if origin.get("dir_info", {}).get("editable") and url.startswith("file://"):
            return Path(url.removeprefix("file://"))
    return None


def _of_checkout(package: str, folder: Path) -> PackagePatches:
    try:
        diff = _git(folder, "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--relative", "HEAD")
        new = _git(folder, "ls-files", "--others", "--exclude-standard", "-z")
    except (OSError, subprocess.SubprocessError) as error:
        return PackagePatches(package=package, files=(), reason=f"the checkout cannot be read ({type(error).__name__})")
    added = {name: (folder / name).read_bytes() for name in sorted(new.split("\0")) if _is_shown(folder / name, name)}
    return _bounded(package, (*_pieces(diff), *(_added(name, data) for name, data in added.items())))


def _git(folder: Path, *words: str) -> str:
    program = shutil.which("git")
    if program is None:
        raise FileNotFoundError("git is not installed")
    done = subprocess.run(
        [program, "-C", str(folder), *words], capture_output=True, timeout=_GIT_S, check=True, stdin=subprocess.DEVNULL
    )
    return done.stdout.decode("utf-8", "replace")


def _pieces(diff: str) -> Iterator[PatchedFile]:
    """One file for each `diff --git`."""
    for piece in ("\n" + diff).split("\ndiff --git ")[1:]:
        head = piece.split("\n", 1)[0]
        state = "missing" if "\ndeleted file mode" in piece else "added" if "\nnew file mode" in piece else "changed"
        path = head.rsplit(" b/", 1)[-1]
        yield PatchedFile(path=path, state=state, diff=f"diff --git {piece}")  # type: ignore[arg-type]  # one of three


def _against_wheel(site: Path, wheel: Path, package: str) -> Iterator[PatchedFile]:
    before = _wheel_files(wheel, package)
    after = {
        path.relative_to(site).as_posix(): path
        for path in sorted((site / package).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }
    for name in sorted({*before, *after}):
        if name not in after:
            yield PatchedFile(path=name, state="missing", diff=None)
        elif name not in before:
            yield _added(name, after[name].read_bytes())
        elif before[name] != (data := after[name].read_bytes()):
            yield PatchedFile(path=name, state="changed", diff=_diff(name, before[name], data))


def _wheel_files(wheel: Path, package: str) -> Mapping[str, bytes]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.startswith(f"{package}/") and not name.endswith("/")]
            found = {name: archive.read(name) for name in names}
    except (OSError, zipfile.BadZipFile) as error:
        raise SpecError(f"{wheel}: cannot be read as a wheel ({error}); pip download --no-deps {package}") from None
    if not found:
        raise SpecError(f"{wheel}: is no wheel of {package}")
    return found


def _added(name: str, data: bytes) -> PatchedFile:
    return PatchedFile(path=name, state="added", diff=_diff(name, b"", data))


def _is_shown(path: Path, name: str) -> bool:
    return bool(name) and path.is_file() and not path.is_symlink() and path.stat().st_size <= _MOST_DIFF_BYTES


def _diff(name: str, before: bytes, after: bytes) -> str | None:
    """Unified; None for what is no text, or has nothing in it."""
    if Path(name).suffix not in _TEXTS:
        return None
    try:
        old, new = before.decode("utf-8"), after.decode("utf-8")
    except UnicodeDecodeError:
        return None
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), f"a/{name}", f"b/{name}", lineterm="")
    return "\n".join(lines) or None


def _bounded(package: str, files: Iterator[PatchedFile] | tuple[PatchedFile, ...]) -> PackagePatches:
    kept: list[PatchedFile] = []
    room = _MOST_DIFF_BYTES
    for file in files:
        room -= len((file.diff or "").encode())
        kept.append(file if room >= 0 else PatchedFile(path=file.path, state=file.state, diff=None))
    return PackagePatches(package=package, files=tuple(kept), reason=None)
