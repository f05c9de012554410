"""The archived account as run directories: a launch for each row of `docs/baselines.md`, and nothing it does not say.

Where a record demands a value that the account does not state, the cell says so: an option of its variant with the name
of an axis and the value `unstated` takes the place of the coordinate; and the fact of the environment is unknown. What
is read between the lines has a check of its own whose words begin with `inferred`. How often a configuration was
launched is not stated: each is one launch.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from repro import baselines
from repro.canonical import sha256_of
from repro.codec import encode
from repro.model import (
    CheckResult,
    Component,
    Coordinates,
    Diagnosis,
    Engine,
    Environment,
    Expectation,
    Fact,
    Forecast,
    Measurement,
    Plan,
    PlanStep,
    Proof,
    Result,
    Run,
    Signature,
    Skip,
)
from repro.store import create, write_record

SOURCE = "stated in the archived account"
PRODUCTION = "inferred: the account calls b8 with graphs the production configuration and tells of no wrong output"
UNSTATED = "not stated in the archived account"

NOT_TESTED = "the account says that it was not tested"
STATED_LATER = "2026-01-01T00:00:00Z"  # the account is of 2026, without a day


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the account. ``record`` is its baseline, whose facts it has."""

    record: str
    budget: int
    topk: int | None
    graph: str | None
    nvls: str | None
    checks: tuple[CheckResult, ...]
    outcome: str = "completed"
    detail: str = "the account tells of its results"
    target: str = "b300"

    @property
    def coordinates(self) -> Coordinates:
        variant = {axis: "unstated" for axis in ("graph", "nvls") if getattr(self, axis) is None}
        return Coordinates(
            budget=self.budget,
            topk=self.topk,
            shape="tree" if self.budget else "none",
            graph=self.graph or "graph",  # type: ignore[arg-type]
            nvls=self.nvls or "nvls",  # type: ignore[arg-type]
            tier="full",
            engine_source="local",
            variant=variant,
        )

    @property
    def cell(self) -> str:
        at = self.coordinates
        arm = f"b{at.budget}" + (f"t{at.topk}" if at.topk else "") if at.budget else "ar"
        head = "sm_103" if self.target == "b300" else "sm_120"
        return f"{head}-{arm}-{at.graph}-{at.nvls}" + "".join(f"+{axis}-unstated" for axis in sorted(at.variant))


def number(name: str, unit: str, value: float | None = None, **more: Any) -> Measurement:
    known = {"low": None, "high": None, "n": None, "basis": "stated", "reason": None} | more
    return Measurement(name=name, at=known.pop("at", {}), value=value, unit=unit, **known)


def rate(value: float, concurrency: int, basis: str = "stated") -> Measurement:
    return number("output_rate", "tok/s", value, at={"concurrency": concurrency}, basis=basis)


def check(name: str, state: str, detail: str, *numbers: Measurement, reason: str | None = None) -> CheckResult:
    return CheckResult(
        check=name,  # type: ignore[arg-type]
        state=state,  # type: ignore[arg-type]
        reason=reason if reason is not None or state == "pass" else "not_stated",
        detail=detail,
        measurements=numbers,
        differences=(),
        histogram=None,
    )


def checks(*stated: CheckResult, content: bool = True) -> tuple[CheckResult, ...]:
    """The checks that the account tells of. It has no comparison of tokens; without ``content`` it does not say either
    whether the text was right."""
    made = {one.check for one in stated}
    lossless = check("lossless", "not_applicable" if content else "not_run", UNSTATED)
    empty = [
        check(name, "not_applicable", UNSTATED) for name in ("launch", "throughput", "acceptance") if name not in made
    ]
    return (*stated, lossless, *empty)


ROWS = (
    Row(
        record="autoregressive",
        budget=0,
        topk=None,
        graph=None,
        nvls=None,
        checks=checks(
            check("throughput", "pass", "303 tok/s over the stated ratio of 2.15", rate(140.9, 1, "derived")),
            content=False,
        ),
    ),
    Row(
        record="nvls_b8t4",
        budget=8,
        topk=4,
        graph="graph",
        nvls="nvls",
        checks=checks(
            check("launch", "pass", "ready after 150 s", number("ready", "s", 150.0)),
            check("throughput", "pass", "303 tok/s at 1, 4723 tok/s at 128", rate(303.0, 1), rate(4723.0, 128)),
            check("coding", "pass", PRODUCTION),
        ),
    ),
    Row(
        record="b8t4_w2048",
        budget=8,
        topk=4,
        graph="graph",
        nvls=None,
        checks=checks(
            check("throughput", "pass", "inferred: b8 with graphs, 285 tok/s at 1", rate(285.0, 1, "inferred")),
            check("coding", "pass", PRODUCTION),
        ),
    ),
    Row(
        record="b8t4_acceptance",
        budget=8,
        topk=4,
        graph=None,
        nvls=None,
        checks=checks(
            check("acceptance", "pass", "4.48 tokens a step", number("acceptance", "tokens/step", 4.48)), content=False
        ),
    ),
    Row(
        record="b16t8_eager",
        budget=16,
        topk=8,
        graph="eager",
        nvls=None,
        checks=checks(
            check("coding", "pass", "5 of 5 coding tasks correct", number("coding_correct", "count", 5.0, n=5)),
            check("throughput", "pass", "111 tok/s at 1", rate(111.0, 1)),
            check(
                "acceptance",
                "pass",
                "5.3 to 6.4 tokens a step",
                number("acceptance", "tokens/step", low=5.3, high=6.4, reason="a range and no single figure is stated"),
            ),
        ),
    ),
    Row(
        record="b12_graph",
        budget=12,
        topk=None,
        graph="graph",
        nvls=None,
        checks=(),
        outcome="crashed",
        detail="illegal memory access",
    ),
    Row(
        record="b16t8_graph",
        budget=16,
        topk=8,
        graph="graph",
        nvls=None,
        checks=(),
        outcome="crashed",
        detail="illegal memory access (cudaErrorIllegalAddress)",
    ),
    Row(
        record="b32t8_graph",
        budget=32,
        topk=8,
        graph="graph",
        nvls=None,
        checks=checks(
            check(
                "coding",
                "fail",
                "0 of 5 coding tasks correct, garbled text",
                number("coding_correct", "count", 0.0, n=5),
                reason="coding_lost",
            ),
            check(
                "acceptance",
                "fail",
                "acceptance exactly 1.00",
                number("acceptance", "tokens/step", 1.0),
                reason="acceptance_at_floor",
            ),
        ),
    ),
    Row(
        record="b32_sm_120",
        budget=32,
        topk=None,
        graph=None,
        nvls="nonvls",
        checks=checks(check("coding", "pass", "worked correctly after the mask fix")),
        target="rtxpro6000",
    ),
)
SKIPS = tuple(
    Skip(cell=f"sm_103-b{budget}-graph-nvls+nvls-unstated", state="deselected", reason=NOT_TESTED, source=None)
    for budget in (14, 20)
)


