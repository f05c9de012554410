"""Asking again: the bundles of an entry are replayed on another engine, and what that says is written down.

Launches that say nothing (void) count nowhere, and a replay that could not run changes nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from repro.canonical import sha256_file
from repro.errors import BundleError, RecordError, UnavailableError
from repro.ledger import power, standing
from repro.ledger.entries import alike
from repro.model import Ledger, LedgerBundle, LedgerCheck, LedgerEntry, RecheckAnswer, Replay, Signature
from repro.shares import below, launches, percent

Replayer = Callable[[LedgerBundle, Path, int], Replay]
"""(bundle, its file, launches to make) -> how it went. Raises as `repro.bundle.replay.replay` does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What is asked of every entry. ``engine_version`` and ``image``: the engine, as far as it was named beforehand.
    ``count``: launches of each bundle; None for as many as the old rate needs. ``now``: the moment, UTC in ISO 8601."""

    replayer: Replayer
    engine_version: str | None
    image: str | None
    count: int | None
    now: Callable[[], str]


def strongest(entry: LedgerEntry) -> tuple[LedgerBundle, ...]:
    """One bundle for each architecture, the one that needs the fewest launches, in order of the architectures."""
    best: dict[str | None, LedgerBundle] = {}
    for bundle in entry.bundles:
        known = best.get(bundle.architecture)
        if bundle.k and (known is None or power.needed(bundle.k, bundle.n) < power.needed(known.k, known.n)):
            best[bundle.architecture] = bundle
    return tuple(best[architecture] for architecture in sorted(best, key=str))


def ask(entry: LedgerEntry, ledger: Ledger, folder: Path, question: Question) -> Iterator[LedgerCheck]:
    """A check for each architecture, as it ends; ``folder`` is the ledger's. Only an interruption is raised."""

    def known(other: Signature) -> list[str]:
        fitting = alike(ledger, other, engine=entry.engine, planted=entry.planted)
        return [one.id for one in fitting if one.id != entry.id]

    for bundle in strongest(entry):
        before = standing.clean_before(entry, bundle.architecture, question.engine_version, question.image)
        plan = power.choose(bundle.k, bundle.n, before=before, asked=question.count)
        file = folder / bundle.path
        problem = changed_on_disk(file, bundle)
        if problem is not None:
            yield _not_run(bundle, question, plan, problem)
            continue
        try:
            replay = question.replayer(bundle, file, plan.count)
        except (BundleError, UnavailableError, RecordError) as error:
            yield _not_run(bundle, question, plan, str(error))
            continue
        yield check_of(replay, bundle, question, plan, known=known)


def changed_on_disk(file: Path, bundle: LedgerBundle) -> str | None:
    """Why the file is not the bundle that was added; None if it is."""
    if file.exists() and not file.is_file():  # to read a pipe or a device would never end
        return f"{bundle.path}: is not a regular file; bring the bundle back, or add it again from there"
    try:
        if sha256_file(file) == bundle.sha256:
            return None
    except OSError as error:
        return f"{bundle.path}: cannot be read ({error.strerror}); bring the bundle back, or add it again from there"
    return f"{bundle.path}: is not the file that was added to the ledger (SHA-256): it is refused"


def check_of(
    replay: Replay,
    bundle: LedgerBundle,
    question: Question,
    plan: power.Launches,
    *,
    known: Callable[[Signature], Sequence[str]],
) -> LedgerCheck:
    """What a replay says. ``known``: the other entries that a signature may be."""
    others = [run for run in replay.runs if run.state == "another_failure"]
    void = sum(run.state == "void" for run in replay.runs)
    made = replay.launches + len(others)
    if not made:
        return _not_run(bundle, question, plan, replay.blocked or "no launch said anything", replay)
    other = _most_common([run.signature for run in others])
    if replay.reproduced:
        said = f"still there: {replay.reproduced} of {made}"
    elif others:
        said = f"another failure instead, in {len(others)} of {launches(made)}: {_told(other, known)}"
    else:
        said = _not_seen(replay.launches, bundle, plan)
    return LedgerCheck(
        at=question.now(),
        bundle_sha256=bundle.sha256,
        architecture=_fact(replay, "gpu_architecture") or bundle.architecture,
        engine_version=question.engine_version or _fact(replay, "engine_version"),
        image=replay.image,
        answer="still_there" if replay.reproduced else "another_failure" if others else "not_seen",
        reproduced=replay.reproduced,
        launches=made,
        another_failure=len(others),
        void=void,
        needed=plan.needed,
        upper=replay.upper if not others else None,
        other=other,
        statement=said + (f"; stopped early, because {replay.blocked}" if replay.blocked else ""),
    )


