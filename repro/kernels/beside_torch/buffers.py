"""Buffers of a release: what its Triton backend allocates for graph capture, and what the verify of a tree needs.

Nothing is restated: allocation, metadata of capture and replay, the builder of the tree's mask and the decode runner's
question are the release's own code (`backend.py`). Sizes of a whole server come from the same code on PyTorch's meta
device, which holds no data.

Parameters of a case: ``root`` (a wheel or its unpacked folder; empty if it is not at hand), ``version``,
``draft_tokens``, ``runner_width``, ``width`` (rows of the verify), ``max_batch``, ``context``.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from . import backend, flashinfer_buffers, loading, standins
from .backend import NotExecutedError, Replayed
from .flashinfer_buffers import FlashInferFormulas
from .protocol import Channel, Fault, Row, measurement
from .sizes import Formulas, formulas
from .surroundings import Setting, answers

Known = TypeVar("Known")
MASK, GRID, QUERY_ROWS, MASK_CELLS = "tree_mask", "captured_grid_rows", "stated_query_rows", "stated_mask_cells"
SAID = {
    GRID: "rows of a request that the captured launch is made for",
    QUERY_ROWS: "rows of all requests that qo_indptr states",
    MASK_CELLS: "cells of the mask that mask_indptr states",
}
"""What the metadata says, which must equal the step; the others are buffers, which must be large enough."""
ENTRIES = ("qo_indptr", "kv_indptr", "mask_indptr")
SMALL = Setting(draft_tokens=1, runner_width=1, max_batch=4, context=64)
"""The size at which a whole step is replayed, data and all."""


@dataclass(frozen=True)
class Step:
    """One verify in one setting: what is allocated at full size, the metadata of the largest batch with prefixes up to
    the context's end, how copying a small batch's mask into the buffer ends, and whether the tree builder would write
    into it."""

    mask: int | None
    indices: int
    entries: Mapping[str, int]
    mask_needed: int
    replayed: Replayed
    copy_error: str | None
    in_place: bool
    accepted: bool | None
    may_replay: bool


def stepped(setting: Setting, width: int, *, cut: bool) -> Step:
    """What the release does with a verify of ``width`` rows. Raises `NotExecutedError`."""
    batch, prefix, captured = setting.max_batch, setting.context - 1, setting.runner_width
    whole = backend.made(setting, "meta", cut=cut)
    buffer = backend.mask_buffer(whole)
    # Arithmetic only: the buffer of the indices, which would fill gigabytes, is that of a short context.
    narrow = Setting(setting.draft_tokens, captured, batch, SMALL.context)
    told = backend.replayed(
        backend.made(narrow, "cpu"), torch.full((batch,), prefix), captured_width=captured, width=width
    )
    small = Setting(setting.draft_tokens, captured, SMALL.max_batch, SMALL.context)
    cells = backend.built_mask_cells(small.max_batch, small.context - 1, width)
    copied = backend.replayed(
        backend.made(small, "cpu", cut=cut),
        torch.full((small.max_batch,), small.context - 1),
        captured_width=captured,
        width=width,
        mask=torch.ones(cells, dtype=torch.bool),
    )
    return Step(
        mask=None if buffer is None else int(buffer.numel()),
        indices=int(whole.cuda_graph_kv_indices.numel()),
        entries={name: int(getattr(whole, name).numel()) for name in ENTRIES},
        mask_needed=backend.built_mask_cells(batch, prefix, width),
        replayed=told,
        copy_error=copied.copy_error,
        in_place=backend.builds_in_place(whole, batch, prefix, width),
        accepted=backend.accepted(whole, batch),
        may_replay=backend.may_replay(setting, batch, width),
    )


def needs(step: Step, formula: Formulas, batch: int, width: int) -> list[dict[str, Any]]:
    """Records `BufferNeed`: what is allocated, or said by the metadata, beside what the verify needs."""
    told = step.replayed
    rows = (
        (MASK, step.mask, step.mask_needed, formula.mask, formula.mask_needed),
        ("kv_indices", step.indices, told.prefix_tokens, formula.indices, formula.prefix_tokens),
        *((name, entries, batch + 1, formula.entries, "batch + 1") for name, entries in step.entries.items()),
        (QUERY_ROWS, told.query_rows, batch * width, formula.query_rows, "batch * width"),
        (GRID, told.grid_rows, width, formula.grid_rows, "width"),
        (MASK_CELLS, told.mask_cells, step.mask_needed, formula.mask_cells, formula.mask_needed),
    )
    names = ("buffer", "allocated", "needed", "allocated_formula", "needed_formula")
    return [dict(zip(names, row, strict=True)) for row in rows]


def faults(buffers: Sequence[Mapping[str, Any]]) -> list[Fault]:
    """What is short, and what the metadata says otherwise than the step is."""
    found = []
    for buffer in buffers:
        name, allocated, needed = buffer["buffer"], buffer["allocated"], buffer["needed"]
        if name in SAID:
            if allocated != needed:
                row = allocated if name == GRID and allocated < needed else None
                kind = "wrong_values" if row is None else "rows_not_written"
                found.append(
                    Fault(kind, f"{allocated} {SAID[name]}, where the verify has {needed}", tensor=name, row=row)
                )
        elif allocated is None or allocated < needed:
            detail = f"{name}: {allocated or 'no'} elements, and {needed} are needed"
            found.append(Fault("not_allocated", detail, tensor=name, element=allocated or 0))
    return found


def first_short(allocated: int, batch: int, width: int, context: int) -> int | None:
    """The shortest prefix, the same in all of ``batch`` requests, whose mask needs more than ``allocated`` cells; None
    if none up to the context's end does."""
    low, high = 0, context
    if backend.built_mask_cells(batch, high, width) <= allocated:
        return None
    while low < high:
        middle = (low + high) // 2
        if backend.built_mask_cells(batch, middle, width) > allocated:
            high = middle
        else:
            low = middle + 1
    return low


