"""Run directories for the report's tests: every state that a run can be in, made from records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from repro import codec
from repro.canonical import sha256_of
from repro.model import (
    AttemptScore,
    Calibration,
    CheckName,
    CheckResult,
    CheckState,
    Component,
    Coordinates,
    Diagnosis,
    Difference,
    Engine,
    Environment,
    EvidenceFile,
    Expectation,
    Fact,
    Forecast,
    LogLine,
    Measurement,
    NullArm,
    PhaseTiming,
    Plan,
    PlanStep,
    Planted,
    PlantedRule,
    Proof,
    Rescoring,
    Result,
    Run,
    SelfTest,
    Signature,
    Skip,
    TokenPlace,
    Vote,
)
from repro.store import create, write_record

SHA = "0" * 64
HOSTILE = (
    "<script>alert(1)</script> | `tick` ``` [link](http://evil.example) @maintainer #12 "
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 bell\x07 nul\x00 cr\rlf\nnext \u202egnp.exe &amp; ]]> --> {{ 7*7 }} \u0085"
)


def fact(value: str | float, status: str = "verified") -> Fact:
    return Fact(value=value, status=status, reason=None)  # type: ignore[arg-type]


def unknown(reason: str = "nvidia-smi is not installed") -> Fact:
    return Fact(value=None, status="unknown", reason=reason)


def coordinates(cell: str) -> Coordinates:
    """From an id such as `cpu-b16t8-eager-nonvls+tp1`."""
    head, _, rest = cell.partition("+")
    _, arm, *graph, nvls = head.split("-")
    budget, _, topk = arm[1:].partition("t")
    return Coordinates(
        budget=0 if arm == "ar" else int(budget),
        topk=int(topk) if topk else 1 if arm[0] == "c" else None,
        shape="none" if arm == "ar" else "chain" if arm[0] == "c" else "tree",
        graph="-".join(graph),  # type: ignore[arg-type]
        nvls=nvls,  # type: ignore[arg-type]
        tier="full",
        engine_source="cpu-ddtree" if head.startswith("cpu") else "pr29907",
        variant={"tp": "1"} if rest == "tp1" else {},
    )


def expectation(where: Coordinates, topk_effective: int | None = None) -> Expectation:
    effective = where.topk if topk_effective is None else topk_effective
    return Expectation(
        algorithm=None if where.shape == "none" else "DDTREE",
        width=where.budget + 1 if where.budget else None,
        topk_requested=where.topk,
        topk_effective=effective,
        window=None if where.shape == "none" or where.engine_source == "cpu-ddtree" else 2048,
        graph=where.graph,
        nvls=where.nvls,
        note=None if effective == where.topk else f"the pull request makes top-k {effective} of {where.topk}",
    )


def number(name: str, value: float | None, unit: str, *, reason: str | None = None, **at: int) -> Measurement:
    return Measurement(
        name=name, at=at, value=value, low=None, high=None, unit=unit, n=20, basis="measured", reason=reason
    )


def check(
    name: CheckName,
    state: CheckState = "pass",
    reason: str | None = None,
    detail: str = "as it should be",
    *,
    measurements: Sequence[Measurement] = (),
    differences: Sequence[Difference] = (),
    histogram: Sequence[int] | None = None,
) -> CheckResult:
    return CheckResult(
        check=name,
        state=state,
        reason=reason,
        detail=detail,
        measurements=tuple(measurements),
        differences=tuple(differences),
        histogram=None if histogram is None else tuple(histogram),
    )


def steps(acceptance: float) -> list[int]:
    """About 1000 verify steps by drafted tokens accepted of eight, as many as that acceptance needs."""
    share = min(1.0, (acceptance - 1) / 8)
    return [round(1000 * comb(8, n) * share**n * (1 - share) ** (8 - n)) for n in range(9)]


def checks(
    acceptance: float | None = 3.37, rate: float = 245.0, lossless: CheckResult | None = None
) -> tuple[CheckResult, ...]:
    """The checks of a launch that is well, with its numbers."""
    found = [
        check("launch", detail="ready after 29.0 s; 60 requests answered", measurements=[number("ready", 29.0, "s")]),
        lossless or check("lossless", detail="20 of 20 outputs equal the reference token by token"),
        check(
            "throughput",
            detail=f"{rate} tok/s at 1, {3 * rate} tok/s at 8",
            measurements=[
                number("output_rate", rate, "tok/s", concurrency=1),
                number("output_rate", 3 * rate, "tok/s", concurrency=8),
            ],
        ),
    ]
    if acceptance is None:
        found.append(check("acceptance", "not_applicable", "no_speculation", "no speculation"))
    else:
        found.append(
            check(
                "acceptance",
                detail=f"{acceptance} tokens a step",
                measurements=[
                    number("acceptance", acceptance, "tokens/step"),
                    number("server_accept_length", acceptance + 0.05, "tokens/step"),
                ],
                histogram=steps(acceptance),
            )
        )
    return tuple(found)


def wrong(detail: str = "1 of 20 outputs equal the reference token by token; 19 outputs are wrong") -> CheckResult:
    difference = Difference(prompt="p07", concurrency=4, at=11, expected=17, got=3, margin=0.42)
    return check("lossless", "fail", "content_wrong", detail, differences=[difference])


def score(
    cell: str, state: str = "sound", attempt: int = 1, *, above: int = 0, text: str | None = None
) -> AttemptScore:
    """A score of 5120 tokens."""
    bad = state == "wrong"
    place = TokenPlace(prompt="p07", check="lossless", concurrency=4, at=11, got=3, gap=8.25)
    return AttemptScore(
        cell=cell,
        attempt=attempt,
        state=state,  # type: ignore[arg-type]
        reason=None if state == "sound" else "tokens_wrong" if bad else "not_scored",
        detail=text or f"{above} of 5120 tokens lie more than 0.5 nats below the reference's choice",
        outputs=20,
        tokens=5120,
        above=above,
        low=0.0042 if bad else 0.0,
        high=0.0088 if bad else 0.0007,
        longest_run=2 if bad else 0,
        largest_gap=8.25 if bad else 0.31,
        p_value=2e-9 if bad else 1.0,
        perplexity=1.84,
        smallest_wrong_concurrency=4 if bad else None,
        places=(place,) if bad else (),
    )


def rescoring(
    *scores: AttemptScore, votes: Sequence[Vote] = (), tests: Sequence[SelfTest] = (), text: str | None = None
) -> Rescoring:
    arm = NullArm(cell="sm_103-ar-eager-nonvls", attempt=1, tokens=5120, above=3)
    return Rescoring(
        reason=None,
        calibration=Calibration(
            dtype=text or "bfloat16",
            exact=False,
            delta=0.5,
            alpha=0.001,
            arms=(arm,),
            tokens=5120,
            largest_gap=0.9,
            visible_share=0.93,
            detection_share=0.0035,
            statement=text or "would see 0.35 % wrong tokens or more with 95 % power",
        ),
        self_tests=tuple(tests)
        or (SelfTest(place="copies", planted="one wrong token in 200", state="caught", detail="25 of 25 found"),),
        scores=scores,
        votes=tuple(votes),
    )


def proof(fact_name: str = "graph_replayed", expected: Any = True, observed: Any = True) -> Proof:
    return Proof(
        fact=fact_name,
        expected=expected,
        observed=observed,
        state="proven" if expected == observed else "contradicted",
        source="cuda_graph_passes_total",
    )


def illegal_access(subsystem: str | None = "attention") -> Diagnosis:
    line = LogLine(
        file="evidence/server.log",
        line=812,
        offset_bytes=90210,
        text="torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
    )
    after = LogLine(file="evidence/server.log", line=840, offset_bytes=95001, text="SIGQUIT received")
    return Diagnosis(
        kind="cuda_illegal_memory_access",
        phase="serving",
        role="root",
        component=Component(kernel="_fwd_kernel", function="extend_attention_fwd", file=None, rank="TP3"),
        confidence="high",
        evidence=(line,),
        follow_ons=(after,),
        signature=Signature(kind="cuda_illegal_memory_access", phase="serving", subsystem=subsystem),
        next_step="run the cell under compute-sanitizer.",
        known=None,
    )


@dataclass(frozen=True)
class Launch:
    """One attempt in short."""

    cell: str
    attempt: int = 1
    outcome: str = "completed"
    detail: str = "the server started, answered and stopped"
    checks: tuple[CheckResult, ...] = field(default_factory=checks)
    proof: tuple[Proof, ...] = ()
    diagnosis: Diagnosis | None = None
    planted: Planted | None = None
    topk_effective: int | None = None
    role: str = "cell"
    explains: int | None = None
    facts: Mapping[str, Fact] = field(default_factory=dict)
    rescoring: Rescoring | None = None
    packages: Mapping[str, str] = field(default_factory=lambda: {"sglang": "0.5.23"})


def result_of(launch: Launch, run: Run) -> Result:
    where = coordinates(launch.cell)
    return Result(
        run_id=run.run_id,
        target=run.target,
        cell=launch.cell,
        coordinates=where,
        role=launch.role,  # type: ignore[arg-type]
        attempt=launch.attempt,
        engine=Engine(
            name="simulated" if run.target == "sim" else "sglang", version="0.5.23", source=where.engine_source
        ),
        planted=launch.planted,
        begun_at="2026-11-30T10:00:00Z",
        ended_at="2026-11-30T10:01:00Z",
        wall_s=60.0,
        outcome=launch.outcome,  # type: ignore[arg-type]
        outcome_detail=launch.detail,
        exit_status=0 if launch.outcome == "completed" else -9,
        phases=(
            PhaseTiming(phase="launch", state="completed", begun_s=0.0, ended_s=20.0),
            PhaseTiming(phase="serving", state="completed", begun_s=29.0, ended_s=None),
        ),
        expectation=expectation(where, launch.topk_effective),
        proof=(*launch.proof, *_unnamed(launch, where)),
        checks=launch.checks,
        diagnosis=launch.diagnosis,
        environment=Environment(facts={**machine(run.target), **launch.facts}, packages=launch.packages),
        evidence=(EvidenceFile(path="evidence/server.log", size_bytes=95100, sha256=SHA),),
        explains=launch.explains,
        rescoring=launch.rescoring,
    )


def _unnamed(launch: Launch, where: Coordinates) -> tuple[Proof, ...]:
    """What a launch that completed has proven, unless it says otherwise."""
    if launch.outcome != "completed":
        return ()
    asked = expectation(where, launch.topk_effective)
    facts = {
        "algorithm": asked.algorithm,
        "graph_replayed": where.graph == "graph",
        "width": asked.width,
        "topk": asked.topk_effective,
    }
    named = {one.fact for one in launch.proof}
    return tuple(proof(name, value, value) for name, value in facts.items() if name not in named)


def machine(target: str) -> dict[str, Fact]:
    """The facts of a machine with everything known."""
    common = {"method_version": fact(1, "declared"), "kernel": fact("6.8.0")}
    if target == "b300":
        return common | {
            "gpu_count": fact(8),
            "gpu_name": fact("NVIDIA B300 SXM6 AC"),
            "gpu_driver": fact("580.95"),
            "cuda_toolkit": fact("13.0"),
            "gpu_max_sm_clock_mhz": fact(1920.0),
            "gpu_power_limit_w": fact(1100.0),
            "engine_commit": fact("9f2c1e7", "declared"),
            "model": fact("moonshotai/Kimi-K2.6", "declared"),
            "model_digest": fact("m1"),
            "draft_model": fact("Kimi-K2.6-DFlash", "declared"),
            "draft_digest": fact("d1"),
            "dtype": fact("bfloat16", "declared"),
            "max_running_requests": fact(128, "declared"),
        }
    return common | {
        "gpu_count": fact(0, "declared"),
        "gpu_name": unknown(),
        "cpu_model": fact("a CPU"),
        "cpu_count": fact(2),
        "engine_commit": fact("release 0.5.23", "declared"),
        "model": fact("graphrepro-tiny-qwen3", "declared"),
        "model_digest": fact("m0"),
        "draft_model": fact("graphrepro-tiny-drafter", "declared"),
        "draft_digest": fact("d0"),
        "dtype": fact("float32", "declared"),
        "max_running_requests": fact(8, "declared"),
    }


def run_record(
    target: str = "cpu", run_id: str = "r1", created_at: str = "2026-11-30T09:00:00Z", **changes: Any
) -> Run:
    record = Run(
        run_id=run_id,
        target=target,
        created_at=created_at,
        tool_version="0.1.0",
        runtime="local",
        depth="screen",
        plan_sha256=SHA,
        planted=(),
        armed_relaunch=False,
    )
    return replace(record, **changes)


def step_of(cell: str, launches: int, planted: Planted | None, role: str = "cell") -> PlanStep:
    where = coordinates(cell)
    return PlanStep(
        cell=cell,
        coordinates=where,
        role=role,  # type: ignore[arg-type]
        engine=Engine(name="sglang", version="0.5.23", source=where.engine_source),
        image=None,
        argv=("{python}", "-m", "sglang.launch_server"),
        environment={},
        checks=(),
        limits=(),
        launches=launches,
        expectation=expectation(where),
        planted=planted,
        forecast_s=60.0,
    )


def write_run(
    root: Path, run: Run, launches: Sequence[Launch], *, planned: Mapping[str, int], skips: Sequence[Skip] = ()
) -> Path:
    """The run's directory; ``planned`` maps each cell of the plan to its launches."""
    faults = {launch.cell: launch.planted for launch in launches if launch.planted is not None}
    plan = Plan(
        target=run.target,
        architecture={"b300": "sm_103", "rtxpro6000": "sm_120"}.get(run.target, run.target),
        depth="screen",
        spec_sha256=SHA,
        prompts_sha256=SHA,
        load_shape="20 prompts x 96 tokens, greedy, concurrency 1,4,8",
        steps=tuple(step_of(cell, count, faults.get(cell)) for cell, count in planned.items()),
        skips=tuple(skips),
        forecast=Forecast(launches=sum(planned.values()), hours=0.1, hours_worst=1.0),
    )
    run = replace(run, plan_sha256=sha256_of(codec.encode(plan)))
    directory = create(root, run, plan)
    for launch in launches:
        folder = directory.attempt(launch.cell, launch.attempt)
        folder.mkdir(parents=True)
        write_record(folder / "result.json", result_of(launch, run))
    return directory.path


