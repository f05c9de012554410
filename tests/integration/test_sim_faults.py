"""Each planted fault of the simulated engine ends in the outcome and verdict that it must, in one run with a cell for
each; beside it, runs in which nothing fails."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SPEC = Path(__file__).with_name("small.toml")


@dataclass(frozen=True)
class Expected:
    """What a fault must end in. ``states`` are those of the checks that matter here."""

    fault: str
    outcome: str
    verdict: str
    reasons: tuple[str, ...] = ()
    states: tuple[tuple[str, str], ...] = ()


FAULTS = (
    Expected("scheduler-exception", "crashed", "fail", ("crashed", "cuda_illegal_memory_access")),
    Expected("segfault", "crashed", "fail", ("crashed", "segfault")),
    Expected("sigkill", "killed", "inconclusive", ("killed", "killed_by_signal_9")),
    Expected("exit", "crashed", "fail", ("crashed",)),
    Expected("host-hang", "hung", "fail", ("hung", "hang_deadlock")),
    Expected("hang-capture", "hung", "fail", ("hung", "hang_deadlock")),
    Expected("crash-capture", "crashed", "fail", ("crashed", "cuda_illegal_memory_access")),
    Expected("oom-capture", "oom", "fail", ("oom", "oom_gpu_graph_capture")),
    Expected("oom-serving", "oom", "fail", ("oom", "oom_gpu_serving")),
    Expected("crash-launch", "crashed", "fail"),
    Expected("refuse", "refused", "unsupported", ("refused", "unsupported_feature_combination")),
    Expected("silent-eager", "completed", "inconclusive", ("configuration_not_proven",)),
    Expected(
        "useless-trees",
        "completed",
        "fail",
        ("acceptance_at_floor",),
        states=(("lossless", "pass"), ("acceptance", "fail")),
    ),
    Expected(
        "wrong-token:50",
        "completed",
        "corrupt",
        ("content_wrong",),
        states=(("lossless", "fail"), ("acceptance", "pass"), ("launch", "pass")),
    ),
    Expected("stale-mask", "completed", "corrupt", ("content_wrong",), states=(("acceptance", "pass"),)),
    Expected("wrong-at-concurrency", "completed", "corrupt", ("content_wrong",)),
    Expected("wrong-late", "completed", "corrupt", ("content_wrong",)),
    Expected("nan:5", "completed", "corrupt", ("content_wrong",)),
    Expected("wrong-code", "completed", "pass", states=(("lossless", "pass"), ("coding", "not_run"))),  # no Docker here
    Expected("no-tokens", "completed", "fail", ("no_tokens",)),
    Expected("error-body", "completed", "fail", ("requests_failed",)),
    Expected("early-close", "completed", "fail", ("requests_failed",)),
    Expected("orphan", "completed", "pass"),
    Expected("bundled", "completed", "pass"),
    Expected("missing-done", "completed", "pass"),
    Expected("duplicate-final", "completed", "pass"),
    Expected("log-flood:4", "completed", "pass"),
)
VOID = Expected("port-in-use", "runtime_error", "void", ("runtime_error", "port_in_use"))
PLANTED = (*FAULTS, VOID)
CELLS = {expected.fault: f"sim-b{8 + place}t4-graph-nonvls" for place, expected in enumerate(PLANTED)}
_PYTHON = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
HEALTHY = "sim-b8t4-graph-nonvls"


@dataclass(frozen=True)
class Run:
    """A run that has ended, and where its records are."""

    status: int
    err: str
    out: str
    folder: Path
    home: Path

    @property
    def directory(self) -> Path:
        (found,) = (path.parent for path in self.folder.glob("results/*/*/run.json"))
        return found

    def read(self, name: str, cell: str | None = None, attempt: int = 1) -> dict[str, Any]:
        folder = self.directory if cell is None else self.directory / "cells" / cell / str(attempt)
        document: dict[str, Any] = json.loads((folder / name).read_bytes())
        return document


class Start:
    """A run that goes on beside others."""

    def __init__(self, folder: Path, spec: str, *options: str) -> None:
        self.folder = folder
        for name in ("results", "home", "tmp"):
            (folder / name).mkdir(parents=True)
        (folder / "spec.toml").write_text(spec)
        environment = {"HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp"), "PATH": "/usr/bin:/bin"}
        command = [sys.executable, "-m", "matrix", "run", "--spec", "spec.toml", "--results", "results", *options]
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, **_PYTHON},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def end(self) -> Run:
        out, err = self.process.communicate(timeout=250)
        return Run(self.process.returncode, err, out, self.folder, self.folder / "home")


def _spec_with_faults() -> str:
    """A cell for each fault: the budgets are only names for them."""
    text = SPEC.read_text()
    arms = ["ar", *(cell.split("-")[1] for cell in CELLS.values())]
    changes = {
        'budget = ["ar", "b8t4", "b16t8"]': f"budget = {json.dumps(arms)}",
        'graph = ["graph", "eager"]': 'graph = ["graph"]',
        '[reference]\ngraph = "eager"': '[reference]\ngraph = "graph"',
        "graph_capture = 10": "graph_capture = 5",
    }
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """All runs of this file, side by side: most of their time they wait."""
    folder = tmp_path_factory.mktemp("faults")
    planted = [f"{CELLS[expected.fault]}={expected.fault}" for expected in PLANTED]
    healthy = ("--select", HEALTHY)
    started = {
        "faults": Start(folder / "faults", _spec_with_faults(), *(w for p in planted for w in ("--inject", p))),
        "sigterm": Start(
            folder / "sigterm", SPEC.read_text(), "--select", "*b8t4-eager*", "--inject", "*b8*=ignore-sigterm"
        ),
        "open": Start(folder / "open", SPEC.read_text(), *healthy, "--inject", f"{HEALTHY}=silent-eager"),
        "healthy": Start(folder / "healthy", SPEC.read_text(), *healthy),
    }
    return {name: start.end() for name, start in started.items()}


pytestmark = pytest.mark.slow


@pytest.mark.parametrize("expected", FAULTS, ids=lambda expected: expected.fault.partition(":")[0])
def test_a_fault_ends_in_its_outcome_and_verdict(runs: dict[str, Run], expected: Expected) -> None:
    cell = CELLS[expected.fault]
    result, verdict = (runs["faults"].read(f"{name}.json", cell) for name in ("result", "verdict"))
    assert (result["outcome"], verdict["verdict"]) == (expected.outcome, expected.verdict), result["outcome_detail"]
    if expected.reasons or expected.verdict == "pass":
        assert tuple(verdict["reasons"]) == expected.reasons
    states = {check["check"]: check["state"] for check in result["checks"]}
    assert {name: states[name] for name, _ in expected.states} == dict(expected.states)
    assert not (runs["faults"].directory / "cells" / cell / "2").exists()


@pytest.mark.parametrize("expected", PLANTED, ids=lambda expected: expected.fault.partition(":")[0])
def test_a_planted_fault_is_marked_in_every_record(runs: dict[str, Run], expected: Expected) -> None:
    run, cell = runs["faults"], CELLS[expected.fault]
    name, _, number = expected.fault.partition(":")
    mark = {"fault": name, "number": int(number) if number else None}
    assert {"cells": cell, **mark} in run.read("run.json")["planted"]
    assert [step["planted"] for step in run.read("plan.json")["steps"] if step["cell"] == cell] == [mark]
    assert run.read("step.json", cell)["planted"] == mark
    assert run.read("result.json", cell)["planted"] == mark
    assert f"{cell} [planted: {name}]" in run.out
    assert "PLANTED FAULTS" in run.err


def test_what_is_not_planted_is_not_marked(runs: dict[str, Run]) -> None:
    assert runs["faults"].read("result.json", "sim-ar-graph-nonvls")["planted"] is None
    assert runs["healthy"].read("run.json")["planted"] == []
    said = (runs["healthy"].out + runs["healthy"].err).lower()
    assert "planted" not in said.replace("self-test: 4 of 4 planted faults caught", "")


def test_a_void_attempt_is_made_again_twice(runs: dict[str, Run]) -> None:
    cell = CELLS[VOID.fault]
    made = {int(path.name) for path in (runs["faults"].directory / "cells" / cell).iterdir()}
    assert made == {1, 2, 3}
    for attempt in made:
        verdict = runs["faults"].read("verdict.json", cell, attempt)
        assert (verdict["verdict"], tuple(verdict["reasons"])) == (VOID.verdict, VOID.reasons)


def test_exit_status_tells_failed_from_open_from_passed(runs: dict[str, Run]) -> None:
    assert {name: run.status for name, run in runs.items()} == {"faults": 1, "sigterm": 0, "open": 7, "healthy": 0}


def test_nothing_is_left_of_any_run(runs: dict[str, Run]) -> None:
    """Orphans in sessions of their own and servers that ignore SIGTERM are among them."""
    psutil = pytest.importorskip("psutil")
    homes = {str(run.home) for run in runs.values()}
    left = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("HOME") in homes:
                left.append(process)
        except psutil.Error:
            continue
    assert left == []
    assert [path for run in runs.values() for path in (run.folder / "tmp").iterdir()] == []


def test_a_server_that_ignores_sigterm_is_killed_and_its_checks_count(runs: dict[str, Run]) -> None:
    result = runs["sigterm"].read("result.json", "sim-b8t4-eager-nonvls")
    assert (result["outcome"], result["exit_status"]) == ("completed", -9)
    assert runs["sigterm"].read("verdict.json", "sim-b8t4-eager-nonvls")["verdict"] == "pass"


def test_bundled_chunks_change_no_count(runs: dict[str, Run]) -> None:
    """The prompts, and so the tokens, are those of an engine that sends each step by itself."""

    def counts(run: Run, cell: str) -> list[tuple[str, int, int, int | None]]:
        evidence = run.read("evidence/checks/throughput.json", cell)
        return sorted(
            (r["prompt"], r["concurrency"], len(r["output_ids"]), r["usage_tokens"]) for r in evidence["requests"]
        )

    assert counts(runs["faults"], CELLS["bundled"]) == counts(runs["healthy"], HEALTHY)


def test_wrong_tokens_leave_acceptance_where_it_was(runs: dict[str, Run]) -> None:
    """The reason why acceptance never stands for correctness (design: Decisions)."""

    def acceptance(fault: str) -> float:
        checks = runs["faults"].read("result.json", CELLS[fault])["checks"]
        (value,) = (m["value"] for c in checks for m in c["measurements"] if m["name"] == "acceptance")
        return float(value)

    assert acceptance("wrong-token:50") > 2.5 > 2.38 > acceptance("useless-trees")


def test_wrong_only_at_a_concurrency_says_at_which(runs: dict[str, Run]) -> None:
    checks = runs["faults"].read("result.json", CELLS["wrong-at-concurrency"])["checks"]
    (lossless,) = (check for check in checks if check["check"] == "lossless")
    (smallest,) = (m for m in lossless["measurements"] if m["name"] == "smallest_wrong_concurrency")
    assert smallest["value"] == 4
    assert {difference["concurrency"] for difference in lossless["differences"]} == {4}
