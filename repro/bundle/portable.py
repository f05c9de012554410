"""An attempt's order made fit for another machine: `step.json` with placeholders, `needs.json`, `repro.sh`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

from repro import codec
from repro.bundle.contents import Contents, GatheredAttempt
from repro.bundle.expectation import BY_KIND, shown
from repro.bundle.inside import judging, launching
from repro.bundle.script import script_text
from repro.canonical import pretty_bytes
from repro.errors import RecordError
from repro.model import BundleNeeds, CheckName, CheckPlan, Difference, Result, Scalar, Step

_PAYLOAD = re.compile(r"(?<![^:=])(/(?:[^:=]*?/)?payload)(?=/|:|$)")
"""A word, or a part of a path list, that leads into a folder of payloads."""
_MODEL = {"--model-path", "--model"}
_DRAFT = {"--speculative-draft-model-path"}
_GPU_SHM_BYTES = 32 << 30
_LARGEST_SCRIPT_BYTES = 1 << 20
_NEVER: frozenset[CheckName] = frozenset({"rescoring", "coding"})
"""They need other launches' outputs, or a sandbox, and no rule of a bundle reads their answers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Portable:
    """``files`` by path in the bundle; ``step`` and ``needs`` are the records that two of them hold. ``notes`` are for
    the person who packs: what may keep it from running elsewhere."""

    step: Step
    needs: BundleNeeds
    files: Mapping[str, bytes]
    notes: tuple[str, ...]


def portable(contents: Contents, *, statement: str, whole: bool = False) -> Portable:
    """What starts the failure of ``contents.first`` again elsewhere. ``statement`` says in one line what it shows.

    The checks are those up to the place where it showed, with the same prompts in the same order at the same
    concurrencies, since an engine's state depends on all of them; ``whole`` keeps every check. Raises `RecordError` if
    the attempt's `step.json` is not there.
    """
    attempt = contents.first
    if attempt.step is None:
        raise RecordError(f"{attempt.place}: step.json is not there: without it nothing can be started again")
    extra: dict[str, bytes] = {}
    needs = _needs(contents, attempt, attempt.step)
    argv = _portable_argv(attempt.step, needs, extra)
    checks = attempt.step.checks if whole else kept_checks(contents, attempt.step)
    checks = tuple(check for check in checks if check.check not in _NEVER)
    most = max((check.prompts for check in checks), default=0)
    step = replace(
        attempt.step,
        argv=argv,
        environment=_portable_environment(attempt.step),
        checks=checks,
        prompts=attempt.step.prompts[:most],
        tasks=(),
        texts=(),
        explains=None,
    )
    script = script_text(step, needs, statement=statement, prompt=_telling_prompt(contents))
    files = {
        "step.json": pretty_bytes(codec.encode(step)),
        "needs.json": pretty_bytes(codec.encode(needs)),
        "repro.sh": script.encode("utf-8"),
        **extra,
    }
    return Portable(step=step, needs=needs, files=files, notes=_notes(step, needs))


def kept_checks(contents: Contents, step: Step) -> tuple[CheckPlan, ...]:
    """The checks that a reproduction needs. A server that died or hung: those up to the last in which one did, none if
    it never was ready. One that was wrong: those whose answers tell it."""
    failing = shown(contents)
    kind = contents.subject.signature.kind
    if not failing:
        return step.checks
    if failing[0].result.outcome != "completed":
        return _up_to(step, {name for attempt in failing for name in _begun(attempt)[-1:]})
    if kind in BY_KIND:
        return step.checks
    if kind == "acceptance_at_floor":
        return _up_to(step, {"lossless"})
    return _wrong_checks(failing, step)


def _up_to(step: Step, names: set[CheckName]) -> tuple[CheckPlan, ...]:
    last = max((place for place, check in enumerate(step.checks) if check.check in names), default=-1)
    return step.checks[: last + 1]


def _begun(attempt: GatheredAttempt) -> list[CheckName]:
    """The checks that were begun, in order."""
    entries = judging.read_timeline(attempt.directory / "evidence" / "timeline.jsonl")
    return [cast("CheckName", entry["check"]) for entry in entries if entry.get("event") == "check-begun"]


def _wrong_checks(failing: Sequence[GatheredAttempt], step: Step) -> tuple[CheckPlan, ...]:
    """`lossless` if it differs with requests sent alone; else also the check and the concurrencies that first do."""
    levels = {d.concurrency for attempt in failing for d in _differences(attempt.result, "lossless")}
    if not levels:
        return step.checks  # `load`, or what only rescoring sees
    if 1 in levels:
        return _up_to(step, {"lossless"})
    first = min(levels)
    kept = []
    for check in _up_to(step, {"throughput"}):
        if check.check == "throughput":
            kept.append(replace(check, concurrency=tuple(c for c in check.concurrency if c <= first), peer=None))
        else:
            kept.append(check)
    return tuple(kept)


def _differences(result: Result, name: CheckName) -> tuple[Difference, ...]:
    return next((check.differences for check in result.checks if check.check == name), ())


