"""The records of a bundle, checked by their schemas and against each other: more than `verify.py`, alone, can say.

Whoever makes a bundle decides what is in it. So this is asked before anything is shown, run or noted.
"""

import re

from repro import codec
from repro.bundle.inside import judging
from repro.bundle.inside.verify import REPLAY, Archive, RefusedError
from repro.errors import RecordError
from repro.jsontext import parse
from repro.model import BundleExpectation, BundleNeeds, BundleOracle, Finding, Fingerprint, Replay, Result, Step

EXPECTATION = "expectation.json"
REPLAYED = ("step.json", EXPECTATION, "needs.json")
"""What `replay.py` reads: a bundle without one of them cannot be replayed."""
_KINDS: dict[str, type] = {
    "step.json": Step,
    EXPECTATION: BundleExpectation,
    "needs.json": BundleNeeds,
    "oracle.json": BundleOracle,
    "environment.json": Fingerprint,
    "finding.json": Finding,
    REPLAY: Replay,
}


def record_problem(archive: Archive, needed: tuple[str, ...] = ()) -> str | None:
    """The first thing that is wrong with the records of a bundle, which must have been verified; None if nothing is.
    ``needed`` are files that must be there."""
    missing = next((name for name in needed if name not in archive.entries), None)
    if missing is not None:
        return f"{missing}: is not in the bundle, and it cannot be used without"
    try:
        found: dict[str, object] = {
            name: _record(archive, name, kind) for name, kind in _KINDS.items() if name in archive.entries
        }
        for name in archive.entries:
            if name.startswith("results/") and name.endswith("/result.json"):
                _record(archive, name, Result)
    except (RecordError, RefusedError) as problem:
        return str(problem)
    rules, replay = found.get(EXPECTATION), found.get(REPLAY)
    if isinstance(rules, BundleExpectation) and (wrong := _rule_problem(rules)) is not None:
        return f"{EXPECTATION}: {wrong}"
    if isinstance(replay, Replay) and (wrong := _count_problem(replay)) is not None:
        return f"{REPLAY}: {wrong}"
    return None


def _record(archive: Archive, name: str, kind: type[codec.T]) -> codec.T:
    return codec.decode(parse(archive.content(name), name), kind, where=name)


def _rule_problem(rules: BundleExpectation) -> str | None:
    if rules.k > rules.n:
        return f"says that the failure was seen in {rules.k} of {rules.n} launches"
    try:
        for entry in rules.patterns:
            judging.expression(entry.pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"a pattern is no regular expression ({error})"
    return None


def _count_problem(replay: Replay) -> str | None:
    """Its numbers have to be those of its launches."""
    reproduced = sum(run.state == "reproduced" for run in replay.runs)
    launches = reproduced + sum(run.state == "clean" for run in replay.runs)
    if (reproduced, launches) == (replay.reproduced, replay.launches):
        return None
    return f"says {replay.reproduced} of {replay.launches} launches, and lists {reproduced} of {launches}"
