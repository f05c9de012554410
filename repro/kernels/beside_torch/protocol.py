"""What a program and the side that started it say to each other.

In: one JSON document on standard input, the request:

    {"protocol": 1, "parent": PID, "paths": [DIR…], "scratch": DIR, "sglang": PATH or null, "origin": "pinned",
     "cases": [{"key", "cell": {…}, "planted": CODE or null, "parameters": {…}}, …]}

Out: one JSON document a line, each with a ``kind``:

    {"kind": "subject", "sglang", "triton", "torch", "source_path", "source_sha256"}   whose rows follow, until the next
    {"kind": "begin", "key"}        a case begins; its time limit starts
    {"kind": "row", "key", …}       a result: the fields of `Row`
    {"kind": "end", "key"}          the case has ended

A case has exactly one row under its own cell id, and may have more before it, with ids ``<id>.<word>``. ``cell`` of a
row holds only the fields that differ from the planned cell, such as the tile. Rows count once their case has ended: one
that dies in between is a row that the other side writes. Everything else that is printed goes to standard error.
"""

import faulthandler
import json
import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TextIO


@dataclass(frozen=True)
class Fault:
    """One thing wrong; the fields are those of the record ``kernel-result``."""

    kind: str
    detail: str
    source: str | None = None
    tensor: str | None = None
    element: int | None = None
    row: int | None = None


@dataclass(frozen=True)
class Row:
    """What a case showed. ``state`` of a planted case is ``pass`` if it was caught. ``reason`` is a code, None for a
    pass; ``cell`` holds the fields that differ from the plan's."""

    state: str
    detail: str
    reason: str | None = None
    cell: Mapping[str, Any] = field(default_factory=dict)
    measurements: Sequence[Mapping[str, Any]] = ()
    faults: Sequence[Fault] = ()
    compiled: Mapping[str, Any] | None = None
    buffers: Sequence[Mapping[str, Any]] = ()


def measurement(name: str, value: float | None, unit: str, *, reason: str | None = None, **at: int) -> dict[str, Any]:
    """A number of the record ``measurement``, as measured here."""
    known = {"value": value, "reason": reason, "low": None, "high": None, "n": None, "basis": "measured"}
    return {"name": name, "at": at, "unit": unit, **known}


class Channel:
    """Where the documents go: what was standard output. Libraries that print do so to standard error from now on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @classmethod
    def take_stdout(cls) -> "Channel":
        stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        faulthandler.enable()
        return cls(stream)

    def say(self, kind: str, **fields: Any) -> None:
        self._stream.write(json.dumps({"kind": kind, **fields}, allow_nan=False) + "\n")
        self._stream.flush()

    def subject(self, subject: Mapping[str, Any]) -> None:
        """Whose rows follow: sglang, triton, torch, source_path, source_sha256."""
        self.say("subject", **subject)

    def row(self, key: str, row: Row, wall_s: float) -> None:
        self.say("row", key=key, **{**asdict(row), "wall_s": wall_s})

    def answer(self, cases: Sequence[Mapping[str, Any]], ask: Callable[[Mapping[str, Any]], Row]) -> None:
        """Asks ``ask`` about each case and sends what it returns; an exception of one case does not end the others."""
        for case in cases:
            self.say("begin", key=case["key"])
            begun = time.monotonic()
            try:
                row = ask(case)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this case's result
                traceback.print_exc()
                row = Row(state="inconclusive", reason="program_error", detail=f"{type(error).__name__}: {error}"[:500])
            self.row(case["key"], row, time.monotonic() - begun)
            self.say("end", key=case["key"])
