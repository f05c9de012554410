"""A run from the first launch to its exit code, on a runtime that plays outcomes instead of starting anything."""

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pytest

from matrix import summary
from matrix.arguments import EngineChoice
from matrix.failing import failing_cells
from matrix.plan import PlanOptions, make_plan
from matrix.preflight.health import Health, NoGpus
from matrix.promptset import load_prompts
from matrix.run import Finished, Job, Outside, execute
from matrix.runtimes.protocol import AttemptOrder, Ended
from matrix.spec import load_spec
from repro import codec, store
from repro.errors import InterruptedRunError, NothingToRunError, RecordError, UnavailableError
from repro.model import GpuHealth, PlanStep, PlantedRule, Result, Step, Verdict
from repro.verdict import cell_verdict

SPEC = load_spec("sim")


class Quiet:
    def begin(self, **_: Any) -> None: ...
    def attempt(self, step: PlanStep, number: int) -> None: ...
    def phase(self, phase: str) -> None: ...
    def ended(self, result: Result, verdict: Verdict) -> None: ...
    def note(self, text: str) -> None: ...
    def close(self) -> None: ...


@dataclass
class Played:
    """How an attempt ends: its launcher's log and status; None for a program that could not start a server."""

    log: str = ""
    status: int | None = 1
    interrupted: bool = False
    by_us: bool = True


CRASH = Played("RuntimeError: CUDA error: an illegal memory access was encountered\n", -9)
REFUSED = Played("error: unrecognized arguments: --x\n", 2)
KILLED = Played("scheduler crashed with exit code -9\n", -9)
TAKEN = Played(status=None)
INTERRUPTED = Played(interrupted=True)
ENDED_BY_SOMEBODY = Played(interrupted=True, by_us=False)


@dataclass
class PlayingRuntime:
    """A runtime whose attempts end as they are told, by cell; the last of a cell's list holds for the rest."""

    plays: Mapping[str, list[Played]] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)
    reaped: list[str] = field(default_factory=list)
    name: Literal["local", "docker", "slurm"] = "local"
    on_owner_death: Literal["reap", "adopt"] = "reap"

    def placeholders(self) -> Mapping[str, str]:
        return {"python": "/python", "payload": "/payload"}

    def environment(self, image: str | None) -> Mapping[str, str]:
        return {}

    def reap_leftovers(self, prefix: str) -> int:
        self.reaped.append(prefix)
        return 0

    @contextlib.contextmanager
    def start(self, order: AttemptOrder) -> Iterator["PlayedHandle"]:
        step = codec.read(order.directory / "step.json", Step)
        assert not any(mark in word for word in step.argv for mark in "{}"), "a placeholder was left"
        assert step.environment["GRAPHREPRO_LABEL"] == order.label
        self.started.append(step.cell)
        plays = self.plays.get(step.cell, [CRASH])
        play = plays[min(self.started.count(step.cell), len(plays)) - 1]
        _play(order.directory / "evidence", play)
        yield PlayedHandle()


class PlayedHandle:
    def wait(self, timeout_s: float) -> Ended | None:
        return Ended(status=0, detail="")

    def stop(self) -> None: ...
    def kill(self) -> None: ...


def _play(evidence: Path, play: Played) -> None:
    (evidence / "checks").mkdir(parents=True)
    (evidence / "server.log").write_text(play.log)
    events: list[dict[str, Any]] = [{"event": "attempt-begun"}]
    if play.interrupted:
        if play.by_us:  # as a Ctrl-C in the middle of the attempt
            os.kill(os.getpid(), signal.SIGINT)
        events += [{"event": "interrupted", "detail": "SIGINT"}]
    elif play.status is None:
        events += [{"event": "port-taken", "detail": "port 1: Address already in use"}]
    else:
        events += [{"event": "phase-begun", "phase": "launch"}, {"event": "server-exited", "status": play.status}]
    lines = [
        {
            "record": "timeline-entry",
            "schema_version": 2,
            "at_s": float(n),
            "at": "2026-01-01T00:00:00Z",
            **dict.fromkeys(("phase", "check", "status", "detail")),
            **event,
        }
        for n, event in enumerate([*events, {"event": "attempt-ended"}])
    ]
    (evidence / "timeline.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@dataclass
class Bench:
    """Each run on it begins a minute after the one before."""

    results: Path
    minutes: int = 0
    health: Health = field(default_factory=NoGpus)

    def run(self, plays: Mapping[str, list[Played]] | None = None, **options: Any) -> tuple[Finished, PlayingRuntime]:
        self.runtime = runtime = PlayingRuntime(plays or {})
        self.minutes += 1
        engines = EngineChoice()
        job = Job(
            spec=SPEC,
            plan=make_plan(SPEC, PlanOptions(**{"select": ("*c7-eager*",), **options}), engines),
            prompts=load_prompts(SPEC.load.prompts, SPEC.load.count),
            planted=options.get("planted", ()),
            engines=engines,
            declared={},
            port=0,
        )
        outside = Outside(
            runtime=runtime,
            now=lambda: datetime(2026, 1, 1, 0, self.minutes, tzinfo=UTC),
            progress=Quiet(),
            tool_version="0",
            free_port=lambda: 31000,
            health=self.health,
        )
        return execute(job, self.results, outside), runtime


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "results")


