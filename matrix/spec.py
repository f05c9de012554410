"""Read a matrix spec: TOML text -> a validated, typed :class:`Spec`."""

import difflib
import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal, cast

import cattrs

import schemas
from matrix.cell import Defaults
from matrix.promptset import payload_dir
from matrix.tiers import tier_document
from repro.errors import SpecError
from repro.model import Depth, Graph, Nvls, Repeats, Tier

OptionValue = str | int | float | bool | list[str | int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Hardware:
    architecture: str
    gpu_count: int
    nvswitch: bool
    gpu_name: str | None = None
    gpu_memory_gib: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSpec:
    name: Literal["sglang", "simulated"]
    version: str
    source: str
    script: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpec:
    name: str
    path: str
    draft_name: str | None = None
    draft_path: str | None = None
    dtype: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatSpec:
    template: str | None = None
    template_options: Mapping[str, str | int | bool] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeploymentSpec:
    tensor_parallel: int
    max_running_requests: int
    window: int | None = None
    block_size: int | None = None
    graph_max_bs: int | None = None
    port: int = 0
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    chat: ChatSpec = ChatSpec()


@dataclass(frozen=True, kw_only=True, slots=True)
class DefaultSpec:
    tier: Tier
    graph: Graph
    nvls: Nvls


@dataclass(frozen=True, kw_only=True, slots=True)
class Axes:
    budget: tuple[str, ...]
    graph: tuple[Graph, ...]
    nvls: tuple[Nvls, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferenceSpec:
    graph: Graph
    nvls: Nvls


@dataclass(frozen=True, kw_only=True, slots=True)
class SelfTestSpec:
    """A launch of this arm, as the reference is run, with a fault that the oracles have to find."""

    budget: str
    fault: str
    number: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Include:
    """Cells beside the full matrix, from ``depth`` on: a deeper plan holds the shallower plans' cells too."""

    budget: tuple[str, ...]
    why: str
    graph: tuple[Graph, ...] | None = None
    nvls: tuple[Nvls, ...] | None = None
    engine_source: str | None = None
    tier: Tier | None = None
    variant: Mapping[str, str] = field(default_factory=dict)
    depth: Depth = "screen"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    match: str
    reason: str
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """``round_prompts`` of the prompts make a round of `throughput` and a level of `load`; None: all. Without
    ``repeats`` each level is measured once; without ``under_load`` there is no check `load`."""

    prompts: str
    count: int
    max_new_tokens: int
    concurrency: tuple[int, ...]
    tie_margin: float
    method_version: int
    round_prompts: int | None = None
    repeats: Repeats | None = None
    under_load: tuple[int, ...] = ()
    cancel_every: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CodingSpec:
    """How much an answer to a coding task may say."""

    max_new_tokens: int = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class DepthLoad:
    launches: int
    concurrency: tuple[int, ...] | None = None
    under_load: tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecastSpec:
    ready_s: float
    stop_s: float
    round_s: float
    level_s: float
    load_s: float | None = None
    coding_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Spec:
    """One target: what the machine is, which engine runs on it and how, and which cells make its matrix.

    ``tiers`` holds the same for each other tier: a spec of its own, whose cells are of its ``tier``, since what runs
    there is compared with a reference of the same tier. ``tier`` is None for the default's.
    """

    target: str
    title: str
    hardware: Hardware
    engine: EngineSpec
    model: ModelSpec
    deployment: DeploymentSpec
    defaults: DefaultSpec
    axes: Axes
    reference: ReferenceSpec
    load: Load
    depths: Mapping[Depth, DepthLoad]
    limits: Mapping[str, float]
    forecast: ForecastSpec
    self_test: SelfTestSpec | None = None
    include: tuple[Include, ...] = ()
    exclude: tuple[Rule, ...] = ()
    unsupported: tuple[Rule, ...] = ()
    coding: CodingSpec = CodingSpec()
    checks: Mapping[str, str] = field(default_factory=dict)
    tier: Tier | None = None
    tiers: "Mapping[Tier, Spec]" = field(default_factory=dict)
    sha256: str = ""
    origin: str = ""

    @property
    def cell_defaults(self) -> Defaults:
        return Defaults(
            architecture=self.hardware.architecture, tier=self.defaults.tier, engine_source=self.engine.source
        )

    def of_tier(self, tier: Tier | None) -> "Spec":
        """The spec of this tier; this one if it has none of its own."""
        return self if tier is None else self.tiers.get(tier, self)


def built_in_specs() -> tuple[str, ...]:
    """Names of the targets that come with graphrepro."""
    folder = resources.files("matrix") / "specs"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load_spec(name_or_path: str) -> Spec:
    """The spec of a built-in target (`b300`) or of a TOML file.

    Raises SpecError with the file and the line (TOML) or the JSON pointer (schema) of what is wrong.
    """
    if "/" not in name_or_path and not name_or_path.endswith(".toml"):
        known = built_in_specs()
        if name_or_path not in known:
            near = difflib.get_close_matches(name_or_path, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise SpecError(
                f"unknown target {name_or_path!r}: {hint}known: {', '.join(known)}; or give a path to a .toml"
            )
        data = (resources.files("matrix") / "specs" / f"{name_or_path}.toml").read_bytes()
        return parse_spec(data, origin=f"{name_or_path}.toml")
    path = Path(name_or_path)
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise SpecError(f"spec {path}: {problem.strerror}: give a readable .toml file") from problem
    return parse_spec(data, origin=str(path))


def parse_spec(data: bytes, *, origin: str) -> Spec:
    """Like :func:`load_spec`, for text already read. ``origin`` is what messages call the file."""
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as problem:
        raise SpecError(f"spec {origin}: not UTF-8 at byte {problem.start}") from problem
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise SpecError(f"spec {origin}: not TOML: {problem}") from problem
    if not document:
        raise SpecError(f"spec {origin}: is empty: start from a copy of a built-in one in matrix/specs/")
    _demand_known_version(document, origin)
    digest = hashlib.sha256(data).hexdigest()
    spec = _structured(document, origin, sha256=digest)
    tiers = {
        tier: replace(_structured(tier_document(document, tier), f"{origin} [tiers.{tier}]", sha256=digest), tier=tier)
        for tier in document.get("tiers", {})
    }
    if spec.defaults.tier in tiers:
        raise SpecError(f"spec {origin}: /tiers/{spec.defaults.tier}: is the default tier: what it is stands above")
    return replace(spec, tiers=tiers)


def _structured(document: Mapping[str, object], origin: str, *, sha256: str) -> Spec:
    try:
        schemas.validate(document, "matrix-spec", f"spec {origin}")
    except schemas.SchemaViolation as problem:
        raise SpecError(f"{problem}{_nearest_key(problem.problem)}") from problem
    fields = {key: value for key, value in document.items() if key not in {"record", "schema_version", "tiers"}}
    spec = _converter().structure({**fields, "sha256": sha256, "origin": origin}, Spec)
    _check_consistency(spec)
    return spec


def _demand_known_version(document: Mapping[str, object], origin: str) -> None:
    found, known = document.get("schema_version"), schemas.version("matrix-spec")
    if type(found) is int and found > known:
        raise SpecError(
            f"spec {origin}: /schema_version: {found} is newer than this graphrepro, which reads {known}: upgrade it"
        )


def _check_consistency(spec: Spec) -> None:
    if (spec.engine.name == "simulated") != (spec.engine.script is not None):
        raise SpecError(f"spec {spec.origin}: /engine/script: needed for the simulated engine, and for no other")
    script = spec.engine.script
    if script is not None and not script_file(script, payload_dir()).is_file():
        raise SpecError(f"spec {spec.origin}: /engine/script: {script!r} is no built-in script and no file")
    if spec.reference.graph not in spec.axes.graph or spec.reference.nvls not in spec.axes.nvls:
        raise SpecError(f"spec {spec.origin}: /reference: its graph and nvls must be values of the axes")
    if "ar" not in spec.axes.budget:
        raise SpecError(
            f"spec {spec.origin}: /axes/budget: `ar` is missing; every comparison needs it as its reference"
        )


def script_file(script: str, payload: Path) -> Path:
    """The simulated engine's script: a built-in name, or a path as seen from the working directory."""
    if "/" in script or script.endswith(".json"):
        return Path(script).absolute()
    return payload / "simulated" / "scripts" / f"{script}.json"


def _nearest_key(problem: str) -> str:
    """For a misspelt key: the key that was probably meant."""
    if "additional" not in problem.lower():
        return ""
    for word in re.findall(r"'([^']*)'", problem):
        near = difflib.get_close_matches(word, _known_keys(), n=1, cutoff=0.75)
        if near and near[0] != word:
            return f" (did you mean {near[0]!r}?)"
    return ""


@cache
def _known_keys() -> tuple[str, ...]:
    def walk(schema: object) -> set[str]:
        found: set[str] = set()
        if isinstance(schema, dict):
            found |= set(cast("dict[str, object]", schema.get("properties", {})))
            for value in schema.values():
                found |= walk(value)
        return found

    return tuple(sorted(walk(schemas.schema("matrix-spec"))))


@cache
def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    for union in (OptionValue, str | int | bool):
        converter.register_structure_hook(union, lambda value, _: value)
    return converter
