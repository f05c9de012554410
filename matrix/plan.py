"""Cells -> plan: which launches, in which order, with which argv and checks. Pure after its inputs are read."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from matrix import arguments
from matrix.cell import cell_id
from matrix.checks import plan_checks
from matrix.expand import SpecCell, expand, reference_cell
from matrix.faults import PlantedFaults
from matrix.promptset import load_prompts
from matrix.selector import matcher
from matrix.spec import ForecastSpec, ReferenceSpec, Spec
from repro import canonical
from repro.errors import NothingToRunError, SpecError
from repro.model import (
    CellList,
    CheckPlan,
    Coordinates,
    Depth,
    Forecast,
    Graph,
    ListedCell,
    Nvls,
    Phase,
    PhaseLimit,
    Plan,
    PlanStep,
    PlantedRule,
    Prompt,
    Role,
    Skip,
    Tier,
)

_DEPTHS: tuple[Depth, ...] = ("screen", "rates", "full")
PEER_LEVEL_S = 30.0
"""What the engine's own load generator is expected to take for a level, most of it for its imports."""
_PHASES: tuple[Phase, ...] = ("launch", "weights_load", "graph_capture", "warmup", "shutdown")


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanOptions:
    """What a user may ask of a plan. ``failing`` holds the cells that an earlier run saw fail: depth `rates` repeats
    them and their neighbours."""

    select: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    tier: Tier | None = None
    depth: Depth = "screen"
    launches: int | None = None
    hours: float | None = None
    references: bool = True
    planted: tuple[PlantedRule, ...] = ()
    failing: frozenset[str] = frozenset()
    image: str | None = None
    bench_serving: bool = False


def list_cells(spec: Spec, engines: arguments.EngineChoice) -> CellList:
    """Every cell of the spec that no rule excludes, with the reason and the source for those that cannot run."""
    listed = []
    for entry in expand(spec):
        if entry.excluded:
            continue
        unsupported = _unsupported(entry, spec, engines)
        listed.append(
            ListedCell(
                id=entry.cell.id,
                coordinates=entry.cell.coordinates,
                state="unsupported" if unsupported else "planned",
                reason=unsupported.reason if unsupported else None,
                source=unsupported.source if unsupported else None,
            )
        )
    return CellList(target=spec.target, cells=tuple(listed))


def make_plan(spec: Spec, options: PlanOptions, engines: arguments.EngineChoice) -> Plan:
    """The ordered steps, the skips with their reasons, and a forecast.

    Order: the reference, the cells, the reference again. Raises SpecError for what is wrong in the spec or the options,
    and NothingToRunError if no step is left.
    """
    spec = spec.of_tier(options.tier)
    prompts = load_prompts(spec.load.prompts, spec.load.count)
    entries = expand(spec)
    chosen, skips = _choose(spec, entries, options, engines)
    faults = PlantedFaults(options.planted, spec)
    launches = options.launches or spec.depths[options.depth].launches
    reference = reference_cell(spec)
    around = next(entry for entry in entries if entry.cell.id == reference.id)
    with_references = options.references
    if with_references and chosen:
        _demand_runnable(around, spec, engines)
    maker = _StepMaker(spec=spec, options=options, engines=engines, faults=faults, with_references=with_references)
    steps = [
        maker.make(entry, entry.role, launches)
        for entry in chosen
        if not with_references or entry.cell.id != reference.id
    ]
    if with_references and chosen:
        steps = [
            maker.make(around, "reference", 1),
            *steps,
            *maker.self_test(chosen),
            maker.make(around, "reference-again", 1),
        ]
        skips = [skip for skip in skips if skip.cell != reference.id]
        skips = [skip for skip in skips if skip.cell != reference.id]
    faults.demand_all_used()
    steps, over = _within(steps, options.hours)
    if not steps:
        raise NothingToRunError(_nothing(spec, options, entries, [*skips, *over]))
    return Plan(
        target=spec.target,
        architecture=spec.hardware.architecture,
        depth=options.depth,
        spec_sha256=spec.sha256,
        prompts_sha256=_digest(prompts),
        load_shape=_load_shape(spec, options.depth),
        steps=tuple(steps),
        skips=tuple(sorted([*skips, *over], key=lambda skip: (skip.state, skip.cell))),
        forecast=forecast(steps),
    )


