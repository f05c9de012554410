"""What a server left in the folder `dumps` of its working directory becomes evidence: crash dumps, GPU core dumps."""

import contextlib
import shutil
from pathlib import Path

FOLDER = "dumps"
LIMIT_BYTES = 1 << 30
"""Of all files together; a GPU core dump without its generation flags would be as large as the GPU's memory."""


def keep(source: Path, target: Path) -> None:
    """Copies the files, smallest first, as far as there is room, and names those that were left out. Never raises."""
    with contextlib.suppress(OSError):
        files = [path for path in source.rglob("*") if path.is_file() and not path.is_symlink()]
        left, out = LIMIT_BYTES, []
        for path in sorted(files, key=lambda path: (path.stat().st_size, path)):
            size, name = path.stat().st_size, path.relative_to(source)
            left -= size
            if left < 0:
                out.append(f"{name}: {size} bytes")
                continue
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / name)
        if out:
            target.mkdir(exist_ok=True)
            (target / "left-out.txt").write_text("\n".join(out) + "\n")
