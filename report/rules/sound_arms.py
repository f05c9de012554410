"""Where another graph mode gave right output at a budget that failed: what works, and how sure that is."""

from collections.abc import Sequence

from report.load import LoadedAttempt, LoadedCell, LoadedRun
from report.rules.draft import Draft
from report.rules.settings import Setting, budgets, graph_words, machine, partner, selected, selection
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
        f"{graph_words(cell.coordinates.graph)} failed in {cell.summary.k} of {cell.summary.n} launches at "
        f"{budgets([cell])}"
        for cell in failed
    )
    words = graph_words(mode)
    tasks = _tasks(attempts)
    at = budgets(sound)
    bound = percent(upper_bound(0, n))
    open_ = [c for c in failing if not _decided(partner(run, c, "graph", mode))]
    able = {cell.id for cell in run.cells} | {skip.cell for skip in run.skips if skip.state != "unsupported"}
    names = [name for c in open_ if (name := selection(c, "graph", mode)) is not None]
    again = selected([*map(selection, sound), *(name for name in names if name in able or "*" in name)])
    return Draft(
        run=run,
        family="sound",
        kind=f"{mode.replace('-', '_')}_correct",
        severity="info",
        statement=f"On {machine(run)}, {words} gave right output at {at} in {n} of {n} launches{tasks}, where {bad}. "
        f"The probability of a failure with {words} there is below {bound} at 95 % confidence.",
        cells=sound,
        scope=tuple(
            f"{machine(run)}, {Setting.of(cell.coordinates).words}: {budgets([cell])} (0 of {cell.summary.n} failed)"
            for cell in sound
        ),
        not_tested=not_tested(run, sound),
        hypotheses=(f"That {words} is right at every budget: it was run beside a failure at {at} alone.",),
        settle=f"python -m matrix run --spec {run.run.target} {again} --launches 10" if open_ else None,
        next=f"python -m matrix run --spec {run.run.target} {again} --launches 10",
        attempts=attempts,
        n=n,
    )


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