def forecast(steps: Sequence[PlanStep]) -> Forecast:
    """Expected hours, and hours if every phase and check of every launch ran into its limit."""
    expected_s = sum(step.forecast_s * step.launches for step in steps)
    worst_s = sum(step.launches * (_limits_s(step.limits) + _checks_s(step.checks)) for step in steps)
    return Forecast(
        launches=sum(step.launches for step in steps),
        hours=round(expected_s / 3600, 3),
        hours_worst=round(worst_s / 3600, 3),
    )


def _choose(
    spec: Spec, entries: Sequence[SpecCell], options: PlanOptions, engines: arguments.EngineChoice
) -> tuple[list[SpecCell], list[Skip]]:
    """What is to run of the spec's cells, with the eager arms that a comparison needs; and why the others are not."""
    selected = matcher(options.select or ("*",))
    dropped = matcher(options.skip)
    wanted = _wanted(spec, entries, options)
    _demand_all_match(spec, entries, options)
    chosen: dict[str, SpecCell] = {}
    skips: dict[str, Skip] = {}
    for entry in entries:
        cell = entry.cell.id
        why = None
        if entry.excluded:
            why = Skip(cell=cell, state="deselected", reason=entry.excluded.reason, source=entry.excluded.source)
        elif (unsupported := _unsupported(entry, spec, engines)) is not None:
            why = Skip(cell=cell, state="unsupported", reason=unsupported.reason, source=unsupported.source)
        elif not selected(cell) or dropped(cell):
            why = Skip(cell=cell, state="deselected", reason="not selected on the command line", source=None)
        elif options.tier is not None and entry.cell.coordinates.tier != options.tier:
            why = Skip(cell=cell, state="deselected", reason=f"not of tier {options.tier}", source=None)
        elif cell not in wanted:
            reason = f"not part of depth {options.depth}: {wanted.get(None, 'it comes with a deeper plan')}"
            why = Skip(cell=cell, state="deselected", reason=reason, source=None)
        if why is None:
            chosen[cell] = entry
        else:
            skips[cell] = why
    if options.references:
        for entry in _eager_arms(entries, chosen.values()):
            cell = entry.cell.id
            if cell in skips and skips[cell].state == "deselected" and not entry.excluded and not dropped(cell):
                del skips[cell]
                chosen[cell] = entry
    return [entry for entry in entries if entry.cell.id in chosen], list(skips.values())


def _demand_all_match(spec: Spec, entries: Sequence[SpecCell], options: PlanOptions) -> None:
    """Raises SpecError for a glob that matches no cell beside globs that do: it is a typing error. Where none of those
    of `--select` matches, nothing is left to run, and the plan says that."""
    ids = [entry.cell.id for entry in entries]
    for option, patterns in (("--select", options.select), ("--skip", options.skip)):
        idle = [pattern for pattern in patterns if not any(map(matcher((pattern,)), ids))]
        if idle and (option == "--skip" or len(idle) < len(patterns)):
            raise SpecError(
                f"{option} {idle[0]!r} matches no cell of {spec.target}; `python -m matrix list` with the same --spec "
                "shows the ids"
            )


def _wanted(spec: Spec, entries: Sequence[SpecCell], options: PlanOptions) -> Mapping[str | None, str]:
    """The ids that belong to the depth; under the key None, what a skip says of the others."""
    if options.depth != "rates":
        reached = _DEPTHS.index(options.depth)
        return {entry.cell.id: "" for entry in entries if _DEPTHS.index(entry.depth) <= reached}
    near: dict[str | None, str] = dict.fromkeys(_near_failures(spec, entries, options.failing), "")
    return {**near, None: "it neither failed in the latest run nor stands beside a cell that did"}