def _telling_prompt(contents: Contents) -> str | None:
    """The id of the prompt that showed the failure first; None if no single one did."""
    answers = contents.oracle.answers if contents.oracle is not None else ()
    return next((answer.prompt for answer in answers if answer.first_difference is not None), None)


def _portable_argv(step: Step, needs: BundleNeeds, extra: dict[str, bytes]) -> tuple[str, ...]:
    words = ["{python}" if place == 0 and _is_python(word) else word for place, word in enumerate(step.argv)]
    for place in range(1, len(words)):
        before, word = words[place - 1], words[place]
        if word == str(step.port):
            words[place] = "{port}"
        elif before == "--launch" and word == str(step.attempt):
            words[place] = "{attempt}"
        elif before in _MODEL and needs.model is not None:
            words[place] = "{model}"
        elif before in _DRAFT and needs.draft_model is not None:
            words[place] = "{draft_model}"
        elif before == "--script" and _PAYLOAD.match(word) is None and (text := _script(word)) is not None:
            extra["payload/extra/script.json"] = text
            words[place] = "{payload}/extra/script.json"
        else:
            words[place] = _PAYLOAD.sub("{payload}", word)
    return tuple(words)


def _portable_environment(step: Step) -> dict[str, str]:
    """Without our label, and without a cache of compiled kernels that only the runtime mounts."""
    return {
        name: _PAYLOAD.sub("{payload}", value)
        for name, value in step.environment.items()
        if name != launching.LABEL and not value.startswith("/var/cache/graphrepro")
    }


def _script(path: str) -> bytes | None:
    """A script of the simulated engine that lies on this machine; None if it does not."""
    place = Path(path)
    fits = place.is_absolute() and place.is_file() and place.stat().st_size <= _LARGEST_SCRIPT_BYTES
    return place.read_bytes() if fits else None


def _is_python(word: str) -> bool:
    return re.fullmatch(r"python(?:3(?:\.\d+)?)?", Path(word).name) is not None


def _needs(contents: Contents, attempt: GatheredAttempt, step: Step) -> BundleNeeds:
    facts = {name: fact.value for name, fact in attempt.result.environment.facts.items()}
    run = contents.runs.get(attempt.result.run_id)
    runtime: Literal["docker", "local"] = "docker" if run is not None and run.runtime == "docker" else "local"
    architecture = contents.subject.architecture or str(facts.get("architecture") or "unknown")
    gpus = _gpus(step, facts) if architecture.startswith("sm_") else 0
    engine = ("sglang",) if attempt.result.engine.name == "sglang" else ()
    shm = facts.get("container_shm_bytes")
    return BundleNeeds(
        architecture=architecture,
        gpus=gpus,
        runtime=runtime,
        image=contents.subject.image if runtime == "docker" else None,
        image_python=step.argv[0] if runtime == "docker" and _is_python(step.argv[0]) else None,
        model=_weights(step, _MODEL, facts.get("model")),
        draft_model=_weights(step, _DRAFT, facts.get("draft_model")),
        modules=("aiohttp", *engine),
        ipc="host" if facts.get("container_ipc") == "host" else "private",
        shm_bytes=shm if isinstance(shm, int) and not isinstance(shm, bool) else _GPU_SHM_BYTES if gpus else 1 << 30,
        ulimits=_ulimits(facts.get("container_ulimits"), gpus),
    )


def _gpus(step: Step, facts: Mapping[str, Scalar]) -> int:
    """GPUs that one server takes: what tensor and pipeline parallelism ask for, else what the results say."""
    sizes = {word: step.argv[place + 1] for place, word in enumerate(step.argv[:-1])}
    parallel = [sizes.get(name, "") for name in ("--tp-size", "--tensor-parallel-size", "--tp", "--pp-size")]
    asked = [int(size) for size in parallel if size.isdecimal()]
    product = 1
    for size in asked:
        product *= size
    known = facts.get("gpu_count")
    return product if asked else known if isinstance(known, int) and known > 0 else 1


def _weights(step: Step, flags: set[str], name: Scalar) -> str | None:
    """What must be given: a folder on the machine it ran on, outside of the payload. A name is for the engine."""
    given = next((step.argv[place + 1] for place, word in enumerate(step.argv[:-1]) if word in flags), None)
    if given is None or not given.startswith("/") or _PAYLOAD.match(given) is not None:
        return None
    return str(name) if isinstance(name, str) and name else "the weights it was seen with"


def _ulimits(said: Scalar, gpus: int) -> dict[str, int]:
    found = dict(re.findall(r"([a-z]+)=(-?\d+)", said)) if isinstance(said, str) else {}
    if found or isinstance(said, str):
        return {name: int(value) for name, value in sorted(found.items())}
    return {"memlock": -1, "stack": 64 << 20} if gpus else {}


def _notes(step: Step, needs: BundleNeeds) -> tuple[str, ...]:
    """Words that name places which another machine will not have."""
    if needs.runtime == "docker":
        return ()
    texts = [*step.argv, *step.environment.values()]
    return tuple(
        f"step.json still names {text!r}, which another machine may not have" for text in texts if text[:1] == "/"
    )
