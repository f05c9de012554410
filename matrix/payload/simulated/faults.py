"""Planted faults by name: which there are, and which are in force.

The names are those of the CPU engine's plugin where it has the same fault; `faults.json` beside this file says what
each one does.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FAULT_VARIABLE = "GRAPHREPRO_FAULT"
FILE_VARIABLE = "GRAPHREPRO_FAULT_FILE"
CATALOGUE = Path(__file__).with_name("faults.json")


class UnusableFault(ValueError):  # noqa: N818  # the same name as in the CPU engine's plugin
    """A fault that is unknown or badly written."""


def defaults() -> dict[str, int | None]:
    """Name -> its default number, None for a fault that takes none."""
    document = json.loads(CATALOGUE.read_bytes())
    return {entry["name"]: entry["number"] for entry in document["faults"]}


def parse(text: str, known: Mapping[str, int | None]) -> dict[str, int]:
    """`name` or `name:number` -> {name: number}, 0 for a fault that takes none; {} for empty text."""
    name, colon, number = text.strip().partition(":")
    if not name and not colon:
        return {}
    if name not in known:
        raise UnusableFault(f"unknown fault {name!r}; the names are {', '.join(known)}")
    default = known[name]
    if not colon:
        return {name: default or 0}
    if default is None:
        raise UnusableFault(f"fault {name!r} takes no number, but got {number!r}")
    if not (number.isascii() and number.isdecimal() and int(number) > 0):
        raise UnusableFault(f"fault {name!r} needs a number of 1 or more, not {number!r}")
    return {name: int(number)}


@dataclass(frozen=True, slots=True)
class Planted:
    """The faults of a server: those of its script and environment for its whole life, and one from a file that may
    change at any time (rename a file over it)."""

    fixed: Mapping[str, int]
    known: Mapping[str, int | None]
    file: Path | None

    def now(self) -> Mapping[str, int]:
        """Name -> number of the faults in force. A file that cannot be understood plants nothing."""
        if self.file is None:
            return self.fixed
        try:
            return {**self.fixed, **parse(self.file.read_text(encoding="utf-8"), self.known)}
        except (OSError, UnusableFault):
            return self.fixed


def planted(script: Mapping[str, int], environment: Mapping[str, str]) -> Planted:
    """What script and environment ask for; UnusableFault if it makes no sense."""
    known = defaults()
    text, path = environment.get(FAULT_VARIABLE, ""), environment.get(FILE_VARIABLE, "")
    if text.strip() and path:
        raise UnusableFault(f"set {FAULT_VARIABLE} or {FILE_VARIABLE}, not both")
    return Planted({**script, **parse(text, known)}, known, Path(path).absolute() if path else None)
