"""The first screen in sentences: what of a run failed, how sure that is, and what it was compared with."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from report.changes import launches
from report.compare import RUN_PREFIX
from report.load import LoadedCell, LoadedRun
from report.ran import what_ran
from report.words import interval_label, percent, spoken
from repro.escape import one_line
from repro.intervals import upper_bound
from repro.model import Baseline, Comparison

_MOST_CELLS = 4
_MOST_REASONS = 3
_MOST_OTHERS = 6
_LONGEST = 160
_DIFFERS = re.compile(r"(\w+) is .* here and .* there", re.DOTALL)
_ORDER = ("comparable", "unverified", "not_comparable")


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """A cell in which launches failed; ``told``: in how many, of what, and the interval."""

    cell: str
    anchor: str
    told: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """``ran``: engine, models, machine and what of the matrix (empty if nothing has a result); ``head``: how much
    failed; ``worst``: the cells to name, and ``more``: how many are not; ``sure``: how sure that is; ``undecided``: of
    what nothing is known (may be empty); ``compared``: a sentence for each other run, each own baseline,
    and the archived ones together."""

    ran: str
    head: str
    worst: tuple[Failed, ...]
    more: str
    sure: str
    undecided: str
    compared: tuple[str, ...]

    @property
    def failed(self) -> str:
        """What failed, in a sentence."""
        told = "; ".join(f"{one.cell} {one.told}" for one in self.worst)
        more = f"; and {self.more}" if self.more else ""
        return f"{self.head}: {told}{more}." if told else f"{self.head}."

    @property
    def lines(self) -> tuple[str, ...]:
        lines = (self.ran, f"{self.failed} {self.sure}".strip(), self.undecided, *self.compared)
        return tuple(line for line in lines if line)


MOST_CARDS = 4
"""Targets whose sentences stand on the first screen; of more, those with failures come first and the rest is folded."""


def in_order(runs: Sequence[LoadedRun]) -> tuple[LoadedRun, ...]:
    """The runs as the first screen has them."""
    if len(runs) <= MOST_CARDS:
        return tuple(runs)
    return tuple(sorted(runs, key=lambda run: not any(cell.summary.k for cell in run.cells)))


def overview(runs: Sequence[LoadedRun]) -> str:
    """A sentence over all targets, where they are many; else empty."""
    if len(runs) <= MOST_CARDS:
        return ""
    bad = [run.run.target for run in runs if any(cell.summary.k for cell in run.cells)]
    named = ", ".join(bad[:_MOST_OTHERS]) + (f" and {len(bad) - _MOST_OTHERS} more" if len(bad) > _MOST_OTHERS else "")
    return f"{len(runs)} targets: launches failed in {len(bad)} of them{f' ({named})' if bad else ''}."


def answers(run: LoadedRun, comparisons: Sequence[Comparison], baselines: Mapping[str, Baseline]) -> Answers:
    """``comparisons`` are those of the run's target."""
    bad = sorted((cell for cell in run.cells if cell.summary.k), key=lambda cell: (_share(cell), cell.id))
    worst = tuple(Failed(cell=cell.id, anchor=cell.anchor, told=_told(cell)) for cell in bad[:_MOST_CELLS])
    return Answers(
        ran=what_ran(run),
        head=_head(run, bad),
        worst=worst,
        more=f"{_cells(len(bad) - _MOST_CELLS)} more" if len(bad) > _MOST_CELLS else "",
        sure=_sure(run, bad),
        undecided=_undecided(run),
        compared=_compared(comparisons, baselines),
    )


def _head(run: LoadedRun, bad: Sequence[LoadedCell]) -> str:
    n = sum(cell.summary.n for cell in run.cells)
    if not n:
        return "No launch decided anything yet"
    if not bad:
        return f"Nothing failed in {launches(n)} of {_cells(sum(cell.summary.n > 0 for cell in run.cells))}"
    return f"{len(bad)} of {_cells(len(run.cells))} failed"


def _sure(run: LoadedRun, bad: Sequence[LoadedCell]) -> str:
    """What single launches do not say, and the bound for the cells without a failure."""
    if run.planted:
        return "Faults were planted in this run."
    clean = [cell for cell in run.cells if cell.summary.n and not cell.summary.k]
    healthy = sum(cell.summary.n for cell in clean)
    single = sum(cell.summary.n == 1 for cell in bad)
    parts = []
    if single:
        whose = "every failed cell" if single == len(bad) else f"{single} of the failed cells"
        parts.append(f"Of {whose} only one launch decided: that it fails, not how often.")
    if clean:
        below = percent(upper_bound(0, healthy))
        parts.append(
            f"{_cells(len(clean))} had no failure in {launches(healthy)}: below {below} of launches fail there at 95 % "
            "confidence, if all are equally likely to."
            if bad
            else f"Below {below} of launches fail at 95 % confidence, if all are equally likely to."
        )
    return " ".join(parts)


def _share(cell: LoadedCell) -> tuple[bool, float, int]:
    return cell.summary.verdict != "corrupt", -cell.summary.k / cell.summary.n, -cell.summary.n


def _told(cell: LoadedCell) -> str:
    summary = cell.summary
    what = "wrong output" if summary.verdict == "corrupt" else ", ".join(map(spoken, summary.reasons[:2])) or "failed"
    if summary.n == 1:
        return f"in the only launch that decided ({one_line(what, 60)})"
    sure = interval_label(summary.interval)
    return f"in {summary.k} of {launches(summary.n)} ({one_line(what, 60)}; 95 % interval {sure})"


