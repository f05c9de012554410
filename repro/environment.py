"""The comparability key: the facts that must be equal on both sides before a difference between two numbers means
anything. Pure: it reads facts and says which of them agree.

Names here are the names in ``Environment.facts`` and ``Baseline.facts``. What an attempt read from the machine itself
stands there; what only the plan or the step knows comes from :func:`declared_facts`.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from repro.errors import SpecError
from repro.model import Fact, Plan, Result, Scalar

Comparability: TypeAlias = Literal["comparable", "unverified", "not_comparable"]

KEY_FIELDS: tuple[str, ...] = (
    "architecture",
    "gpu_name",
    "gpu_count",
    "engine",
    "engine_version",
    "engine_commit",
    "engine_source",
    "image_digest",
    "model",
    "model_digest",
    "draft_model",
    "draft_digest",
    "dtype",
    "tier",
    "window",
    "max_running_requests",
    "gpu_driver",
    "cuda_toolkit",
    "gpu_max_sm_clock_mhz",
    "gpu_power_limit_w",
    "cpu_model",
    "cpu_count",
    "load_shape",
    "prompts",
    "method_version",
)
"""In the order in which differences are told: the one that explains most comes first."""

_NEEDS_GPU = frozenset({"gpu_name", "gpu_driver", "cuda_toolkit", "gpu_max_sm_clock_mhz", "gpu_power_limit_w"})
_WITHOUT_GPU = frozenset({"cpu_model", "cpu_count"})
_NEEDS_DRAFT = frozenset({"draft_model", "draft_digest", "window"})
_MODEL_NAMES = frozenset({"model", "draft_model"})
_NOT_RECORDED = "not recorded"


SUBJECTS: Mapping[str, tuple[str, ...]] = {
    "engine": ("engine_version", "engine_commit", "engine_source", "image_digest"),
    "engine_version": ("engine_version", "engine_commit"),
    "image": ("image_digest",),
    "driver": ("gpu_driver",),
    "cuda": ("cuda_toolkit",),
    "model": ("model", "model_digest"),
    "draft": ("draft_model", "draft_digest"),
    "clocks": ("gpu_max_sm_clock_mhz",),
    "power_limit": ("gpu_power_limit_w",),
}
"""What may be declared as the subject of a comparison, beside the fields of the key by their own names, and the fields
that are then expected to differ. Another version of an engine is another commit."""


class KeyComparison(NamedTuple):
    """``reasons`` say why two sides are not comparable; ``unknowns`` are the fields that a side does not state;
    ``changed`` are the differences that are the subject of the comparison."""

    state: Comparability
    reasons: tuple[str, ...]
    unknowns: tuple[str, ...]
    changed: tuple[str, ...] = ()


def subject_fields(names: Iterable[str]) -> frozenset[str]:
    """The fields of the key that are declared by these names. Raises SpecError for a name that is none."""
    found: set[str] = set()
    for name in names:
        if name not in SUBJECTS and name not in KEY_FIELDS:
            known = ", ".join([*SUBJECTS, *(field for field in KEY_FIELDS if field not in SUBJECTS)])
            raise SpecError(f"{name!r} is nothing that can be declared as changed; give some of: {known}")
        found.update(SUBJECTS.get(name, (name,)))
    return frozenset(found)


def upgraded_fields(ours: Mapping[str, Fact], theirs: Mapping[str, Fact]) -> frozenset[str]:
    """What an upgrade of the engine changes, if both sides state another engine version, or another commit; else none.

    An image that differs under the same engine is no upgrade: whatever else it changed must be declared.
    """
    for field in ("engine_version", "engine_commit"):
        here, there = _value(ours, field), _value(theirs, field)
        if here is not None and there is not None and here != there:
            return frozenset({"engine_version", "engine_commit", "image_digest"})
    return frozenset()


def compare_keys(
    ours: Mapping[str, Fact],
    theirs: Mapping[str, Fact],
    *,
    drafts: bool = True,
    changed: Collection[str] = (),
) -> KeyComparison:
    """Whether numbers of the two sides may be compared.

    Any fact that both state and that differs makes them `not_comparable`, unless it is one of ``changed``, the subject
    of the comparison; else any fact that one of them does not state makes them `unverified`. Where both sides state
    that they have no GPU, facts about the processor stand in for those about GPUs; without ``drafts`` there are none
    about the draft.
    """
    left_out = _NEEDS_GPU if _value(ours, "gpu_count") == 0 == _value(theirs, "gpu_count") else _WITHOUT_GPU
    if not drafts:
        left_out |= _NEEDS_DRAFT
    reasons: list[str] = []
    unknowns: list[str] = []
    subject: list[str] = []
    for field in KEY_FIELDS:
        if field in left_out:
            continue
        here, there = _value(ours, field), _value(theirs, field)
        if here is None or there is None:
            unknowns.append(field)
        elif _canonical(field, here) != _canonical(field, there):
            (subject if field in changed else reasons).append(f"{field} is {here} here and {there} there")
    state: Comparability = "not_comparable" if reasons else "unverified" if unknowns else "comparable"
    return KeyComparison(state, tuple(reasons), tuple(unknowns), tuple(subject))


def declared_facts(plan: Plan | None, result: Result) -> dict[str, Fact]:
    """What plan, step and result say of the key without asking the machine; ``plan`` None when it cannot be read."""
    engine = result.engine
    known: dict[str, Scalar] = {
        "engine": engine.name,
        "engine_version": engine.version,
        "engine_source": engine.source,
        "tier": result.coordinates.tier,
        "window": result.expectation.window if result.expectation.window is not None else "none",
    }
    if engine.source == "stock":
        known["engine_commit"] = f"release {engine.version}"
    if plan is not None:
        step = next((step for step in plan.steps if step.cell == result.cell), None)
        known["architecture"] = plan.architecture
        known["load_shape"] = plan.load_shape
        known["prompts"] = plan.prompts_sha256
        if step is not None:
            known["image_digest"] = step.image or "none (environment on the host)"
    return {
        name: Fact(value=value, status="declared", reason=None) for name, value in known.items() if value is not None
    }


def key_facts(recorded: Mapping[str, Fact], declared: Mapping[str, Fact]) -> dict[str, Fact]:
    """Every field of the key: as recorded by the attempt if known there, else as declared, else unknown."""
    return {
        field: _known(field, recorded) or _known(field, declared) or _absent(field, recorded) for field in KEY_FIELDS
    }


def common_facts(sides: Sequence[Mapping[str, Fact]]) -> dict[str, Fact]:
    """The facts that hold for several attempts together; one that is not the same in all of them is unknown."""
    return {field: _common(field, sides) for field in KEY_FIELDS}


def _common(field: str, sides: Sequence[Mapping[str, Fact]]) -> Fact:
    facts = [side.get(field) or _absent(field, side) for side in sides]
    if not facts:
        return Fact(value=None, status="unknown", reason=_NOT_RECORDED)
    values = sorted({str(fact.value) for fact in facts})
    if len(values) == 1:
        return facts[0]
    return Fact(value=None, status="unknown", reason="not the same in all attempts: " + ", ".join(values))


def _known(field: str, facts: Mapping[str, Fact]) -> Fact | None:
    fact = facts.get(field)
    return fact if fact is not None and fact.status != "unknown" and fact.value is not None else None


def _absent(field: str, facts: Mapping[str, Fact]) -> Fact:
    return facts.get(field) or Fact(value=None, status="unknown", reason=_NOT_RECORDED)


def _value(facts: Mapping[str, Fact], field: str) -> Scalar:
    fact = _known(field, facts)
    return None if fact is None else fact.value


def _canonical(field: str, value: Scalar) -> Scalar:
    """Model names are written in many ways (`Kimi K2.6`, `moonshotai/Kimi-K2.6`) that mean the same one."""
    if field in _MODEL_NAMES and isinstance(value, str):
        return re.sub(r"[\s_-]+", "-", value.strip().rsplit("/", 1)[-1].lower())
    return value
