"""Which GPU code loads on which GPU, and what an image lacks for one.

The rules are CUDA's (programming guide, "Compute capabilities" and "Application compatibility"): machine code runs on
its own major version, from its own minor version on; with the suffix `f` the same, within the family; with `a` on just
that architecture. PTX is compiled for any later architecture; with `f` or `a` only where such machine code would run.
So on B300 (10.3) `sm_100` and `sm_100f` run and `sm_100a` does not, and nothing of 10.x runs on 12.0.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from repro.errors import UnavailableError

_CODE = re.compile(r"(?P<form>sm|compute)_(?P<major>\d+)(?P<minor>\d)(?P<suffix>[af]?)")

NEEDED = {
    "torch": re.compile(r"torch/lib/libtorch_cuda[^/]*\.so"),
    "sglang-kernel": re.compile(r"sgl_kernel/.*common_ops[^/]*\.so"),
}
"""Package -> the libraries without whose code nothing runs. Others may lack it: FA3's do on every Blackwell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Code:
    """``form`` sm is machine code, compute is PTX; ``suffix`` is empty, `a` or `f`."""

    form: str
    major: int
    minor: int
    suffix: str

    @classmethod
    def parse(cls, name: str) -> "Code":
        """Such as `sm_100f`. Raises ValueError for what is none."""
        match = _CODE.fullmatch(name)
        if match is None:
            raise ValueError(f"{name!r} is no architecture of GPU code")
        return cls(
            form=match["form"], major=int(match["major"]), minor=int(match["minor"]), suffix=match["suffix"] or ""
        )

    def loads_on(self, gpu: "Code") -> bool:
        """Whether a GPU of this architecture can run it, compiling it first if it is PTX."""
        if self.suffix == "a":
            return (self.major, self.minor) == (gpu.major, gpu.minor)
        if self.suffix == "f" or self.form == "sm":
            return self.major == gpu.major and self.minor <= gpu.minor
        return (self.major, self.minor) <= (gpu.major, gpu.minor)


def loading(code: Iterable[str], architecture: str) -> tuple[str, ...]:
    """The code, of this, that runs on an architecture such as `sm_103`."""
    gpu = Code.parse(architecture)
    return tuple(name for name in code if Code.parse(name).loads_on(gpu))


def lacking(
    libraries: Mapping[str, tuple[str, ...]], architecture: str, unreadable: Iterable[str] = ()
) -> tuple[str, ...]:
    """What stands against running on this architecture, one sentence each; empty if nothing does.

    ``libraries``: path below site-packages -> its GPU code. A CPU needs none. Nothing stands against a package with
    ``unreadable`` libraries among those that count: what they hold is unknown.
    """
    if architecture == "cpu":
        return ()
    problems = []
    unread = tuple(unreadable)
    for package, pattern in NEEDED.items():
        if any(pattern.fullmatch(path) for path in unread):
            continue
        code = {name for path, names in libraries.items() if pattern.fullmatch(path) for name in names}
        if not code:
            problems.append(f"{package} holds no GPU code, or is not installed")
        elif not loading(code, architecture):
            problems.append(f"{package} has code for {', '.join(sorted(code))}, none of which loads on {architecture}")
    return tuple(problems)


def demand_architecture(
    libraries: Mapping[str, tuple[str, ...]], architecture: str, *, where: str, unreadable: Iterable[str] = ()
) -> None:
    """Raises UnavailableError (exit 4) if the engine cannot run on this architecture."""
    problems = lacking(libraries, architecture, unreadable)
    if problems:
        raise UnavailableError(
            f"{where}: {'; '.join(problems)}: build it for {architecture} (`python -m matrix images build`), or name "
            "another with --image DIGEST"
        )