def _undecided(run: LoadedRun) -> str:
    """What was planned and told nothing, and what is still to come."""
    counted = Counter[str](cell.summary.verdict for cell in run.cells if not cell.summary.n)
    told = f"Nothing is known of {_cells(counted.total())}: {_counted(counted)}." if counted else ""
    open_ones = sum(cell.summary.inconclusive + cell.summary.void for cell in run.cells if cell.summary.n)
    told += f" In cells that decided, {launches(open_ones)} did not." if open_ones else ""
    skipped = Counter[str](skip.state for skip in run.skips)
    told += f" Not part of the run: {_counted(skipped)}." if skipped else ""
    if not run.missing:
        return told.strip()
    begun = f", and {launches(run.begun)} begun without a result: running, or killed" if run.begun else ""
    return f"{told} Unfinished: {run.missing} of {launches(run.planned)} missing{begun}.".strip()


def _counted(words: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {spoken(word)}" for word, count in sorted(words.items()))


def _compared(comparisons: Sequence[Comparison], baselines: Mapping[str, Baseline]) -> tuple[str, ...]:
    by_name: dict[str, list[Comparison]] = {}
    for item in comparisons:
        by_name.setdefault(item.baseline, []).append(item)
    if not by_name:
        return ("Compared with nothing: there is no baseline and no other run.",)
    archived = {name: items for name, items in by_name.items() if _is_archived(name, baselines)}
    single = [name for name in by_name if name not in archived]
    lines = [_beside(name, by_name[name]) for name in single[:_MOST_OTHERS]]
    if len(single) > _MOST_OTHERS:
        lines.append(f"Compared with {len(single) - _MOST_OTHERS} more, further down.")
    if archived:
        lines.append(_archived(archived, baselines))
    return tuple(lines)


def _is_archived(name: str, baselines: Mapping[str, Baseline]) -> bool:
    """Whether it was written down by hand, from an account."""
    return name in baselines and baselines[name].source.imported_at is None


def _beside(name: str, items: Sequence[Comparison]) -> str:
    """Of another run, or of a baseline of one's own."""
    what = f"run {name.removeprefix(RUN_PREFIX)}" if name.startswith(RUN_PREFIX) else f"baseline {name}"
    head = f"Compared with {one_line(what, 80)}"
    found = [item for item in items if item.numbers]
    if not found:
        return f"{head}: nothing beside it, because {_why(items)}."
    parts = []
    changed = Counter(item.change for item in found if item.comparable == "comparable" and item.change)
    parts += [_many(changed[word], word) for word in ("regression", "improvement") if changed[word]]
    parts += [f"{changed[word]} {word}" for word in ("equivalent", "undecided") if changed[word]]
    for state in ("comparable", "unverified", "not_comparable"):
        of = [item for item in found if item.comparable == state and not (state == "comparable" and item.change)]
        if of:
            parts.append(f"{len(of)} {_STATES[state]}" + (f" ({_why(of)})" if state != "comparable" else ""))
    alone = len(items) - len(found)
    parts += [f"{alone} without a counterpart"] if alone else []
    subject = next((item.changed for item in found if item.changed), ())
    changed_on_purpose = f" Changed: {one_line('; '.join(subject), _LONGEST)}." if subject else ""
    return f"{head}, {_cells(len(found))} beside it: {', '.join(parts)}.{changed_on_purpose}"


_STATES = {
    "comparable": "comparable without a verdict",
    "unverified": "not verified",
    "not_comparable": "not comparable",
}


def _archived(archived: Mapping[str, Sequence[Comparison]], baselines: Mapping[str, Baseline]) -> str:
    """All that stands in accounts of earlier runs, in one sentence."""
    best = {name: min((item.comparable for item in items), key=_ORDER.index) for name, items in archived.items()}
    targets = sorted({target for name in archived if (target := baselines[name].target) is not None})
    many = "s" if len(archived) > 1 else ""
    head = f"Compared with {len(archived)} archived baseline{many} ({', '.join(targets) or 'target not stated'})"
    parts = []
    for state in _ORDER:
        names = [name for name in archived if best[name] == state]
        if names:
            found = [next(item for item in archived[name] if item.comparable == state) for name in names]
            said = "none comparable" if set(best.values()) == {"not_comparable"} else f"{len(names)} {_SAID[state]}"
            parts.append(said + ("" if state == "comparable" else f", because {_why(found)}"))
    return f"{head}: {'; '.join(parts)}."


_SAID = {
    "comparable": "comparable",
    "unverified": "set beside ours without a verdict",
    "not_comparable": "not comparable",
}


def _why(items: Iterable[Comparison]) -> str:
    """The reasons, most frequent first: of facts that differ only the first, which explains most."""
    given = list(items)
    if all(item.comparable == "unverified" for item in given):
        fewest, most = min(len(item.unknown) for item in given), max(len(item.unknown) for item in given)
        return f"{fewest if fewest == most else f'{fewest} to {most}'} facts of each are not known on both sides"
    counted = Counter(map(_reason, given))
    ordered = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
    alone = len(ordered) == 1
    told = [reason + ("" if alone else f" ({count})") for reason, count in ordered[:_MOST_REASONS]]
    more = sum(count for _, count in ordered[_MOST_REASONS:])
    return ", ".join([*told, *([f"other reasons ({more})"] if more else [])])


def _reason(item: Comparison) -> str:
    first = item.reasons[0] if item.reasons else "no reason was given"
    differs = _DIFFERS.fullmatch(first)
    return f"{spoken(differs[1])} differs" if differs else one_line(first, 100)


def _cells(count: int) -> str:
    return f"{count} cell{'s' if count != 1 else ''}"


def _many(count: int, word: str) -> str:
    return f"{count} {word}{'s' if count != 1 else ''}"
