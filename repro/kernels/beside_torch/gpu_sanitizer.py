"""Cells of the GPU arm under compute-sanitizer, each in a process of its own.

The cell is the same program's (`gpu`), started below the sanitizer, with an allocation of its own for each tensor, so
that memcheck sees where one ends. The kernel allocates nothing, which a capture without torch's cache would not allow.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from . import loading
from .gpu_report import Finding, Report, parse
from .protocol import Channel, Fault, Row, measurement

START = Path(__file__).with_name("start.py")
KERNEL = "_fwd_kernel"
NAME = "compute-sanitizer"
WHEEL = "nvidia-cuda-sanitizer-api"
OPTIONS: Mapping[str, Sequence[str]] = {
    "memcheck": ("--kernel-name", f"kns={KERNEL}", "--report-api-errors", "no"),
    "racecheck": ("--kernel-name", f"kns={KERNEL}"),
    "synccheck": ("--kernel-name", f"kns={KERNEL}"),
    "initcheck": ("--check-api-memory-access", "no"),
}
"""initcheck must see what other kernels write, so it looks at all of them."""
PLANTED = {"mask_sized_for_budget_8": "out_of_bounds", "mask_never_written": "uninitialized_read"}
KINDS = {"out_of_bounds": "out_of_bounds"}
"""Codes that are a kind of fault by themselves; the others are `cuda_error`, whose detail says which."""
MOST_FAULTS = 10


def main(request: Mapping[str, Any], channel: Channel) -> None:
    from .gpu_device import absent  # brings torch, which what is below does without

    why = absent()
    if why is not None:
        raise SystemExit(f"no GPU: {why}")
    release = loading.find(request["sglang"], Path(request["scratch"]))
    channel.subject(release.subject())
    sanitizer = find(sys.path, os.environ)
    channel.answer(request["cases"], lambda case: ask(sanitizer, request, case))


def find(path: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """The sanitizer out of its wheel on ``path``, else on PATH, else of a toolkit in CUDA_HOME."""
    for folder in path:
        for found in sorted(Path(folder or ".").glob(f"nvidia/*/bin/{NAME}")):
            return str(found)
    toolkit = Path(environment.get("CUDA_HOME") or "/usr/local/cuda", "bin", NAME)
    return shutil.which(NAME, path=environment.get("PATH", "")) or (str(toolkit) if toolkit.is_file() else None)


def command(sanitizer: str, tool: str, log: str) -> list[str]:
    """What is run. Its own waiting for the first use of CUDA is without end: our caller has a limit."""
    how = ("--log-file", log, "--launch-timeout", "0", *OPTIONS[tool])
    return ["sh", sanitizer, "--tool", tool, *how] if _is_script(sanitizer) else [sanitizer, "--tool", tool, *how]


def _is_script(sanitizer: str) -> bool:
    """Whether it is the wheel's wrapper, whose executable bit some installers lose."""
    try:
        with Path(sanitizer).open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def ask(sanitizer: str | None, request: Mapping[str, Any], case: Mapping[str, Any]) -> Row:
    """The row of a case."""
    if sanitizer is None:
        said = f"there is no {NAME}: install {WHEEL} into this environment, or set CUDA_HOME to a toolkit"
        return Row(state="not_run", reason="no_sanitizer", detail=said)
    tool = str(case["parameters"]["tool"])
    with tempfile.TemporaryDirectory() as folder:
        log, asked = Path(folder, "report.txt"), Path(folder, "request.json")
        asked.write_text(json.dumps({**request, "parent": None, "cases": [case]}))
        environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "TRITON_DISABLE_LINE_INFO": "0"}
        with asked.open() as given:
            done = subprocess.run(
                [*command(sanitizer, tool, str(log)), sys.executable, str(START), "gpu"],
                stdin=given,
                stdout=subprocess.PIPE,
                env=environment,
                check=False,
            )
        text = log.read_text(errors="replace") if log.exists() else ""
    sys.stderr.write(text[-4000:])
    own = _own_row(done.stdout.decode(errors="replace"), case["key"])
    return verdict(tool, case["planted"], parse(text), own, text)


def verdict(tool: str, planted: str | None, report: Report, own: Row | None, text: str) -> Row:
    """The cell's own result beside what the sanitizer saw of the kernel. ``own`` is None if the cell has none."""
    ours = [found for found in report.findings if found.kernel is None or KERNEL in found.kernel]
    others = len(report.findings) - len(ours)
    seen = f"{tool}: {report.errors} errors" + (f", {others} kinds of them in other kernels" if others else "")
    base = own or Row(state="inconclusive", reason="no_result", detail="the cell gave no result")
    numbers = [*base.measurements, measurement("sanitizer_findings", float(sum(f.times for f in ours)), "findings")]
    faults = [_fault(tool, found) for found in ours[:MOST_FAULTS]]

    def row(state: str, reason: str | None, detail: str) -> Row:
        return Row(state, detail, reason, base.cell, numbers, faults, base.compiled)

    if report.errors is None:
        said = " ".join(text.replace("=========", " ").split())[-300:] or "it wrote nothing"
        return row("inconclusive", "sanitizer_failed", f"{tool} gave no summary: {said}")
    if planted:
        wanted = [found for found in ours if found.code == PLANTED[planted]]
        if not wanted:
            return row("fail", "not_caught", f"not caught: {seen}")
        return row("pass", None, f"caught: {wanted[0].detail} at {wanted[0].source or wanted[0].kernel}")
    if ours:
        return row("fail", ours[0].code, f"{seen}; {faults[0].detail}")
    if report.errors and not report.findings:
        return row("inconclusive", "unknown_report", f"{seen}, none of which is of a known form")
    return row(base.state, base.reason, f"{seen}; {base.detail}")


def _fault(tool: str, found: Finding) -> Fault:
    detail = f"{tool}: {found.detail} in {found.kernel or 'an unnamed kernel'}, {found.times} times reported"
    return Fault(KINDS.get(found.code, "cuda_error"), detail, source=found.source)


def _own_row(said: str, key: str) -> Row | None:
    """The cell's row out of what the program printed."""
    for line in said.splitlines():
        try:
            document = json.loads(line)
        except ValueError:
            continue
        if isinstance(document, dict) and (document.get("kind"), document.get("key")) == ("row", key):
            known = {field.name: document[field.name] for field in fields(Row) if field.name in document}
            return Row(**{**known, "faults": [Fault(**fault) for fault in document.get("faults", ())]})
    return None
