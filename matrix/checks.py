"""Which checks a step makes, how much it sends for each, and why one does not apply."""

from dataclasses import replace

from matrix.coding.tasks import built_in_tasks
from matrix.spec import Spec
from repro.model import CheckName, CheckPlan, Coordinates, Depth, Role

_WITHOUT_REQUESTS_S = 60.0
_OF_A_SELF_TEST: frozenset[CheckName] = frozenset({"launch", "lossless", "acceptance"})


def plan_checks(
    spec: Spec, coordinates: Coordinates, role: Role, depth: Depth, with_references: bool, *, peer: bool = False
) -> tuple[CheckPlan, ...]:
    """The checks of a step in the order in which they are made; those that this spec rules out say so. ``peer``: the
    engine's own load generator measures too."""
    load = spec.load
    no_reference = None if with_references else "no reference arm was asked for"
    plans = [
        _plan(spec, "launch", prompts=0),
        _plan(
            spec,
            "lossless",
            prompts=load.count,
            concurrency=(1,),
            margins=role == "reference",
            why_not=no_reference,
            always_sent=True,
        ),
        _plan(
            spec,
            "acceptance",
            prompts=0,
            why_not="no speculation" if coordinates.shape == "none" else None,
        ),
        _throughput(spec, depth, peer=peer),
        _under_load(spec, depth, no_reference),
        _plan(spec, "power", prompts=0, why_not=None if spec.hardware.gpu_count else "this machine has no GPU"),
    ]
    plans.append(_coding(spec))
    if role == "self-test":
        return tuple(plan for plan in plans if plan.check in _OF_A_SELF_TEST)
    if role == "reference-again":
        plans.append(_rescoring(spec, no_reference))
    return tuple(plans)


def _rescoring(spec: Spec, no_reference: str | None) -> CheckPlan:
    """What it reads is known only when the other launches have ended; ``prompts`` says that there is something."""
    why_not = spec.checks.get("lossless") or no_reference
    plan = _plan(spec, "rescoring", prompts=spec.load.count, concurrency=(1,), why_not=why_not)
    limit_s = spec.limits.get("rescoring", 2 * spec.limits["lossless"])
    return replace(plan, tie_margin=spec.load.tie_margin, limit_s=float(limit_s))


def _throughput(spec: Spec, depth: Depth, *, peer: bool) -> CheckPlan:
    levels = spec.depths[depth].concurrency or spec.load.concurrency
    plan = _plan(spec, "throughput", prompts=_round_prompts(spec), concurrency=levels)
    if not peer or not plan.applicable:
        return replace(plan, repeats=spec.load.repeats)
    return replace(plan, repeats=spec.load.repeats, peer="sglang.bench_serving", limit_s=2 * plan.limit_s)


def _under_load(spec: Spec, depth: Depth, no_reference: str | None) -> CheckPlan:
    levels = spec.depths[depth].under_load or spec.load.under_load
    why_not = no_reference if levels else "the spec names no concurrencies for it"
    plan = _plan(spec, "load", prompts=_round_prompts(spec), concurrency=tuple(sorted(levels)), why_not=why_not)
    limit_s = spec.limits.get("load", spec.limits["throughput"])
    return replace(plan, cancel_every=spec.load.cancel_every, tie_margin=spec.load.tie_margin, limit_s=float(limit_s))


def _coding(spec: Spec) -> CheckPlan:
    """All tasks at once."""
    tasks = len(built_in_tasks())
    plan = _plan(spec, "coding", prompts=tasks, concurrency=(tasks,))
    limit_s = spec.limits.get("coding", spec.limits["lossless"])
    return replace(plan, max_new_tokens=spec.coding.max_new_tokens, limit_s=float(limit_s))


def _round_prompts(spec: Spec) -> int:
    return min(spec.load.round_prompts or spec.load.count, spec.load.count)


def _plan(
    spec: Spec,
    check: CheckName,
    *,
    prompts: int,
    concurrency: tuple[int, ...] = (),
    margins: bool = False,
    why_not: str | None = None,
    always_sent: bool = False,
) -> CheckPlan:
    """``always_sent``: the requests serve other checks too, so they are sent even where this one does not apply."""
    reason = spec.checks.get(check) or why_not
    sends = prompts if concurrency and (reason is None or always_sent) else 0
    return CheckPlan(
        check=check,
        applicable=reason is None,
        reason=reason,
        prompts=sends,
        max_new_tokens=spec.load.max_new_tokens,
        concurrency=concurrency,
        margins=margins,
        tie_margin=spec.load.tie_margin if check == "lossless" else None,
        repeats=None,
        cancel_every=None,
        peer=None,
        limit_s=float(spec.limits.get(check, _WITHOUT_REQUESTS_S)),
    )
