"""Plan step -> `step.json`: every placeholder filled in, for one attempt on one machine."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from matrix import armed
from matrix.coding.tasks import built_in_tasks
from matrix.engines.readiness import phase_marks
from matrix.spec import Spec, script_file
from repro.errors import SpecError
from repro.model import CheckPlan, PlanStep, Prompt, Step, StopLadder, Text

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_TERM_S, _KILL_S, _DUMP_S = 20.0, 10.0, 30.0


def resolve_step(
    step: PlanStep,
    *,
    run_id: str,
    target: str,
    attempt: int,
    port: int,
    prompts: tuple[Prompt, ...],
    placeholders: Mapping[str, str],
    spec: Spec,
    release: str,
    explains: int | None = None,
    texts: tuple[Text, ...] = (),
) -> Step:
    """The step as the attempt program reads it; ``release`` decides by which log lines phases begin.

    Raises SpecError for a placeholder that nothing fills."""
    values = {**placeholders, "port": str(port), "attempt": str(attempt), "script": script_path(spec, placeholders)}
    stop = stop_ladder(spec)
    if explains is not None:
        stop = armed.ladder(stop, step, gpus=spec.hardware.gpu_count)
    return Step(
        run_id=run_id,
        target=target,
        cell=step.cell,
        attempt=attempt,
        argv=tuple(_filled(word, values) for word in step.argv),
        environment={name: _filled(text, values) for name, text in step.environment.items()},
        host="127.0.0.1",
        port=port,
        checks=tuple(_as_sent(check) for check in step.checks),
        prompts=prompts,
        tasks=_tasks(step),
        chat=dict(spec.deployment.chat.template_options),
        texts=texts,
        limits=step.limits,
        marks=phase_marks(release),
        stop=stop,
        planted=step.planted,
        explains=explains,
    )


def _tasks(step: PlanStep) -> tuple[Prompt, ...]:
    return tuple(task.question for task in built_in_tasks()) if asks_tasks(step) else ()


def asks_tasks(step: PlanStep) -> bool:
    """Whether the step sends the coding tasks."""
    return any(check.check == "coding" and check.applicable and check.prompts for check in step.checks)


def _as_sent(check: CheckPlan) -> CheckPlan:
    """A check that is not judged may send requests that others are judged by: to the attempt it is one like them."""
    return replace(check, applicable=True, reason=None) if check.prompts else check


def stop_ladder(spec: Spec) -> StopLadder:
    """A healthy SGLang drains and ends within seconds of SIGTERM; what is left then is killed.

    One that hangs in a request never drains, so SIGINT, which it treats as SIGTERM, and SIGTERM share the time.
    """
    term_s = float(spec.limits.get("stop", _TERM_S))
    return StopLadder(dump_s=_DUMP_S, dump_signal=None, int_s=term_s / 2, term_s=term_s, kill_s=_KILL_S)


def script_path(spec: Spec, placeholders: Mapping[str, str]) -> str:
    """The simulated engine's script: a built-in name, or a path as seen from here. Empty for other engines."""
    script = spec.engine.script
    return "" if script is None else str(script_file(script, Path(placeholders["payload"])))


def _filled(text: str, values: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found[1] not in values:
            raise SpecError(f"{text!r}: nothing fills the placeholder {found[0]}")
        return values[found[1]]

    filled = _PLACEHOLDER.sub(value, text)
    return _PLACEHOLDER.sub(value, filled) if _PLACEHOLDER.search(filled) else filled
