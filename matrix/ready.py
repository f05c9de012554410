"""From options to what `run` needs: the runtime, the engine that was looked at, and the plan for that engine."""

import argparse
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from matrix.arguments import EngineChoice
from matrix.expand import expand
from matrix.plan import PlanOptions, make_plan
from matrix.promptset import payload_dir
from matrix.resolve import stop_ladder
from matrix.runtimes.choice import Chosen, choose_runtime
from matrix.spec import Spec
from repro.errors import NothingToRunError, SpecError, UnavailableError
from repro.model import Plan


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """``engines`` knows what was found in the images or the environment; ``plan`` names each step's image."""

    chosen: Chosen
    engines: EngineChoice
    plan: Plan


def make_ready(
    options: argparse.Namespace,
    spec: Spec,
    plan_options: PlanOptions,
    engines: EngineChoice,
    say: Callable[[str], None],
) -> Ready:
    """Find, pull or build what the plan's steps run in, and leave out the cells whose flags the engine lacks.

    Raises SpecError and NothingToRunError as a plan does, UnavailableError if there is no such engine, or if it cannot
    run on the target.
    """
    plan = make_plan(spec, plan_options, engines)  # what is wrong in the options is said before gigabytes are pulled
    stop = stop_ladder(spec)
    chosen = choose_runtime(
        options,
        spec,
        engines.deployment(spec),
        sources={step.coordinates.engine_source for step in plan.steps},
        payload=payload_dir(),
        grace_s=spec.limits["shutdown"] + stop.dump_s + stop.int_s + stop.term_s + stop.kill_s + 10,
        environment=os.environ,
        say=say,
    )
    if chosen.probed:
        engines = engines.with_probed(chosen.probed)
        before, plan = plan, _plan_for(engines, spec, plan_options)
        lost = [skip for skip in plan.skips if skip.state == "unsupported" and skip not in before.skips]
        for reason in sorted({skip.reason for skip in lost}):
            say(f"unsupported: {reason}: {', '.join(skip.cell for skip in lost if skip.reason == reason)}")
    steps = tuple(replace(step, image=chosen.images.get(step.coordinates.engine_source)) for step in plan.steps)
    return Ready(chosen=chosen, engines=engines, plan=replace(plan, steps=steps))


def _plan_for(engines: EngineChoice, spec: Spec, plan_options: PlanOptions) -> Plan:
    """Raises UnavailableError if the engine that was found can run none of the cells."""
    try:
        return make_plan(spec, plan_options, engines)
    except (NothingToRunError, SpecError) as problem:
        reasons = Counter(_missing(engines, spec))
        if not reasons:
            raise
        _, where = next(iter(engines.probed.values()))
        raise UnavailableError(
            f"{where}: {reasons.most_common(1)[0][0]}, and without such flags nothing is left to run: give the engine "
            "that the spec is for, or describe yours with --engine-overlay FILE"
        ) from problem


def _missing(engines: EngineChoice, spec: Spec) -> Iterator[str]:
    """Why the engine cannot run the spec's cells, a reason for each cell and flag."""
    places = {where for _, where in engines.probed.values()}
    for entry in expand(spec):
        if not (entry.excluded or entry.unsupported):
            problems = engines.resolve(spec, entry.cell).problems
            yield from (problem.reason for problem in problems if problem.source in places)
