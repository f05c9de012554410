"""The commands `ledger` and `recheck`."""

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.console import on_one_line, say, say_json, tell

if TYPE_CHECKING:
    from repro.bundle.replay import Asked
    from repro.ledger.recheck import Question
    from repro.model import LedgerBundle, LedgerCheck, LedgerEntry, RecheckAnswer, Replay

_DEFAULT = Path("ledger.json")


def add_command(options: argparse.Namespace) -> int:
    """0 when the bundle is in the ledger."""
    from repro.ledger.bundles import note

    added, noted = note(options.ledger, options.bundle, issue=options.issue, now=_now)
    said = {"new": "a new entry", "merged": "one more bundle of", "known": "was there already, in"}[added.how]
    say(f"{options.ledger}: {said} {added.entry.id}: {on_one_line(noted.statement)[:200]}")
    if added.reopened:
        _tell(
            f"{added.entry.id} was closed and is open again: the bundle shows it on an engine that it was not known on"
        )
    if noted.undecided is not None:
        _tell(f"recheck cannot ask with this bundle: {noted.undecided}")
    if added.entry.issue is None:
        _tell(f"next: file the bundle's ISSUE.md, then: python -m repro ledger add {options.bundle} --issue URL")
    return 0


def list_command(options: argparse.Namespace) -> int:
    """0 when the ledger was shown."""
    from repro.ledger import console, store

    ledger = store.read(options.ledger)
    if options.json:
        say_json(ledger)
    else:
        say(console.table(ledger) if ledger.entries else "no entries")
    return 0


def status_command(options: argparse.Namespace) -> int:
    """0 when the entry has the status; its owner knows better than any recheck."""
    from dataclasses import replace

    from repro.ledger import entries, store

    def change(ledger: Any) -> tuple[Any, str]:
        entry = store.entry_of(ledger, options.entry)
        closed = options.status == "closed"
        made = replace(entry, status=options.status, closed_at=_now() if closed else None)
        same = closed == (entry.status == "closed")
        return (ledger if same else entries.changed(ledger, made)), (entry if same else made).status

    status = store.update(options.ledger, change)
    say(f"{options.ledger}: {options.entry} is {status}")
    return 0


def recheck_command(options: argparse.Namespace) -> int:
    """0 all asked about is clean and closed, 1 something is still there or fails in another way, 7 undecided."""
    from repro.bundle.cli import refuse_unwritable
    from repro.bundle.replay import Asked
    from repro.ledger import console, recheck
    from repro.model import Recheck

    asked = Asked(
        runtime=options.runtime or ("docker" if options.image else "local" if options.engine_env else None),
        engine_env=options.engine_env,
        image=options.image,
        model=options.model,
        draft_model=options.draft_model,
        script=options.script,
        any_gpu=options.any_gpu,
        until_seen=options.until_seen,
    )
    question = recheck.Question(
        replayer=_replayer(asked, options.out),
        engine_version=options.engine_version,
        image=options.image,
        count=options.launches,
        now=_now,
    )
    entries = _chosen(options)
    refuse_unwritable(options.ledger)
    if not entries:
        _tell("nothing is open: nothing to ask; --all asks about what is closed too")
    answers = [_asked_about(entry, options.ledger, question) for entry in entries]
    if options.json:
        say_json(Recheck(answers=tuple(answers)))
    elif answers:
        say(console.answers_text(answers))
    return recheck.exit_code(answers)


def _chosen(options: argparse.Namespace) -> "list[LedgerEntry]":
    """The entry that was named, or all open ones, or all."""
    from repro.ledger import store

    ledger = store.read(options.ledger)
    if options.entry is not None:
        return [store.entry_of(ledger, name) for name in options.entry]
    return [entry for entry in ledger.entries if options.all or entry.status != "closed"]


def _asked_about(entry: "LedgerEntry", path: Path, question: "Question") -> "RecheckAnswer":
    """Every check is in the ledger as soon as it ends: a kill loses the launches of one bundle at most."""
    from repro.ledger import recheck, store

    _tell(f"{entry.id}: {on_one_line(entry.statement)[:160]}")
    checks: list[LedgerCheck] = []
    after = entry
    for check in recheck.ask(entry, store.read(path), path.parent, question):
        _tell(f"{entry.id}: {on_one_line(check.statement)}")  # first, since a full disk may keep it out of the ledger
        after = store.update(path, lambda ledger, check=check: _noted(ledger, entry.id, check))  # type: ignore[misc]
        checks.append(check)
    return recheck.answer(entry, after, checks)


