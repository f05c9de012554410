"""What a run does with a paused service and with a host whose hardware is suspect."""

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from matrix.arguments import EngineChoice
from matrix.plan import PlanOptions, make_plan
from matrix.promptset import load_prompts
from matrix.run import Finished, Job, Outside, execute
from repro import codec
from repro.errors import UnavailableError
from repro.model import GpuHealth, Verdict

SUSPECT = "GPU 3: Xid 79 (fallen off the bus)"


def _test_run() -> Any:
    """The runtime that plays outcomes."""
    spec = importlib.util.spec_from_file_location("played_runs", Path(__file__).parents[1] / "test_run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


PLAYED = _test_run()


@dataclass
class Looked:
    """A `Health` that finds what it is told, attempt by attempt; the last holds for the rest."""

    suspects: list[tuple[str, ...]]
    begun: int = 0

    def begin(self) -> Callable[[], GpuHealth | None]:
        self.begun += 1
        suspect = self.suspects[min(self.begun, len(self.suspects)) - 1]
        return lambda: GpuHealth(before=(), after=(), xids=(), suspect=suspect, unknown=())


@dataclass
class Noted:
    """A `Production` that notes when it is paused."""

    runtime: Any
    problem: Exception | None = None
    notes: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def paused(self, run: str, interrupts: Callable[[], int], /) -> Iterator[None]:
        self.notes.append(f"stop after {len(self.runtime.started)} launches")
        try:
            yield
        finally:
            self.notes.append(f"start after {len(self.runtime.started)} launches")
        if self.problem is not None:
            raise self.problem

    def hold(self) -> None:
        self.notes.append("hold")


def run(results: Path, runtime: Any, **outside: Any) -> Finished:
    engines = EngineChoice()
    options = PlanOptions(select=("*c7-eager-nvls",), references=False)
    job = Job(
        spec=PLAYED.SPEC,
        plan=make_plan(PLAYED.SPEC, options, engines),
        prompts=load_prompts(PLAYED.SPEC.load.prompts, PLAYED.SPEC.load.count),
        planted=(),
        engines=engines,
        declared={},
        port=0,
    )
    world = Outside(
        runtime=runtime,
        now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        progress=PLAYED.Quiet(),
        tool_version="0",
        free_port=lambda: 31000,
        **outside,
    )
    return execute(job, results, world)


def test_an_attempt_on_suspect_hardware_is_void_and_made_again(tmp_path: Path) -> None:
    health = Looked([(SUSPECT,), ()])
    finished = run(tmp_path, PLAYED.PlayingRuntime(), health=health)
    assert [v.verdict for v in finished.verdicts] == ["void", "fail"]
    void, again = finished.results
    assert void.outcome == "runtime_error"
    assert SUSPECT in void.outcome_detail
    assert "the attempt itself: crashed" in void.outcome_detail
    assert again.outcome == "crashed"
    assert "evidence/gpu-health.json" in {file.path for file in void.evidence}
    path = finished.directory.attempt(void.cell, 1) / "evidence" / "gpu-health.json"
    assert codec.read(path, GpuHealth).suspect == (SUSPECT,)


def test_a_host_that_stays_suspect_is_tried_three_times_in_all(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="3 launches in a row are void: the host's hardware is suspect: GPU 3"):
        run(tmp_path, PLAYED.PlayingRuntime(), health=Looked([(SUSPECT,)]))
    verdicts = [codec.read(path, Verdict) for path in tmp_path.rglob("verdict.json")]
    assert [verdict.verdict for verdict in verdicts] == ["void"] * 3


def test_without_gpus_there_is_no_health_to_keep(tmp_path: Path) -> None:
    finished = run(tmp_path, PLAYED.PlayingRuntime())
    assert not any("gpu-health" in file.path for result in finished.results for file in result.evidence)


def test_production_is_stopped_before_the_first_launch_and_back_after_the_last(tmp_path: Path) -> None:
    runtime = PLAYED.PlayingRuntime()
    production = Noted(runtime)
    run(tmp_path, runtime, production=production)
    assert [note for note in production.notes if note != "hold"] == ["stop after 0 launches", "start after 1 launches"]


def test_production_that_does_not_come_back_ends_the_run_loudly_and_keeps_its_results(tmp_path: Path) -> None:
    runtime = PLAYED.PlayingRuntime()
    with pytest.raises(UnavailableError, match="NOT BACK"):
        run(tmp_path, runtime, production=Noted(runtime, UnavailableError("PRODUCTION IS NOT BACK")))
    assert list(tmp_path.glob("sim/*/cells/*/1/result.json"))
