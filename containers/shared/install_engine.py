"""Put an engine source over the SGLang that the base image brings: `python3 install_engine.py --kind KIND …`.

Run while an image is built, with the image's own Python and nothing but its standard library. `release` takes the
base image's SGLang as it is, and checks its version. `commit` and `local` lay the Python files of a checkout
(`engine/` beside this file, or fetched) over the installed package and leave its compiled libraries: nothing is
compiled, and the base's kernels stay. Which files then differ is what the image probe reports. Patches are checked
before they are applied.
"""

import argparse
import hashlib
import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

KEPT_SUFFIXES = (".so", ".pyd")
"""Compiled parts of the installed package that a checkout does not have."""
PACKAGE_IN_REPOSITORY = "python/sglang"


def main(arguments: list[str]) -> int:
    """The exit status: 0, or 1 after one line that says what is wrong."""
    options = parse(arguments)
    try:
        installed = importlib.metadata.version("sglang")
        if installed != options.version:
            raise Wrong(f"the base image holds sglang {installed}, and images.toml says {options.version}")
        if options.kind == "release":
            print(f"sglang {installed}, as released")
            return 0
        checkout = fetched(options) if options.kind == "commit" else options.engine
        apply_patches(checkout, options.patches)
        replaced = lay_over(checkout / PACKAGE_IN_REPOSITORY, installed_package())
        print(f"sglang {installed} with {replaced} files of {options.commit or 'a local checkout'}")
    except importlib.metadata.PackageNotFoundError:
        print("install_engine: the base image holds no sglang", file=sys.stderr)
        return 1
    except (Wrong, OSError) as problem:
        print(f"install_engine: {problem}", file=sys.stderr)
        return 1
    return 0


class Wrong(Exception):  # noqa: N818 - a statement about the build's inputs
    """One line: what does not fit."""


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="install_engine.py", allow_abbrev=False)
    parser.add_argument("--kind", choices=("release", "commit", "local"), required=True)
    parser.add_argument("--version", required=True, help="release that the base image holds")
    parser.add_argument("--repository", default="")
    parser.add_argument("--commit", default="")
    parser.add_argument("--engine", type=Path, default=Path("engine"), help="checkout; empty: fetch it")
    parser.add_argument("--patches", type=Path, default=Path("patches"), help="folder of *.patch and their SHA256SUMS")
    return parser.parse_args(arguments)


def fetched(options: argparse.Namespace) -> Path:
    """The checkout of the commit: the given folder, whose COMMIT file must name it, else fetched."""
    given: Path = options.engine
    said = given / "COMMIT"
    if said.exists():
        if said.read_text().strip() != options.commit:
            raise Wrong(f"the checkout is {said.read_text().strip()}, and {options.commit} is asked for")
        return given
    if len(options.commit) != 40:
        raise Wrong(f"{options.commit!r} is no full commit")
    git(given, "init", "--quiet", ".")
    git(given, "fetch", "--quiet", "--depth", "1", options.repository, options.commit)
    git(given, "checkout", "--quiet", "FETCH_HEAD")
    found = git(given, "rev-parse", "HEAD").strip()
    if found != options.commit:
        raise Wrong(f"{options.repository} gave {found} for {options.commit}")
    return given


def apply_patches(checkout: Path, folder: Path) -> None:
    """All patches of the folder in the order of their names, each with the digest that SHA256SUMS gives."""
    expected = dict(reversed(line.split(maxsplit=1)) for line in sums_of(folder))
    patches = sorted(folder.glob("*.patch"))
    if {patch.name for patch in patches} != expected.keys():
        raise Wrong(f"patches present: {[patch.name for patch in patches]}, patches asked for: {sorted(expected)}")
    for patch in patches:
        if hashlib.sha256(patch.read_bytes()).hexdigest() != expected[patch.name]:
            raise Wrong(f"{patch.name} is not the file whose digest images.toml holds")
        git(checkout, "apply", "--check", str(patch.absolute()))
        git(checkout, "apply", str(patch.absolute()))


def sums_of(folder: Path) -> list[str]:
    listed = folder / "SHA256SUMS"
    return listed.read_text().splitlines() if listed.exists() else []


def installed_package() -> Path:
    """The folder that `import sglang` would load, found without importing it."""
    found = importlib.util.find_spec("sglang")
    if found is None or not found.submodule_search_locations:
        raise Wrong("the base image's sglang has no folder")
    return Path(next(iter(found.submodule_search_locations)))


def lay_over(source: Path, package: Path) -> int:
    """Make the package's files those of the source, compiled libraries excepted. Returns how many files were laid."""
    if not (source / "__init__.py").is_file():
        raise Wrong(f"the checkout has no {PACKAGE_IN_REPOSITORY}/__init__.py")
    for old in sorted(package.rglob("*")):
        if old.is_file() and old.suffix not in KEPT_SUFFIXES and not (source / old.relative_to(package)).exists():
            old.unlink()
    files = [path for path in sorted(source.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    for path in files:
        target = package / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        target.chmod(0o644)
    return len(files)


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if answer.returncode != 0:
        lines = (answer.stderr.strip() or answer.stdout.strip() or "no message").splitlines()
        raise Wrong(f"git {arguments[0]}: {lines[-1]}")
    return answer.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