AR, C7 = "sim-ar-eager-nonvls", "sim-c7-eager-nvls"
ALL_CRASH = {"sim-ar-eager-nonvls": [CRASH], C7: [CRASH]}


def code(finished: Finished) -> int:
    return summary.exit_code(summary.cell_verdicts(finished.results, finished.verdicts))


# --- exit codes -------------------------------------------------------------------------------------------------------


def cells(*names: str) -> tuple[summary.CellVerdict, ...]:
    verdicts = [
        Verdict(run_id="r", cell=f"c{n}", attempt=1, verdict=name, reasons=(), statement="s")  # type: ignore[arg-type]
        for n, name in enumerate(names)
    ]
    return tuple(cell_verdict(verdict.cell, [verdict]) for verdict in verdicts)


@pytest.mark.parametrize(
    ("names", "status"),
    [
        (("pass", "pass"), 0),
        (("pass", "unsupported"), 0),
        (("unsupported",), 0),
        (("pass", "fail"), 1),
        (("corrupt",), 1),
        (("fail", "inconclusive", "void"), 1),
        (("pass", "inconclusive"), 7),
        (("pass", "void"), 7),
        (("unsupported", "void"), 7),
    ],
)
def test_exit_code_of_a_run(names: tuple[str, ...], status: int) -> None:
    assert summary.exit_code(cells(*names)) == status


@pytest.mark.parametrize(
    ("play", "status"), [(CRASH, 1), (REFUSED, 0), (KILLED, 7), (TAKEN, 7)], ids=["crash", "refused", "killed", "taken"]
)
def test_exit_code_from_what_happened(bench: Bench, play: Played, status: int) -> None:
    finished, _ = bench.run({AR: [REFUSED], C7: [play]})
    assert code(finished) == status


# --- the course of a run ----------------------------------------------------------------------------------------------


def test_every_launch_leaves_a_result_and_a_verdict_in_order(bench: Bench) -> None:
    finished, runtime = bench.run(ALL_CRASH)
    assert runtime.started == [AR, C7, AR]
    assert [(r.cell, r.attempt, r.role) for r in finished.results] == [
        (AR, 1, "reference"),
        (AR, 2, "reference-again"),
        (C7, 1, "extra"),
    ]
    for result in finished.results:
        directory = finished.directory.attempt(result.cell, result.attempt)
        assert codec.read(directory / "result.json", Result) == result
        assert codec.read(directory / "verdict.json", Verdict).verdict == "fail"
        assert store.verify_evidence(result, directory) == ()
    assert finished.directory.path.name.startswith("20260101T000100Z-")


def test_a_void_launch_is_made_again_at_most_twice(bench: Bench) -> None:
    finished, runtime = bench.run({AR: [REFUSED], C7: [TAKEN]})
    assert runtime.started == [AR, C7, C7, C7, AR]
    assert [v.verdict for v in finished.verdicts if v.cell == C7] == ["void"] * 3
    recovered, runtime = Bench(bench.results.with_name("other")).run({AR: [REFUSED], C7: [TAKEN, CRASH]})
    assert runtime.started == [AR, C7, C7, AR]
    assert [v.verdict for v in recovered.verdicts if v.cell == C7] == ["void", "fail"]


