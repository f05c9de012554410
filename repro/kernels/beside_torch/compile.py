"""Compiles SGLang's verify-attention kernel for GPUs that are not here; the release's own launch code chooses how.

Parameters of a case: ``mode`` (``eager`` or ``graph``), ``budgets``, the head counts and dimensions, ``triton`` (a
folder with another Triton, or empty) and ``disassembler`` (an nvdisasm for where neither the bundled one nor
that of the environment's own Triton knows the architecture, or empty).
"""

import hashlib
import importlib.util
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import loading
from .compiled import LIMITS, tool
from .compiling import in_child
from .protocol import Channel, Fault, Row, measurement

MESSAGE_CHARACTERS = 2000


def excess(compiled: Mapping[str, Any]) -> tuple[str, Fault] | None:
    """A limit of the architecture that the code does not keep: it could not be launched."""
    shared, limit = compiled["shared_bytes"], compiled["shared_limit_bytes"]
    if shared > limit:
        detail = f"{shared} bytes of dynamic shared memory are needed, and a block may have {limit}"
        return "over_shared_memory", Fault("not_allocated", detail, tensor="shared memory", element=limit)
    columns = compiled["tensor_memory_columns"]
    if columns > LIMITS.tensor_memory_columns:
        detail = f"{columns} columns of tensor memory are needed, and there are {LIMITS.tensor_memory_columns}"
        return "over_tensor_memory", Fault("not_allocated", detail, tensor="tensor memory", element=columns)
    return None


def words(compiled: Mapping[str, Any], tile: str) -> str:
    columns = compiled["tensor_memory_columns"]
    return (
        f"{compiled['ptx_target']}, tile {tile}: {compiled['registers']} registers,"
        f" {compiled['stack_bytes']} B of stack,"
        f" {compiled['shared_bytes']} of {compiled['shared_limit_bytes']} B of shared memory,"
        f" {f'{columns} columns of tensor memory, ' if columns else ''}{compiled['mma']}"
    )


def row(document: Mapping[str, Any], mode: str) -> Row:
    """A document of the child as a result."""
    if document["kind"] == "failure":
        message = document["message"][:MESSAGE_CHARACTERS]
        fault = Fault("ptxas", message)
        lines = [line for line in message.splitlines() if " error " in line or "fatal" in line] or message.splitlines()
        return Row("fail", lines[0].strip(), reason=document["reason"], cell={"mode": mode}, faults=[fault])
    compiled, cell = document["compiled"], {"mode": mode, "tile": document["tile"], "budgets": document["budgets"]}
    found = excess(compiled)
    return Row(
        state="fail" if found else "pass",
        detail=found[1].detail if found else words(compiled, document["tile"]),
        reason=found[0] if found else None,
        cell=cell,
        measurements=[measurement("compile", document["compile_s"], "s")],
        faults=[found[1]] if found else [],
        compiled=compiled,
    )


CAUGHT_AS = {"over_shared_memory": "over_shared_memory", "bad_ptx": "ptxas_failed", "dead_compiler": "compiler_died"}


def planted_row(kernel: Any, case: Mapping[str, Any]) -> Row:
    """Whether what was planted was seen."""
    name, mode = case["planted"], case["parameters"]["mode"]
    if name == "other_dtype":
        return hashes_row(kernel, case)
    seen = row(in_child(kernel, case)[0], mode)
    caught = seen.reason == CAUGHT_AS[name]
    return Row(
        state="pass" if caught else "fail",
        detail=f"{'caught' if caught else 'not caught'}: {seen.detail}",
        reason=None if caught else "not_caught",
        cell=seen.cell,
        faults=seen.faults,
        compiled=seen.compiled,
    )


def hashes_row(kernel: Any, case: Mapping[str, Any]) -> Row:
    """Other element types must give another hash, and the same ones, compiled anew, the same hash."""

    def compiled(dtype: str, cache: str) -> str:
        os.environ["TRITON_CACHE_DIR"] = str(Path(usual, cache))
        document = in_child(kernel, {**case, "planted": None, "cell": {**case["cell"], "dtype": dtype}})[0]
        return str(document["compiled"]["cubin_sha256"] if document["kind"] == "variant" else document["message"])

    usual = os.environ["TRITON_CACHE_DIR"]
    unique = hashlib.sha256(f"{os.getpid()} {time.monotonic_ns()}".encode()).hexdigest()[:12]
    try:
        once, again = (compiled("bf16", f"{unique}-{turn}") for turn in ("once", "again"))
        other = compiled("fp16", f"{unique}-other")
    finally:
        os.environ["TRITON_CACHE_DIR"] = usual
    caught = once == again != other
    said = f"bf16 {once[:12]} and again {again[:12]}, fp16 {other[:12]}"
    return Row(
        state="pass" if caught else "fail",
        detail=f"{'caught: ' if caught else 'hashes do not tell codes apart: '}{said}",
        reason=None if caught else "not_caught",
        cell={"mode": case["parameters"]["mode"]},
    )


def ask(kernel: Any, case: Mapping[str, Any]) -> list[tuple[str, Row]]:
    """Rows of a case by cell id: the code of most budgets under the case's own, last, others before it."""
    own = case["cell"]["id"]
    if case["planted"]:
        return [(own, planted_row(kernel, case))]
    documents = in_child(kernel, case)
    documents.sort(key=lambda document: len(document.get("budgets", ())))
    rows = [row(document, case["parameters"]["mode"]) for document in documents]
    names = [*(f"{own}.code{number}" for number in range(2, len(rows) + 1)), own]
    return list(zip(names, rows, strict=True))


def main(request: Mapping[str, Any], channel: Channel) -> None:
    # Hashes that do not depend on where the packages lie: the code then names no file.
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
    os.environ["TRITON_CACHE_DIR"] = str(Path(request["scratch"], "triton"))
    folders = {case["parameters"]["triton"] for case in request["cases"]}
    if len(folders) != 1:
        raise SystemExit("cases of one process share one Triton")
    usual = tool("nvdisasm", importlib.util.find_spec("triton"))  # before another Triton comes first
    sys.path[:0] = [folder for folder in folders if folder]
    release = loading.find(request["sglang"], Path(request["scratch"]))
    kernel = loading.load(release)
    channel.subject(release.subject())
    for planned in request["cases"]:
        case = {**planned, "disassemblers": [usual, *filter(None, [planned["parameters"]["disassembler"]])]}
        channel.say("begin", key=case["key"])
        begun = time.monotonic()
        for name, one in ask(kernel, case):
            named = one if name == case["cell"]["id"] else Row(**{**vars(one), "cell": {**one.cell, "id": name}})
            channel.row(case["key"], named, time.monotonic() - begun)
        channel.say("end", key=case["key"])