def build(
    root: Path,
    make: SimpleNamespace,
    *,
    without: Collection[str] = (),
    run_id: str = "account",
    driver: str | None = None,
) -> Path:
    """A results directory with a run for each machine. ``without`` names records that are left out; ``driver`` is one
    that the account does not state."""
    for target in ("b300", "rtxpro6000"):
        rows = [row for row in ROWS if row.target == target and row.record not in without]
        if rows:
            _write(root, make.run_record(target, run_id, STATED_LATER), rows, driver)
    return root


def _write(root: Path, run: Run, rows: list[Row], driver: str | None) -> None:
    plan = Plan(
        target=run.target,
        architecture="sm_103" if run.target == "b300" else "sm_120",
        depth="screen",
        spec_sha256="0" * 64,
        prompts_sha256="0" * 64,
        load_shape=UNSTATED,
        steps=tuple(_step(row) for row in rows),
        skips=SKIPS if run.target == "b300" else (),
        forecast=_forecast(len(rows)),
    )
    run = replace(run, plan_sha256=sha256_of(encode(plan)))
    directory = create(root, run, plan)
    for row in rows:
        folder = directory.attempt(row.cell, 1)
        folder.mkdir(parents=True)
        write_record(folder / "result.json", _result(row, run, driver))


def _forecast(launches: int) -> Forecast:
    return Forecast(launches=launches, hours=0.0, hours_worst=0.0)


def _engine() -> Engine:
    return Engine(name="sglang", version=UNSTATED, source="local")


def _expectation(row: Row) -> Expectation:
    at = row.coordinates
    return Expectation(
        algorithm="DDTREE" if at.budget else None,
        width=at.budget + 1 if at.budget else None,
        topk_requested=at.topk,
        topk_effective=at.topk,
        window=None,
        graph=at.graph,
        nvls=at.nvls,
        note=None,
    )


def _step(row: Row) -> PlanStep:
    return PlanStep(
        cell=row.cell,
        coordinates=row.coordinates,
        role="cell",
        engine=_engine(),
        image=None,
        argv=(UNSTATED,),
        environment={},
        checks=(),
        limits=(),
        launches=1,
        expectation=_expectation(row),
        planted=None,
        forecast_s=0.0,
    )


def _proofs(row: Row) -> tuple[Proof, ...]:
    """What the account states of the configuration. Of a mode that it does not state nothing is expected."""
    expected = _expectation(row)
    replayed = None if row.graph is None else row.graph == "graph"
    facts = {"algorithm": expected.algorithm, "width": expected.width, "topk": row.topk, "graph_replayed": replayed}
    return tuple(
        Proof(fact=name, expected=value, observed=value, state="proven", source=SOURCE) for name, value in facts.items()
    )


def _diagnosis() -> Diagnosis:
    return Diagnosis(
        kind="cuda_illegal_memory_access",
        phase="none",
        role="symptom",
        component=Component(kernel=None, function=None, file=None, rank=None),
        confidence="low",
        evidence=(),
        follow_ons=(),
        signature=Signature(kind="cuda_illegal_memory_access", phase="none", subsystem=None),
        next_step="run the cell again: the account keeps no log.",
        known=None,
    )


def _result(row: Row, run: Run, driver: str | None) -> Result:
    facts = dict(baselines_by_name()[row.record].facts)
    if driver is not None:
        facts["gpu_driver"] = Fact(value=driver, status="verified", reason=None)
    crashed = row.outcome == "crashed"
    return Result(
        run_id=run.run_id,
        target=run.target,
        cell=row.cell,
        coordinates=row.coordinates,
        role="cell",
        attempt=1,
        engine=_engine(),
        planted=None,
        begun_at=STATED_LATER,
        ended_at=STATED_LATER,
        wall_s=0.0,
        outcome=row.outcome,  # type: ignore[arg-type]
        outcome_detail=row.detail,
        exit_status=None,
        phases=(),
        expectation=_expectation(row),
        proof=() if crashed else _proofs(row),
        checks=row.checks,
        diagnosis=_diagnosis() if crashed else None,
        environment=Environment(facts=facts, packages={}),
        evidence=(),
        explains=None,
        rescoring=None,
    )


def baselines_by_name() -> dict[str, Any]:
    return {baseline.name: baseline for baseline in baselines.load()}