def _noted(ledger: Any, name: str, check: "LedgerCheck") -> tuple[Any, "LedgerEntry"]:
    from repro.ledger import entries, standing, store

    entry = standing.after(store.entry_of(ledger, name), check)
    return entries.changed(ledger, entry), entry


def _replayer(asked: "Asked", out: Path | None) -> Any:
    from dataclasses import replace

    from repro.bundle.replay import own_payload, replay

    def run(bundle: "LedgerBundle", file: Path, count: int) -> "Replay":
        place = None if out is None else out / f"{bundle.sha256[:12]}-{datetime.now(UTC):%Y%m%dT%H%M%S}"
        with_count = replace(asked, launches=count)
        return replay(file, with_count, out=place, digest=bundle.digest, payload_root=own_payload(), tell=_tell)

    return run


def add_ledger(commands: Any) -> None:
    parser = commands.add_parser(
        "ledger",
        allow_abbrev=False,
        help="the failures that were packed: add a bundle, list them, close and reopen them",
        description="ledger.json lies in your own repository: one entry for each failure, with its bundles, issue, "
        "status, and every time it was asked about.",
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    adding = actions.add_parser("add", allow_abbrev=False, help="put a bundle into the ledger, or its issue")
    adding.add_argument("bundle", type=Path, metavar="BUNDLE", help="a zip that `pack` made")
    adding.add_argument("--issue", type=_address, metavar="URL", help="where the failure was reported")
    _add_file(adding)
    adding.set_defaults(command=add_command)
    listing = actions.add_parser("list", allow_abbrev=False, help="the entries, the open ones first")
    listing.add_argument("--json", action="store_true", help="print the record `ledger`")
    _add_file(listing)
    listing.set_defaults(command=list_command)
    for name, status in (("close", "closed"), ("reopen", "reopened")):
        acting = actions.add_parser(name, allow_abbrev=False, help=f"set an entry to {status} by hand")
        acting.add_argument("entry", metavar="ID", help="of an entry, as `ledger list` shows it")
        _add_file(acting)
        acting.set_defaults(command=status_command, status=status)


def add_recheck(commands: Any) -> None:
    parser = commands.add_parser(
        "recheck",
        allow_abbrev=False,
        help="ask again, on another engine, whether the failures of the ledger are still there. Runs bundles",
        description="Replays the bundles of every open entry, as often as the rate at which the failure was seen asks "
        "for. An entry is closed when it is clean on all of its architectures, and opens again when it is seen.",
        epilog="exit status: 0 all that was asked about is clean and closed, 1 something is still there or fails in "
        "another way, 2 bad arguments, 5 the ledger is invalid, 7 undecided, 130 interrupted",
    )
    _add_file(parser)
    parser.add_argument("--entry", action="append", metavar="ID", help="only this entry (repeatable)")
    parser.add_argument("--all", action="store_true", help="closed entries too: they open again when seen")
    engine = parser.add_mutually_exclusive_group()
    engine.add_argument("--image", metavar="NEW", help="the new engine: an image, best by digest")
    engine.add_argument("--engine-env", type=Path, metavar="DIR", help="the new engine: an environment on this host")
    engine.add_argument(
        "--script", type=Path, metavar="FILE", help="the new engine, if it is the simulated one: a script"
    )
    parser.add_argument("--engine-version", metavar="V", help="what the new engine is called; default: as it says")
    parser.add_argument("--runtime", choices=("docker", "local"), help="default: as the engine asks for")
    parser.add_argument(
        "--launches",
        type=_launches,
        metavar="N",
        help="launches of each bundle; default: as many as its old rate needs",
    )
    parser.add_argument("--until-seen", action="store_true", help="stop at the first launch that shows the failure")
    parser.add_argument("--model", metavar="DIR", help="the weights")
    parser.add_argument("--draft-model", metavar="DIR", help="the draft model's weights")
    parser.add_argument("--any-gpu", action="store_true", help="go on although the GPUs are of another architecture")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the evidence of all launches below it")
    parser.add_argument("--json", action="store_true", help="print the record `recheck`")
    parser.set_defaults(command=recheck_command)


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ledger", type=Path, default=_DEFAULT, metavar="FILE", help="default: ./ledger.json")


def _launches(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of launches (1 to 10000)")
    return int(text)


def _address(text: str) -> str:
    if not text.startswith(("https://", "http://")) or not text.isprintable() or " " in text:
        raise argparse.ArgumentTypeError(f"{text!r} is no address of an issue (https://…)")
    return text


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _tell(text: str) -> None:
    tell(f"repro: {on_one_line(text)}")
