"""A fake program beside torch, and cases to ask it about."""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from repro.kernels.case import Case, cell
from repro.kernels.worker import Program
from repro.model.kernels import KernelSubject

FAKE = Path(__file__).with_name("fake_program.py")

SUBJECT = KernelSubject(
    origin="pinned",
    sglang="0.5.23",
    triton="3.8.0",
    torch="2.13.0",
    source_path="a/b.py",
    source_sha256="ab" * 32,
    digest=None,
)


@pytest.fixture
def subject() -> KernelSubject:
    return SUBJECT


@pytest.fixture
def make_case() -> Callable[..., Case]:
    def make(
        budget: int,
        *,
        planted: str | None = None,
        limit_s: float = 30.0,
        check: str = "kernel-memory",
        group: str = "g",
    ) -> Case:
        return Case(
            check=check,  # type: ignore[arg-type]
            evidence_class="interpreted",
            program=check.removeprefix("kernel-"),
            group=group,
            cell=cell(architecture="sm_103", budget=budget, shape="gqa-4-2-128", batch=3, dtype="fp16"),
            planted=planted,
            parameters={"seed": budget},
            limit_s=limit_s,
        )

    return make


@pytest.fixture
def fake(tmp_path: Path) -> Callable[..., Program]:
    """The fake program, misbehaving as told."""

    def make(*, start_limit_s: float = 60.0, **behaviour: str) -> Program:
        environment = {**os.environ, "FAKE": json.dumps(behaviour), "HOME": str(tmp_path)}
        return Program(
            python=Path(sys.executable),
            module="memory",
            request={"scratch": str(tmp_path)},
            environment=environment,
            start=FAKE,
            start_limit_s=start_limit_s,
        )

    return make


@pytest.fixture
def left_over(tmp_path: Path) -> Iterator[Callable[[], list[psutil.Process]]]:
    """Processes with this test's HOME that still live; whatever is left is ended after the test."""

    def find() -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("HOME") == str(tmp_path):
                    found.append(process)
        return found

    yield find
    for process in find():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
