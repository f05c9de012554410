"""The fingerprint of a bundle: on what the failure was seen, each field verified, declared or unknown with a reason.

Nothing is read from a machine here: it is put together from what an attempt recorded about itself while it ran.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from repro.escape import one_line
from repro.model import Fact, Fingerprint, GpuHealth, GpuState, PackagePatches, PatchedFile, Result, Scalar, Step

FIELDS: Mapping[str, tuple[str, ...]] = {
    "GPU": (
        "gpu_name",
        "gpu_count",
        "architecture",
        "compute_capability",
        "gpu_memory_mib",
        "gpu_topology",
        "gpu_mig",
        "gpu_max_sm_clock_mhz",
        "gpu_max_memory_clock_mhz",
        "gpu_sm_clock_mhz",
        "gpu_power_limit_w",
        "gpu_throttling",
        "gpu_ecc",
        "gpu_ecc_uncorrected",
        "gpu_xids",
    ),
    "Driver and libraries": ("gpu_driver", "cuda_driver", "cuda_toolkit", "nccl"),
    "Engine": (
        "engine",
        "engine_version",
        "engine_source",
        "engine_commit",
        "engine_patches",
        "image_digest",
        "torch",
        "triton",
        "flashinfer",
        "sglang_kernel",
        "transformers",
        "numpy",
        "python",
    ),
    "Model": ("model", "model_digest", "draft_model", "draft_digest", "dtype", "max_running_requests"),
    "Host": (
        "os",
        "kernel",
        "machine",
        "libc",
        "cpu_model",
        "cpu_count",
        "memory_mib",
        "shm_mib",
        "ulimit_nofile",
        "ulimit_memlock",
        "ulimit_stack",
        "ulimit_core",
    ),
}
"""Every field that a fingerprint has, in order; whatever else was recorded comes after them."""

_HEALTH = ("gpu_sm_clock_mhz", "gpu_throttling", "gpu_ecc_uncorrected", "gpu_xids")
_PATCHED = re.compile(r"(changed|added|missing): ([^;]+?)(?: and \d+ more)?(?:; |$)")
_SILENT = ("sm_clock_mhz", "ecc_uncorrected")
_BOOKKEEPING = frozenset({"GRAPHREPRO_LABEL", "GRAPHREPRO_OWNER_FD"})
_LONGEST_VALUE = 200


class Row(NamedTuple):
    """A field as it is shown. ``state``: `verified`, `declared` or `unknown`; then the value is the reason."""

    group: str
    field: str
    value: str
    state: str


def fingerprint(
    result: Result,
    *,
    health: GpuHealth | None,
    step: Step | None,
    image: str | None = None,
    patches: Sequence[PackagePatches] = (),
) -> Fingerprint:
    """Of one attempt: what its result recorded, the health of the GPUs around it, and what its step was started with.

    ``image``: the digest that the plan names, where there is one. ``patches``: diffs made of the environment as it is
    now; they count only where they are of the files that the attempt found patched. Nothing in it is redacted.
    """
    recorded = result.environment.facts
    facts = {**recorded, **_engine_facts(result, image), **_health_facts(health, recorded)}
    known = {name: facts.get(name) or _unknown("not recorded") for names in FIELDS.values() for name in names}
    more = {name: fact for name, fact in sorted(facts.items()) if name not in known}
    return Fingerprint(
        facts={**known, **more},
        packages=dict(sorted(result.environment.packages.items())),
        patches=_agreed(patches, _patches(result.engine.name, known["engine_patches"])),
        container_flags=_container_flags(facts),
        variables=_variables(step),
    )


def rows(found: Fingerprint) -> tuple[Row, ...]:
    """Every field on one line, in order; an unknown one says why."""
    groups = {name: group for group, names in FIELDS.items() for name in names}
    order = {name: place for place, name in enumerate(groups)}
    names = sorted(found.facts, key=lambda name: (order.get(name, len(order)), name))
    return tuple(_row(groups.get(name, "Other"), name, found.facts[name]) for name in names)


def _row(group: str, name: str, fact: Fact) -> Row:
    said = fact.reason if fact.status == "unknown" else _text(fact.value)
    return Row(group, name, one_line(said or "no reason was recorded", _LONGEST_VALUE), fact.status)


def _engine_facts(result: Result, image: str | None) -> dict[str, Fact]:
    """What the plan knows where the machine did not say."""
    engine, recorded = result.engine, result.environment.facts
    declared = {
        "engine": engine.name,
        "engine_version": engine.version,
        "engine_source": engine.source,
        "image_digest": image,
    }
    return {
        name: Fact(value=value, status="declared", reason=None)
        for name, value in declared.items()
        if value is not None and (name not in recorded or recorded[name].status == "unknown")
    }


def _health_facts(health: GpuHealth | None, recorded: Mapping[str, Fact]) -> dict[str, Fact]:
    """Clocks, throttling, ECC errors and Xids, as the GPUs said them around the attempt."""
    if health is None:
        count = recorded.get("gpu_count")
        without = count is not None and count.value == 0
        reason = "the machine has no GPU" if without else "the GPUs were not looked at around this attempt"
        return dict.fromkeys(_HEALTH, _unknown(reason))
    states = _states(health)
    unread = "; ".join(line for line in health.unknown if line.startswith("Xids"))
    said = ", ".join(
        f"{xid.code} on {'GPU ' + str(xid.gpu) if xid.gpu is not None else 'no visible GPU'}" for xid in health.xids
    )
    return {
        "gpu_sm_clock_mhz": _of_each(states, "sm_clock_mhz"),
        "gpu_throttling": _verified(", ".join(sorted({why for state in states for why in state.throttling})) or "none"),
        "gpu_ecc_uncorrected": _of_each(states, "ecc_uncorrected"),
        "gpu_xids": _verified(said) if said else _unknown(unread) if unread else _verified("none"),
    }


def _states(health: GpuHealth) -> tuple[GpuState, ...]:
    """Each GPU after the attempt; where it no longer answered, what it said before."""
    before = {state.gpu: state for state in health.before}
    filled = [
        replace(state, **{name: getattr(before[state.gpu], name) for name in _SILENT if getattr(state, name) is None})
        if state.gpu in before
        else state
        for state in health.after
    ]
    return tuple(filled) or health.before


def _of_each(states: Sequence[GpuState], field: str) -> Fact:
    """One value where all GPUs have it in common, else each GPU's own."""
    values = [(state.gpu, getattr(state, field)) for state in states]
    silent = [str(gpu) for gpu, value in values if value is None]
    if silent or not values:
        return _unknown(f"GPU {', '.join(silent)} did not say" if silent else "no GPU was seen")
    if len({value for _, value in values}) == 1:
        return _verified(values[0][1])
    return _verified(", ".join(f"GPU {gpu}: {_text(value)}" for gpu, value in values))