def test_an_interrupted_run_goes_on_after_the_last_finished_attempt(bench: Bench) -> None:
    with pytest.raises(InterruptedRunError, match="interrupted: 1 finished attempts are kept"):
        bench.run({**ALL_CRASH, C7: [INTERRUPTED]})
    (directory,) = store.scan(bench.results, "sim")[0]
    assert not (directory.attempt(C7, 1) / "result.json").exists()
    finished, runtime = bench.run(ALL_CRASH)
    assert finished.directory == directory
    assert runtime.started == [C7, AR]
    assert len(finished.results) == 3
    assert runtime.reaped, "what the first harness left is ended first"


def test_an_attempt_that_somebody_else_ended_is_a_result_and_the_run_goes_on(bench: Bench) -> None:
    finished, runtime = bench.run({**ALL_CRASH, C7: [ENDED_BY_SOMEBODY]})
    assert runtime.started == [AR, C7, AR]
    (result,) = [result for result in finished.results if result.cell == C7]
    assert result.outcome == "killed"
    assert "from outside" in result.outcome_detail


def test_a_finished_run_is_not_touched_again(bench: Bench) -> None:
    first, _ = bench.run(ALL_CRASH)
    second, runtime = bench.run(ALL_CRASH)
    assert len(runtime.started) == 3
    assert first.directory.path != second.directory.path
    third, _ = Bench(bench.results, minutes=1).run(ALL_CRASH)
    assert third.directory.path.name == second.directory.path.name + "-2"


@pytest.mark.parametrize(
    "other",
    [{"select": ("*c7*",)}, {"planted": (PlantedRule(cells="*c7*", fault="sigkill", number=None),)}, {"launches": 2}],
)
def test_another_plan_is_another_run(bench: Bench, other: dict[str, Any]) -> None:
    with pytest.raises(InterruptedRunError):
        bench.run({**ALL_CRASH, C7: [INTERRUPTED]})
    finished, runtime = bench.run(ALL_CRASH, **other)
    assert runtime.started[0] == AR
    assert len(store.scan(bench.results, "sim")[0]) == 2
    assert finished.results


def test_two_harnesses_do_not_share_a_run(bench: Bench) -> None:
    with pytest.raises(InterruptedRunError):
        bench.run({**ALL_CRASH, C7: [INTERRUPTED]})
    (directory,) = store.scan(bench.results, "sim")[0]
    with store.lock(directory.path), pytest.raises(UnavailableError, match="in use by another"):
        bench.run(ALL_CRASH)


def test_planted_faults_are_in_every_record(bench: Bench) -> None:
    rule = PlantedRule(cells="*c7*", fault="wrong-token", number=200)
    finished, _ = bench.run(ALL_CRASH, planted=(rule,))
    assert finished.directory.run().planted == (rule,)
    planted = {result.cell: result.planted.fault if result.planted else None for result in finished.results}
    assert planted == {AR: None, C7: "wrong-token"}
    counted = summary.cell_verdicts(finished.results, finished.verdicts)
    table = summary.table(finished.directory.plan(), finished.results, counted)
    assert f"{C7} [planted: wrong-token]" in table


# --- records that cannot be used --------------------------------------------------------------------------------------


def interrupted_run(bench: Bench) -> store.RunDirectory:
    with pytest.raises(InterruptedRunError):
        bench.run({**ALL_CRASH, C7: [INTERRUPTED]})
    (directory,) = store.scan(bench.results, "sim")[0]
    return directory


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"schema_version": 2', '"schema_version": 99', "newer graphrepro"),
        ('"outcome": "crashed"', '"outcome": "perfect"', "/outcome"),
        ('"attempt": 1', '"attempt": 2', "belongs to another place"),
        ('"outcome": "crashed"', '"outcome": "crashed", "mine": 1', "mine"),
    ],
)
def test_a_result_that_cannot_be_used_stops_the_run_and_stays(bench: Bench, old: str, new: str, told: str) -> None:
    path = interrupted_run(bench).attempt(AR, 1) / "result.json"
    path.write_text(path.read_text().replace(old, new, 1))
    before = path.read_bytes()
    with pytest.raises(RecordError, match=rf"cells/{AR}/1/result\.json: .*{told}"):
        bench.run(ALL_CRASH)
    assert path.read_bytes() == before
    assert bench.runtime.started == []


def test_a_run_record_that_cannot_be_read_is_not_passed_over(bench: Bench) -> None:
    path = interrupted_run(bench).path / "run.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 99'))
    with pytest.raises(RecordError, match=r"run\.json: written by a newer graphrepro"):
        bench.run(ALL_CRASH)
    assert len(list((bench.results / "sim").iterdir())) == 1


