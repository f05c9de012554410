"""Where another graph mode gave right output at a budget that failed: what works, and how sure that is."""

from collections.abc import Sequence

from report.changes import launches
from report.load import LoadedAttempt, LoadedCell, LoadedRun
from report.rules.draft import Draft
from report.rules.settings import Setting, budgets, graph_words, machine, partner, spelled
from report.rules.untested import not_tested
from report.words import percent
from repro.intervals import upper_bound

_MODES = ("eager", "verify-eager", "graph")


def sound_arms(run: LoadedRun) -> tuple[Draft, ...]:
    """One for each graph mode that passed at a budget at which another one failed. A planted run tells nothing."""
    if run.planted:
        return ()
    failing = [cell for cell in run.cells if cell.summary.k and Setting.of(cell.coordinates).known("graph")]
    found = []
    for mode in _MODES:
        pairs = [(cell, other) for cell in failing if (other := partner(run, cell, "graph", mode)) is not None]
        passed = [(cell, other) for cell, other in pairs if other.summary.verdict == "pass"]
        if passed:
            found.append(_draft(run, mode, passed, failing))
    return tuple(found)


def _draft(
    run: LoadedRun, mode: str, pairs: Sequence[tuple[LoadedCell, LoadedCell]], failing: Sequence[LoadedCell]
) -> Draft:
    sound = tuple({other.id: other for _, other in pairs}.values())
    failed = tuple({cell.id: cell for cell, _ in pairs}.values())
    attempts = tuple(a for cell in sound for a in cell.attempts if a.verdict.verdict == "pass")
    n = len(attempts)
    bad = "; ".join(
        f"{graph_words(cell.coordinates.graph)} failed in {cell.summary.k} of {launches(cell.summary.n)} at "
        f"{budgets([cell])}"
        for cell in failed
    )
    words = graph_words(mode)
    tasks = _tasks(attempts)
    at = budgets(sound)
    bound = percent(upper_bound(0, n))
    open_ = [c for c in failing if not _decided(partner(run, c, "graph", mode))]
    ids = [f"{s.head}{mode}-{s.nvls}{s.rest}" for c in open_ if (s := spelled(c.id)) is not None]
    known = {cell.id for cell in run.cells} | {skip.cell for skip in run.skips if skip.state != "unsupported"}
    select = [name for name in ids if name in known and not {"graph", "nvls"} & set(_variant(open_, name, ids))]
    again = " ".join(f"--select {name}" for name in dict.fromkeys([*(cell.id for cell in sound), *select]))
    return Draft(
        run=run,
        family="sound",
        kind=f"{mode.replace('-', '_')}_correct",
        severity="info",
        statement=f"On {machine(run)}, {words} gave right output at {at} in {n} of {launches(n)}{tasks}, where {bad}. "
        f"The probability of a failure with {words} there is below {bound} at 95 % confidence.",
        cells=sound,
        scope=tuple(
            f"{machine(run)}, {Setting.of(cell.coordinates).words}: {budgets([cell])} (0 of {cell.summary.n} failed)"
            for cell in sound
        ),
        not_tested=not_tested(run, sound),
        hypotheses=(
            f"{words[:1].upper()}{words[1:]} is right at every budget: it was run beside a failure at {at} alone.",
        ),
        next=f"python -m matrix run --spec {run.run.target} {again} --launches 10",
        attempts=attempts,
        n=n,
    )


def _variant(cells: Sequence[LoadedCell], name: str, ids: Sequence[str]) -> tuple[str, ...]:
    return tuple(cells[ids.index(name)].coordinates.variant)


def _decided(cell: LoadedCell | None) -> bool:
    return cell is not None and cell.summary.n > 0


def _tasks(attempts: Sequence[LoadedAttempt]) -> str:
    """The coding tasks solved, where all launches were given some."""
    counts = [
        (int(m.value), m.n)
        for a in attempts
        for check in a.result.checks
        for m in check.measurements
        if m.name == "coding_correct" and m.value is not None and m.n
    ]
    if not counts:
        return ""
    solved, given = (sum(side) for side in zip(*counts, strict=True))
    return f" ({solved} of {given} coding tasks correct)"
