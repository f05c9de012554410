"""The commands `pack`, `verify`, `show` and `replay`."""

import argparse
import contextlib
import getpass
import hashlib
import os
import shlex
import signal
import socket
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from repro.console import on_one_line, say, say_json, tell
from repro.errors import BundleError, SpecError, UnavailableError

if TYPE_CHECKING:
    from repro.bundle.contents import Contents
    from repro.bundle.inside.verify import Archive
    from repro.bundle.pack import Bundle
    from repro.bundle.replay import Asked
    from repro.model import LedgerEntry, PackagePatches, Replay
    from repro.redact import Policy

INCONCLUSIVE = 7
_SHORT_NAMES = 4


def pack_command(options: argparse.Namespace) -> int:
    """0 if the bundle was written and its replay, if there was one, reproduced the failure; 7 if it was written and the
    replay did not, or could not run."""
    from repro.bundle.contents import gather
    from repro.bundle.pack import Options, pack
    from repro.bundle.replay import Asked, own_payload, replay, usable
    from repro.kernels.for_bundle import kernel_files
    from repro.store import write_atomic

    out = options.out if options.out is not None else Path(f"{options.asked}.zip")
    _refuse_existing(out, replace=options.replace)
    for file in (out, options.ledger):
        if file is not None:
            refuse_unwritable(file)
    asked = Asked(launches=options.launches, engine_env=options.engine_env)
    usable(asked)
    payload = own_payload()
    if payload is None:
        raise UnavailableError("the attempt program is not installed beside this package; install graphrepro whole")
    _tell(f"gathering what there is of {options.asked}")
    contents = gather(options.asked, options.results, run_id=options.run, findings=options.findings)
    entry = _entry(options.ledger, contents)
    patches = _patches(contents.subject.engine, options.engine_env, options.engine_wheel)
    with _ended_as_by_ctrl_c():
        made = pack(
            contents,
            Options(
                payload=payload,
                policy=_policy(options, contents, os.environ),
                project=options.project,
                file_name=out.name,
                tool_version=version("graphrepro"),
                replay=(lambda file: replay(file, asked, payload_root=payload, tell=_tell)) if options.replay else None,
                tell=_tell,
                kernel_files=lambda gathered: kernel_files(gathered, options.results),
                entry=entry,
                patches=patches,
            ),
        )
    _refuse_existing(out, replace=options.replace)
    write_atomic(out, made.data)
    _show_packed(out, contents, made, shown=options.show_redactions)
    if options.ledger is not None and not contents.healthy:
        from repro.ledger.bundles import note

        added, _ = note(options.ledger, out, issue=None, now=lambda: f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
        say(f"ledger   {options.ledger}: {added.entry.id} ({added.how})")
    if made.replay is None or contents.healthy or made.replay.reproduced:
        return 0
    return INCONCLUSIVE


def _entry(path: Path | None, contents: "Contents") -> "LedgerEntry | None":
    """What a ledger knows of this failure: versions that were good, and those that were bad."""
    if path is None or not os.path.lexists(path):
        return None
    from repro.ledger import entries, store

    subject = contents.subject
    return entries.matching(store.read(path), subject.signature, engine=subject.engine, planted=subject.planted)


def _patches(engine: str, environment: Path | None, wheel: Path | None) -> "tuple[PackagePatches, ...]":
    """The engine's local patches as diffs, where its environment is on this host."""
    from repro.bundle.patches import local_patches

    if environment is None or engine == "simulated":
        if wheel is not None:
            raise SpecError("--engine-wheel is compared with an engine's environment: give --engine-env too")
        return ()
    found = local_patches(environment, wheel=wheel, package=engine)
    return () if found is None else (found,)


def _policy(options: argparse.Namespace, contents: "Contents", environment: Mapping[str, str]) -> "Policy":
    """What this machine and its owner are called, beside what the rules find by themselves."""
    from repro.redact import Policy, words_from

    words: tuple[str, ...] = ()
    if options.redact_word is not None:
        words = words_from(_lines(options.redact_word), str(options.redact_word))
    with contextlib.suppress(OSError, KeyError):  # no such user, as in a container
        environment = {**environment, "USER": getpass.getuser()}
    users = {name for key in ("USER", "SUDO_USER") if len(name := environment.get(key, "")) >= _SHORT_NAMES}
    home = environment.get("HOME", "")
    steps = [attempt.step for attempt in contents.attempts if attempt.step is not None]
    prompts = {prompt.text for step in steps for prompt in (*step.prompts, *step.tasks) if prompt.text}
    return Policy(
        hosts=tuple(name for name in (socket.gethostname(),) if len(name) >= _SHORT_NAMES and name != "localhost"),
        users=tuple(sorted(users - {"root", "user", "admin", "ubuntu"})),
        folders=(home,) if home.count("/") > 1 else (),
        words=words,
        hide_prompts=options.hide_prompts,
        prompts=tuple(sorted(prompts)) if options.hide_prompts else (),
    )


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: cannot be read as text ({error}); give a file with one word a line") from None


def _refuse_existing(out: Path, *, replace: bool) -> None:
    if out.is_dir():
        raise SpecError(f"{out}: is a directory; give the name of a file")
    if os.path.lexists(out) and not replace:
        raise SpecError(f"{out}: is there already; give another name with --out, or --replace")


def refuse_unwritable(file: Path) -> None:
    """Before a replay, which may take an hour of GPUs, not after it. Raises `SpecError`."""
    try:
        with tempfile.TemporaryFile(dir=file.parent):
            pass
    except OSError as error:
        raise SpecError(f"{file}: cannot be written ({error.strerror}); name a file in a folder that can be") from None


def _show_packed(out: Path, contents: "Contents", made: "Bundle", *, shown: bool) -> None:
    if shown:
        say("replaced (for your eyes only; none of this is in the bundle):")
        for item in made.shown:
            times = f" ({item.times} times)" if item.times > 1 else ""
            say(f"  {item.where}: {on_one_line(item.before)} -> {on_one_line(item.after)}{times}")
    for note in made.notes:
        _tell(on_one_line(note))
    subject = contents.subject
    say(f"packed   {out}: {len(made.data):,} bytes, {len(made.manifest.files) + 1} files, {', '.join(subject.cells)}")
    say(f"sha256   {hashlib.sha256(made.data).hexdigest()}")
    say(f"digest   {made.manifest.digest}")
    say(f"replayed {on_one_line(made.replay.statement) if made.replay is not None else 'no: --no-replay'}")
    for file in made.manifest.left_out[:5]:
        _tell(f"left out: {file.where}: {file.size_bytes:,} bytes: {file.reason}")
    if not shown and made.manifest.redactions:
        count = sum(item.count for item in made.manifest.redactions)
        _tell(f"{count} texts were replaced; look at each with --show-redactions --replace before you post it")
    _tell(f"next: read ISSUE.md (unzip -p {shlex.quote(str(out))} ISSUE.md), paste it, attach the file")


def verify_command(options: argparse.Namespace) -> int:
    """0 if the bundle is what its manifest says, 6 if not."""
    from repro.bundle.inside.verify import Archive, verify
    from repro.bundle.records import record_problem
    from repro.model import BundleVerification

    try:
        found = verify(options.file, options.digest)
        wrong = record_problem(Archive.read(options.file)) if found.ok else None
    except OSError as error:
        raise _unreadable(options.file, error) from None
    problems = found.problems if wrong is None else (wrong,)
    if options.json:
        record = BundleVerification(
            ok=not problems,
            digest=found.digest,
            files=found.files,
            size_bytes=found.size_bytes,
            problems=problems,
        )
        say_json(record)
    elif not problems:
        say(f"{on_one_line(str(options.file))}: {found.files} files, all as the manifest says; digest {found.digest}")
        if options.digest is None:
            _tell("next: compare the digest with the one in the issue, or give that one with --digest")
    for problem in problems if not options.json else ():
        _tell(f"{options.file}: {problem}")
    return BundleError.exit_code if problems else 0


def show_command(options: argparse.Namespace) -> int:
    """0 if the bundle verifies and was shown."""
    from repro.bundle.show import opened, page

    archive = _verified(options.file)
    found = opened(archive)
    if options.json:
        say_json(found.manifest)
    else:
        say(page(found, file_name=on_one_line(options.file.name)))
    return 0


def _verified(path: Path) -> "Archive":
    """The archive in a file. Raises `BundleError` if it does not verify."""
    from repro.bundle.inside.verify import Archive, RefusedError, checked
    from repro.bundle.records import record_problem

    try:
        archive = Archive.read(path)
    except RefusedError as refusal:
        raise BundleError(f"{path}: {refusal.problems[0]}") from None
    except OSError as error:
        raise _unreadable(path, error) from None
    found = checked(archive)
    if not found.ok:
        more = f" (and {len(found.problems) - 1} more)" if len(found.problems) > 1 else ""
        raise BundleError(f"{path}: {found.problems[0]}{more}")
    wrong = record_problem(archive)
    if wrong is not None:
        raise BundleError(f"{path}: {wrong}")
    return archive


def replay_command(options: argparse.Namespace) -> int:
    """1 reproduced, 0 not reproduced, 4 could not run, 7 only other failures or launches that say nothing."""
    from repro.bundle.replay import own_payload, replay

    asked = _asked(options)
    if not options.file.is_file():
        raise SpecError(f"{options.file}: is no file; give the path of a bundle")
    with _ended_as_by_ctrl_c():
        found = replay(
            options.file, asked, out=options.out, digest=options.digest, payload_root=own_payload(), tell=_tell
        )
    if options.json:
        say_json(found)
    else:
        say(on_one_line(found.statement))
    return _status_of(found)


@contextlib.contextmanager
def _ended_as_by_ctrl_c() -> "Iterator[None]":
    """While a replay runs, a request to end, however it comes, ends the launch in flight and leaves no folder."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _asked(options: argparse.Namespace) -> "Asked":
    from repro.bundle.replay import Asked

    return Asked(
        runtime=options.runtime,
        launches=options.launches,
        engine_env=options.engine_env,
        image=options.image,
        model=options.model,
        draft_model=options.draft_model,
        script=options.script,
        any_gpu=options.any_gpu,
        until_seen=options.until_seen,
    )


def _status_of(found: "Replay") -> int:
    if found.reproduced:
        return 1
    if found.blocked is not None:
        return UnavailableError.exit_code
    only_clean = found.launches > 0 and all(run.state != "another_failure" for run in found.runs)
    return 0 if only_clean else INCONCLUSIVE


def _unreadable(path: Path, error: OSError) -> SpecError:
    return SpecError(f"{path}: cannot be read ({error.strerror}); give the path of a bundle")


def _tell(text: str) -> None:
    tell(f"repro: {on_one_line(text)}")