def _variables(step: Step | None) -> dict[str, str]:
    """What the server was started with, without the harness's own bookkeeping."""
    given = step.environment if step is not None else {}
    return {name: value for name, value in sorted(given.items()) if name not in _BOOKKEEPING}


def _patches(engine: str, fact: Fact) -> tuple[PackagePatches, ...]:
    """The patched files that the probe named, without their texts. The simulated engine is no package."""
    if engine == "simulated":
        return ()
    if fact.status == "unknown":
        return (PackagePatches(package=engine, files=(), reason=fact.reason or "not recorded"),)
    return (PackagePatches(package=engine, files=tuple(_named_files(_text(fact.value))), reason=None),)


def _agreed(now: Sequence[PackagePatches], then: tuple[PackagePatches, ...]) -> tuple[PackagePatches, ...]:
    """The diffs, unless the environment has other patches now than it had when it failed."""
    if not now:
        return then
    recorded = {package.package: package for package in then if package.reason is None}
    for package in now:
        before = recorded.get(package.package)
        named = {file.path for file in before.files} if before is not None else None
        if named is not None and not named <= {file.path for file in package.files}:
            return then
        if named == set() and package.files:
            return then
    return tuple(now)


def _named_files(said: str) -> Iterator[PatchedFile]:
    for found in _PATCHED.finditer(said):
        for path in found[2].split(", "):
            yield PatchedFile(path=path, state=found[1], diff=None)  # type: ignore[arg-type]  # one of the pattern's three


def _container_flags(facts: Mapping[str, Fact]) -> tuple[str, ...]:
    """As `docker run` takes them; empty where the attempt recorded no container."""
    flags = {
        "container_user": "--user={}",
        "container_ipc": "--ipc={}",
        "container_shm_bytes": "--shm-size={}",
        "container_memory_bytes": "--memory={}",
        "container_network": "--network={}",
    }
    known = {name: _text(fact.value) for name, fact in facts.items() if fact.status != "unknown"}
    limits = known.get("container_ulimits", "")
    return (
        *(flag.format(known[name]) for name, flag in flags.items() if name in known and " " not in known[name]),
        *(f"--ulimit={limit}" for limit in limits.split() if "=" in limit),
    )


def _text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)


def _verified(value: Scalar) -> Fact:
    return Fact(value=value, status="verified", reason=None)


def _unknown(reason: str) -> Fact:
    return Fact(value=None, status="unknown", reason=reason)
