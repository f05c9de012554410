"""What images and environments were found to hold, kept between runs: an image's id never names another content.

A folder of its own below the user's cache: whoever deletes it loses seconds.
"""

import contextlib
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from matrix.images.probe import ImageProbe, parse_probe
from repro.atomic import write_atomic
from repro.errors import RecordError


def probes_folder(environment: Mapping[str, str]) -> Path:
    """Where probes are kept for this user."""
    given = environment.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "graphrepro" / "probes"


def remembered(folder: Path, what: str | None, payload: Path, ask: Callable[[], ImageProbe]) -> ImageProbe:
    """The probe of ``what``, asked for once: a text that names one content for ever, or None to ask every time.

    Another probe program asks again. What cannot be stored or read is asked for. Raises what ``ask`` raises.
    """
    if what is None:
        return ask()
    path = folder / f"{hashlib.sha256(f'{what} {_program(payload)}'.encode()).hexdigest()}.json"
    with contextlib.suppress(OSError, RecordError):
        return parse_probe(path.read_bytes(), where=str(path))
    found = ask()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, found.text.encode())
    return found


def state_of(engine_env: Path) -> str | None:
    """A text that changes when the engine in an environment does; None if it is not told by its folder, as with a
    checkout that is installed there."""
    packages = next(iter(sorted(engine_env.glob("lib/python3*/site-packages"))), None)
    if packages is None or not (packages / "sglang").is_dir():
        return None
    digest = hashlib.sha256(f"{engine_env.resolve()} {packages.stat().st_mtime_ns}".encode())
    for path in sorted((packages / "sglang").rglob("*.py")):
        status = path.stat()
        digest.update(f"{path.relative_to(packages)} {status.st_mtime_ns} {status.st_size}\n".encode())
    return f"environment {digest.hexdigest()}"


def _program(payload: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted((payload / "probe").glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()
