"""What the compiler's and the buffers' rows say of one budget beside one that works, in sentences. Pure.

A sentence is made from rows only: where a row is missing there is no sentence. Compiled code of different releases or
Tritons is never mixed in one sentence.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from repro.model.kernels import EvidenceClass, KernelResult

Sense: TypeAlias = Literal["alike", "apart", "unknown"]
WORKS = 8
"""The largest budget with which the reported failure is not seen: others are compared with it."""
ARRANGEMENTS = {
    "tree": "where everything is set to the tree's width",
    "block": "where everything is left at the draft's block size",
    "step": "where graphs are captured for the tree and num_draft_tokens is left at the draft's block size",
}
FLASHINFER = ".flashinfer"
"""Ends the id of a row about the FlashInfer backend; the others are about Triton's."""
OUTCOMES = {
    None: "the buffers are large enough and the metadata fits the tree",
    "short_at_context_end": "the mask's buffer is short only when the largest batch has reached the end of the context",
    "short_buffer": "the mask's buffer is too short for long prefixes in the largest batch",
    "other_width": "the metadata states another width than the tree has",
    "graph_refused": "the graph is not replayed at all: the step runs eagerly, silently",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """One sentence. ``sense``: the two budgets are ``alike`` in what was looked at, or it sets them ``apart``, or this
    evidence cannot know. ``sglang`` are the releases that it is about; ``architecture`` is None where it depends on
    none. ``cells`` are the rows that it rests on."""

    sense: Sense
    evidence_class: EvidenceClass
    sglang: tuple[str, ...]
    triton: str | None
    architecture: str | None
    text: str
    cells: tuple[str, ...]


def about_budget(
    results: Iterable[KernelResult], architecture: str, budget: int, works: int = WORKS
) -> tuple[Statement, ...]:
    """What the rows say of ``budget`` beside ``works`` on one architecture; last, what they cannot say."""
    rows = [row for row in results if row.planted is None]
    code = [row for row in rows if row.check == "kernel-compile" and row.cell.architecture == architecture]
    compiled = [statement for group in _by_code(code) for statement in _of_code(group, budget, works)]
    buffers = list(_of_buffers([row for row in rows if row.check == "kernel-buffers"], budget, works))
    said = [*compiled, *buffers]
    if compiled:
        said.append(_unknown(compiled, f"no code was run on {architecture}: whether it computes what it should,"))
    if buffers:
        said.append(_unknown(buffers, "no graph was captured: whether steps overtake each other,"))
    return tuple(said)


def _by_code(rows: Sequence[KernelResult]) -> list[list[KernelResult]]:
    groups: dict[tuple[object, ...], list[KernelResult]] = defaultdict(list)
    for row in rows:
        groups[row.subject.sglang, row.subject.triton, row.subject.source_sha256].append(row)
    return list(groups.values())


def _of_code(rows: Sequence[KernelResult], budget: int, works: int) -> Iterable[Statement]:
    """Of one architecture, release and Triton."""
    for row in rows:
        if row.state == "fail" and budget in row.cell.budgets:
            yield _statement("apart", [row], f"{_launch(row)} has no code that can be launched: {row.detail}")
    pairs = _pairs([row for row in rows if row.compiled is not None and row.state == "pass"], budget, works)
    if budget == works or not pairs:
        return
    changed = [now for now, then in pairs if _cubin(now) != _cubin(then)]
    if changed:
        launches = ", ".join(_launch(row) for row in changed)
        text = f"on {_architecture(changed)}, budget {budget} runs other compiled code than budget {works}: {launches}"
        yield _statement("apart", changed, text)
    else:
        yield _statement("alike", _flat(pairs), _same_code(pairs, budget, works))
    yield from _tiles(pairs, budget, works)


def _same_code(pairs: Sequence[tuple[KernelResult, KernelResult]], budget: int, works: int) -> str:
    rows = f"{budget + 1} query rows (budget {budget}) and {works + 1} (budget {works})"
    text = f"on {_architecture(_flat(pairs))}, {rows} run the same compiled code"
    if all(_programs(now, budget) == _programs(then, works) for now, then in pairs):
        text += " and the same grid"
    shapes = dict.fromkeys(str(now.cell.shape) for now, _ in pairs)
    modes = dict.fromkeys(str(now.cell.mode) for now, _ in pairs)
    return f"{text}, in all {len(pairs)} launches compiled ({', '.join(shapes)}; {', '.join(modes)})"


def _tiles(pairs: Sequence[tuple[KernelResult, KernelResult]], budget: int, works: int) -> Iterable[Statement]:
    """Where the two budgets take different numbers of programs over their query rows."""
    shapes: dict[tuple[object, ...], list[KernelResult]] = defaultdict(list)
    for now, then in pairs:
        if _programs(now, budget) != _programs(then, works):
            shapes[now.cell.shape, _programs(now, budget), _programs(then, works)].append(now)
    for (shape, more, fewer), rows in shapes.items():
        text = (
            f"on {_architecture(rows)}, for {shape} (tile {rows[0].cell.tile}) the query rows of budget {budget} take"
            f" {more} programs, and those of budget {works} {fewer}"
        )
        yield _statement("apart", rows, text)


def _of_buffers(rows: Sequence[KernelResult], budget: int, works: int) -> Iterable[Statement]:
    """Releases with the same outcomes in the same arrangement share a sentence."""
    asked: dict[tuple[str, str], dict[int | None, KernelResult]] = defaultdict(dict)
    for row in rows:
        if row.state not in {"not_run", "inconclusive"}:
            asked[row.subject.sglang, arrangement_words(row)][row.cell.budget] = row
    groups: dict[tuple[str, str | None, str | None], list[KernelResult]] = defaultdict(list)
    for (_, arrangement), found in asked.items():
        if budget in found and works in found:
            groups[arrangement, found[budget].reason, found[works].reason].append(found[budget])
    for (arrangement, now, then), found_in in groups.items():
        group = sorted(found_in, key=lambda row: version_key(row.subject.sglang))
        text = f"{arrangement}, with budget {budget} {OUTCOMES.get(now, now)}"
        if budget != works:
            text += f"; with budget {works} {'as well' if now == then else OUTCOMES.get(then, then)}"
        yield _statement("alike" if now == then else "apart", group, f"sglang {_releases(group)}, {text}")


def _unknown(said: Sequence[Statement], beginning: str) -> Statement:
    """What the evidence of these statements cannot know; ``triton`` is None if they are about several."""
    tritons = {statement.triton for statement in said}
    text = f"{beginning} and what other kernels and buffers of the captured forward do, is not shown"
    return Statement(
        sense="unknown",
        evidence_class=said[0].evidence_class,
        sglang=tuple(dict.fromkeys(release for statement in said for release in statement.sglang)),
        triton=tritons.pop() if len(tritons) == 1 else None,
        architecture=said[0].architecture,
        text=text,
        cells=(),
    )


def _pairs(rows: Sequence[KernelResult], budget: int, works: int) -> list[tuple[KernelResult, KernelResult]]:
    """Rows of both budgets for the same launch: one row twice, where the budgets share their code."""
    launches: dict[tuple[object, ...], dict[int, KernelResult]] = defaultdict(dict)
    for row in rows:
        for number in {budget, works} & set(row.cell.budgets):
            launches[row.cell.shape, row.cell.mode, row.cell.batch, row.cell.dtype][number] = row
    return [(found[budget], found[works]) for found in launches.values() if {budget, works} <= set(found)]


def _flat(pairs: Iterable[tuple[KernelResult, KernelResult]]) -> list[KernelResult]:
    return [row for pair in pairs for row in pair]


def _cubin(row: KernelResult) -> str:
    return row.compiled.cubin_sha256 if row.compiled else ""


def _programs(row: KernelResult, budget: int) -> int:
    return dict(row.compiled.query_tiles).get(budget, 0) if row.compiled else 0


def _architecture(rows: Sequence[KernelResult]) -> str:
    return str(rows[0].cell.architecture)


def _launch(row: KernelResult) -> str:
    return f"{row.cell.shape}, {row.cell.mode}, batch {row.cell.batch}"


def _releases(rows: Sequence[KernelResult]) -> str:
    return ", ".join(dict.fromkeys(row.subject.sglang for row in rows))


def arrangement_words(row: KernelResult) -> str:
    """How the tree's width got into the server, of a row of the buffers arm, and which backend it is about."""
    name = row.cell.id.rpartition("-")[2].removesuffix(FLASHINFER)
    backend = "FlashInfer" if row.cell.id.endswith(FLASHINFER) else "Triton"
    return f"{backend} backend, {ARRANGEMENTS.get(name, name)}"


def version_key(version: str) -> tuple[tuple[int, str], ...]:
    """Sorts ``0.5.15``, ``0.5.15.post1``, ``0.5.16``: numbers by their value."""
    parts = (re.fullmatch(r"([a-z]*)(\d*)", part) for part in version.split("."))
    return tuple((int(part[2][:18] or 0), part[1]) for part in parts if part)


def _statement(sense: Sense, rows: Sequence[KernelResult], text: str) -> Statement:
    return Statement(
        sense=sense,
        evidence_class=rows[0].evidence_class,
        sglang=tuple(dict.fromkeys(row.subject.sglang for row in rows)),
        triton=rows[0].subject.triton,
        architecture=rows[0].cell.architecture,
        text=text,
        cells=tuple(dict.fromkeys(row.cell.id for row in rows)),
    )