def test_results_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="cannot be written"):
        Bench(tmp_path / "file").run(ALL_CRASH)


def test_an_attempt_that_has_no_place_is_named(bench: Bench) -> None:
    directory = interrupted_run(bench)
    shutil.rmtree(directory.path / "cells" / C7)
    (directory.path / "cells" / C7).write_text("in the way")
    with pytest.raises((UnavailableError, RecordError), match=C7):
        bench.run(ALL_CRASH)


# --- depth rates ------------------------------------------------------------------------------------------------------


def test_rates_takes_the_newest_finished_run(bench: Bench) -> None:
    bench.run({AR: [REFUSED], C7: [CRASH]})
    assert failing_cells(bench.results, "sim") == {C7}
    bench.run({AR: [REFUSED], C7: [REFUSED]}, launches=2)
    assert failing_cells(bench.results, "sim") == set()


def test_an_interrupted_rates_run_can_be_resumed(bench: Bench) -> None:
    """Its own results must not change what it repeats: then the same command would make another plan."""
    bench.run({AR: [REFUSED], C7: [CRASH]})
    failing = failing_cells(bench.results, "sim")
    rates: dict[str, Any] = {"depth": "rates", "failing": failing, "select": ("*",), "launches": 2}
    with pytest.raises(InterruptedRunError):
        bench.run({AR: [CRASH], C7: [REFUSED, INTERRUPTED]}, **rates)
    assert failing_cells(bench.results, "sim") == failing
    finished, runtime = bench.run({AR: [CRASH], C7: [REFUSED]}, **rates)
    assert len(runtime.started) < len(finished.results)


def test_rates_without_a_finished_run_says_what_to_do_first(bench: Bench) -> None:
    for _ in range(2):
        with pytest.raises(NothingToRunError, match="holds no finished run of sim: run depth screen first"):
            failing_cells(bench.results, "sim")
        with contextlib.suppress(InterruptedRunError):
            bench.run({**ALL_CRASH, C7: [INTERRUPTED]})


@dataclass
class Ailing:
    """Hardware that is suspect after these attempts, counted from 1; ``None``: after all."""

    after: tuple[int, ...] | None
    looked: int = 0

    def begin(self) -> Callable[[], GpuHealth | None]:
        self.looked += 1
        ill = self.after is None or self.looked in self.after
        suspect = ("GPU 3: 2 uncorrectable memory errors",) if ill else ()
        return lambda: GpuHealth(before=(), after=(), xids=(), suspect=suspect, unknown=())


def test_a_host_that_stays_suspect_ends_the_run(bench: Bench) -> None:
    bench.health = Ailing(after=None)
    with pytest.raises(UnavailableError) as stopped:
        bench.run(select=("*b8t4-eager*",))
    assert str(stopped.value).startswith(
        "3 launches in a row are void: the host's hardware is suspect: GPU 3: 2 uncorrectable memory errors: "
    )
    assert "3 finished attempts are kept" in str(stopped.value)
    assert len(bench.runtime.started) == 3
    assert len(list(bench.results.glob("*/*/cells/*/*/result.json"))) == 3

    bench.health = NoGpus()  # repaired: the same command goes on
    finished, runtime = bench.run(select=("*b8t4-eager*",))
    assert len(finished.results) == 3 + len(runtime.started)


def test_a_host_that_is_suspect_now_and_then_does_not(bench: Bench) -> None:
    bench.health = Ailing(after=(1, 2, 4, 5))
    finished, _ = bench.run(select=("*b8t4-eager*",))
    assert [verdict.verdict for verdict in finished.verdicts].count("void") == 4


def test_what_a_ledger_knows_stands_beside_a_failure_and_changes_nothing(bench: Bench) -> None:
    finished, _ = bench.run(ALL_CRASH)
    counted = summary.cell_verdicts(finished.results, finished.verdicts)
    plan = finished.directory.plan()
    plain = summary.table(plan, finished.results, counted)
    told = summary.table(plan, finished.results, counted, {C7: ("known: l-1 https://example.org/7",)})
    assert "[known: l-1 https://example.org/7]" in told
    assert [line for line in told.splitlines()[2:] if C7 not in line] == [
        line for line in plain.splitlines()[2:] if C7 not in line
    ]
    before, after = (next(line for line in text.splitlines() if line.startswith(C7)) for text in (plain, told))
    assert after.split()[: len(before.split())] == before.split()
    assert summary.exit_code(counted) == 1