def last_launch() -> Rescoring:
    """One cell wrong, one whose first difference was a tie and is sound, one that could not be scored."""
    bad, eager, ar = "sm_103-b32t8-graph-nvls", "sm_103-b32t8-eager-nvls", "sm_103-ar-eager-nonvls"
    return rescoring(
        score(bad, "wrong", above=31),
        score(eager, above=2),
        score("sm_103-b8t4-graph-nvls", above=1),
        score("sm_103-b8t4-graph-nvls", "unknown", 2, text="the server gave no log-probabilities"),
        votes=[Vote(arms=(ar, eager, bad), odd=bad, statement=f"{bad} stands alone; {ar}, {eager} agree")],
    )


def every_state(root: Path) -> Path:
    """A results directory with a run of a GPU target and one of the CPU in which everything happens."""
    floor = check("acceptance", "fail", "acceptance_at_floor", "1.00 tokens a step over 20 requests and 1900 steps")
    tie = check("lossless", "inconclusive", "tie", "19 of 20 outputs equal the reference; the difference lies at a tie")
    graph = (proof(), proof("width", 17, 17))
    eager = "sm_103-b16t8-eager-nvls"
    write_run(
        root,
        run_record("b300", "20261130-b300", runtime="docker"),
        [
            Launch("sm_103-ar-eager-nonvls", checks=checks(None, 141.0), role="reference"),
            Launch("sm_103-b8t4-graph-nvls", checks=checks(4.48, 303.0), proof=(proof(), proof("width", 9, 9))),
            Launch("sm_103-b8t4-graph-nvls", 2, checks=checks(4.51, 299.0), proof=(proof(), proof("width", 9, 9))),
            *(
                Launch(
                    "sm_103-b16t8-graph-nvls",
                    n,
                    "crashed",
                    "ended in serving: cuda_illegal_memory_access",
                    checks=(),
                    diagnosis=illegal_access(None if n == 2 else "attention"),
                )
                for n in (1, 2)
            ),
            Launch("sm_103-b16t8-graph-nvls", 3, checks=checks(5.8, 290.0), proof=graph),
            Launch(eager, checks=checks(5.7, 111.0)),
            Launch(eager, 2, "lost", "contact to the host was lost", checks=()),
            Launch(
                "sm_103-b32t8-graph-nvls", checks=checks(1.2, 400.0, wrong()), proof=(proof(), proof("width", 33, 33))
            ),
            Launch(
                "sm_103-b12t4-graph-nvls",
                1,
                "crashed",
                "ended in serving: cuda_illegal_memory_access",
                checks=(),
                diagnosis=illegal_access(),
            ),
            Launch("sm_103-b12t4-eager-nvls", checks=(*checks(4.9, 105.0)[:3], floor)),
            Launch("sm_103-b8t4-graph-nonvls", proof=(proof(observed=False),), checks=checks(4.4, 120.0)),
            Launch("sm_103-b32t8-eager-nvls", topk_effective=5, checks=checks(6.0, 90.0)),
            Launch("sm_103-c7-graph-nvls", checks=checks(4.0, 280.0, tie), proof=(proof(),)),
            Launch(
                "sm_103-b8t4-graph-nvls+self-test",
                role="self-test",
                planted=Planted(fault="wrong-token", number=200),
                checks=checks(4.4, 290.0, wrong()),
            ),
            Launch(
                "sm_103-ar-eager-nonvls", 2, role="reference-again", checks=checks(None, 140.0), rescoring=last_launch()
            ),
        ],
        planned={
            "sm_103-ar-eager-nonvls": 2,
            "sm_103-b8t4-graph-nvls": 3,
            "sm_103-b8t4-graph-nonvls": 1,
            "sm_103-b12t4-graph-nvls": 1,
            "sm_103-b12t4-eager-nvls": 1,
            "sm_103-b16t8-graph-nvls": 3,
            eager: 2,
            "sm_103-b32t8-graph-nvls": 1,
            "sm_103-b32t8-eager-nvls": 1,
            "sm_103-c7-graph-nvls": 1,
            "sm_103-b16t8-graph-nvls+tp1": 1,
        },
        skips=[
            Skip(cell="sm_103-b16t8-graph-nonvls", state="deselected", reason="not part of depth screen", source=None),
            Skip(cell="sm_103-b32t8-graph-nonvls", state="over_budget", reason="needs 0.20 h more", source=None),
        ],
    )
    cpu = ["cpu-ar-eager-nonvls", "cpu-b8t4-eager-nonvls", "cpu-b16t8-eager-nonvls"]
    write_run(root, run_record("cpu", "20261101-cpu", "2026-11-01T09:00:00Z"), [], planned={cpu[0]: 1})
    write_run(
        root,
        run_record("cpu", "20261130-cpu"),
        [Launch(cell, n, checks=checks(None if "-ar-" in cell else 3.0 + n / 10)) for cell in cpu for n in (1, 2, 3)],
        planned=dict.fromkeys(cpu, 3),
        skips=[
            Skip(
                cell="cpu-b8t4-graph-nonvls",
                state="unsupported",
                reason="a CPU has no CUDA graphs",
                source="matrix/specs/cpu.toml",
            )
        ],
    )
    return root


