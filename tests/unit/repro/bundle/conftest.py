"""A bundle of three tiny files, and a run on disk with a failing cell, a healthy one and a reference."""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import schemas
from repro import codec, store
from repro.bundle import archive
from repro.bundle.archive import Packed, packed
from repro.canonical import pretty_bytes
from repro.diagnose import Log, diagnose
from repro.model import RECORDS, EvidenceFile, Manifest, Proof, Subject

FILES = Path(__file__).parents[3] / "data" / "records"
LOGS = Path(__file__).parents[3] / "data" / "sglang-0.5.23"
PASSED = {"state": "pass", "reason": None, "detail": "as it should be", "differences": ()}
BAD, GOOD, AR = "sim-b16t8-graph-nvls", "sim-b8t4-graph-nvls", "sim-ar-graph-nvls"
DEATH = (
    "[2026-09-14 08:15:02] Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py", line 1, in run_batch\n'
    "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n\n"
    "[2026-09-14 08:15:03] SIGQUIT received. signum=None, frame=None. It usually means one child failed.\n"
)


def example(name: str) -> Any:
    return codec.read(FILES / f"{name}-v{schemas.version(name)}.json", RECORDS[name])


def subject_of(**changes: Any) -> Subject:
    manifest: Manifest = example("bundle-manifest")
    return dataclasses.replace(manifest.subject, **changes)


def made_of(files: Mapping[str, bytes], *, quoted: str | None = None) -> bytes:
    """An archive of these files, with what every bundle has beside them."""
    held: list[Packed] = [packed(path, data) for path, data in {"verify.py": b"# checks\n", **files}.items()]
    facts = archive.Facts(tool_version="0.1.0", subject=subject_of(), left_out=(), redactions=())
    quoted = quoted or archive.digest(held, facts)
    held.append(packed("ISSUE.md", f"The digest is {quoted}.\n".encode()))
    data, _ = archive.archive(held, facts)
    return data


@pytest.fixture
def small_bundle() -> bytes:
    return made_of({"repro.sh": b"#!/bin/sh\n", "results/c/1/evidence/server.log": b"a line of a log\n" * 40})


@pytest.fixture
def bundle_of() -> Callable[..., bytes]:
    return made_of


class Disk:
    """A results directory to put attempts into."""

    def __init__(self, root: Path, run_id: str = "20260914T081502Z-sim") -> None:
        self.root = root
        run = dataclasses.replace(example("run"), run_id=run_id, target="sim", planted=())
        plan = example("plan")
        steps = tuple(dataclasses.replace(plan.steps[0], cell=cell, image=None) for cell in (BAD, GOOD, AR))
        plan = dataclasses.replace(plan, target="sim", architecture="sim", steps=steps)
        self.run = store.create(root, run, plan)

    def attempt(self, cell: str, number: int, evidence: Mapping[str, bytes] = {}, **changes: Any) -> Path:
        """A finished attempt with this evidence; it crashed if it has a log with `DEATH`'s last lines."""
        directory = self.run.attempt(cell, number)
        for path, data in evidence.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_bytes(data)
        directory.mkdir(parents=True, exist_ok=True)
        result = dataclasses.replace(example("result"), **self._facts(cell, number, directory, evidence, changes))
        store.write_record(directory / "result.json", result)
        step = dataclasses.replace(
            example("step"),
            run_id=self.run.path.name,
            target="sim",
            cell=cell,
            attempt=number,
            argv=("/opt/engine/bin/python", "/opt/payload", "simulated", "--port", "31007", "--cell", cell),
        )
        store.write_record(directory / "step.json", step)
        return directory

    def _facts(
        self, cell: str, number: int, directory: Path, evidence: Mapping[str, bytes], changes: Mapping[str, Any]
    ) -> dict[str, Any]:
        result = example("result")
        log = directory / "evidence" / "server.log"
        crashed = log.is_file() and b"illegal memory access" in log.read_bytes()
        found = diagnose([Log(path=log, name="evidence/server.log")], exit_status=-9 if crashed else 0)
        budget = 0 if cell == AR else 16 if cell == BAD else 8
        coordinates = dataclasses.replace(
            result.coordinates,
            budget=budget,
            topk=None if not budget else 8,
            shape="tree" if budget else "none",
            engine_source="simulated",
        )
        facts: dict[str, Any] = {
            "run_id": self.run.path.name,
            "target": "sim",
            "cell": cell,
            "attempt": number,
            "role": "reference" if cell == AR else "cell",
            "coordinates": coordinates,
            "engine": dataclasses.replace(result.engine, name="simulated", version="1", source="simulated"),
            "outcome": "crashed" if crashed else "completed",
            "outcome_detail": "died" if crashed else "came to its end",
            "exit_status": -9 if crashed else 0,
            "diagnosis": found if crashed else None,
            "rescoring": None,
            "evidence": tuple(
                EvidenceFile(path=path, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
                for path, data in sorted(evidence.items())
            ),
        }
        if not crashed:
            names = ("launch", "lossless", "acceptance", "throughput")
            facts["checks"] = tuple(dataclasses.replace(result.checks[0], **PASSED, check=name) for name in names)
            facts["proof"] = tuple(
                Proof(fact=fact, expected=1, observed=1, state="proven", source="/server_info")
                for fact in ("algorithm", "graph_replayed", "width", "topk")
            )
            facts["expectation"] = dataclasses.replace(
                result.expectation, topk_requested=8, topk_effective=8, note=None
            )
        return {**facts, **changes}


def lossless(ids: Mapping[str, tuple[int, ...]]) -> bytes:
    """`checks/lossless.json` with these answers."""
    evidence = example("check-evidence")
    first = dataclasses.replace(
        evidence.requests[0], error=None, margins=None, cancelled=False, concurrency=1, token_times=()
    )
    requests = tuple(dataclasses.replace(first, prompt=prompt, output_ids=output) for prompt, output in ids.items())
    record = dataclasses.replace(evidence, check="lossless", complete=True, stopped_because=None, requests=requests)
    return pretty_bytes(codec.encode(record))


@pytest.fixture
def disk(tmp_path: Path) -> Callable[..., Disk]:
    return lambda **options: Disk(tmp_path / "results", **options)


@pytest.fixture
def failing(tmp_path: Path) -> Disk:
    """Two failing launches of three, a healthy cell, a reference with answers."""
    made = Disk(tmp_path / "results")
    log = {"evidence/server.log": b"ready\n" + DEATH.encode()}
    made.attempt(BAD, 1, {**log, "evidence/power.json": b'{"samples": []}\n'})
    made.attempt(BAD, 2, log)
    made.attempt(BAD, 3, {"evidence/server.log": b"ready\n"})
    made.attempt(GOOD, 1, {"evidence/server.log": b"ready\n"})
    made.attempt(AR, 1, {"evidence/checks/lossless.json": lossless({"topic-017": (5, 6, 7), "topic-027": (1, 2)})})
    return made


@pytest.fixture
def death() -> bytes:
    """A log that ends with an illegal memory access."""
    return b"ready\n" + DEATH.encode()


@pytest.fixture
def lossless_of() -> Callable[..., bytes]:
    return lossless


@pytest.fixture
def corrupt() -> dict[str, Any]:
    """What a result says whose content was found wrong."""
    check = dataclasses.replace(
        example("result").checks[0], check="lossless", state="fail", reason="first_difference", detail="token 1 differs"
    )
    return {"checks": (check,)}