def _near_failures(spec: Spec, entries: Sequence[SpecCell], failing: frozenset[str]) -> frozenset[str]:
    """The failing cells, and those that differ from one by one step on one axis of the matrix and in nothing else."""
    arms = [arguments.arm_of(budget) for budget in spec.axes.budget]
    places = {arm: place for place, arm in enumerate(arms)}
    by_key = {_key(entry.cell.coordinates): entry.cell.id for entry in entries}
    near = {entry.cell.id for entry in entries if entry.cell.id in failing}
    for entry in entries:
        if entry.cell.id not in failing:
            continue
        c = entry.cell.coordinates
        place = places.get((c.budget, c.topk, c.shape))
        beside = [arms[p] for p in (place - 1, place + 1) if 0 <= p < len(arms)] if place is not None else []
        keys = [
            *(_key(replace(c, budget=budget, topk=topk, shape=shape)) for budget, topk, shape in beside),
            *(_key(replace(c, graph=graph)) for graph in get_args(Graph)),
            *(_key(replace(c, nvls=nvls)) for nvls in get_args(Nvls)),
        ]
        near.update(by_key[key] for key in keys if key in by_key)
    return frozenset(near)


def _key(coordinates: Coordinates) -> tuple[object, ...]:
    """The coordinates as a key of a dict."""
    c = coordinates
    return c.budget, c.topk, c.shape, c.graph, c.nvls, c.tier, c.engine_source, tuple(sorted(c.variant.items()))


def _eager_arms(entries: Sequence[SpecCell], chosen: Iterable[SpecCell]) -> list[SpecCell]:
    """The eager cell beside each chosen cell that uses graphs, where the spec has one."""

    eager = {_key(e.cell.coordinates): e for e in entries if e.cell.coordinates.graph == "eager"}
    needed = [_key(replace(e.cell.coordinates, graph="eager")) for e in chosen if e.cell.coordinates.graph != "eager"]
    return [eager[k] for k in needed if k in eager]


@dataclass(frozen=True, kw_only=True, slots=True)
class _StepMaker:
    """What all steps of a plan share."""

    spec: Spec
    options: PlanOptions
    engines: arguments.EngineChoice
    faults: PlantedFaults
    with_references: bool

    def make(self, entry: SpecCell, role: Role, launches: int) -> PlanStep:
        spec, coordinates = self.spec, entry.cell.coordinates
        launch = self.engines.resolve(spec, entry.cell)
        planted, fault_environment = self.faults.for_cell(entry.cell.id)
        checks = plan_checks(
            spec, coordinates, role, self.options.depth, self.with_references, peer=self.options.bench_serving
        )
        return PlanStep(
            cell=entry.cell.id,
            coordinates=coordinates,
            role=role,
            engine=self.engines.engine(spec, coordinates),
            image=self.options.image,
            argv=launch.argv,
            environment={**launch.environment, **fault_environment},
            checks=checks,
            limits=tuple(PhaseLimit(phase=phase, limit_s=float(spec.limits[phase])) for phase in _PHASES),
            launches=launches,
            expectation=launch.expectation,
            planted=planted,
            forecast_s=_forecast_s(spec, checks),
        )

    def self_test(self, chosen: Sequence[SpecCell]) -> list[PlanStep]:
        """The launch with a fault that has to be found, if the spec has one and the cell that it spoils is run."""
        wanted = self.spec.self_test
        if wanted is None:
            return []
        rule = PlantedRule(cells="*", fault=wanted.fault, number=wanted.number)
        arm = arguments.arm_of(wanted.budget)
        base = next(
            (entry for entry in chosen if _spoiled(entry.cell.coordinates, arm, self.spec.reference)),
            None,
        )
        if base is None:
            return []
        step = replace(self, faults=PlantedFaults((rule,), self.spec)).make(base, "self-test", 1)
        coordinates = replace(
            step.coordinates, variant={**step.coordinates.variant, "selftest": wanted.fault.replace("-", ".")}
        )
        cell = cell_id(coordinates, self.spec.cell_defaults)
        return [replace(step, cell=cell, coordinates=coordinates)]


def _spoiled(c: Coordinates, arm: tuple[int, int | None, str], reference: ReferenceSpec) -> bool:
    """Whether this is the plain cell of that arm, run as the reference is."""
    return (
        (c.budget, c.topk, c.shape) == arm and (c.graph, c.nvls) == (reference.graph, reference.nvls) and not c.variant
    )


def _forecast_s(spec: Spec, checks: Sequence[CheckPlan]) -> float:
    expected = spec.forecast
    total = expected.ready_s + expected.stop_s
    for check in checks:
        if check.prompts:
            rounds = 1 if check.check in {"lossless", "rescoring"} else 0
            total += expected.round_s * (rounds + check.margins)
            total += len(check.concurrency) * _level_s(expected, check)
    return total


