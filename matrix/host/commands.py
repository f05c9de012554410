"""Programs of the host, run from an argument list. What cannot be run is an answer too, never an exception."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """``status`` is None if the program could not be run, or did not end in time; ``said`` is one line about what went
    wrong, empty if nothing did."""

    status: int | None
    out: str
    said: str


class Commands(Protocol):
    """How programs of the host are run; the tests' double keeps to the same contract."""

    def path(self, program: str) -> str | None:
        """Where the program is, or None."""

    def run(self, argv: Sequence[str], timeout_s: float) -> Answer:
        """What the program answered. Raises nothing for a program that is missing, fails or hangs."""


class HostCommands:
    """The programs of this host."""

    def path(self, program: str) -> str | None:
        return shutil.which(program)

    def run(self, argv: Sequence[str], timeout_s: float) -> Answer:
        try:
            done = subprocess.run(
                list(argv),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
                start_new_session=True,  # a Ctrl-C is ours to handle: it must not cut off the start of the service
            )
        except FileNotFoundError:
            return Answer(status=None, out="", said=f"{argv[0]} is not installed")
        except OSError as problem:
            return Answer(status=None, out="", said=f"{argv[0]} cannot be run ({problem.strerror})")
        except subprocess.TimeoutExpired:
            return Answer(status=None, out="", said=f"{argv[0]} did not end within {timeout_s:g} s")
        return Answer(status=done.returncode, out=done.stdout, said=_said(done.returncode, done.stderr))


def _said(status: int, errors: str) -> str:
    """The first line of the complaint: the others are systemctl's hints where to read more."""
    if status == 0:
        return ""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return (lines[0].rstrip(".") if lines else f"exit status {status}")[:300]