def refused(width: int) -> str:
    return f"the decode runner does not replay its graph for a verify of {width} rows: it runs eagerly, silently"


def verdict(
    step: Step, found: Sequence[Fault], setting: Setting, width: int, prefix: int | None
) -> tuple[str, str | None, str]:
    """State, reason and words. ``prefix``: from where the mask of the largest batch is too long."""
    if not step.may_replay:
        return "not_applicable", "graph_refused", refused(width)
    if not found:
        return "pass", None, f"large enough up to the context's end, and the metadata says {width} rows a request"
    said = "; ".join(fault.detail for fault in found)
    if prefix is not None:
        tokens = setting.max_batch * prefix
        said += f"; the mask is too long once {setting.max_batch} requests hold {tokens} tokens, {prefix} each"
    if step.copy_error is not None:
        said += f"; copying it at replay is refused (tried with {SMALL.max_batch} requests of {SMALL.context} tokens)"
    if prefix is not None and step.in_place:
        said += "; the tree builder writes into it whatever its size"
    if step.accepted is not None:
        said += f"; the release's own check {'accepts' if step.accepted else 'refuses'} the batch"
    if any(fault.tensor in SAID for fault in found):
        return "fail", "other_width", said
    at_end = prefix is not None and prefix > setting.context - width
    return "fail", "short_at_context_end" if at_end else "short_buffer", said


def row(formula: Formulas, case: Mapping[str, Any]) -> Row:
    """What one setting of the release does with one width. Raises `NotExecutedError`."""
    asked, planted = case["parameters"], case["planted"]
    setting = Setting(asked["draft_tokens"], asked["runner_width"], asked["max_batch"], asked["context"])
    width, batch = asked["width"], setting.max_batch
    step = stepped(setting, width, cut=planted == "half_of_mask")
    buffers = needs(step, formula, batch, width)
    found = faults(buffers)
    prefixes = {many: first_short(step.mask or 0, many, width, setting.context) for many in (1, batch)}
    state, reason, said = verdict(step, found, setting, width, prefixes[batch])
    if planted:
        caught = reason == "short_buffer" and any(fault.tensor == MASK for fault in found)
        state, reason = ("pass", None) if caught else ("fail", "not_caught")
        said = f"{'caught' if caught else 'not caught'}: {said}"
    return Row(
        state=state,
        detail=said,
        reason=reason,
        cell={"mode": "graph", "dtype": step.replayed.mask_dtype},
        measurements=[
            measurement("short_mask_from", prefix, "tokens", reason=None if prefix else "never", batch=many)
            for many, prefix in prefixes.items()
        ],
        faults=found,
        buffers=buffers,
    )


