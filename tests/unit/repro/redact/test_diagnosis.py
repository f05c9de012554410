"""The diagnosis of every labelled log is the same before and after redaction."""

import json
from pathlib import Path
from typing import Any

import pytest

from repro.diagnose import Log, diagnose
from repro.model import Diagnosis
from repro.redact import Redactor

DATA = Path(__file__).parents[3] / "data" / "diagnosis"


def _labels() -> list[tuple[Path, dict[str, Any]]]:
    sources = [(DATA / "given" / "cases.jsonl", DATA / "given" / "logs")]
    sources += [(path, DATA / "own") for path in sorted((DATA / "own").glob("cases-*.jsonl"))]
    return [(logs, json.loads(line)) for path, logs in sources for line in path.read_text().splitlines() if line]


LABELS = _labels()


def _diagnosed(log: Path, kernel_log: Path | None, label: dict[str, Any]) -> Diagnosis:
    return diagnose(
        [Log(path=log, name="server.log")],
        exit_status=label["exit_status"],
        probes=label["probes"],
        kernel_log=None if kernel_log is None else Log(path=kernel_log, name="kernel.log"),
    )


def _answer(found: Diagnosis) -> tuple[Any, ...]:
    lines = [[(line.file, line.line) for line in part] for part in (found.evidence, found.follow_ons)]
    return found.kind, found.phase, found.role, found.component, found.signature, found.confidence, found.known, lines


@pytest.mark.parametrize(("logs", "label"), LABELS, ids=[label["id"] for _, label in LABELS])
def test_same_diagnosis(logs: Path, label: dict[str, Any], tmp_path: Path) -> None:
    log = logs / f"{label['id']}.log"
    kernel_log = logs / label["kernel_log"] if label.get("kernel_log") else None
    redactor = Redactor()
    redacted = tmp_path / "server.log"
    redacted.write_bytes(redactor.data(log.read_bytes(), "server.log"))
    redacted_kernel = None
    if kernel_log is not None:
        redacted_kernel = tmp_path / "kernel.log"
        redacted_kernel.write_bytes(redactor.data(kernel_log.read_bytes(), "kernel.log"))
    assert _answer(_diagnosed(redacted, redacted_kernel, label)) == _answer(_diagnosed(log, kernel_log, label))
