"""The labelled logs, given and own, and a way to mutate them."""

import importlib.util
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from repro.diagnose import Log, diagnose
from repro.model import Diagnosis

DATA = Path(__file__).parents[3] / "data" / "diagnosis"


@dataclass(frozen=True)
class Case:
    """A log and the right answer. ``evidence``: the lines that decide, each alone; empty if they are not labelled.
    ``without``: the kind and role that the rest still proves."""

    id: str
    log: Path
    kind: str
    phase: str
    role: str
    exit_status: int | None
    probes: Mapping[str, Any] | None
    kernel_log: Path | None
    evidence: tuple[int, ...]
    without: tuple[str, str] | None

    def diagnose(self, log: Path | None = None) -> Diagnosis:
        return diagnose(
            [Log(path=log or self.log, name=f"{self.id}.log")],
            exit_status=self.exit_status,
            probes=self.probes,
            kernel_log=None if self.kernel_log is None else Log(path=self.kernel_log),
        )


def _cases() -> list[Case]:
    given, own = DATA / "given", DATA / "own"
    files = [(given / "cases.jsonl", given / "logs"), *((path, own) for path in sorted(own.glob("cases-*.jsonl")))]
    return [_case(json.loads(line), logs) for path, logs in files for line in path.read_text().splitlines() if line]


def _case(label: Mapping[str, Any], logs: Path) -> Case:
    kernel_log = label.get("kernel_log")
    return Case(
        id=label["id"],
        log=logs / f"{label['id']}.log",
        kind=label["kind"],
        phase=label["phase"],
        role=label.get("role") or label["root_or_symptom"],
        exit_status=label["exit_status"],
        probes=label["probes"],
        kernel_log=None if kernel_log is None else logs / kernel_log,
        evidence=tuple(label.get("evidence", ())),
        without=(label["without"]["kind"], label["without"]["role"]) if label.get("without") else None,
    )


CASES = _cases()
GIVEN = [case for case in CASES if case.log.parent.name == "logs"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", CASES, ids=[case.id for case in CASES])


@pytest.fixture(scope="session")
def given() -> list[Case]:
    return GIVEN


@pytest.fixture(scope="session")
def mutations() -> ModuleType:
    """The module beside this file."""
    spec = importlib.util.spec_from_file_location("diagnosis_mutations", Path(__file__).with_name("mutations.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