def flashinfer_row(formula: FlashInferFormulas, case: Mapping[str, Any]) -> Row:
    """The same with the release's FlashInfer backend. Raises `NotExecutedError`."""
    asked = case["parameters"]
    setting = Setting(asked["draft_tokens"], asked["runner_width"], asked["max_batch"], asked["context"])
    width = asked["width"]
    buffers = flashinfer_buffers.needs(setting, width, formula)
    found = faults(buffers)
    state, reason, said = (
        "pass",
        None,
        f"large enough up to the context's end, and the metadata says {width} rows a request",
    )
    if not backend.may_replay(setting, setting.max_batch, width):
        state, reason, said = "not_applicable", "graph_refused", refused(width)
    elif found:
        state, reason = "fail", "other_width" if any(fault.tensor in SAID for fault in found) else "short_buffer"
        said = "; ".join(fault.detail for fault in found)
    return Row(state, f"FlashInfer: {said}", reason=reason, cell={"mode": "graph"}, faults=found, buffers=buffers)


def subject(release: loading.Release, module: str) -> dict[str, Any]:
    """Versions, and the backend's file: it holds most of what is asked here."""
    file = release.root.joinpath(*module.split(".")).with_suffix(".py")
    path, digest = str(file.relative_to(release.root)), hashlib.sha256(file.read_bytes()).hexdigest()
    return {**release.subject(), "triton": None, "source_path": path, "source_sha256": digest, "origin": "release"}


def main(request: Mapping[str, Any], channel: Channel) -> None:
    torch.set_num_threads(1)
    for version in dict.fromkeys(case["parameters"]["version"] for case in request["cases"]):
        cases = [case for case in request["cases"] if case["parameters"]["version"] == version]
        release = loading.find(cases[0]["parameters"]["root"] or None, Path(request["scratch"]))
        channel.subject(subject(release, backend.BACKEND))
        if release.version != version:
            said = (
                f"sglang {version}: its wheel is not at hand ({release.version} is installed); give a folder of wheels"
            )
            channel.answer(cases, partial(_same, Row("not_run", said, reason="wheel_missing")))
            continue
        real = backend.REAL | flashinfer_buffers.REAL
        with standins.release(release.root, real, answers(SMALL)):
            _answer(channel, cases, release)


def _answer(channel: Channel, cases: Sequence[Mapping[str, Any]], release: loading.Release) -> None:
    """Rows of one release, whose modules can be imported now: FlashInfer's before that of the Triton backend."""
    triton, flashinfer = _or_why(formulas), _or_why(flashinfer_buffers.formulas)
    for case in cases:
        channel.say("begin", key=case["key"])
        if not case["planted"]:
            channel.subject(subject(release, flashinfer_buffers.BACKEND))
            identity = f"{case['cell']['id']}.flashinfer"
            found = _asked(flashinfer_row, flashinfer, case)
            channel.row(case["key"], replace(found, cell={**found.cell, "id": identity}), 0.0)
            channel.subject(subject(release, backend.BACKEND))
        begun = time.monotonic()
        found = _asked(row, triton, case)
        channel.row(case["key"], found, time.monotonic() - begun)
        channel.say("end", key=case["key"])


def _same(row: Row, _: Mapping[str, Any]) -> Row:
    return row


def _or_why(make: Callable[[], Known]) -> Known | str:
    try:
        return make()
    except NotExecutedError as error:
        return str(error)


def _asked(ask: Callable[[Known, Mapping[str, Any]], Row], known: Known | str, case: Mapping[str, Any]) -> Row:
    """The row, or why the release's code cannot be executed here."""
    try:
        if not isinstance(known, str):
            return ask(known, case)
        why = known
    except NotExecutedError as error:
        why = str(error)
    return Row("inconclusive", f"sglang {case['parameters']['version']}: {why}", reason="not_executed")
