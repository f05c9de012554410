"""What a finding says and what to do next: sentences with their numbers, which never claim more than the data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from report.changes import launches
from report.load import LoadedAttempt, LoadedCell
from report.rules.settings import selected, selection
from report.words import interval_label, percent, spoken
from repro.escape import one_line
from repro.intervals import upper_bound, wilson
from repro.model import Outcome, Signature

_MOST_CELLS = 4
_LONGEST_QUOTE = 200
_OUTCOMES: Mapping[Outcome, str] = {"crashed": "The server crashed", "hung": "The server hung", "oom": "Out of memory"}
_PHASES: Mapping[str, str] = {
    "start": "while starting",
    "capture": "while capturing graphs",
    "serving": "while serving",
    "shutdown": "while shutting down",
}
PLANTED_PREFIX = "PLANTED FAULT, a test of the tool and not evidence about an engine: "


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """What a sentence is made from. ``seen`` holds each cell with the number of its launches that the finding is about
    (for `unfinished`: that are missing); ``attempts`` are those launches."""

    family: str
    kind: str
    signature: Signature
    target: str
    planted: bool
    seen: tuple[tuple[LoadedCell, int], ...]
    attempts: tuple[LoadedAttempt, ...]


def statement(shown: Shown) -> str:
    """One or two sentences."""
    said = _SENTENCES[shown.family](shown)
    return one_line(PLANTED_PREFIX + said if shown.planted else said)


def next_command(shown: Shown) -> str:
    """One command line to type next."""
    run = f"python -m matrix run --spec {shown.target}"
    most = max(shown.seen, key=lambda seen: (seen[1], seen[0].summary.n))[0]
    cell, only = most.id, selected([selection(most)])
    again = f"{run} {only} --launches 10"
    if shown.family == "unnoticed":
        fault = next(a.result.planted.fault for a in shown.attempts if a.result.planted is not None)
        return f"{run} {only} --inject {cell}={one_line(fault)}"
    if shown.planted:
        return run
    fixed = {
        "unfinished": run,
        "healthy": f"{run} --launches 10",
        "topk": f"python -m matrix plan --spec {shown.target} {only}",
        "void": f"python -m matrix preflight --spec {shown.target}",
    }
    log = _server_log(shown) if shown.family in {"proof", "refused"} else None
    return f"python -m repro diagnose {log}" if log is not None else fixed.get(shown.family, again)


def _server_log(shown: Shown) -> str | None:
    attempt = shown.attempts[0]
    names = {file.path for file in attempt.result.evidence}
    return f"results/{attempt.path}/evidence/server.log" if "evidence/server.log" in names else None


def _corrupt(shown: Shown) -> str:
    scores = [a.score for a in shown.attempts if a.score is not None and a.score.state == "wrong"]
    worst = max(scores, key=lambda score: score.above / max(score.tokens, 1), default=None)
    quoted = _quote(shown)
    quoted += "" if quoted.endswith((".", "…")) else "."
    if worst is None or f"rescoring: {one_line(worst.detail)[:40]}" in quoted:  # the check has said it
        return f"Wrong output in {_share(shown)}. {quoted}"
    return f"Wrong output in {_share(shown)}. {quoted} Rescored: {one_line(worst.detail, _LONGEST_QUOTE)}."


def _failure(shown: Shown) -> str:
    outcomes = {attempt.result.outcome for attempt in shown.attempts}
    if outcomes == {"completed"}:
        what = "Nothing that was drafted is accepted" if shown.kind == "acceptance_at_floor" else "A check failed"
        return f"{what} ({spoken(shown.kind)}) in {_share(shown)}. {_quote(shown)}"
    what = _OUTCOMES.get(next(iter(outcomes)), "The server failed") if len(outcomes) == 1 else "The server failed"
    where = f" in {one_line(spoken(shown.signature.subsystem), 60)}" if shown.signature.subsystem else ""
    kind = "" if shown.kind in outcomes else f" ({spoken(shown.kind)}{where})"
    phase = _PHASES.get(shown.signature.phase, "")
    return f"{what}{kind}{' ' + phase if phase else ''} in {_share(shown)}."


def _unnoticed(shown: Shown) -> str:
    faults = sorted({a.result.planted.fault for a in shown.attempts if a.result.planted is not None})
    return f"{', '.join(faults)} was planted and {_counted(shown)} passed all the same: the checks did not notice."


def _proof(shown: Shown) -> str:
    fact = shown.kind.removesuffix("_contradicted")
    proof = next(p for p in shown.attempts[0].result.proof if p.fact == fact and p.state == "contradicted")
    return (
        f"Not the configuration that was asked for: {fact} should be {proof.expected} and {proof.source} says "
        f"{proof.observed}, in {_counted(shown)}. Such a launch counts neither as a pass nor as a failure."
    )


def _topk(shown: Shown) -> str:
    pairs = sorted(
        {(e.topk_requested or 0, e.topk_effective or 0) for e in (a.result.expectation for a in shown.attempts)}
    )
    made = ", ".join(f"{effective} of the {requested} asked for" for requested, effective in pairs)
    return (
        f"Top-k not honoured: the engine makes it {made}, in {_counted(shown)}. These cells are compared with nothing "
        "that had the full top-k."
    )


def _inconclusive(shown: Shown) -> str:
    return f"Not decided ({spoken(shown.kind)}): {_counted(shown)}. {_quote(shown)}"


def _void(shown: Shown) -> str:
    return f"Void ({spoken(shown.kind)}): {_counted(shown)}, which say nothing about the engine. {_quote(shown)}"


def _refused(shown: Shown) -> str:
    return f"The engine refused the configuration ({spoken(shown.kind)}): {_counted(shown)}. {_quote(shown)}"


def _unfinished(shown: Shown) -> str:
    missing = sum(count for _, count in shown.seen)
    planned = sum(cell.planned for cell, _ in shown.seen)
    cells = "1 cell" if len(shown.seen) == 1 else f"{len(shown.seen)} cells"
    return (
        f"The run is unfinished: {missing} of the {launches(planned)} planned for {cells} are missing. "
        "The same command goes on after the last finished one."
    )


def _healthy(shown: Shown) -> str:
    passed = sum(attempt.verdict.verdict == "pass" for attempt in shown.attempts)
    others = len(shown.attempts) - passed
    cells = "1 cell" if len(shown.seen) == 1 else f"{len(shown.seen)} cells"
    bound = percent(upper_bound(0, passed))
    aside = f" {launches(others)} of these cells did not decide and are not counted." if others else ""
    hint = " One launch says next to nothing." if passed == 1 else ""
    return (
        f"No failure in {launches(passed)} over {cells}: if every launch is equally likely to fail, the probability of "
        f"a failure is below {bound} at 95 % confidence.{hint}{aside}"
    )


def _share(shown: Shown) -> str:
    """k of n with its interval, cell by cell: launches of different cells need not be equally likely to fail."""
    if len(shown.seen) == 1:
        cell, k = shown.seen[0]
        return _share_of(cell, k)
    total = sum(count for _, count in shown.seen)
    n = sum(_decided(cell, count) for cell, count in shown.seen)
    ordered = sorted(shown.seen, key=lambda seen: (-seen[1] / _decided(*seen), -seen[1], seen[0].id))
    told = "; ".join(f"{cell.id} {_brief(cell, count)}" for cell, count in ordered[:_MOST_CELLS])
    more = len(ordered) - _MOST_CELLS
    rest = f"; and {more} more cell{'s' if more > 1 else ''}" if more > 0 else ""
    return f"{total} of {launches(n)} over {len(shown.seen)} cells ({told}{rest})"


def _share_of(cell: LoadedCell, k: int) -> str:
    n = _decided(cell, k)
    if n == 1:
        return f"the only launch of {cell.id} that decided (1 of 1 says that it happens, not how often)"
    return f"{k} of {launches(n)} of {cell.id} (95 % interval {interval_label(wilson(k, n))})"


def _brief(cell: LoadedCell, k: int) -> str:
    n = _decided(cell, k)
    return "1 of 1" if n == 1 else f"{k} of {n}, 95 % interval {interval_label(wilson(k, n))}"


def _decided(cell: LoadedCell, k: int) -> int:
    return max(cell.summary.n, k)


def _counted(shown: Shown) -> str:
    """How many launches of which cells, without a share: for what is no failure."""
    total = launches(sum(count for _, count in shown.seen))
    names = [cell.id for cell, _ in shown.seen]
    more = len(names) - _MOST_CELLS
    return f"{total} of {', '.join(names[:_MOST_CELLS])}" + (f" and {more} more" if more > 0 else "")


def _quote(shown: Shown) -> str:
    first = shown.attempts[0]
    words = one_line(first.verdict.statement, _LONGEST_QUOTE)
    where = f"attempt {first.result.attempt} of {first.result.cell}"
    return f"{where}: {words}" if len(shown.attempts) > 1 else words


_SENTENCES: Mapping[str, Callable[[Shown], str]] = {
    "corrupt": _corrupt,
    "failure": _failure,
    "unnoticed": _unnoticed,
    "proof": _proof,
    "topk": _topk,
    "inconclusive": _inconclusive,
    "void": _void,
    "refused": _refused,
    "unfinished": _unfinished,
    "healthy": _healthy,
}
