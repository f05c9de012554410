"""Planted faults: `--inject CELLGLOB=FAULT[:N]`, for testing what the harness sees. Never on a real GPU target."""

import difflib
import json

from matrix.promptset import payload_dir
from matrix.selector import matcher
from matrix.spec import Spec
from repro.errors import SpecError
from repro.model import Planted, PlantedRule

_CATALOGUE = {"cpu": "cpu/faults.json", "sim": "simulated/faults.json"}
"""Architecture -> where the payload lists the faults that its engine can show."""


def parse_inject(text: str) -> PlantedRule:
    """`*b16*=wrong-token:200` -> a rule. Raises SpecError if it is not of that form."""
    cells, separator, fault = text.partition("=")
    name, colon, number = fault.partition(":")
    if (
        not separator
        or not cells
        or not name
        or (colon and not (number.isdecimal() and len(number) < 10 and int(number)))
    ):
        raise SpecError(f"--inject {text!r}: write CELLGLOB=FAULT or CELLGLOB=FAULT:N, such as '*b16*=wrong-token:200'")
    return PlantedRule(cells=cells, fault=name, number=int(number) if colon else None)


def known_faults(architecture: str) -> tuple[str, ...]:
    """The faults that can be planted on an architecture; none on a real GPU."""
    if architecture not in _CATALOGUE:
        return ()
    document = json.loads((payload_dir() / _CATALOGUE[architecture]).read_text(encoding="utf-8"))
    return tuple(entry["name"] for entry in document["faults"])


class PlantedFaults:
    """The rules of one plan, that remember whether they matched a step."""

    def __init__(self, rules: tuple[PlantedRule, ...], spec: Spec) -> None:
        known = known_faults(spec.hardware.architecture) if rules else ()
        for rule in rules:
            if not known:
                raise SpecError(
                    f"--inject: faults can be planted on the targets cpu and sim only, not on {spec.target}"
                )
            if rule.fault not in known:
                near = difflib.get_close_matches(rule.fault, known, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise SpecError(f"--inject: unknown fault {rule.fault!r}: {hint}known: {', '.join(known)}")
        self._rules = [(rule, matcher((rule.cells,))) for rule in rules]
        self._used: set[PlantedRule] = set()

    def for_cell(self, cell: str) -> tuple[Planted | None, dict[str, str]]:
        """The fault of a cell, the last rule that matches it winning, and the environment that plants it."""
        matching = [rule for rule, matches in self._rules if matches(cell)]
        if not matching:
            return None, {}
        self._used.update(matching)
        rule = matching[-1]
        text = rule.fault if rule.number is None else f"{rule.fault}:{rule.number}"
        return Planted(fault=rule.fault, number=rule.number), {"GRAPHREPRO_FAULT": text}

    def demand_all_used(self) -> None:
        for rule, _ in self._rules:
            if rule not in self._used:
                raise SpecError(f"--inject: {rule.cells!r} matches no cell that is planned to run")
