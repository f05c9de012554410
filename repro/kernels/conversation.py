"""What a program says, a line at a time, as results. Pure: it reads no clock and no stream.

Whatever a program prints is checked; nothing that it can print is taken for a result of another case.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import schemas
from repro import codec
from repro.errors import GraphreproError
from repro.kernels.case import Case
from repro.model.kernels import KernelCell, KernelFault, KernelResult, KernelSubject
from repro.model.words import CheckState

Origin = Literal["pinned", "release", "image", "environment"]

LONGEST_DETAIL = 2000


@dataclass(frozen=True, slots=True)
class Finished:
    """A case that ended, with its results: the last one has the case's own cell id."""

    case: Case
    results: tuple[KernelResult, ...]


class Conversation:
    """Of one process that was asked about ``cases``. ``subject`` is what stands in results until the program says which
    code it tests; ``garbage`` counts the lines that meant nothing."""

    def __init__(self, cases: Iterable[Case], subject: KernelSubject) -> None:
        self.subject = subject
        self.current: Case | None = None
        self.begun = 0
        self.garbage = 0
        self._waiting = {case.key: case for case in cases}
        self._rows: list[KernelResult] = []

    @property
    def left(self) -> tuple[Case, ...]:
        """Cases that have not ended."""
        return tuple(self._waiting.values())

    def hear(self, line: bytes) -> Finished | None:
        """Takes one line in; the case that it ends, if it ends one."""
        document = _document(line)
        handlers = {"subject": self._on_subject, "begin": self._on_begin, "row": self._on_row}
        kind = document.get("kind")
        if kind == "end" and self._is_current(document):
            return self._finish()
        if kind not in handlers or not handlers[kind](document):
            self.garbage += 1
        return None

    def end_badly(
        self, *, state: CheckState, reason: str, detail: str, fault: KernelFault | None, wall_s: float
    ) -> Finished | None:
        """The process is gone: its current case has ended that way. None if it had none."""
        if self.current is None:
            return None
        row = own_result(
            self.current, self.subject, state=state, reason=reason, detail=detail, fault=fault, wall_s=wall_s
        )
        self._rows = [found for found in self._rows if found.cell.id != self.current.cell.id]
        self._rows.append(row)
        return self._finish()

    def _is_current(self, document: Mapping[str, Any]) -> bool:
        return self.current is not None and document.get("key") == self.current.key

    def _on_subject(self, document: Mapping[str, Any]) -> bool:
        fields = {name: document.get(name) for name in ("sglang", "triton", "torch", "source_path", "source_sha256")}
        found = replace(self.subject, **cast("dict[str, Any]", fields))
        if document.get("origin") in ("pinned", "release", "image", "environment"):
            found = replace(found, origin=cast("Origin", document["origin"]))
        self.subject = found
        return True

    def _on_begin(self, document: Mapping[str, Any]) -> bool:
        case = self._waiting.get(str(document.get("key")))
        if case is None or self.current is not None:
            return False
        self.current = case
        self.begun += 1
        return True

    def _on_row(self, document: Mapping[str, Any]) -> bool:
        if not self._is_current(document) or self.current is None:
            return False
        self._rows.append(_result(self.current, self.subject, document))
        return True

    def _finish(self) -> Finished:
        case = cast("Case", self.current)
        own = [row for row in self._rows if row.cell.id == case.cell.id]
        others = [row for row in self._rows if row.cell.id.startswith(f"{case.cell.id}.")]
        if len(own) != 1:
            detail = f"the program gave {len(own)} results for the case itself instead of one"
            own = [own_result(case, self.subject, state="inconclusive", reason="program_error", detail=detail)]
        del self._waiting[case.key]
        self.current, self._rows = None, []
        return Finished(case, (*others, *own))


def own_result(
    case: Case,
    subject: KernelSubject,
    *,
    state: CheckState,
    reason: str,
    detail: str,
    fault: KernelFault | None = None,
    wall_s: float = 0.0,
) -> KernelResult:
    """The result of a case of which the program has said nothing."""
    return KernelResult(
        check=case.check,
        evidence_class=case.evidence_class,
        cell=case.cell,
        subject=subject,
        planted=case.planted,
        state=state,
        reason=reason,
        detail=detail[:LONGEST_DETAIL] or "nothing was said",
        measurements=(),
        faults=() if fault is None else (fault,),
        compiled=None,
        buffers=(),
        wall_s=wall_s,
    )


def _document(line: bytes) -> Mapping[str, Any]:
    """The JSON object in a line, or an empty one."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _result(case: Case, subject: KernelSubject, document: Mapping[str, Any]) -> KernelResult:
    """The result that a row says, or one that says what is wrong with the row."""
    told = document.get("cell")
    cell = {name: getattr(case.cell, name) for name in KernelCell.__dataclass_fields__}
    if isinstance(told, Mapping):
        cell |= told
    names = ("state", "reason", "detail", "measurements", "faults", "compiled", "buffers", "wall_s")
    record = {
        "record": "kernel-result",
        "schema_version": schemas.version("kernel-result"),
        "check": case.check,
        "evidence_class": case.evidence_class,
        "cell": {**cell, "budgets": list(cell["budgets"])},
        "subject": {name: getattr(subject, name) for name in KernelSubject.__dataclass_fields__},
        "planted": case.planted,
        **{name: document.get(name) for name in names},
    }
    try:
        return codec.decode(record, KernelResult, where=f"row of {case.key}")
    except GraphreproError as problem:
        detail = f"the program's row is not valid: {problem}"
        return own_result(case, subject, state="inconclusive", reason="invalid_row", detail=detail)
