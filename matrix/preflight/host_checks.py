"""The host without its GPUs: the judges, the engine, memory to share, limits, disks, weights, ports."""

from collections.abc import Callable
from pathlib import Path

from matrix.environments import engine_python
from matrix.preflight import oracle, weights
from matrix.preflight.question import Asked, ok, problem, unknown
from matrix.promptset import payload_dir
from repro.errors import UnavailableError
from repro.model import PreflightLine

GIB = 1 << 30
SHM_BYTES = 32 * GIB
"""As SGLang's documentation runs its image (`--shm-size 32g`)."""
RESULTS_BYTES = GIB
LAUNCH_BYTES = 64 << 20
"""Our own estimate of an attempt's evidence: logs are cut at some MiB, the rest is small."""


def judges(asked: Asked) -> PreflightLine:
    return oracle.self_test(asked.question.spec.load.tie_margin)


def engine(asked: Asked) -> PreflightLine:
    """The engine's environment, for the local runtime."""
    question = asked.question
    try:
        engine_python(question.spec, question.engine_env)
    except UnavailableError as error:
        told, _, advice = str(error).partition(": make it")
        return problem("engine", told, f"make it{advice}" if advice else "name another with --engine-env DIR")
    name = question.spec.engine.name
    where = "runs in our own environment" if question.engine_env is None else f"is in {question.engine_env}"
    return ok("engine", f"{name} {question.spec.engine.version} {where}")


def shared_memory(asked: Asked) -> PreflightLine:
    """Shared memory, which several ranks of a local engine share; a container gets its own."""
    question = asked.question
    if question.runtime == "docker":
        return ok("shm", "containers get their own")
    if question.spec.deployment.tensor_parallel < 2:
        return ok("shm", "one rank: nothing is shared")
    try:
        free = asked.sources.free_bytes(asked.sources.shm)
    except OSError as error:
        return problem("shm", f"{asked.sources.shm}: {error.strerror}", "mount a tmpfs there")
    if free < SHM_BYTES:
        return problem(
            "shm",
            f"{asked.sources.shm}: {free / GIB:.1f} GiB free, and {question.spec.deployment.tensor_parallel} ranks may "
            f"take {SHM_BYTES // GIB}",
            f"`mount -o remount,size={2 * SHM_BYTES // GIB}g {asked.sources.shm}`",
        )
    return ok("shm", f"{free / GIB:.0f} GiB free")


def limits(asked: Asked) -> PreflightLine:
    """Locked memory, which NCCL needs without a limit, and open files."""
    question = asked.question
    if question.runtime == "docker":
        return ok("limits", "containers get their own")
    found = asked.sources.limits()
    locked, files = found.get("memlock"), found.get("nofile")
    if question.spec.deployment.tensor_parallel > 1 and question.spec.hardware.gpu_count and locked is not None:
        return problem("limits", f"locked memory is limited to {locked / (1 << 20):.0f} MiB", "`ulimit -l unlimited`")
    if files is not None and files < 4096:
        return problem("limits", f"only {files} open files allowed", "`ulimit -n 65536`")
    return ok("limits", f"locked memory {_limit(locked)}, open files {'unlimited' if files is None else files}")


def disk(asked: Asked) -> PreflightLine:
    """Room for the results."""
    place = asked.question.results
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        free = asked.sources.free_bytes(place)
    except OSError as error:
        return problem("disk", f"{place}: {error.strerror}", "choose another folder with --results")
    needed = RESULTS_BYTES + asked.question.launches * LAUNCH_BYTES
    told = f"{free / GIB:.1f} GiB free for results, {needed / GIB:.1f} may be needed"
    return ok("disk", told) if free >= needed else problem("disk", told, "free space, or choose another with --results")


def model(asked: Asked) -> PreflightLine:
    if asked.question.spec.deployment.options.get("load-format") == "dummy":
        return ok("weights", "none needed: the engine makes dummy weights from the config")
    return _weights("weights", asked.question.model)


def draft(asked: Asked) -> PreflightLine:
    return _weights("draft-weights", asked.question.draft_model or "")


def _weights(check: str, named: str) -> PreflightLine:
    option = "--model" if check == "weights" else "--draft-model"
    place = Path(named.replace("{payload}", str(payload_dir())))
    if not place.is_absolute() and not place.exists():
        return unknown(
            check, f"{named} is no folder here: the engine would look for it on its own", f"name a folder with {option}"
        )
    if not place.is_dir():
        return problem(check, f"{place} is not there", f"name the folder with {option}")
    wrong = weights.problem_with(place)
    return problem(check, *wrong) if wrong else ok(check, f"whole: {weights.told(place)}")


def port(asked: Asked) -> PreflightLine:
    question = asked.question
    if question.own_network:
        return ok("port", "each container has ports of its own")
    if question.port == 0:
        return ok("port", "a free one for each attempt")
    taken = asked.sources.port_problem(question.port)
    if taken is None:
        return ok("port", f"{question.port} is free")
    if question.pause_unit is not None:
        return unknown(
            "port",
            f"{question.port}: {taken}",
            f"see that it is {question.pause_unit} that listens; it is stopped first",
        )
    return problem(
        "port", f"{question.port}: {taken}", "stop what listens there, or name another with --port (0: a free one)"
    )


ALWAYS: tuple[Callable[[Asked], PreflightLine], ...] = (shared_memory, limits, disk, port)


def _limit(locked: int | None) -> str:
    return "unlimited" if locked is None else f"{locked / (1 << 20):.0f} MiB"
