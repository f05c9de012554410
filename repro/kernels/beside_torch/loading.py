"""The kernel's module out of a release of SGLang: the installed one, a wheel, or a wheel that was unpacked.

Its code is loaded unmodified. The packages around it are left empty, because importing a whole server for one kernel
takes seconds, and fails on a CPU for older releases.
"""

import hashlib
import importlib
import importlib.metadata
import importlib.util
import sys
import types
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KERNEL_FILES = (
    "sglang/kernels/ops/attention/extend_attention.py",
    "sglang/srt/layers/attention/triton_ops/extend_attention.py",
)
"""Where releases have had it, the newest place first (it moved between 0.5.15 and 0.5.23)."""


class LoadingError(Exception):
    """There is no such release, or no kernel in it."""


@dataclass(frozen=True)
class Release:
    """A release of SGLang on disk. ``root`` is the folder that holds ``sglang/``, ``kernel`` a path below it."""

    version: str
    root: Path
    kernel: str

    @property
    def module(self) -> str:
        return self.kernel.removesuffix(".py").replace("/", ".")

    def subject(self, *, with_torch: bool = True) -> dict[str, Any]:
        """What the protocol calls a subject. The versions of Triton and torch are those of this environment."""
        versions = {name: _version(name) if with_torch else None for name in ("triton", "torch")}
        digest = hashlib.sha256((self.root / self.kernel).read_bytes()).hexdigest()
        return {"sglang": self.version, **versions, "source_path": self.kernel, "source_sha256": digest}


def find(path: str | None, scratch: Path) -> Release:
    """The release at ``path`` (a wheel, or a folder with ``sglang/`` in it), or the installed one.

    A wheel's Python files are unpacked below ``scratch``. Raises `LoadingError`, whose message says what to give.
    """
    if path is None:
        spec = importlib.util.find_spec("sglang")
        if spec is None or not spec.submodule_search_locations:
            raise LoadingError("this environment has no sglang; give one that has it")
        root = Path(next(iter(spec.submodule_search_locations))).parent
    else:
        root = Path(path)
        if root.suffix == ".whl":
            root = unpacked(root, scratch)
    for kernel in KERNEL_FILES:
        if (root / kernel).is_file():
            return Release(version=_release_version(root), root=root.resolve(), kernel=kernel)
    raise LoadingError(
        f"{root}: holds none of {', '.join(KERNEL_FILES)}; give a wheel of sglang or its unpacked folder"
    )


def load(release: Release) -> Any:
    """The kernel's module. One release a process: Python keeps the modules by name."""
    for name in _parents(release.module):
        _put(_package(name, release.root))
    _put(_answers_no("sglang.srt.utils"))
    return importlib.import_module(release.module)


def emulate(module: Any, architecture: str) -> None:
    """Makes the release's launch code choose as on this architecture (``sm_103``); nothing else depends on it."""
    digits = architecture.removeprefix("sm_")
    module._is_cuda = True
    module.CUDA_CAPABILITY = (int(digits[:-1]), int(digits[-1]))


def tile(module: Any, key_dim: int, value_dim: int) -> str:
    """The tile that the release's launch code chooses: query rows x keys, such as ``16x64``."""
    *_, block_m, block_n, _ = module._get_block_sizes_for_extend_attention(key_dim, value_dim)
    return f"{block_m}x{block_n}"


def _parents(module: str) -> list[str]:
    parts = module.split(".")[:-1]
    inner = [".".join(parts[: depth + 1]) for depth in range(len(parts))]
    return [*inner, *(name for name in ("sglang.srt",) if name not in inner)]


def _package(name: str, root: Path) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__path__ = [str(root.joinpath(*name.split(".")))]
    return module


def _answers_no(name: str) -> types.ModuleType:
    """Stands for ``sglang.srt.utils``, which the kernel asks only which vendor's GPU it is on: none."""
    module = types.ModuleType(name)

    def answer(attribute: str) -> Callable[..., bool]:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        if attribute.startswith("is_"):
            return lambda: False

        def absent(*_: object) -> bool:
            raise LoadingError(f"{name}.{attribute} is called, which this way of loading does not have")

        return absent

    vars(module)["__getattr__"] = answer
    return module


def _put(module: types.ModuleType) -> None:
    sys.modules[module.__name__] = module
    parent, _, last = module.__name__.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _release_version(root: Path) -> str:
    for metadata in sorted(root.glob("sglang-*.dist-info")):
        return metadata.name.removeprefix("sglang-").removesuffix(".dist-info")
    raise LoadingError(f"{root}: no sglang-*.dist-info beside sglang/ says the version; give a whole unpacked wheel")


def unpacked(wheel: Path, scratch: Path) -> Path:
    """Where the Python files of a wheel of SGLang now lie."""
    folder = scratch / wheel.stem
    if folder.is_dir():
        return folder
    partial = folder.with_name(f".{folder.name}.partial")
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.endswith((".py", "/METADATA"))]
            archive.extractall(partial, names)
    except (OSError, zipfile.BadZipFile) as error:
        raise LoadingError(f"{wheel}: cannot be unpacked ({error}); give a wheel of sglang") from None
    partial.rename(folder)
    return folder
