"""Runs with evidence beside their results: a log with times, and samples of the GPUs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from repro import codec
from repro.model import LogLine, PhaseTiming, PowerEvidence, PowerSample, Result
from repro.store import write_record

CELL = "sm_103-b16t8-graph-nvls"
WALL_S = 95.0
PHASES = (
    PhaseTiming(phase="launch", state="completed", begun_s=0.0, ended_s=4.0),
    PhaseTiming(phase="weights_load", state="completed", begun_s=4.0, ended_s=38.0),
    PhaseTiming(phase="graph_capture", state="completed", begun_s=38.0, ended_s=55.0),
    PhaseTiming(phase="serving", state="failed", begun_s=55.0, ended_s=91.5),
)


def log_of(zone_h: int = 0, text: str = "") -> tuple[bytes, int]:
    """A server's log of a launch that began at 10:00:00 UTC, and where its telling line begins. The engine's clock is
    ``zone_h`` hours ahead."""
    hour = f"{10 + zone_h:02}"
    before = f"[2026-11-30 {hour}:00:01] server_args=ServerArgs(model_path='m')\n" + "".join(
        f"[2026-11-30 {hour}:01:{second:02} TP0] Decode batch, #running-req: 8\n" for second in range(31)
    )
    telling = text or f"[2026-11-30 {hour}:01:31 TP3] torch.AcceleratorError: CUDA error: an illegal memory access"
    after = "Traceback (most recent call last):\n" + f"[2026-11-30 {hour}:01:33] SIGQUIT received. signum=None\n"
    return f"{before}{telling}\n{after}".encode(), len(before.encode())


def samples_of(gpus: int = 8, begin_s: int = 55, end_s: int = 94) -> tuple[PowerSample, ...]:
    """One a second for each GPU; the fourth one falls idle at 90 s."""
    return tuple(
        PowerSample(
            at_s=float(second),
            gpu=gpu,
            power_w=180.0 if gpu == 3 and second > 90 else 700.0 + 10 * gpu + 5 * (second % 7),
            temperature_c=55.0,
            sm_clock_mhz=1800.0,
            memory_used_mib=2048.0 if gpu == 3 and second > 90 else 240000.0 + 100 * gpu,
        )
        for second in range(begin_s, end_s)
        for gpu in range(gpus)
    )


def leave_crash(
    folder: Path,
    *,
    log: bytes | None = None,
    offset_bytes: int = 0,
    samples: Sequence[PowerSample] | None = None,
    reason: str | None = None,
    text: str | None = None,
) -> None:
    """Makes the launch in ``folder`` one with those phases, and leaves that evidence beside it."""
    path = folder / "result.json"
    result = codec.read(path, Result)
    assert result.diagnosis is not None
    said = text or "[2026-11-30 10:01:31 TP3] torch.AcceleratorError: CUDA error: an illegal memory access"
    line = LogLine(file="evidence/server.log", line=33, offset_bytes=offset_bytes, text=said)
    diagnosis = replace(result.diagnosis, evidence=(line,))
    write_record(path, replace(result, phases=PHASES, wall_s=WALL_S, diagnosis=diagnosis))
    (folder / "evidence").mkdir(exist_ok=True)
    if log is not None:
        (folder / "evidence" / "server.log").write_bytes(log)
    if samples is not None:
        write_record(folder / "evidence" / "power.json", PowerEvidence(reason=reason, samples=tuple(samples)))


def with_crash(root: Path, samples: Sequence[PowerSample] | None, text: str | None = None) -> Path:
    """The first crash of the run in which everything happens, with a log and the samples."""
    log, offset_bytes = log_of(text=text or "")
    folder = root / "b300/20261130-b300/cells" / CELL / "1"
    leave_crash(folder, log=log, offset_bytes=offset_bytes, samples=samples, text=text)
    return root


@pytest.fixture
def crashed(tmp_path: Path, make: SimpleNamespace) -> Callable[..., Path]:
    """``crashed(log=…, samples=…)``: a results directory with one crashed launch, and that evidence."""

    def made(**evidence: object) -> Path:
        launch = make.Launch(CELL, outcome="crashed", detail="ended", checks=(), diagnosis=make.illegal_access())
        run = make.write_run(tmp_path / "r", make.run_record("b300", "crash"), [launch], planned={CELL: 1})
        leave_crash(run / "cells" / CELL / "1", **evidence)  # type: ignore[arg-type]
        return tmp_path / "r"

    return made


@pytest.fixture(scope="session")
def evidence() -> SimpleNamespace:
    """The makers of this module by name."""
    return SimpleNamespace(**globals())