def _level_s(expected: ForecastSpec, check: CheckPlan) -> float:
    """One level of the check; a warm-up round sends about half as much as one that counts."""
    if check.check == "load":
        return expected.load_s or expected.level_s
    if check.check == "coding":
        return expected.coding_s or expected.round_s
    if check.check != "throughput":
        return 0.0
    rounds = check.repeats.at_least + check.repeats.warm_up / 2 if check.repeats else 1.0
    return expected.level_s * rounds + (PEER_LEVEL_S if check.peer else 0.0)


def _within(steps: list[PlanStep], hours: float | None) -> tuple[list[PlanStep], list[Skip]]:
    """As many steps, in order, as fit into the hours; the references at both ends are counted first."""
    if hours is None:
        return steps, []
    fixed = [step for step in steps if step.role in {"reference", "self-test", "reference-again"}]
    left_s = hours * 3600 - sum(step.forecast_s for step in fixed)
    kept, over = [], []
    for step in steps:
        needed_s = 0.0 if step in fixed else step.forecast_s * step.launches
        if needed_s <= left_s:
            left_s -= needed_s
            kept.append(step)
        else:
            reason = f"needs {needed_s / 3600:.2f} h more than the {hours:g} h asked for"
            over.append(Skip(cell=step.cell, state="over_budget", reason=reason, source=None))
    return ([], over) if len(kept) == len(fixed) and over else (kept, over)


def _unsupported(entry: SpecCell, spec: Spec, engines: arguments.EngineChoice) -> arguments.Unsupported | None:
    if entry.unsupported:
        return arguments.Unsupported(reason=entry.unsupported.reason, source=entry.unsupported.source)
    try:
        problems = engines.resolve(spec, entry.cell).problems
    except SpecError as problem:
        raise SpecError(f"spec {spec.origin}: cell {entry.cell.id}: {problem}") from problem
    if not problems:
        return None
    return arguments.Unsupported(reason="; ".join(p.reason for p in problems), source=problems[0].source)


def _demand_runnable(reference: SpecCell, spec: Spec, engines: arguments.EngineChoice) -> None:
    """Without its reference a plan would compare nothing, and every cell would pass."""
    excluded, unsupported = reference.excluded, _unsupported(reference, spec, engines)
    if excluded or unsupported:
        why = excluded.reason if excluded else unsupported.reason if unsupported else ""
        raise SpecError(
            f"spec {spec.origin}: /reference: its cell {reference.cell.id} cannot run ({why}): choose another "
            "reference, or give --no-references"
        )


def _nothing(spec: Spec, options: PlanOptions, entries: Sequence[SpecCell], skips: Sequence[Skip]) -> str:
    if options.depth == "rates" and not options.failing:
        return f"nothing to repeat: the latest finished run of {spec.target} saw no cell fail (try --depth full)"
    counts = Counter({skip.cell: skip.state.replace("_", " ") for skip in skips}.values())
    told = ", ".join(f"{n} {state}" for state, n in sorted(counts.items()))
    return (
        f"nothing selected: none of the {len(entries)} cells of {spec.target} is left ({told}); "
        "`python -m matrix list` with the same --spec shows the ids and reasons"
    )


def _load_shape(spec: Spec, depth: Depth) -> str:
    levels = spec.depths[depth].concurrency or spec.load.concurrency
    ladder = ",".join(str(level) for level in levels)
    shape = f"{spec.load.count} prompts x {spec.load.max_new_tokens} tokens, greedy, concurrency {ladder}"
    rounds = spec.load.round_prompts
    return shape if rounds is None else f"{shape}, rounds of {rounds} prompts"


def _digest(prompts: tuple[Prompt, ...]) -> str:
    return canonical.sha256_of([[p.id, p.text, list(p.input_ids) if p.input_ids else None] for p in prompts])


def _limits_s(limits: Sequence[PhaseLimit]) -> float:
    return sum(limit.limit_s for limit in limits)


def _checks_s(checks: Sequence[CheckPlan]) -> float:
    return sum(check.limit_s for check in checks if check.prompts)
