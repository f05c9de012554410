"""The preflight: all questions in order, one line each."""

from collections.abc import Iterator, Mapping

from matrix.preflight import docker_checks, host_checks, unit_check
from matrix.preflight.gpu_checks import GPU_CHECKS
from matrix.preflight.gpus import GpusUnknownError, Machine
from matrix.preflight.interconnect import PCIE_CHECKS, SWITCH_CHECKS
from matrix.preflight.question import Asked, DaemonUnknownError, Image, Question, Sources, problem
from repro.model import Preflight, PreflightLine


def preflight(question: Question, sources: Sources) -> Preflight:
    """The host against the plan. Changes nothing and uses no GPU; raises nothing for what it finds."""
    return Preflight(
        target=question.spec.target, runtime=question.runtime, lines=tuple(_lines(_asked(question, sources)))
    )


def _lines(asked: Asked) -> Iterator[PreflightLine]:
    question = asked.question
    yield host_checks.judges(asked)
    if question.runtime == "docker":
        yield docker_checks.daemon(asked)
        if asked.daemon_problem is None:
            if question.spec.hardware.gpu_count:
                yield docker_checks.gpu_access(asked)
            yield from (check(asked) for check in docker_checks.WITH_DAEMON)
    else:
        yield host_checks.engine(asked)
    if question.spec.hardware.gpu_count:
        yield from _gpu_lines(asked)
    yield from (check(asked) for check in host_checks.ALWAYS)
    if question.spec.engine.name != "simulated":
        yield host_checks.model(asked)
    if question.draft_model is not None:
        yield host_checks.draft(asked)
    if question.pause_unit is not None:
        yield unit_check.unit(asked)


def _gpu_lines(asked: Asked) -> Iterator[PreflightLine]:
    hardware, machine = asked.question.spec.hardware, asked.machine
    if machine is None or not machine.gpus:
        told = asked.machine_problem or "the driver finds none"
        yield problem(
            "gpus",
            f"no GPU: {told}; {asked.question.spec.target} needs {hardware.gpu_count} of {hardware.architecture}",
            "run on such a machine; `nvidia-smi` must list its GPUs",
        )
        return
    for check in (*GPU_CHECKS, *(SWITCH_CHECKS if hardware.nvswitch else PCIE_CHECKS)):
        yield check(asked, machine)


def _asked(question: Question, sources: Sources) -> Asked:
    machine, machine_problem = _machine(sources) if question.spec.hardware.gpu_count else (None, None)
    info: Mapping[str, object] = {}
    image: Image | None = None
    daemon_problem = None
    if question.runtime == "docker":
        try:
            info = sources.daemon.info()
            image = sources.daemon.image(question.image) if question.image is not None else None
        except DaemonUnknownError as error:
            daemon_problem = str(error)
    return Asked(
        question=question,
        sources=sources,
        machine=machine,
        machine_problem=machine_problem,
        image=image,
        daemon_problem=daemon_problem,
        daemon=info,
    )


def _machine(sources: Sources) -> tuple[Machine | None, str | None]:
    try:
        return sources.gpus.read(), None
    except GpusUnknownError as error:
        return None, str(error)
