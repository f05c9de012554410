"""An engine overlay: what an engine source adds to a release, and where its configuration can be read back.

Overlays are TOML files (schema `engine-overlay`): those in `overlays/` by name, a user's own by its path.
"""

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal, TypeAlias, cast

import cattrs

import schemas
from repro.errors import SpecError

ShapeName: TypeAlias = Literal["tree", "chain", "ngram"]


@dataclass(frozen=True, kw_only=True, slots=True)
class AddedFlag:
    name: str
    takes_value: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class TopkRule:
    """How the effective top-k follows from the request.

    ``requested``: the request is honoured. ``one``: always 1. ``spread``: with L = block size - 1, 1 up to budget L
    (a spine), else min(max(budget // L + 1, 2), cap); the cap is the request where ``capped_by_request`` and one is
    made, else ``cap``. ``unstated``: the source says nothing about it.
    """

    rule: Literal["requested", "one", "spread", "unstated"]
    cap: int | None = None
    capped_by_request: bool = False

    def effective(self, *, budget: int, requested: int | None, block_size: int | None) -> int | None:
        """The top-k that the engine will use; None where it cannot be told before the launch."""
        if self.rule == "requested":
            return requested
        if self.rule == "one":
            return 1
        if self.rule == "unstated" or block_size is None or block_size < 2:
            return None
        spine = block_size - 1
        if budget <= spine:
            return 1
        cap = requested if self.capped_by_request and requested is not None else self.cap
        spread = max(budget // spine + 1, 2)
        return spread if cap is None else min(spread, cap)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProofRule:
    """Where a fact can be read back. ``server-info``: the top-level ``key``. ``log``: the first group of ``pattern`` in
    a line of the server's log. ``derived``: computed by the shape's top-k rule from the budget and block size that
    ``pattern`` reads from the log (named groups). ``nowhere``: not at all; ``note`` says why."""

    how: Literal["server-info", "log", "derived", "nowhere"]
    key: str | None = None
    pattern: str | None = None
    note: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ShapeRule:
    """How one tree shape is asked for. Option values and environment may hold ``{budget}``, ``{width}``, ``{topk}``,
    ``{block_size}`` and ``{draft_model}``; an entry whose placeholder has no value is left out.

    ``window``: the draft takes an attention window. ``logprobs`` False: requests for log-probabilities are rejected.
    """

    algorithm: str
    topk: TopkRule
    options: Mapping[str, str | int | bool]
    width_proof: ProofRule
    topk_proof: ProofRule
    environment: Mapping[str, str] = field(default_factory=dict)
    needs_draft_model: bool = False
    window: bool = False
    logprobs: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Constraint:
    """What the source demands beyond flags. With ``option``, it must have ``value`` (False: must not be given) in cells
    of these ``shapes``; without, ``text`` is for a person."""

    text: str
    source: str
    shapes: tuple[ShapeName, ...]
    option: str | None = None
    value: str | int | bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlay:
    """``base_release`` is the release whose flags hold when the engine's own version is no release."""

    name: str
    engine: Literal["sglang", "simulated"]
    source: str
    base_release: str | None = None
    shapes: Mapping[ShapeName, ShapeRule] = field(default_factory=dict)
    added_flags: tuple[AddedFlag, ...] = ()
    removed_flags: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    origin: str = ""


def built_in_overlays() -> tuple[str, ...]:
    """Names of the engine sources that come with graphrepro."""
    folder = resources.files("matrix.engines") / "overlays"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load_overlay(name_or_path: str) -> Overlay:
    """The overlay of a built-in engine source (`pr29907`), or of a TOML file (a path ends in `.toml`).

    Raises SpecError with the file and the JSON pointer of what is wrong.
    """
    if not name_or_path.endswith(".toml") and "/" not in name_or_path:
        return _built_in(name_or_path)
    path = Path(name_or_path)
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise SpecError(f"engine overlay {path}: {problem.strerror}: give a readable .toml file") from problem
    return parse_overlay(data, origin=str(path))


@cache
def _built_in(name: str) -> Overlay:
    known = built_in_overlays()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise SpecError(
            f"unknown engine source {name!r}: {hint}known: {', '.join(known)}; or give --engine-overlay FILE.toml"
        )
    data = (resources.files("matrix.engines") / "overlays" / f"{name}.toml").read_bytes()
    return parse_overlay(data, origin=f"{name}.toml")


def parse_overlay(data: bytes, *, origin: str) -> Overlay:
    """Like :func:`load_overlay`, for text already read. ``origin`` is what messages call the file."""
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as problem:
        raise SpecError(f"engine overlay {origin}: not UTF-8 at byte {problem.start}") from problem
    except tomllib.TOMLDecodeError as problem:
        raise SpecError(f"engine overlay {origin}: not TOML: {problem}") from problem
    try:
        schemas.validate(document, "engine-overlay", f"engine overlay {origin}")
    except schemas.SchemaViolation as problem:
        raise SpecError(f"{problem}{_meant(document)}") from problem
    del document["record"], document["schema_version"]
    parent = document.pop("extends", None)
    overlay = _converter().structure({**document, "origin": origin}, Overlay)
    for shape, rule in overlay.shapes.items():
        _check_patterns(rule, f"engine overlay {origin}: /shapes/{shape}")
    return overlay if parent is None else _extended(overlay, _built_in(cast("str", parent)))


def _extended(overlay: Overlay, parent: Overlay) -> Overlay:
    """``overlay`` on top of ``parent``: its shapes replace the parent's of the same name, the rest is added."""
    return Overlay(
        name=overlay.name,
        engine=overlay.engine,
        source=overlay.source,
        base_release=overlay.base_release or parent.base_release,
        shapes={**parent.shapes, **overlay.shapes},
        added_flags=parent.added_flags + overlay.added_flags,
        removed_flags=parent.removed_flags + overlay.removed_flags,
        constraints=parent.constraints + overlay.constraints,
        environment={**parent.environment, **overlay.environment},
        origin=overlay.origin,
    )


def _check_patterns(rule: ShapeRule, where: str) -> None:
    for name, proof in (("width_proof", rule.width_proof), ("topk_proof", rule.topk_proof)):
        if proof.pattern is None:
            continue
        try:
            compiled = re.compile(proof.pattern)
        except re.error as problem:
            raise SpecError(f"{where}/{name}/pattern: not a regular expression: {problem}") from problem
        if proof.how == "derived" and not {"budget", "block_size"} <= set(compiled.groupindex):
            raise SpecError(f"{where}/{name}/pattern: needs the named groups (?P<budget>…) and (?P<block_size>…)")
        if compiled.groups < 1:
            raise SpecError(f"{where}/{name}/pattern: needs a group around the number")


def _meant(document: object) -> str:
    """For a misspelt key: the key that was probably meant."""
    known, found = _keys(schemas.schema("engine-overlay"), of_schema=True), _keys(document, of_schema=False)
    for key in sorted(found - known):
        near = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.8)
        if near and not key.startswith("-"):
            return f" (did you mean {near[0]!r} for {key!r}?)"
    return ""


def _keys(node: object, *, of_schema: bool) -> set[str]:
    if isinstance(node, list):
        return set().union(*(_keys(entry, of_schema=of_schema) for entry in node))
    if not isinstance(node, dict):
        return set()
    names = node.get("properties", {}) if of_schema else node
    return set(names).union(*(_keys(value, of_schema=of_schema) for value in node.values()))


@cache
def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook(str | int | bool, lambda value, _: value)
    converter.register_structure_hook(str | int | bool | None, lambda value, _: value)
    return converter