def planted_run(root: Path) -> Path:
    """One run of the simulated engine with three planted faults, one of which nothing notices."""
    nan, hang, none = (
        Planted(fault=name, number=n) for name, n in (("wrong-token", 200), ("hang", None), ("slow", None))
    )
    cells = ["sim-ar-eager-nonvls", "sim-b8t4-eager-nonvls", "sim-b16t8-eager-nonvls", "sim-b32t8-eager-nonvls"]
    write_run(
        root,
        run_record("sim", "20261130-sim", planted=(PlantedRule(cells="*b8*", fault="wrong-token", number=200),)),
        [
            Launch(cells[0], checks=checks(None)),
            Launch(cells[1], planted=nan, checks=checks(3.4, 500.0, wrong())),
            Launch(cells[2], outcome="hung", detail="hung in serving", planted=hang, checks=()),
            Launch(cells[3], planted=none),
        ],
        planned=dict.fromkeys(cells, 1),
    )
    return root


def hostile_run(root: Path) -> Path:
    """A run whose every free text tries something."""
    cell = "cpu-b8t4-eager-nonvls"
    line = LogLine(file="evidence/server.log", line=1, offset_bytes=0, text=HOSTILE)
    diagnosis = replace(
        illegal_access(HOSTILE),
        evidence=(line,),
        follow_ons=(line,),
        next_step=HOSTILE,
        known=HOSTILE,
        component=Component(kernel=HOSTILE, function=HOSTILE, file=HOSTILE, rank=HOSTILE),
    )
    bad = check(
        "lossless",
        "fail",
        "content_wrong",
        HOSTILE,
        measurements=[number("output_rate", None, HOSTILE, reason=HOSTILE)],
    )
    hostile_proof = Proof(fact="width", expected=HOSTILE, observed=HOSTILE, state="proven", source=HOSTILE)
    facts = {"model": fact(HOSTILE), "gpu_name": unknown(HOSTILE), "other": fact(HOSTILE)}
    write_run(
        root,
        run_record("cpu", "hostile", tool_version=HOSTILE),
        [
            Launch(
                cell,
                outcome="crashed",
                detail=HOSTILE,
                checks=(bad,),
                proof=(hostile_proof,),
                diagnosis=diagnosis,
                facts=facts,
                packages={HOSTILE: HOSTILE},
            ),
            Launch("cpu-b16t8-eager-nonvls", detail=HOSTILE, checks=checks(3.0, 200.0, bad), facts=facts),
            Launch(
                "cpu-ar-eager-nonvls",
                role="reference-again",
                checks=checks(None),
                rescoring=rescoring(
                    score("cpu-b16t8-eager-nonvls", "wrong", above=9, text=HOSTILE),
                    votes=[Vote(arms=("a", "b", "c"), odd=None, statement=HOSTILE)],
                    tests=[SelfTest(place="copies", planted=HOSTILE, state="not_run", detail=HOSTILE)],
                    text=HOSTILE,
                ),
            ),
        ],
        planned={cell: 1, "cpu-b16t8-eager-nonvls": 1},
        skips=[Skip(cell="cpu-b32t8-eager-nonvls", state="unsupported", reason=HOSTILE, source=HOSTILE)],
    )
    return root


@pytest.fixture
def all_states(tmp_path: Path) -> Path:
    return every_state(tmp_path / "results")


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    return planted_run(tmp_path / "planted")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    return hostile_run(tmp_path / "hostile")


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """The makers of this module by name, because test modules cannot import it."""
    return SimpleNamespace(**globals())
