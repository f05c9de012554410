"""Runs in which every free text is one of the strings of `tests/data/hostile`, and a twin of each with plain words.

Which texts are free is found by trying: what the schema of a record refuses is put back. So a field that comes later is
planted too. The twin has the same shape, and no page may have a tag or an attribute that its twin has not.
"""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import schemas
from repro import baselines, codec
from repro.canonical import pretty_bytes, sha256_of

CORPUS = Path(__file__).parents[2] / "data" / "hostile" / "corpus.json"
PLAIN = "plain words"
PROBE = "\x00 \x1b[31m <b> \u202e"
STRAY = "<img src=x onerror=alert(1)> \x1b[31m\u202e | `x` [a](b)\n@maintainer"
"""The name of a directory that is none of a run's."""
_KEPT = frozenset(
    {"record", "schema_version", "run_id", "target", "cell", "cells", "coordinates", "role", "created_at"}
)
_KEPT |= {"architecture", "plan_sha256", "check", "outcome", "state", "status", "fault", "name", "unit", "algorithm"}
_KEPT |= {"expectation", "arms", "odd", "begun_at", "ended_at", "phase", "kind", "basis", "budget", "imported_at"}
"""Fields that place a record or say what it is: the report would not show the others at all."""

Texts = Callable[[], str]


def corpus() -> tuple[str, ...]:
    return tuple(entry["text"] for entry in json.loads(CORPUS.read_text(encoding="utf-8")))


def in_turns(first: int) -> Texts:
    """The strings one after the other, from one of them on."""
    texts = corpus()
    place = [first - 1]

    def next_text() -> str:
        place[0] += 1
        return texts[place[0] % len(texts)]

    return next_text


def plain() -> str:
    return PLAIN


def plant(document: dict[str, Any], schema: str, texts: Texts) -> dict[str, Any]:
    """The document with every free text of it, and every free name of a fact or package, replaced."""
    planted = copy.deepcopy(document)
    free = _free_places(planted, schema)
    for holder, key in free:
        holder[key] = texts()
    packages = planted.get("environment", {}).get("packages")
    if packages:
        packages[texts()] = texts()
    facts = planted.get("environment", {}).get("facts")
    if facts and _fits(
        {**planted, "environment": {**planted["environment"], "facts": {PLAIN: facts["kernel"]}}}, schema
    ):
        facts[texts()] = facts["kernel"]
    return planted


def results(make: SimpleNamespace, root: Path, texts: Texts, target: str = "b300", run_id: str = "run") -> Path:
    """A results directory with one run: a crash, wrong output, a reference with its scores, a skip, a relaunch with
    hooks armed, a launch that is missing, a record that is none, and a directory that does not belong there."""
    head = "sm_103"
    names = [
        f"{head}-b8t4-graph-nvls",
        f"{head}-b16t8-graph-nvls",
        f"{head}-ar-eager-nonvls",
        f"{head}-b4t4-eager-nvls",
    ]
    crash = {"outcome": "crashed", "detail": "ended", "checks": (), "diagnosis": make.illegal_access()}
    scored = make.rescoring(
        make.score(names[1], "wrong", above=9),
        votes=[make.Vote(arms=("a", "b", "c"), odd=None, statement="they agree")],
    )
    launches = [
        make.Launch(names[0], **crash),
        make.Launch(names[0], 2, explains=1, **crash),
        make.Launch(names[1], checks=make.checks(3.0, 200.0, make.wrong())),
        make.Launch(names[2], role="reference-again", checks=make.checks(None), rescoring=scored),
        make.Launch(names[3], outcome="lost", detail="lost", checks=()),
    ]
    skip = make.Skip(cell=f"{head}-b32t8-eager-nvls", state="unsupported", reason="why", source="where")
    run = make.run_record(target, run_id)
    planned = {**dict.fromkeys(names, 1), f"{head}-b6t4-graph-nvls+tp1": 1}
    path: Path = make.write_run(root, run, launches, planned=planned, skips=[skip])
    _replant(path, texts)
    bad = path / "cells" / names[0] / "3" / "result.json"
    bad.parent.mkdir()
    bad.write_text('{"record": "result", "schema_version": 2, "cell": "half of a pair: \\ud800"}', encoding="utf-8")
    stray = STRAY if texts is not plain else PLAIN
    (path / "cells" / stray).mkdir()
    return root


def own_baselines(root: Path, texts: Texts) -> Path:
    """A folder with a baseline of one's own that stands beside a cell of the runs."""
    (shipped,) = [baseline for baseline in baselines.load() if baseline.name == "nvls_b8t4"]
    document = plant(codec.encode(shipped), "baseline", texts)
    document["name"] = "mine"
    root.mkdir()
    (root / "mine.json").write_bytes(pretty_bytes(document))
    return root


def _replant(run: Path, texts: Texts) -> None:
    plan = plant(_read(run / "plan.json"), "plan", texts)
    variants = {step["cell"]: texts() for step in plan["steps"] if step["coordinates"]["variant"]}
    for step in plan["steps"]:
        if step["cell"] in variants:
            step["coordinates"]["variant"] = {"tp": variants[step["cell"]]}
    if not _fits(plan, "plan"):
        raise AssertionError("a variant is no free text any more")
    (run / "plan.json").write_bytes(pretty_bytes(plan))
    head = plant(_read(run / "run.json"), "run", texts) | {"plan_sha256": sha256_of(plan)}
    (run / "run.json").write_bytes(pretty_bytes(head))
    for path in sorted(run.glob("cells/*/*/result.json")):
        path.write_bytes(pretty_bytes(plant(_read(path), "result", texts)))


def _read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def _free_places(document: dict[str, Any], schema: str) -> list[tuple[Any, Any]]:
    """The places of texts that may be anything; the document is as it was when this returns."""
    free = []
    for holder, key in list(_places(document)):
        before, holder[key] = holder[key], PROBE
        if _fits(document, schema):
            free.append((holder, key))
        holder[key] = before
    return free


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(holder, key) of each text, those in places of their own left out."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(items):
        if key in _KEPT:
            continue
        if isinstance(item, str):
            yield value, key
        else:
            yield from _places(item)


def _fits(document: dict[str, Any], schema: str) -> bool:
    try:
        schemas.validate(document, schema, "it")
    except schemas.SchemaViolation:
        return False
    return True