def answer(before: LedgerEntry, after: LedgerEntry, checks: Sequence[LedgerCheck]) -> RecheckAnswer:
    """What became of the entry, in a sentence."""
    told = (
        "; ".join(f"{check.architecture or 'here'}: {check.statement}" for check in checks) or "no bundle to ask with"
    )
    engine = next((name for check in reversed(checks) if (name := standing.engine_of(check)) is not None), None)
    lacking = () if after.status == "closed" else standing.missing(after, engine)
    if after.status == "closed":
        end = "it is closed" if before.status != "closed" else "it stays closed"
    elif before.status == "closed":
        end = "it is open again: a regression after a fix"
    else:
        end = "it stays open" + (f" ({'; '.join(lacking)})" if lacking else "")
    return RecheckAnswer(
        entry=after.id,
        issue=after.issue,
        status_before=before.status,
        status=after.status,
        checks=tuple(checks),
        missing=lacking,
        statement=f"{told}. So {end}.",
    )


def exit_code(answers: Sequence[RecheckAnswer]) -> int:
    """0 all of them are clean and closed, 1 something is still there or fails in another way, 7 undecided."""
    said = {check.answer for one in answers for check in one.checks}
    if said & {"still_there", "another_failure"}:
        return 1
    return 0 if all(one.status == "closed" and "not_seen" in {c.answer for c in one.checks} for one in answers) else 7


def _not_seen(clean: int, bundle: LedgerBundle, plan: power.Launches) -> str:
    """The bound, and whether the number of launches was enough at the old rate."""
    total = clean + plan.before
    also = f", {plan.before} of them before" if plan.before else ""
    said = f"not seen in {launches(total)}{also}: {below(total)}"
    rate = f"the old rate (at least {percent(power.lower_bound(bundle.k, bundle.n))}, from {bundle.k} of {bundle.n})"
    if total >= plan.needed:
        return f"{said}; n was chosen from {rate}, at which {plan.needed} show it with 95 % probability"
    chance = percent(power.power(bundle.k, bundle.n, total))
    return f"{said}; too few: at {rate} these show it with {chance} probability, and {plan.needed} are needed for 95 %"


def _not_run(
    bundle: LedgerBundle, question: Question, plan: power.Launches, why: str, replay: Replay | None = None
) -> LedgerCheck:
    return LedgerCheck(
        at=question.now(),
        bundle_sha256=bundle.sha256,
        architecture=bundle.architecture,
        engine_version=question.engine_version,
        image=question.image,
        answer="could_not_run",
        reproduced=0,
        launches=0,
        another_failure=0,
        void=len(replay.runs) if replay is not None else 0,
        needed=plan.needed,
        upper=None,
        other=None,
        statement=f"could not run: {why}",
    )


def _told(other: Signature | None, known: Callable[[Signature], Sequence[str]]) -> str:
    """The other failure, and whether the ledger has it."""
    if other is None:
        return "it has no signature"
    place = f" in {other.subsystem}" if other.subsystem else ""
    names = known(other)
    says = f"the ledger has it as {' or '.join(names)}" if names else "not in the ledger: run the cell and pack it"
    return f"{other.kind}, phase {other.phase}{place} ({says})"


def _most_common(found: Sequence[Signature | None]) -> Signature | None:
    counted = Counter(signature for signature in found if signature is not None)
    return counted.most_common(1)[0][0] if counted else None


def _fact(replay: Replay, name: str) -> str | None:
    value = replay.facts.get(name)
    return value if isinstance(value, str) and value else None
